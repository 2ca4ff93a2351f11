// Package store keeps the values of a Zarr hierarchy under keys.
//
// A key is a path without a leading slash, such as "temp/c/0/1". A [Store] gets whole
// values and ranges, and sets, deletes and lists values; [Size], [Create], [Move] and
// other functions do more on every store. Values are in memory ([Memory]), in the files of
// a directory ([Local]), in a ZIP file ([Zip]) or on a GPU ([DeviceMemory]). Packages
// blobstore and httpstore have remote stores. [ReadOnly], [Under], [NewCache] and
// [NewLogging] wrap a store, and [Open] opens one by its URL.
//
// A prefix is a whole number of key segments: "a" is a prefix of "a/b" but not of "ab",
// and "" is a prefix of every key.
package store
