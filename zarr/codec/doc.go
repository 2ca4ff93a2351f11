// Package codec encodes chunks of Zarr arrays as bytes and decodes them.
//
// A [List] is the codec list of metadata: array-to-array codecs ([Transpose], [Delta],
// [CastValue]), one array-to-bytes codec ([Bytes], [VLenUTF8], [PackBits] or
// [Sharding]), then bytes-to-bytes codecs ([Zstd], [Blosc], [CRC32C]). [List.Compile]
// turns it into a [Chain] for chunks of one shape and type. A Chain is safe for
// concurrent use; each call needs a [Scratch] of its own and runs on one core. [V2]
// converts between a List and the filters and compressor of Zarr v2.
//
// [Register] adds a codec of any of the three kinds: an [ArrayCodec], an
// [ArrayBytesCodec] or a [BytesCodec].
//
// Compression needs no C library. If the system has libzstd, liblz4 or libdeflate, these
// are opened at run time, since they are faster than Go.
// Codecs named numcodecs.x write the bytes of the Python package numcodecs.
//
// Decoders accept foreign bytes. Metadata bounds the decoded size of every step; any
// other size is an error, and nothing larger is allocated.
package codec
