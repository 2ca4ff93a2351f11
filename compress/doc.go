// Package compress describes batches of independent buffers that its subpackages
// compress and decompress: zstd, lz4, blosc, gzip and shuffle; crc32c makes and
// verifies checksums, and pack copies ranges.
//
// In each format's package, Encode and Decode process a batch. Functions for one input in
// host memory are named after what the format calls it: zstd.DecodeFrames, lz4.DecodeBlock,
// blosc.DecodeChunk, gzip.DecodeMembers.
//
// A [Batch] lies on one device. On a GPU all of its buffers are decoded at the same
// time, and parts of one buffer too, where the format has independent parts. On the CPU
// device each core decodes buffers of its own.
//
// Compressed bytes may be foreign. A corrupt buffer is an error of that buffer: the others
// are right, no byte outside its output changes, and the device stays usable.
package compress
