// Package lz4 decodes batches of LZ4 blocks on any device.
//
// A block has no header: its size and that of its output come from the container. It is
// the raw format of lz4_Block_format.md, which numcodecs, Blosc and Parquet (LZ4_RAW) wrap,
// not the frame format.
package lz4
