// Package blosc encodes and decodes Blosc version 1 chunks: one on the host, or batches
// on their device.
//
// A chunk is cut into blocks. The bytes or bits of each block are shuffled, then
// compressed by one of five formats: BloscLZ, LZ4, Snappy, zlib or Zstandard. [EncodeChunk]
// and [DecodeChunk] support all of them, and all element sizes. Chunks are compatible with
// the C library c-blosc in both directions. Blosc version 2 chunks are an error.
//
// [Encode] and [Decode] process the parts of all blocks of a batch at the same
// time on a GPU, if the format is LZ4 or Zstandard. Other formats go through the host;
// compress.Stats counts both.
//
// Compressed bytes may be foreign: [DecodeChunk] never panics, and allocates at most a small
// multiple of the size that the caller expects.
package blosc
