package lz4_test

import (
	"testing"

	"github.com/pierrec/lz4/v4"

	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/internal/batchtest"
	quiver "github.com/quiver-gpu/quiver/compress/lz4"
)

func BenchmarkDecode(b *testing.B) {
	batchtest.BenchmarkDecode(b, "lz4", func(data []byte) []byte {
		dst := make([]byte, lz4.CompressBlockBound(len(data)))
		n, err := lz4.CompressBlock(data, dst, nil)
		if err != nil {
			b.Fatal(err)
		}
		return dst[:n]
	}, decodeBatch)
}

func BenchmarkEncode(b *testing.B) {
	batchtest.BenchmarkEncode(b, "lz4", quiver.Bound,
		func(batch compress.Batch) ([]compress.Result, error) {
			return quiver.Encode(batch, quiver.EncodeOptions{})
		}, decodeBatch)
}

// BenchmarkDecodeOwn decodes what Encode makes on the GPU.
func BenchmarkDecodeOwn(b *testing.B) {
	batchtest.BenchmarkDecodeOwn(b, "lz4", quiver.Bound,
		func(batch compress.Batch) ([]compress.Result, error) {
			return quiver.Encode(batch, quiver.EncodeOptions{})
		}, decodeBatch)
}
