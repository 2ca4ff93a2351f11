package ndview_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCopyFromCopiesBetweenAllDevices(t *testing.T) {
	cudatest.ForEachDriver(t, 2, func(t *testing.T, d *cudabuf.Driver) {
		devices := []arrowbuf.Device{arrowbuf.CPU(), cudatest.NewDevice(t)}
		for i := range 2 {
			dev, err := d.Device(i)
			require.NoError(t, err)
			devices = append(devices, dev)
		}
		for i, from := range devices {
			for j, to := range devices {
				src := ndtest.Upload(t, from, ndtest.Raw(count(20)...))
				want := poisoned(40)
				dst := ndtest.Upload(t, to, want)
				require.NoError(t, ndtest.At(t, dst, ndview.Int32, 3, 2, 3).CopyFrom(ndtest.At(t, src, ndview.Int32, 8, 2, 3)))
				copy(want[3:], ndtest.Raw[int32](2, 3, 4, 5, 6, 7))
				assert.Equal(t, want, ndtest.Download(t, dst), "from device %d to %d", i, j)
			}
		}
	})
}

func TestCopyFromAcceptsOverlappingArrays(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.FromHost(t, dev, ndview.Int32, count(6), 6)
		first, last := ndtest.At(t, a.Buffer(), ndview.Int32, 0, 4), ndtest.At(t, a.Buffer(), ndview.Int32, 8, 4)
		require.NoError(t, last.CopyFrom(first))
		assert.Equal(t, ndtest.Raw[int32](0, 1, 0, 1, 2, 3), ndtest.Elements(t, a))
		require.NoError(t, first.CopyFrom(last))
		assert.Equal(t, ndtest.Raw[int32](0, 1, 2, 3, 2, 3), ndtest.Elements(t, a))
	})
}

func TestCopyFromRefusesInvalidOperands(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.FromHost(t, dev, ndview.Int32, count(4), 2, 2)
		zeros := func(d ndview.DType, shape ...int64) *ndview.NDBuffer {
			return ndtest.At(t, ndtest.Upload(t, dev, make([]byte, 64)), d, 0, shape...)
		}
		assert.ErrorIs(t, a.CopyFrom(zeros(ndview.Uint32, 2, 2)), ndview.ErrDType)
		assert.ErrorIs(t, a.CopyFrom(zeros(ndview.Int32, 4)), ndview.ErrShape)
		assert.ErrorIs(t, a.CopyFrom(zeros(ndview.Int32, 3, 2)), ndview.ErrShape)
		assert.ErrorIs(t, a.CopyFrom(zeros(ndview.Int32, 2, 2, 2)), ndview.ErrShape)
		fixed, err := a.ReadOnly()
		ndtest.Own(t, fixed, err)
		assert.ErrorIs(t, fixed.CopyFrom(zeros(ndview.Int32, 2, 2)), ndview.ErrReadOnly)
		_, err = a.Copy('X')
		assert.ErrorIs(t, err, ndview.ErrShape)
		assert.Equal(t, ndtest.Raw(count(4)...), ndtest.Elements(t, a), "a failed call must not write")
	})
}

// randomLayout is a random layout over random bytes: axes in any order, with gaps,
// reversed, at any alignment.
type randomLayout struct {
	dtype          ndview.DType
	memory         []byte
	offset         int64
	shape, strides []int64
}

func newRandomLayout(r *rand.Rand, dtype ndview.DType, shape []int64) randomLayout {
	x := randomLayout{dtype: dtype, shape: shape, strides: make([]int64, len(shape))}
	size := dtype.Size()
	for _, axis := range r.Perm(len(shape)) {
		if r.IntN(4) == 0 {
			size += r.Int64N(3) * dtype.Size() // a gap, and perhaps a step
		}
		if r.IntN(12) == 0 {
			size++
		}
		x.strides[axis] = size
		size *= max(shape[axis], 1)
	}
	x.offset = r.Int64N(3) * r.Int64N(17)
	for axis, n := range shape {
		if r.IntN(4) == 0 && n > 0 {
			x.offset += (n - 1) * x.strides[axis]
			x.strides[axis] = -x.strides[axis]
		}
	}
	x.memory = make([]byte, size+x.offset+40)
	for i := range x.memory {
		x.memory[i] = byte(r.Uint32())
	}
	return x
}

