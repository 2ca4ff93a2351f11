// Package blosc encodes and decodes Blosc version 1 chunks on the host.
//
// A chunk is cut into blocks. The bytes or bits of each block are shuffled, then
// compressed by one of five formats: BloscLZ, LZ4, Snappy, zlib or Zstandard. [Encode]
// and [Decode] support all of them, and all element sizes. Chunks are compatible with
// the C library c-blosc in both directions. Blosc version 2 chunks are an error.
//
// Compressed bytes may be foreign: [Decode] never panics, and allocates at most a small
// multiple of the size that the caller expects.
package blosc
