// Package gzip compresses and decompresses whole buffers in the gzip format (RFC 1952)
// and the zlib format (RFC 1950): on the host, or batches of them, which [Decode]
// decodes on their device. There is no encoder for GPUs: zstd and LZ4 are better choices
// there, because parts of one buffer are decoded at the same time.
//
// [DecodeMembers] is for buffers whose decoded size is known or bounded, and is faster than a
// reader of a stream: it writes into the result directly, which is also the history that
// matches refer to. It and [EncodeMember] use libdeflate if the system has it, see
// [Implementation]. Otherwise Go decompresses, and github.com/klauspost/compress compresses.
// Go also decompresses streams of mostly short matches, where it is faster.
//
// Compressed bytes may be foreign: [DecodeMembers] never panics, verifies checksums and
// allocates at most a small multiple of the size that the caller expects.
package gzip