func (x randomLayout) array(t *testing.T, dev arrowbuf.Device) *ndview.NDBuffer {
	a, err := ndview.FromBuffer(ndtest.Upload(t, dev, x.memory), x.dtype, x.offset, x.shape, x.strides)
	return ndtest.Own(t, a, err)
}

// byteOffset returns the position of an element in memory.
func (x randomLayout) byteOffset(at []int64) int64 {
	p := x.offset
	for i, n := range at {
		p += n * x.strides[i]
	}
	return p
}

// bytes returns the elements in C order.
func (x randomLayout) bytes() []byte {
	all := []byte{}
	walk(x.shape, func(at []int64) {
		p := x.byteOffset(at)
		all = append(all, x.memory[p:p+x.dtype.Size()]...)
	})
	return all
}

// written returns the memory after elements, given in C order, are copied to the
// layout.
func (x randomLayout) written(data []byte) []byte {
	memory := slices.Clone(x.memory)
	walk(x.shape, func(at []int64) {
		data = data[copy(memory[x.byteOffset(at):][:x.dtype.Size()], data):]
	})
	return memory
}

// randomExtents returns random extents near the sides of tiles, with a product of at
// most most.
func randomExtents(r *rand.Rand, axes int, most int64) []int64 {
	choices := []int64{1, 2, 3, 4, 5, 7, 8, 15, 16, 31, 33, 63, 64, 65, 100, 127, 128, 129, 257}
	shape := make([]int64, axes)
	for i := range shape {
		for shape[i] = choices[r.IntN(len(choices))]; shape[i] > most; {
			shape[i] = choices[r.IntN(len(choices))]
		}
		most /= shape[i]
	}
	r.Shuffle(axes, func(i, j int) { shape[i], shape[j] = shape[j], shape[i] })
	return shape
}

// copyTypes have all element sizes that copies distinguish.
var copyTypes = []ndview.DType{
	ndview.Uint8, ndview.Int16, ndview.Float32, ndview.Int64, ndview.Complex128,
	ndview.Bytes(3), ndview.Bytes(6), ndview.Bytes(12), ndview.Bytes(32), ndview.Bytes(40),
}

func TestRandomLayoutsAreCopied(t *testing.T) {
	layouts := 300
	if testing.Short() {
		layouts = 100
	}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		r := rand.New(rand.NewPCG(4, 1))
		for i := range layouts {
			dtype := copyTypes[i%len(copyTypes)]
			shape := randomExtents(r, r.IntN(6), 30000)
			from, to := newRandomLayout(r, dtype, shape), newRandomLayout(r, dtype, shape)
			src, dst := from.array(t, dev), to.array(t, dev)
			about := fmt.Sprintf("%s %v from %v+%d to %v+%d", dtype, shape, from.strides, from.offset, to.strides, to.offset)
			ndtest.RequireBytes(t, from.bytes(), ndtest.Elements(t, src), about)
			require.NoError(t, dst.CopyFrom(src))
			ndtest.RequireBytes(t, to.written(from.bytes()), ndtest.Download(t, dst.Buffer()), about)
			require.NoError(t, dst.CopyFromHost(to.bytes()))
			ndtest.RequireBytes(t, to.memory, ndtest.Download(t, dst.Buffer()), about)
		}
	})
}

// TestPermutationsAreCopied covers all orders of axes, with extents that are multiples
// of tiles and others.
func TestPermutationsAreCopied(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, dtype := range copyTypes[:5] {
			for _, shape := range [][]int64{{129, 257}, {128, 256}, {64, 33, 65}, {3, 100, 70}, {100, 70, 3}, {7, 33, 5, 40}, {16, 4, 32, 12}, {3, 127, 201}, {131, 3, 333}} {
				x := randomLayout{dtype: dtype, shape: shape, strides: make([]int64, len(shape)), memory: make([]byte, 0)}
				size := dtype.Size()
				for i := len(shape) - 1; i >= 0; i-- {
					x.strides[i] = size
					size *= shape[i]
				}
				for i := range size {
					x.memory = append(x.memory, byte(i)^byte(i>>8)*31^byte(i>>16)*7)
				}
				a := x.array(t, dev)
				permute(len(shape), func(order []int) {
					transposed, err := a.Transpose(order...)
					ndtest.Own(t, transposed, err)
					c, err := transposed.Copy(ndview.OrderC)
					ndtest.Own(t, c, err)
					view := x
					view.shape, view.strides = transposed.Shape(), transposed.Strides()
					ndtest.RequireBytes(t, view.bytes(), ndtest.Download(t, c.Buffer()), dtype, shape, order)
				})
			}
		}
	})
}

