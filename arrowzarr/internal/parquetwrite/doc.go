// Package parquetwrite writes a table as a Parquet file, column by column. Package
// parquetencode makes the pages, and arrow-go the schema and the footer.
//
// Parquet has no durations, views, small decimals, list_views, fixed_size_lists, runs and
// dictionaries of nested values. They are written as integers, as plain text and bytes, as
// decimals of 128 bits, as lists, and as the values, as other writers do. The file's Arrow
// schema has their types. Decimals of a negative scale become ones of scale 0.
package parquetwrite
