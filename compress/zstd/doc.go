// Package zstd encodes and decodes batches of Zstandard frames (RFC 8878) on any device.
//
// On a GPU the blocks of all frames are processed at the same time, so frames of many MiB
// are as fast as many small ones. Everything that a decoder without a dictionary must
// read is decoded there: all block types, several and skippable frames, any window,
// frames without a content size. Checksums are verified.
//
// [EncodeFrame] and [DecodeFrames] are for one buffer on the host. They use libzstd if
// the system has it, see [Implementation], otherwise Go.
package zstd