// TestLongRowsAreCopied covers strides of rows longer than a block's tile, at odd
// offsets.
func TestLongRowsAreCopied(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		r := rand.New(rand.NewPCG(8, 3))
		for _, dtype := range copyTypes[:5] {
			for _, length := range []int64{1024, 2048, 5003} {
				if testing.Short() && length != 2048 {
					continue
				}
				for _, step := range []int64{1, -1, 2, 3, -2} {
					size := dtype.Size()
					gaps := randomLayout{dtype: dtype, shape: []int64{3, length}, strides: []int64{(3*length + 1) * size, step * size}, offset: size}
					gaps.offset += max(-step, 0) * size * (length - 1)
					dense := randomLayout{dtype: dtype, shape: gaps.shape, strides: []int64{length * size, size}, offset: size * r.Int64N(5)}
					requireCopiedBothWays(t, dev, r, gaps, dense, (9*length+40)*size)
				}
			}
		}
	})
}

// TestPlanesAndInterleavedRowsAreCopied copies between planar and interleaved images:
// a few planes at any offset, in either direction, of one image or several.
func TestPlanesAndInterleavedRowsAreCopied(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		r := rand.New(rand.NewPCG(9, 1))
		for _, dtype := range []ndview.DType{ndview.Uint8, ndview.Int16, ndview.Float32} {
			size := dtype.Size()
			for planes := int64(2); planes <= 9; planes++ {
				for _, length := range []int64{1024, 1031, 4099, 9001 + r.Int64N(100)} {
					images := 1 + r.Int64N(3)
					gap := r.Int64N(3)
					shape := []int64{images, planes, length}
					rows := randomLayout{dtype: dtype, shape: shape, offset: size * r.Int64N(40), strides: []int64{(planes*length + gap) * size, size, planes * size}}
					planar := randomLayout{dtype: dtype, shape: shape, offset: size * r.Int64N(40), strides: []int64{(length + gap) * planes * size, (length + gap) * size, size}}
					if r.IntN(3) == 0 {
						planar.offset += (planes - 1) * planar.strides[1]
						planar.strides[1] *= -1
					}
					requireCopiedBothWays(t, dev, r, rows, planar, (images*(length+gap)*planes+60)*size)
				}
			}
		}
	})
}

// TestShortAxesAreTransposed covers rows that begin at any multiple of 4 bytes, for
// which kernels write whole sectors.
func TestShortAxesAreTransposed(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		r := rand.New(rand.NewPCG(10, 1))
		for i := range 160 {
			dtype := []ndview.DType{ndview.Uint8, ndview.Int16, ndview.Float32, ndview.Float64}[i%4]
			size := dtype.Size()
			unit := max(4, size) << r.IntN(3) // divides all offsets and strides in bytes
			randomMultiple := func(most int64) int64 { return unit / size * r.Int64N(most) }
			planes, rows, columns := randomMultiple(4)+unit/size, 1+r.Int64N(400), randomMultiple(4)+unit/size
			shape := []int64{columns, rows, planes}
			x := randomLayout{dtype: dtype, shape: shape, offset: size * randomMultiple(9), strides: []int64{size * (rows*planes + randomMultiple(5)), size * planes, size}}
			y := randomLayout{dtype: dtype, shape: shape, offset: size * randomMultiple(9), strides: []int64{size, size * columns, size * (rows*columns + randomMultiple(5))}}
			if i%3 == 0 { // without gaps
				x.strides = []int64{size * planes, size * planes * columns, size}
			}
			requireCopiedBothWays(t, dev, r, x, y, size*(rows*planes*columns+40*unit*(planes+columns)))
		}
	})
}

