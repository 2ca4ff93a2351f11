// Package codec turns chunks of Zarr arrays into bytes and back.
//
// A [List] is what metadata lists: array-to-array codecs ([Transpose]), one
// array-to-bytes codec ([Bytes], [VLenUTF8], [VLenBytes], [Sharding]), then
// bytes-to-bytes codecs ([Zstd], [Gzip], [CRC32C]). Compiled for one kind of
// chunk it becomes a [Chain], which may be used from any goroutine; each call
// works in a [Scratch] of its own and uses one core.
//
// Compression is klauspost/compress: it is pure Go, so the default build needs
// no C compiler, and the fastest such implementation of zstd and deflate. Where
// the machine has libzstd, that compresses zstd, faster still.
//
// Decoding takes foreign bytes. The decoded size of everything is known from
// the metadata, nothing is allocated beyond it, and another size is an error.
package codec
