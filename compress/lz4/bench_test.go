package lz4_test

import (
	"math/rand/v2"
	"testing"

	"github.com/pierrec/lz4/v4"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
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

// BenchmarkDecodeShortSequences decodes one block for which the guesses of the kernels are
// never right, so that a warp reads much of it in order.
func BenchmarkDecodeShortSequences(b *testing.B) {
	batchtest.BenchmarkDevice(b, func(b *testing.B, dev arrowbuf.Device, total int64) {
		in, size := quiver.ShortSequences(rand.New(rand.NewPCG(1, 2)), int(total/256))
		src, dst := batchtest.Upload(b, dev, in), batchtest.Upload(b, dev, make([]byte, size))
		batch := compress.Batch{Src: src, In: []compress.Range{{Length: int64(len(in))}}, Dst: dst, Out: []compress.Range{{Length: int64(size)}}}
		b.SetBytes(int64(size))
		for b.Loop() {
			results, err := decodeBatch(batch)
			require.NoError(b, err)
			require.NoError(b, results[0].Err)
		}
	})
}