// TestUnalignedRowsAreTransposed covers short and long rows at any offset, for which
// kernels move several units at once.
func TestUnalignedRowsAreTransposed(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		r := rand.New(rand.NewPCG(11, 1))
		for i := range 160 {
			size := []int64{1, 2}[i%2]
			rows, columns := (16+r.Int64N(245))/size, 30+r.Int64N(3000) // short rows, mostly without gaps
			gap := max(0, r.Int64N(20)-14)
			if i < 8 {
				columns, gap = 200+r.Int64N(900), r.Int64N(40)
				rows = (7 << 20) / size / columns
			}
			src := randomLayout{dtype: []ndview.DType{ndview.Uint8, ndview.Int16}[i%2], shape: []int64{columns, rows}, offset: size * r.Int64N(40)}
			src.strides = []int64{size, size * (columns + r.Int64N(40))}
			dst := randomLayout{dtype: src.dtype, shape: src.shape, offset: size * r.Int64N(40), strides: []int64{size * (rows + gap), size}}
			for _, l := range []*randomLayout{&src, &dst} {
				l.memory = make([]byte, l.offset+(columns-1)*l.strides[0]+(rows-1)*l.strides[1]+size)
				for k := range len(l.memory) / 8 {
					binary.LittleEndian.PutUint64(l.memory[8*k:], r.Uint64())
				}
			}
			a, b := src.array(t, dev), dst.array(t, dev)
			require.NoError(t, b.CopyFrom(a))
			want := slices.Clone(dst.memory)
			for row := range rows {
				for column := range columns {
					to, from := dst.offset+column*dst.strides[0]+row*size, src.offset+row*src.strides[1]+column*size
					want[to] = src.memory[from]
					want[to+size-1] = src.memory[from+size-1]
				}
			}
			ndtest.RequireBytes(t, want, ndtest.Download(t, b.Buffer()), size, rows, columns, src.offset, src.strides, dst.offset, dst.strides)
		}
	})
}

// requireCopiedBothWays copies each of two layouts of one shape to the other. Both lie
// in the given number of random bytes, of which the rest must not change.
func requireCopiedBothWays(t *testing.T, dev arrowbuf.Device, r *rand.Rand, x, y randomLayout, bytes int64) {
	t.Helper()
	for _, l := range []*randomLayout{&x, &y} {
		l.memory = make([]byte, bytes)
		for i := range l.memory {
			l.memory[i] = byte(r.Uint32())
		}
	}
	for _, pair := range [][2]randomLayout{{x, y}, {y, x}} {
		from, to := pair[0], pair[1]
		dst := to.array(t, dev)
		require.NoError(t, dst.CopyFrom(from.array(t, dev)))
		ndtest.RequireBytes(t, to.written(from.bytes()), ndtest.Download(t, dst.Buffer()), x.dtype, x.shape, from.strides, to.strides)
	}
}

// TestLargeTransposesUseExtraSharedMemory covers kernels that need more shared memory
// than a launch gets by default.
func TestLargeTransposesUseExtraSharedMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	shape := []int64{100, 13000, 100}
	data := make([]byte, product(shape))
	for i := range data {
		data[i] = byte(i ^ i>>8 ^ i>>16)
	}
	var want []byte
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		transposed := ndtest.View(t)(ndtest.At(t, ndtest.Upload(t, dev, data), ndview.Uint8, 0, shape...).Transpose())
		copied, err := transposed.Copy(ndview.OrderC)
		got := ndtest.Elements(t, ndtest.Own(t, copied, err))
		if want == nil {
			want = got
		}
		ndtest.RequireBytes(t, want, got)
	})
	for _, at := range [][3]int64{{0, 0, 0}, {1, 2, 3}, {99, 12999, 99}, {7, 12345, 50}} {
		from := (at[0]*shape[1]+at[1])*shape[2] + at[2]
		require.Equal(t, data[from], want[(at[2]*shape[1]+at[1])*shape[0]+at[0]])
	}
}

