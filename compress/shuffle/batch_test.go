package shuffle_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/internal/batchtest"
	"github.com/quiver-gpu/quiver/compress/shuffle"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

func TestBatchesAreTransformedAsOnTheHost(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	sizes := []int{1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 31, 32, 64, 100, 254, 255}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, size := range sizes {
			for _, tr := range []shuffle.Transform{{}, {Bits: true}, {Inverse: true}, {Bits: true, Inverse: true}} {
				tr.Size = size
				var inputs [][]byte
				var lengths []int
				for _, n := range []int{0, 1, 7, 8, 16, 24, 31, 32, 64, 200, 264, 16384 / size, 16384/size + 8, 16384 / size * 8, 5000} {
					n = n*size + r.IntN(size)
					if r.IntN(3) == 0 {
						n = r.IntN(40_000)
					}
					inputs, lengths = append(inputs, random(n)), append(lengths, n)
				}
				got, results := batchtest.Run(t, dev, inputs, lengths, func(b compress.Batch) ([]compress.Result, error) {
					results := make([]compress.Result, len(b.In))
					for i, in := range b.In {
						results[i].Length = in.Length
					}
					return results, shuffle.Apply(b, tr)
				})
				for i, in := range inputs {
					want := make([]byte, len(in))
					require.NoError(t, results[i].Err)
					switch {
					case tr.Bits && tr.Inverse:
						require.NoError(t, shuffle.UnshuffleBits(want, in, size))
					case tr.Bits:
						require.NoError(t, shuffle.Bits(want, in, size))
					case tr.Inverse:
						require.NoError(t, shuffle.UnshuffleBytes(want, in, size))
					default:
						require.NoError(t, shuffle.Bytes(want, in, size))
					}
					require.True(t, bytes.Equal(want, got[i]), "%+v of %d bytes", tr, len(in))
				}
			}
		}
	})
}

func TestInvalidTransformsAreErrors(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		b := compress.Batch{Src: batchtest.Upload(t, dev, make([]byte, 10)), Dst: batchtest.Upload(t, dev, make([]byte, 10))}
		b.In, b.Out = []compress.Range{{Offset: 0, Length: 5}}, []compress.Range{{Offset: 0, Length: 5}}
		for _, size := range []int{-1, 0, 256} {
			require.ErrorIs(t, shuffle.Apply(b, shuffle.Transform{Size: size}), arrowbuf.ErrOutOfRange)
		}
		b.Out[0].Length = 4
		require.ErrorIs(t, shuffle.Apply(b, shuffle.Transform{Size: 1}), arrowbuf.ErrOutOfRange)
	})
}

// BenchmarkApply transforms inputs of 1 MiB at aligned and at odd offsets.
func BenchmarkApply(b *testing.B) {
	batchtest.BenchmarkDevice(b, func(b *testing.B, dev arrowbuf.Device, total int64) {
		const input = 1 << 20
		for _, size := range []int{1, 2, 4, 8, 12, 16} {
			for _, tr := range []shuffle.Transform{{}, {Inverse: true}, {Bits: true}, {Bits: true, Inverse: true}} {
				for _, gap := range []int64{0, 5} {
					tr.Size = size
					name := fmt.Sprintf("bytes-%d", size)
					if tr.Bits {
						name = fmt.Sprintf("bits-%d", size)
					}
					if tr.Inverse {
						name = "un-" + name
					}
					b.Run(fmt.Sprintf("%s-gap-%d", name, gap), func(b *testing.B) {
						src, err := dev.Alloc(total)
						require.NoError(b, err)
						defer src.Release()
						dst, err := dev.Alloc(total)
						require.NoError(b, err)
						defer dst.Release()
						batch := compress.Batch{Src: src, Dst: dst}
						for at := int64(0); at+input <= total; at += input + gap {
							batch.In = append(batch.In, compress.Range{Offset: at, Length: input})
						}
						batch.Out = batch.In
						b.SetBytes(int64(len(batch.In)) * input)
						for b.Loop() {
							if err := shuffle.Apply(batch, tr); err != nil {
								b.Fatal(err)
							}
						}
					})
				}
			}
		}
	})
}
