// Package text reads CSV, TSV and JSON lines as record batches. The text may be compressed
// by gzip, zstd or bzip2. The types of columns come from the options, or from the first
// rows.
package text
