// Package store keeps the values of a Zarr hierarchy under their keys.
//
// A key is a path without a leading slash, such as "temp/c/0/1". A [Store] gets
// whole values and ranges of them, sets them at once or as a stream, lists and
// moves them. [Memory] keeps them in memory, [Local] as files of a directory.
// A prefix, as listing and moving take it, is a key's path cut at a slash: "a"
// has "a/b" under it, not "ab"; "" has everything.
package store
