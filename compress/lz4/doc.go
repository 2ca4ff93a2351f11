// Package lz4 encodes and decodes batches of LZ4 blocks on any device.
//
// A block has no header: its size and that of its output come from the container. It is
// the raw format of lz4_Block_format.md, which numcodecs, Blosc and Parquet (LZ4_RAW) wrap,
// not the frame format.
//
// [Encode] and [Decode] are for batches. [EncodeBlock] and [DecodeBlock] are for one block on the
// host. They use liblz4 if the system has it and it is faster than Go, see [Implementation].
package lz4
