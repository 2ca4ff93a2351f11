// Package codec encodes chunks of Zarr arrays as bytes and decodes them.
//
// A [List] is the codec list of metadata: array-to-array codecs ([Transpose]), one
// array-to-bytes codec ([Bytes], [VLenUTF8], [VLenBytes] or [Sharding]), then
// bytes-to-bytes codecs ([Zstd], [Gzip], [CRC32C]). [List.Compile] turns it into a
// [Chain] for chunks of one shape and type. A Chain is safe for concurrent use; each
// call needs a [Scratch] of its own and runs on one core.
//
// [Register] adds a codec of any of the three kinds: an [ArrayCodec], an
// [ArrayBytesCodec] or a [BytesCodec].
//
// Compression is klauspost/compress, which needs no cgo. If the system has libzstd,
// that compresses zstd faster.
//
// Decoders accept foreign bytes. Metadata bounds the decoded size of every step; any
// other size is an error, and nothing larger is allocated.
package codec
