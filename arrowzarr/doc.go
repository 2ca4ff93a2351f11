// Package arrowzarr converts tables of Arrow IPC, Parquet, CSV and JSON lines to Zarr v3
// hierarchies, and back. A hierarchy is a group with one child per column; the first axis
// of each array is the rows. docs/arrow-to-zarr.md lists what becomes of every type.
//
// [Convert] reads, rechunks, assembles on a device and writes, in bounded memory. [Plan],
// [RunPartition] and [Finalize] do the same in many processes, and [Append] writes rows
// after those of a table. [OpenTable] reads record batches of a hierarchy, [Restore] writes
// the table again, [Verify] compares it with the input, and [Inspect] describes either.
package arrowzarr
