package zstd_test

import (
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/internal/batchtest"
	quiver "github.com/quiver-gpu/quiver/compress/zstd"
)

func BenchmarkDecode(b *testing.B) {
	e, err := zstd.NewWriter(nil)
	require.NoError(b, err)
	batchtest.BenchmarkDecode(b, "zstd", func(data []byte) []byte { return e.EncodeAll(data, nil) }, decodeBatch)
}

func BenchmarkEncode(b *testing.B) { benchmarkEncode(b, 1) }

// BenchmarkEncodeLevel3 finds more matches on a GPU.
func BenchmarkEncodeLevel3(b *testing.B) { benchmarkEncode(b, 3) }

// BenchmarkDecodeOwn decodes what Encode makes on the GPU.
func BenchmarkDecodeOwn(b *testing.B) {
	batchtest.BenchmarkDecodeOwn(b, "zstd", quiver.Bound, encodeBatch(1), decodeBatch)
}

func decodeBatch(batch compress.Batch) ([]compress.Result, error) {
	return quiver.Decode(batch, compress.DecodeOptions{})
}

func encodeBatch(level int) func(compress.Batch) ([]compress.Result, error) {
	return func(batch compress.Batch) ([]compress.Result, error) {
		return quiver.Encode(batch, quiver.EncodeOptions{Level: level, Scratch: 3 << 30})
	}
}

func benchmarkEncode(b *testing.B, level int) {
	batchtest.BenchmarkEncode(b, "zstd", quiver.Bound, encodeBatch(level), decodeBatch)
}
