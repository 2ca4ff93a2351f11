// Package parquet reads a Parquet file as record batches, with the Arrow types that the
// file was written from. Columns are read in parallel, and row groups ahead. If a chunk of
// all columns does not fit into memory, the file is read in strips: a whole chunk of some
// columns, then of others.
//
// arrow-go reads the footer and the schema. Package parquetcolumn reads most columns, and
// arrow-go the others.
package parquet
