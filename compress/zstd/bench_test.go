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
	batchtest.BenchmarkDecode(b, "zstd", func(data []byte) []byte { return e.EncodeAll(data, nil) },
		func(batch compress.Batch) ([]compress.Result, error) { return quiver.Decode(batch, compress.Options{}) })
}

func BenchmarkEncode(b *testing.B) { benchmarkEncode(b, 1) }

// BenchmarkEncodeLevel3 finds more matches on a GPU.
func BenchmarkEncodeLevel3(b *testing.B) { benchmarkEncode(b, 3) }

func benchmarkEncode(b *testing.B, level int) {
	batchtest.BenchmarkEncode(b, "zstd", quiver.Bound,
		func(batch compress.Batch) ([]compress.Result, error) {
			return quiver.Encode(batch, quiver.EncodeOptions{Level: level, Scratch: 3 << 30})
		},
		func(batch compress.Batch) ([]compress.Result, error) { return quiver.Decode(batch, compress.Options{}) })
}
