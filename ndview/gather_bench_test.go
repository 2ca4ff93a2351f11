package ndview_test

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// scattered returns n integers below limit, as random as those of a hash.
func scattered[I int32 | int64 | uint8](b *testing.B, dev arrowbuf.Device, dtype ndview.DType, n, limit int64) *ndview.NDBuffer {
	a, err := ndview.Empty(dev, dtype, n)
	own(b, a, err)
	part := make([]I, 1<<20)
	for first := int64(0); first < n; first += int64(len(part)) {
		part = part[:min(int64(len(part)), n-first)]
		for i := range part {
			x := uint64(first) + uint64(i) + 1
			x = (x ^ x>>31) * 0x9e3779b97f4a7c15
			x = (x ^ x>>29) * 0xbf58476d1ce4e5b9
			part[i] = I((x ^ x>>32) % uint64(limit))
		}
		raw := unsafe.Slice((*byte)(unsafe.Pointer(&part[0])), len(part)*int(dtype.Size()))
		_, err := a.Buffer().CopyFromHost(raw, first*dtype.Size())
		require.NoError(b, err)
	}
	return a
}

// BenchmarkTake takes as many rows of a matrix as it has, at random: rows of one
// float32, and of 16. It counts rows and indices read and rows written.
func BenchmarkTake(b *testing.B) {
	for _, columns := range []int64{1, 16} {
		for _, dtype := range []ndview.DType{ndview.Int32, ndview.Int64} {
			b.Run(fmt.Sprintf("%dB-%s", 4*columns, dtype), func(b *testing.B) {
				benchmark(b, 1<<30, 5, func(b *testing.B, dev arrowbuf.Device, size int64) {
					rows := size / 4 / columns
					flat := filled(b, dev, ndview.Float32, size, piece(1, 3))
					src, err := flat.Reshape(rows, columns)
					own(b, src, err)
					var indices *ndview.NDBuffer
					if dtype == ndview.Int32 {
						indices = scattered[int32](b, dev, dtype, rows, rows)
					} else {
						indices = scattered[int64](b, dev, dtype, rows, rows)
					}
					loop(b, dev, 2*size+indices.NBytes(), func() error {
						out, err := ndview.Take(src, indices, 0, ndview.ModeRaise)
						if err == nil {
							out.Release()
						}
						return err
					})
				})
			})
		}
	}
}

// BenchmarkPut sets as many float32 as there are, at random, the last value of
// each to stay.
func BenchmarkPut(b *testing.B) {
	benchmark(b, 1<<29, 8, func(b *testing.B, dev arrowbuf.Device, size int64) {
		dst := filled(b, dev, ndview.Float32, size, piece(1, 3))
		values := filled(b, dev, ndview.Float32, size, piece(2, 3))
		indices := scattered[int64](b, dev, ndview.Int64, size/4, size/4)
		loop(b, dev, 4*size, func() error { return ndview.Put(dst, indices, values, ndview.ModeRaise) })
	})
}

// benchmarkMask is named by how many of float32 elements a mask selects.
func benchmarkMask(b *testing.B, work func(a, mask *ndview.NDBuffer, truths int64) (func() error, int64)) {
	for _, every := range []int64{100, 2} {
		b.Run(fmt.Sprintf("%din%d", every-1, every), func(b *testing.B) {
			benchmark(b, 1<<30, 3, func(b *testing.B, dev arrowbuf.Device, size int64) {
				n := size / 4
				a := filled(b, dev, ndview.Float32, size, piece(1, 3))
				numbers := scattered[uint8](b, dev, ndview.Uint8, n, every)
				few, err := numbers.View(ndview.Bool)
				own(b, few, err)
				all, err := ndview.ArgWhere(few)
				require.NoError(b, err)
				truths := all.Shape()[0]
				all.Release()
				run, bytes := work(a, few, truths)
				loop(b, dev, n+bytes, run)
			})
		})
	}
}

// BenchmarkCompress counts the mask, and what is selected twice.
func BenchmarkCompress(b *testing.B) {
	benchmarkMask(b, func(a, mask *ndview.NDBuffer, truths int64) (func() error, int64) {
		return func() error {
			out, err := ndview.Compress(mask, a, 0)
			if err == nil {
				out.Release()
			}
			return err
		}, 8 * truths
	})
}

// BenchmarkNonZero counts the mask and the positions.
func BenchmarkNonZero(b *testing.B) {
	benchmarkMask(b, func(_, mask *ndview.NDBuffer, truths int64) (func() error, int64) {
		return func() error {
			out, err := ndview.NonZero(mask)
			if err == nil {
				out[0].Release()
			}
			return err
		}, 8 * truths
	})
}

// BenchmarkConcatenate joins two matrices along each axis.
func BenchmarkConcatenate(b *testing.B) {
	for axis := range 2 {
		b.Run(fmt.Sprintf("axis%d", axis), func(b *testing.B) {
			benchmark(b, 1<<30, 2, func(b *testing.B, dev arrowbuf.Device, size int64) {
				flat := filled(b, dev, ndview.Float32, size/2, piece(1, 3))
				half, err := flat.Reshape(-1, 1024)
				own(b, half, err)
				loop(b, dev, 2*size, func() error {
					out, err := ndview.Concatenate([]*ndview.NDBuffer{half, half}, axis)
					if err == nil {
						out.Release()
					}
					return err
				})
			})
		})
	}
}