func TestCopyUsesRequestedOrder(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.FromHost(t, dev, ndview.Int32, count(24), 2, 3, 4)
		transposed, err := a.Transpose(2, 0, 1)
		ndtest.Own(t, transposed, err)
		back, err := transposed.Index(ndview.SpanStep(ndview.Open, ndview.Open, -1))
		ndtest.Own(t, back, err)
		f, err := a.Transpose()
		ndtest.Own(t, f, err)
		for _, c := range []struct {
			of      *ndview.NDBuffer
			order   ndview.Order
			strides []int64
		}{
			{a, ndview.OrderC, []int64{48, 16, 4}}, {a, 0, []int64{48, 16, 4}}, {a, ndview.OrderF, []int64{4, 8, 24}},
			{a, ndview.OrderA, []int64{48, 16, 4}}, {a, ndview.OrderK, []int64{48, 16, 4}},
			{transposed, ndview.OrderC, []int64{24, 12, 4}}, {transposed, ndview.OrderA, []int64{24, 12, 4}},
			{transposed, ndview.OrderK, []int64{4, 48, 16}}, {back, ndview.OrderK, []int64{4, 48, 16}},
			{f, ndview.OrderA, []int64{4, 16, 48}}, {f, ndview.OrderC, []int64{24, 8, 4}},
		} {
			got, err := c.of.Copy(c.order)
			ndtest.Own(t, got, err)
			assert.Equal(t, c.strides, got.Strides(), "order %q of strides %v", byte(c.order), c.of.Strides())
			assert.Equal(t, ndtest.Elements(t, c.of), ndtest.Elements(t, got))
			assert.Nil(t, got.Base(), "a copy is no view")
		}
	})
}

func TestCopyFromBroadcasts(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, c := range []struct {
			shape []int64
			want  []int32
		}{
			{[]int64{}, []int32{0, 0, 0, 0, 0, 0}}, {[]int64{3}, []int32{0, 1, 2, 0, 1, 2}},
			{[]int64{2, 1}, []int32{0, 0, 0, 1, 1, 1}}, {[]int64{1, 1, 2, 3}, []int32{0, 1, 2, 3, 4, 5}},
		} {
			n := int64(1)
			for _, d := range c.shape {
				n *= d
			}
			for _, from := range []arrowbuf.Device{dev, ndtest.OtherThan(t, dev)} {
				a := ndtest.FromHost(t, dev, ndview.Int32, make([]int32, 6), 2, 3)
				require.NoError(t, a.CopyFrom(ndtest.FromHost(t, from, ndview.Int32, count(n), c.shape...)))
				assert.Equal(t, ndtest.Raw(c.want...), ndtest.Elements(t, a), "from shape %v on %s", c.shape, from)
			}
		}
	})
}

func TestRandomLayoutsAreCopiedAcrossDevices(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		r := rand.New(rand.NewPCG(4, 2))
		other := ndtest.OtherThan(t, dev)
		for i := range 40 {
			dtype, shape := copyTypes[i%len(copyTypes)], randomExtents(r, r.IntN(4), 2000)
			from, to := newRandomLayout(r, dtype, shape), newRandomLayout(r, dtype, shape)
			dst := to.array(t, dev)
			require.NoError(t, dst.CopyFrom(from.array(t, other)))
			ndtest.RequireBytes(t, to.written(from.bytes()), ndtest.Download(t, dst.Buffer()), dtype, shape, from.strides, to.strides)
		}
	})
}

