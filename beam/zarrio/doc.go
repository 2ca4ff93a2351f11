// Package zarrio has transforms of Apache Beam for tables in Zarr. Convert turns Arrow,
// Parquet and other tables into Zarr as package arrowzarr does, on all workers of a
// pipeline. Read gives the rows of such a table to a pipeline.
//
// Inputs and outputs must have the same names on all workers: URLs of object stores, or
// paths of a file system that they share.
package zarrio
