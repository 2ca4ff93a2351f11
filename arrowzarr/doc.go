// Package arrowzarr converts Arrow IPC files, Arrow IPC streams and Parquet
// files to Zarr v3 hierarchies. A hierarchy is a group with one child per
// column; the first axis of each array is the rows.
//
// [Convert] reads, rechunks, assembles on a device and writes, in bounded
// memory. [Inspect] describes an input or a hierarchy. A column with nulls
// becomes a group of values and mask (true is missing), as in anndata. A
// dictionary column becomes a group of codes and categories. Any other column
// becomes one array. The README lists every type.
package arrowzarr
