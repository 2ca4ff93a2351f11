// Package arrowzarr turns Arrow IPC files, Arrow IPC streams and Parquet files
// into Zarr v3 hierarchies: a group with one child a column, whose first axis
// is the rows.
//
// [Convert] reads, cuts, assembles on a device and writes in bounded memory;
// [Inspect] says what is in an input or a hierarchy. A column in which a null
// occurs becomes a group of values and mask (true is missing), as anndata lays
// out nullable columns; a dictionary column a group of codes and categories; any
// other column one array. The README's table has every type.
//
// Follow a byte: source*.go read it, column.go and layout.go know what becomes
// of it, take.go and hold.go bring it in and cut it, do.go and assemble.go make a
// chunk of it, writer.go and finish.go put it in its place.
package arrowzarr
