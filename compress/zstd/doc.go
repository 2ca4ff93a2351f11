// Package zstd decodes batches of Zstandard data (RFC 8878) on any device.
//
// On a GPU the blocks of all frames are decoded at the same time, so frames of many MiB
// are as fast as many small ones. Everything that a decoder without a dictionary must
// read is decoded there: all block types, several and skippable frames, any window,
// frames without a content size. Checksums are verified.
package zstd
