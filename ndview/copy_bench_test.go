package ndview_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
)

// benchTypes are a dtype of each element size.
var benchTypes = []struct {
	name  string
	dtype ndview.DType
}{
	{"u1", ndview.Uint8}, {"u2", ndview.Uint16}, {"f4", ndview.Float32}, {"f8", ndview.Float64}, {"c16", ndview.Complex128},
}

// permuted are shapes for elements of one byte, 1 GiB and twice 512 MiB. Larger
// elements halve the axes in turn.
var permuted = [][]int64{{32768, 32768}, {512, 1024, 1024}, {128, 256, 128, 128}}

// BenchmarkPermute copies transposed arrays to C order: all permutations of two,
// three and four axes, of even and odd extents. The copies of the driver, in
// BenchmarkCopyFrom, are the limit. On the CPU arrays are of 1/16 of the bytes,
// and only some of the permutations of four axes are measured.
func BenchmarkPermute(b *testing.B) {
	onBench(b, 1<<30, func(b *testing.B, dev arrowbuf.Device, from, to *ndview.NDBuffer) {
		for _, t := range benchTypes {
			for _, shape := range permuted {
				shape = slices.Clone(shape)
				for i, size := 0, t.dtype.Size(); size > 1; i, size = i+1, size/2 {
					shape[i%len(shape)] /= 2
				}
				if dev == arrowbuf.CPU() {
					shape[0], shape[1] = shape[0]/4, shape[1]/4
				}
				for odd := range int64(2) {
					extents := slices.Clone(shape)
					for i := range extents {
						extents[i] -= odd
					}
					permute(len(shape), func(order []int) {
						if slices.IsSorted(order) || dev == arrowbuf.CPU() && len(order) == 4 && !few(order) {
							return
						}
						b.Run(fmt.Sprintf("%s/%s/%s", t.name, joined(extents, "x"), joined(order, "")), func(b *testing.B) {
							a := lookedAt(b, from, t.dtype, 0, extents, nil)
							turned, err := a.Transpose(order...)
							own(b, turned, err)
							dst := lookedAt(b, to, t.dtype, 0, turned.Shape(), nil)
							loop(b, dev, 2*a.NBytes(), func() error { return dst.CopyFrom(turned) })
						})
					})
				}
			}
		}
	})
}

func few(order []int) bool {
	return slices.Contains([]string{"3210", "0312", "2301", "1032"}, joined(order, ""))
}

// BenchmarkStrided reads every step-th element of rows, "gather", and writes it,
// "scatter". Bytes count what memory moves, which is sectors of 32 bytes: all that
// are read, and written; of those of which a part is written the rest is read.
func BenchmarkStrided(b *testing.B) {
	onBench(b, 1<<30, func(b *testing.B, dev arrowbuf.Device, from, to *ndview.NDBuffer) {
		rows, row := int64(16384), int64(65536)
		if dev == arrowbuf.CPU() {
			rows /= 16
		}
		for _, t := range benchTypes {
			for _, step := range []int64{2, 3, -1, -2} {
				size := t.dtype.Size()
				apart := max(step, -step) * size
				n := row / apart
				dense := []int64{rows, n}
				offset := int64(0)
				if step < 0 {
					offset = (n - 1) * apart
				}
				strides := []int64{row, step * size}
				elements := rows * n * size
				touched := min(rows*n*apart, rows*n*max(size, 32))
				b.Run(fmt.Sprintf("gather/%s/%d", t.name, step), func(b *testing.B) {
					src, dst := lookedAt(b, from, t.dtype, offset, dense, strides), lookedAt(b, to, t.dtype, 0, dense, nil)
					loop(b, dev, touched+elements, func() error { return dst.CopyFrom(src) })
				})
				b.Run(fmt.Sprintf("scatter/%s/%d", t.name, step), func(b *testing.B) {
					src, dst := lookedAt(b, from, t.dtype, 0, dense, nil), lookedAt(b, to, t.dtype, offset, dense, strides)
					moved := touched + elements
					if step != -1 {
						moved += touched
					}
					loop(b, dev, moved, func() error { return dst.CopyFrom(src) })
				})
			}
		}
	})
}

// onBench runs a benchmark on the CPU with two arrays of 1/16 of size bytes, and
// with all of them on the GPU where tests use it.
func onBench(b *testing.B, size int64, run func(b *testing.B, dev arrowbuf.Device, from, to *ndview.NDBuffer)) {
	on := func(b *testing.B, dev arrowbuf.Device, size int64) {
		run(b, dev, filled(b, dev, ndview.Uint8, size, piece(1, 3)), filled(b, dev, ndview.Uint8, size, piece(2, 1)))
	}
	b.Run("cpu", func(b *testing.B) { on(b, arrowbuf.CPU(), size/16) })
	if !cudatest.OnGPU() {
		return
	}
	b.Run("cuda", func(b *testing.B) {
		driver, err := cudabuf.Open()
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, driver.Close()) })
		dev, err := driver.Device(0)
		require.NoError(b, err)
		on(b, dev, size)
	})
}

// lookedAt looks at the bytes of an array as another.
func lookedAt(b *testing.B, bytes *ndview.NDBuffer, dtype ndview.DType, offset int64, shape, strides []int64) *ndview.NDBuffer {
	a, err := ndview.FromBuffer(bytes.Buffer(), dtype, offset, shape, strides)
	return own(b, a, err)
}

func joined[T any](values []T, by string) string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = fmt.Sprint(v)
	}
	return strings.Join(words, by)
}
