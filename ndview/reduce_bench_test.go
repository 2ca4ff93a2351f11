package ndview_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// reduceShapes are shapes of n elements and the axis that is reduced.
var reduceShapes = []struct {
	name  string
	shape func(n int64) []int64
	axes  []int
}{
	{"all", func(n int64) []int64 { return []int64{n} }, nil},
	{"first", func(n int64) []int64 { return []int64{4096, n / 4096} }, []int{0}},
	{"middle", func(n int64) []int64 { return []int64{64, n / (64 * 1024), 1024} }, []int{1}},
	{"last", func(n int64) []int64 { return []int64{n / 4096, 4096} }, []int{1}},
	{"first-of-nx4", func(n int64) []int64 { return []int64{n / 4, 4} }, []int{0}},
	{"last-of-nx4", func(n int64) []int64 { return []int64{n / 4, 4} }, []int{1}},
	{"first-of-4xn", func(n int64) []int64 { return []int64{4, n / 4} }, []int{0}},
	{"last-of-4xn", func(n int64) []int64 { return []int64{4, n / 4} }, []int{1}},
	{"first-of-3xn", func(n int64) []int64 { return []int64{3, n / 3} }, []int{0}},
	{"last-of-nx3", func(n int64) []int64 { return []int64{n / 3, 3} }, []int{1}},
	{"middle-of-1000xnx30", func(n int64) []int64 { return []int64{1000, n / 30000, 30} }, []int{1}},
	{"last-of-1000xnx30", func(n int64) []int64 { return []int64{1000, n / 30000, 30} }, []int{2}},
}

// BenchmarkReduce is named by reduction, type, shape and axis. Bytes are those of
// the array and of the results.
func BenchmarkReduce(b *testing.B) {
	for _, r := range []ndview.Reduction{ndview.Sum, ndview.Max, ndview.ArgMax} {
		for _, dtype := range []ndview.DType{ndview.Float32, ndview.Float64, ndview.Int8, ndview.Int32, ndview.Float16} {
			for _, s := range reduceShapes {
				b.Run(fmt.Sprintf("%s-%s-%s", r, dtype, s.name), func(b *testing.B) {
					benchmark(b, 1<<30, 4, func(b *testing.B, dev arrowbuf.Device, size int64) {
						shape := s.shape(size / dtype.Size())
						n := int64(1)
						for _, d := range shape {
							n *= d
						}
						flat := filled(b, dev, dtype, size, noise(dtype))
						part, err := flat.Slice(0, 0, n)
						a, err2 := own(b, part, err).Reshape(shape...)
						own(b, a, err2)
						o := ndview.ReduceOptions{Axes: s.axes}
						out, err := r.Of(a, o)
						own(b, out, err)
						loop(b, dev, a.NBytes()+out.NBytes(), func() error { return r.Into(out, a, o) })
					})
				})
			}
		}
	}
}

// noise is 1 MiB of elements of mixed size, none of them NaN.
func noise(dtype ndview.DType) []byte {
	p := make([]byte, 1<<20)
	state := uint64(1)
	size := int(dtype.Size())
	for i := range p {
		state = state*6364136223846793005 + 1442695040888963407
		p[i] = byte(state >> 56)
		if dtype.Kind() == ndview.KindFloat && i%size == size-1 {
			p[i] = p[i]&0x81 | 0x38
		}
	}
	return p
}

// BenchmarkAllEqual compares two arrays, or one with a fill value.
func BenchmarkAllEqual(b *testing.B) {
	for _, dtype := range []ndview.DType{ndview.Float32, ndview.Float64, ndview.Int8} {
		b.Run(fmt.Sprintf("%s-array", dtype), func(b *testing.B) {
			benchmark(b, 1<<30, 2, func(b *testing.B, dev arrowbuf.Device, size int64) {
				x := filled(b, dev, dtype, size, noise(dtype))
				y := filled(b, dev, dtype, size, noise(dtype))
				loop(b, dev, 2*size, func() error { return allEqual(b, x, y) })
			})
		})
		b.Run(fmt.Sprintf("%s-fill-value", dtype), func(b *testing.B) {
			benchmark(b, 1<<30, 1, func(b *testing.B, dev arrowbuf.Device, size int64) {
				x := filled(b, dev, dtype, size, make([]byte, 1<<20))
				loop(b, dev, size, func() error { return allEqual(b, x, 0.0) })
			})
		})
	}
}

func allEqual(b *testing.B, x *ndview.NDBuffer, other any) error {
	same, err := x.AllEqual(other, true)
	require.True(b, same)
	return err
}

func BenchmarkEqual(b *testing.B) {
	benchmark(b, 1<<30, 2, func(b *testing.B, dev arrowbuf.Device, size int64) {
		x := filled(b, dev, ndview.Float32, size, noise(ndview.Float32))
		y := filled(b, dev, ndview.Float32, size, noise(ndview.Float32))
		loop(b, dev, 2*size, func() error {
			same, err := x.Equal(y)
			require.True(b, same)
			return err
		})
	})
}