// TestOverlappingCopiesReadBeforeWriting copies between views of one matrix.
func TestOverlappingCopiesReadBeforeWriting(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		const n = 70
		view := func(a *ndview.NDBuffer, keys ...ndview.Key) *ndview.NDBuffer {
			v, err := a.Index(keys...)
			return ndtest.Own(t, v, err)
		}
		back := ndview.SpanStep(ndview.Open, ndview.Open, -1)
		for name, c := range map[string]struct {
			dst, src func(a *ndview.NDBuffer) *ndview.NDBuffer
			want     func(i, j int32) int32
		}{
			"its transpose": {
				func(a *ndview.NDBuffer) *ndview.NDBuffer { return view(a) },
				func(a *ndview.NDBuffer) *ndview.NDBuffer { v, err := a.Transpose(); return ndtest.Own(t, v, err) },
				func(i, j int32) int32 { return j*n + i },
			},
			"its reverse": {
				func(a *ndview.NDBuffer) *ndview.NDBuffer { return view(a) },
				func(a *ndview.NDBuffer) *ndview.NDBuffer { return view(a, back, back) },
				func(i, j int32) int32 { return (n-1-i)*n + n - 1 - j },
			},
			"its columns shifted": {
				func(a *ndview.NDBuffer) *ndview.NDBuffer { return view(a, ndview.All, ndview.Span(1, n)) },
				func(a *ndview.NDBuffer) *ndview.NDBuffer { return view(a, ndview.All, ndview.Span(0, n-1)) },
				func(i, j int32) int32 { return i*n + max(j-1, 0) },
			},
			"its first row, repeated": {
				func(a *ndview.NDBuffer) *ndview.NDBuffer { return view(a) },
				func(a *ndview.NDBuffer) *ndview.NDBuffer { return view(a, ndview.At(0)) },
				func(i, j int32) int32 { return j },
			},
		} {
			a := ndtest.FromHost(t, dev, ndview.Int32, count(n*n), n, n)
			require.NoError(t, c.dst(a).CopyFrom(c.src(a)), name)
			want := make([]int32, 0, n*n)
			for i := range int32(n) {
				for j := range int32(n) {
					want = append(want, c.want(i, j))
				}
			}
			ndtest.RequireBytes(t, ndtest.Raw(want...), ndtest.Elements(t, a), name)
		}
	})
}

func TestByteSwapReversesBytesOfNumbers(t *testing.T) {
	dtypes := []struct {
		dtype ndview.DType
		size  int // of the numbers that are reversed
	}{
		{ndview.Bool, 1}, {ndview.Int8, 1}, {ndview.Bytes(3), 1}, {ndview.Uint16, 2}, {ndview.BFloat16, 2}, {ndview.Float32, 4},
		{ndview.Int64, 8}, {ndview.Datetime64(ndview.Second, 1), 8}, {ndview.Complex64, 4}, {ndview.Complex128, 8},
	}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		rng := rand.New(rand.NewPCG(7, 1))
		for _, tt := range dtypes {
			for _, n := range []int64{0, 1, 3, 100, 5003} {
				for _, align := range []int64{0, 1, tt.dtype.Size(), 16} {
					raw := randomBytes(rng, int(align+n*tt.dtype.Size()+5))
					want := slices.Clone(raw)
					for at := int(align); at < len(raw)-5; at += tt.size {
						slices.Reverse(want[at : at+tt.size])
					}
					buf := ndtest.Upload(t, dev, raw)
					a := ndtest.At(t, buf, tt.dtype, align, n)
					copied, err := a.ByteSwapped()
					ndtest.Own(t, copied, err)
					ndtest.RequireBytes(t, want[align:len(want)-5], ndtest.Elements(t, copied), tt, n, align)
					ndtest.RequireBytes(t, raw, ndtest.Download(t, buf), tt, n, align)
					require.NoError(t, a.ByteSwap())
					ndtest.RequireBytes(t, want, ndtest.Download(t, buf), tt, n, align)
				}
			}
		}
	})
}

func TestByteSwapAcceptsStrides(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.FromHost(t, dev, ndview.Uint16, []uint16{1, 2, 3, 4, 5, 6}, 2, 3)
		columns := index(t, a, ndview.All, ndview.SpanStep(ndview.Open, ndview.Open, -2))
		copied, err := columns.ByteSwapped()
		ndtest.Own(t, copied, err)
		assert.Equal(t, ndtest.Raw[uint16](0x300, 0x100, 0x600, 0x400), ndtest.Elements(t, copied))
		require.NoError(t, columns.ByteSwap())
		assert.Equal(t, ndtest.Raw[uint16](0x100, 2, 0x300, 0x400, 5, 0x600), ndtest.Elements(t, a))

		fixed, err := a.ReadOnly()
		ndtest.Own(t, fixed, err)
		assert.ErrorIs(t, fixed.ByteSwap(), ndview.ErrReadOnly)
	})
}
