// Package store keeps the values of a Zarr hierarchy under keys.
//
// A key is a path without a leading slash, such as "temp/c/0/1". A [Store] reads whole
// values and ranges, writes values at once or as a stream, and lists, moves and deletes
// them. [Memory] keeps values in memory, [Local] in the files of a directory.
//
// A prefix is a whole number of key segments: "a" is a prefix of "a/b" but not of "ab",
// and "" is a prefix of every key.
package store
