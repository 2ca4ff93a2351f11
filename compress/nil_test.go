package compress_test

import (
	"testing"

	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/blosc"
	"github.com/quiver-gpu/quiver/compress/crc32c"
	"github.com/quiver-gpu/quiver/compress/gzip"
	"github.com/quiver-gpu/quiver/compress/lz4"
	"github.com/quiver-gpu/quiver/compress/pack"
	"github.com/quiver-gpu/quiver/compress/shuffle"
	"github.com/quiver-gpu/quiver/compress/zstd"
	"github.com/quiver-gpu/quiver/internal/apitest"
)

// Each exported function of the public packages below compress takes nil and zero
// arguments without a panic.
func TestNilAndZeroArgumentsNeverPanic(t *testing.T) {
	for folder, zeros := range map[string]apitest.Zeros{
		".": {Values: map[string]any{"Batch": compress.Batch{}}},
		"blosc": {
			Functions: map[string]any{"Bound": blosc.Bound, "ChunkSize": blosc.ChunkSize, "Decode": blosc.Decode, "DecodeChunk": blosc.DecodeChunk, "DecodedSize": blosc.DecodedSize, "DecodeRange": blosc.DecodeRange, "Encode": blosc.Encode, "EncodeChunk": blosc.EncodeChunk, "ParseCompressor": blosc.ParseCompressor, "ZstdLevel": blosc.ZstdLevel},
			Values:    map[string]any{"Compressor": blosc.Compressor(99)},
		},
		"crc32c": {Functions: map[string]any{"Sums": crc32c.Sums, "Verify": crc32c.Verify}},
		"gzip":   {Functions: map[string]any{"Decode": gzip.Decode, "DecodeMembers": gzip.DecodeMembers, "DecodePrefix": gzip.DecodePrefix, "DecodeZlib": gzip.DecodeZlib, "EncodeMember": gzip.EncodeMember, "EncodeZlib": gzip.EncodeZlib, "Implementation": gzip.Implementation}},
		"lz4":    {Functions: map[string]any{"Decode": lz4.Decode, "Bound": lz4.Bound, "DecodeBlock": lz4.DecodeBlock, "Encode": lz4.Encode, "EncodeBlock": lz4.EncodeBlock, "Implementation": lz4.Implementation}},
		"pack":   {Functions: map[string]any{"Copy": pack.Copy}},
		"shuffle": {Functions: map[string]any{
			"Apply": shuffle.Apply, "Bits": shuffle.Bits, "Bytes": shuffle.Bytes, "UnshuffleBits": shuffle.UnshuffleBits, "UnshuffleBytes": shuffle.UnshuffleBytes,
			"UnshuffleBytesUncached": shuffle.UnshuffleBytesUncached, "UnshufflePlanes": shuffle.UnshufflePlanes,
		}},
		"zstd": {Functions: map[string]any{"Bound": zstd.Bound, "Encode": zstd.Encode, "Decode": zstd.Decode, "DecodeFrames": zstd.DecodeFrames, "DecodeRange": zstd.DecodeRange, "EncodeFrame": zstd.EncodeFrame, "Implementation": zstd.Implementation}},
	} {
		t.Run(folder, func(t *testing.T) { zeros.Run(t, folder) })
	}
}
