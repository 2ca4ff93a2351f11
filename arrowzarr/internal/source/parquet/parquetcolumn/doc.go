// Package parquetcolumn reads columns of Parquet files as Arrow arrays: fixed-width
// values, text and bytes, in every encoding, at the top or inside of structs, lists
// and maps. It reads less than arrow-go, whose reader takes the rest, but it is faster and
// takes less memory: pages are decoded from large reads straight into the buffers of an
// array, levels are single bytes, and an open column can release its memory between two
// batches.
//
// The input is untrusted. A malformed page is an error that wraps ErrMalformed, and what
// the package does not read is one that wraps errors.ErrUnsupported.
package parquetcolumn
