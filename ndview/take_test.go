package ndview_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// golden reads the cases of testdata/golden/NAME.json, each of which is a JSON array.
func golden(t *testing.T, name string) (cases [][]json.RawMessage) {
	t.Helper()
	readGolden(t, name+".json", &cases)
	require.NotEmpty(t, cases)
	return cases
}

// golden2 reads a file with two lists of cases.
func golden2(t *testing.T, name string) (cases [2][][]json.RawMessage) {
	t.Helper()
	readGolden(t, name+".json", &cases)
	require.NotEmpty(t, cases[0])
	require.NotEmpty(t, cases[1])
	return cases
}

// field decodes one value of a case.
func field[T any](t *testing.T, raw json.RawMessage) (v T) {
	t.Helper()
	require.NoError(t, json.Unmarshal(raw, &v))
	return v
}

// patterns returns the bytes of elements of a dtype by their numbers. Each byte
// identifies its element and its place in it.
func patterns(dtype ndview.DType, elements []int64) []byte {
	var raw []byte
	for _, e := range elements {
		for b := range dtype.Size() {
			raw = append(raw, byte(e+17*b))
		}
	}
	return raw
}

// upTo returns 0, 1, 2, ... below n.
func upTo(n int64) []int64 {
	all := make([]int64, n)
	for i := range all {
		all[i] = int64(i)
	}
	return all
}

// goldenView returns a view of the elements 0, 1, 2, ... by an offset, a shape and
// strides, all in elements. skip bytes precede the elements in the buffer.
func goldenView(t *testing.T, dev arrowbuf.Device, dtype ndview.DType, skip int64, offset int64, shape, strides []int64) *ndview.NDBuffer {
	t.Helper()
	size := dtype.Size()
	buf := ndtest.Upload(t, dev, append(poisoned(int(skip)), patterns(dtype, upTo(240))...))
	bytes := make([]int64, len(strides))
	for i, s := range strides {
		bytes[i] = s * size
	}
	a, err := ndview.FromBuffer(buf, dtype, skip+offset*size, shape, bytes)
	return ndtest.Own(t, a, err)
}

// integers uploads values as integers of a dtype.
func integers(t *testing.T, dev arrowbuf.Device, dtype ndview.DType, values []int64, shape []int64) *ndview.NDBuffer {
	t.Helper()
	var raw []byte
	for _, v := range values {
		for b := range dtype.Size() {
			raw = append(raw, byte(v>>(8*b)))
		}
	}
	a, err := ndview.Empty(dev, dtype, shape...)
	ndtest.Own(t, a, err)
	require.NoError(t, a.CopyFromHost(raw))
	return a
}

var indexTypes = map[string]ndview.DType{
	"int8": ndview.Int8, "int16": ndview.Int16, "int32": ndview.Int32, "int64": ndview.Int64,
	"uint8": ndview.Uint8, "uint16": ndview.Uint16, "uint32": ndview.Uint32, "uint64": ndview.Uint64,
}

var modes = map[string]ndview.Mode{"raise": ndview.ModeRaise, "wrap": ndview.ModeWrap, "clip": ndview.ModeClip}

// elementTypes have sizes that kernels copy as one unit, and other sizes.
var elementTypes = []ndview.DType{
	ndview.Int8, ndview.Float16, ndview.Float32, ndview.Int64, ndview.Complex128,
	ndview.Bytes(3), ndview.Bytes(12), ndview.Bytes(40),
}

func TestTakeMatchesNumPy(t *testing.T) {
	cases := golden(t, "take")
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for i, c := range cases {
			dtype := elementTypes[i%len(elementTypes)]
			a := goldenView(t, dev, dtype, int64(i%5/4), field[int64](t, c[0]), field[[]int64](t, c[1]), field[[]int64](t, c[2]))
			indices := integers(t, dev, indexTypes[field[string](t, c[3])], field[[]int64](t, c[5]), field[[]int64](t, c[4]))
			axis, mode := field[*int](t, c[6]), modes[field[string](t, c[7])]
			var got *ndview.NDBuffer
			var err error
			if axis == nil {
				got, err = ndview.TakeFlat(a, indices, mode)
			} else {
				got, err = ndview.Take(a, indices, *axis, mode)
			}
			if len(c) == 8 {
				require.ErrorIs(t, err, arrowbuf.ErrOutOfRange, "case %d: %s", i, c)
				continue
			}
			ndtest.Own(t, got, err)
			ndtest.RequireBytes(t, patterns(dtype, field[[]int64](t, c[8])), ndtest.Elements(t, got), "case", i, c)
			if axis != nil {
				at := (*axis + a.NDim()) % a.NDim()
				want := append(append(append([]int64{}, a.Shape()[:at]...), indices.Shape()...), a.Shape()[at+1:]...)
				require.Equal(t, want, append([]int64{}, got.Shape()...), "case %d: %s", i, c)
			}
		}
	})
}

// Results with more elements than one launch supports need several.
func TestTakeInSeveralLaunchesMatchesNumPy(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	ndview.CutWalks(t, 3)
	TestTakeMatchesNumPy(t)
	TestTakeNamesFirstBadIndex(t)
}

// Lengths are around the sizes of the kernels' tiles. Indices may be negative or bad.
func TestTakeByBucketsGathersElements(t *testing.T) {
	ndview.UseBuckets(t, 1000, 4096)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		r := rand.New(rand.NewPCG(4, 4))
		for _, n := range []int64{1000, 4095, 8191, 8193, 50_001} {
			extent := 1 + r.Int64N(100_000)
			values, indices, want := make([]uint64, extent), make([]int64, n), []byte(nil)
			for i := range values {
				values[i] = r.Uint64()
			}
			for j := range indices {
				indices[j] = r.Int64N(2*extent) - extent
				want = append(want, ndtest.Raw(values[(indices[j]+extent)%extent])...)
			}
			a := ndtest.FromHost(t, dev, ndview.Uint64, values, extent)
			halves, err := a.View(ndview.Uint32)
			ndtest.Own(t, halves, err)
			pairs, err := halves.Reshape(extent, 2)
			ndtest.Own(t, pairs, err)
			low, err := pairs.Index(ndview.All, ndview.At(0))
			ndtest.Own(t, low, err)
			contiguous, err := low.Get()
			ndtest.Own(t, contiguous, err)
			for _, dtype := range []ndview.DType{ndview.Int32, ndview.Int64} {
				by := integers(t, dev, dtype, indices, []int64{n})
				got, err := ndview.Take(a, by, 0, ndview.ModeRaise)
				ndtest.Own(t, got, err)
				ndtest.RequireBytes(t, want, ndtest.Elements(t, got), n, extent, dtype)
				got, err = ndview.Take(contiguous, by, 0, ndview.ModeRaise)
				ndtest.Own(t, got, err)
				var low []byte
				for j := range n {
					low = append(low, want[8*j:8*j+4]...)
				}
				ndtest.RequireBytes(t, low, ndtest.Elements(t, got), n, extent, dtype)
			}
			indices[n-1], indices[n/2] = extent, -extent-1
			_, err = ndview.Take(a, integers(t, dev, ndview.Int64, indices, []int64{n}), 0, ndview.ModeRaise)
			require.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
			require.ErrorContains(t, err, fmt.Sprintf("index %d is outside", -extent-1))
		}
	})
}

func TestTakeNamesFirstBadIndex(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.FromHost(t, dev, ndview.Float32, make([]float32, 7*5), 7, 5)
		many := make([]int64, 40_000)
		many[21_100], many[29_000] = -8, 99
		for _, c := range []struct {
			indices *ndview.NDBuffer
			axis    int
			want    string
		}{
			{integers(t, dev, ndview.Int32, []int64{0, 5, 4, 9}, []int64{4}), 1, "index 5 is outside axis 1 of 5 elements"},
			{integers(t, dev, ndview.Int64, many, []int64{40_000}), 0, "index -8 is outside axis 0 of 7 elements"},
			{integers(t, dev, ndview.Int8, []int64{0, -9}, []int64{2}), -2, "index -9 is outside axis 0 of 7 elements"},
			{integers(t, dev, ndview.Uint64, []int64{1, -1}, []int64{2}), 0, "index 18446744073709551615 is outside axis 0"},
		} {
			_, err := ndview.Take(a, c.indices, c.axis, ndview.ModeRaise)
			require.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
			assert.ErrorContains(t, err, c.want)
		}
	})
}

func TestTakeOfInvalidIndicesIsError(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.FromHost(t, dev, ndview.Float32, make([]float32, 6), 2, 3)
		_, err := ndview.Take(a, a, 0, ndview.ModeRaise)
		assert.ErrorIs(t, err, ndview.ErrDType)
		one := []int64{1}
		_, err = ndview.Take(a, integers(t, ndtest.OtherThan(t, dev), ndview.Int64, one, one), 0, ndview.ModeRaise)
		assert.ErrorIs(t, err, arrowbuf.ErrDevice)
		_, err = ndview.Take(a, integers(t, dev, ndview.Int64, one, one), 2, ndview.ModeRaise)
		assert.ErrorIs(t, err, ndview.ErrShape)
		empty := ndtest.FromHost(t, dev, ndview.Float32, []float32{}, 0, 3)
		_, err = ndview.Take(empty, integers(t, dev, ndview.Int64, one, one), 0, ndview.ModeClip)
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
		none := integers(t, dev, ndview.Int64, nil, []int64{0})
		got, err := ndview.Take(empty, none, 0, ndview.ModeRaise)
		ndtest.Own(t, got, err)
		assert.Equal(t, []int64{0, 3}, got.Shape())
	})
}

func TestPutMatchesNumPy(t *testing.T) {
	cases := golden(t, "put")
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for i, c := range cases {
			dtype := elementTypes[i%len(elementTypes)]
			a := goldenView(t, dev, dtype, int64(i%5/4), field[int64](t, c[0]), field[[]int64](t, c[1]), field[[]int64](t, c[2]))
			before := ndtest.Download(t, a.Buffer())
			indices := integers(t, dev, indexTypes[field[string](t, c[3])], field[[]int64](t, c[5]), field[[]int64](t, c[4]))
			var numbers []int64
			for k := range field[int64](t, c[6]) {
				numbers = append(numbers, 239-k)
			}
			values := ndtest.At(t, ndtest.Upload(t, dev, append(poisoned(i%7), patterns(dtype, numbers)...)), dtype, int64(i%7), int64(len(numbers)))
			err := ndview.Put(a, indices, values, modes[field[string](t, c[7])])
			after := ndtest.Download(t, a.Buffer())
			if len(c) == 8 {
				require.ErrorIs(t, err, arrowbuf.ErrOutOfRange, "case %d: %s", i, c)
				ndtest.RequireBytes(t, before, after, "case", i)
				continue
			}
			require.NoError(t, err, "case %d: %s", i, c)
			want := patterns(dtype, field[[]int64](t, c[8]))
			copy(before[i%5/4:], want)
			ndtest.RequireBytes(t, before, after, "case", i, c)
		}
	})
}

// A GPU writes values in no particular order, so repeated indices must be discarded.
func TestPutKeepsLastOfRepeatedValues(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		r := rand.New(rand.NewPCG(1, 4))
		for _, elements := range []int64{1000, 3 << 20} { // a table of all elements, and a hash table
			const n = 30_000
			indices, values, want := make([]int64, n), make([]uint32, n), make([]uint32, elements)
			for j := range indices {
				indices[j], values[j] = r.Int64N(elements), uint32(j+1)
				if j%2 == 0 {
					indices[j] = elements - 1 - r.Int64N(700)
				}
				want[indices[j]] = values[j]
			}
			a := ndtest.FromHost(t, dev, ndview.Uint32, make([]uint32, elements), elements)
			err := ndview.Put(a, ndtest.FromHost(t, dev, ndview.Int64, indices, n), ndtest.FromHost(t, dev, ndview.Uint32, values, n), ndview.ModeRaise)
			require.NoError(t, err)
			got := ndtest.Download(t, a.Buffer())
			for i, w := range want {
				require.Equal(t, w, binary.NativeEndian.Uint32(got[4*i:]), "element %d of %d", i, elements)
			}
		}
	})
}

// Lengths are around the sizes of the kernels' tiles. Indices may be negative or bad,
// and there are more values than indices.
func TestPutByBucketsKeepsLastValue(t *testing.T) {
	ndview.UseBuckets(t, 1000, 4096)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		r := rand.New(rand.NewPCG(2, 7))
		for _, n := range []int64{1000, 4095, 4096, 4097, 20_001} {
			extent := 1 + r.Int64N(4*n)
			indices, values, want := make([]int64, n), make([]uint64, n+3), make([]uint64, extent)
			for j := range values {
				values[j] = r.Uint64()
			}
			for j := range indices {
				indices[j] = r.Int64N(2*extent) - extent
				want[(indices[j]+extent)%extent] = values[j]
			}
			whole := ndtest.FromHost(t, dev, ndview.Uint64, values, n+3)
			halves, err := whole.View(ndview.Float32)
			ndtest.Own(t, halves, err)
			reversed, err := whole.Index(ndview.SpanStep(ndview.Open, ndview.Open, -1))
			ndtest.Own(t, reversed, err)
			by := ndtest.FromHost(t, dev, ndview.Int64, indices, n)
			a, b := ndtest.FromHost(t, dev, ndview.Uint64, make([]uint64, extent), extent), ndtest.FromHost(t, dev, ndview.Float32, make([]float32, extent), extent)
			require.NoError(t, ndview.Put(a, by, whole, ndview.ModeRaise))
			ndtest.RequireBytes(t, ndtest.Raw(want...), ndtest.Elements(t, a), n, extent)

			low := make([]byte, 0, 4*extent)
			last := make([]int64, extent)
			for j, i := range indices {
				last[(i+extent)%extent] = int64(j) + 1
			}
			for _, j := range last {
				word := uint32(0)
				if j > 0 {
					word = uint32(values[(j-1)/2] >> (32 * ((j - 1) % 2)))
				}
				low = append(low, ndtest.Raw(word)...)
			}
			require.NoError(t, ndview.Put(b, by, halves, ndview.ModeRaise))
			ndtest.RequireBytes(t, low, ndtest.Elements(t, b), n, extent, "halves")

			for i := range want {
				want[i] = 0
			}
			for j, i := range indices {
				want[(i+extent)%extent] = values[n+2-int64(j)]
			}
			require.NoError(t, a.Zero())
			require.NoError(t, ndview.Put(a, by, reversed, ndview.ModeRaise))
			ndtest.RequireBytes(t, ndtest.Raw(want...), ndtest.Elements(t, a), n, extent, "reversed")

			indices[n-1] = extent
			require.ErrorIs(t, ndview.Put(a, ndtest.FromHost(t, dev, ndview.Int64, indices, n), whole, ndview.ModeRaise), arrowbuf.ErrOutOfRange)
			ndtest.RequireBytes(t, ndtest.Raw(want...), ndtest.Elements(t, a), n, extent, "a bad index must prevent all writes")
		}
	})
}

func TestPutOfInvalidArgumentsIsError(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.FromHost(t, dev, ndview.Float32, make([]float32, 6), 2, 3)
		index := ndtest.FromHost(t, dev, ndview.Int64, []int64{1}, 1)
		double := ndtest.FromHost(t, dev, ndview.Float64, []float64{1}, 1)
		assert.ErrorIs(t, ndview.Put(a, double, a, ndview.ModeRaise), ndview.ErrDType)
		assert.ErrorIs(t, ndview.Put(a, index, "1", ndview.ModeRaise), ndview.ErrDType)
		assert.ErrorIs(t, ndview.Put(a, index, nil, ndview.ModeRaise), ndview.ErrDType)
		assert.ErrorIs(t, ndview.Put(a, index, 1, ndview.Mode(9)), ndview.ErrShape)
		_, err := ndview.Take(a, index, 0, ndview.Mode(9))
		assert.ErrorIs(t, err, ndview.ErrShape)
		_, err = a.AsType(ndview.Int8, ndview.OrderC, ndview.Casting(200))
		assert.ErrorIs(t, err, ndview.ErrDType)
		elsewhere := ndtest.FromHost(t, ndtest.OtherThan(t, dev), ndview.Int64, []int64{1}, 1)
		assert.ErrorIs(t, ndview.Put(a, elsewhere, a, ndview.ModeRaise), arrowbuf.ErrDevice)
		none := ndtest.FromHost(t, dev, ndview.Float32, []float32{}, 0)
		assert.ErrorIs(t, ndview.Put(none, index, a, ndview.ModeWrap), arrowbuf.ErrOutOfRange)
	})
}

func TestPutReadsValuesBeforeWriting(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.FromHost(t, dev, ndview.Int32, count(6), 6)
		back, err := a.Index(ndview.SpanStep(ndview.Open, ndview.Open, -1))
		ndtest.Own(t, back, err)
		indices := ndtest.FromHost(t, dev, ndview.Int64, []int64{0, 1, 2, 3, 4, 5}, 6)
		require.NoError(t, ndview.Put(a, indices, back, ndview.ModeRaise))
		assert.Equal(t, ndtest.Raw[int32](5, 4, 3, 2, 1, 0), ndtest.Elements(t, a))
		fixed, err := a.BroadcastTo(2, 6)
		ndtest.Own(t, fixed, err)
		assert.ErrorIs(t, ndview.Put(fixed, indices, a, ndview.ModeRaise), ndview.ErrReadOnly)
	})
}

func TestPutConvertsValuesAsAssign(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.FromHost(t, dev, ndview.Int16, make([]int16, 5), 5)
		indices := ndtest.FromHost(t, dev, ndview.Uint8, []uint8{4, 0, 2}, 3)
		require.NoError(t, ndview.Put(a, indices, 7, ndview.ModeRaise))
		assert.Equal(t, ndtest.Raw[int16](7, 0, 7, 0, 7), ndtest.Elements(t, a))
		require.NoError(t, ndview.Put(a, indices, []float32{1.5, -2.5}, ndview.ModeRaise))
		assert.Equal(t, ndtest.Raw[int16](-2, 0, 1, 0, 1), ndtest.Elements(t, a))
		elsewhere := ndtest.FromHost(t, ndtest.OtherThan(t, dev), ndview.Float64, []float64{9, 8, 7}, 3)
		require.NoError(t, ndview.Put(a, indices, elsewhere, ndview.ModeRaise))
		assert.Equal(t, ndtest.Raw[int16](8, 0, 7, 0, 9), ndtest.Elements(t, a))
	})
}

// Each driver call that copies data or launches fails once. The simulated device
// reports memory that is not released afterwards.
func TestFailedIndexingLeaksNothing(t *testing.T) {
	var left atomic.Int64
	driver := cudatest.Start(t, cudatest.Config{Fail: func(call string, _ int) cudabuf.Result {
		fallible := []string{"cuLaunchKernel", "cuMemsetD8Async", "cuMemAlloc", "cuMemcpyDtoHAsync", "cuMemcpyHtoDAsync", "cuMemcpyDtoDAsync"}
		if slices.Contains(fallible, call) && left.Add(-1) == 0 {
			return cudatest.OutOfMemory
		}
		return 0
	}})
	dev, err := driver.Device(0)
	require.NoError(t, err)
	a := ndtest.FromHost(t, dev, ndview.Float32, make([]float32, 24), 2, 3, 4)
	one := ndtest.FromHost(t, dev, ndview.Float32, make([]float32, 1))
	row := ndtest.FromHost(t, dev, ndview.Float32, make([]float32, 4), 4)
	mask := maskOf(t, dev, []int64{1, 0, 1, 1, 0, 0}, 0, 2, 3)
	all := maskOf(t, dev, make([]int64, 24), 0, 2, 3, 4)
	four := maskOf(t, dev, []int64{1, 0, 1, 1}, 0, 4)
	wide, short := integers(t, dev, ndview.Int64, []int64{1, 0, 1}, []int64{3}), integers(t, dev, ndview.Int8, []int64{1, 0, 1}, []int64{3})
	transposed, err := a.Transpose()
	ndtest.Own(t, transposed, err)
	release := func(out *ndview.NDBuffer, err error) error {
		if err == nil {
			out.Release()
		}
		return err
	}
	for name, call := range map[string]func() error{
		"Take":        func() error { return release(ndview.Take(a, wide, 1, ndview.ModeRaise)) },
		"Take int8":   func() error { return release(ndview.Take(a, short, 1, ndview.ModeWrap)) },
		"TakeFlat":    func() error { return release(ndview.TakeFlat(transposed, wide, ndview.ModeRaise)) },
		"Put":         func() error { return ndview.Put(a, wide, row, ndview.ModeRaise) },
		"Put strided": func() error { return ndview.Put(transposed, wide, row, ndview.ModeRaise) },
		"Get indices": func() error { return release(a.Get(ndview.IntArray(wide), ndview.All, ndview.Ints(0, 1, 2))) },
		"Set indices": func() error { return a.Set(row, ndview.IntArray(wide), ndview.Ints(0, 1, 2)) },
		"Get mask":    func() error { return release(transposed.Get(ndview.Mask(four), ndview.At(0))) },
		"Get rows":    func() error { return release(a.Get(ndview.Mask(mask))) },
		"Get compact": func() error { return release(a.Get(ndview.Mask(all))) },
		"Set rows":    func() error { return a.Set(row, ndview.Mask(mask)) },
		"Set expand":  func() error { return row.Set(one, ndview.Mask(four)) },
		"Compress":    func() error { return release(ndview.Compress(four, a, 2)) },
		"ArgWhere":    func() error { return release(ndview.ArgWhere(mask)) },
		"Concatenate": func() error { return release(ndview.Concatenate([]*ndview.NDBuffer{transposed, transposed}, 1)) },
		"DStack":      func() error { return release(ndview.DStack([]*ndview.NDBuffer{a, a})) },
	} {
		t.Run(name, func(t *testing.T) {
			for n := int64(1); ; n++ {
				left.Store(n)
				err := call()
				if left.Swap(0) > 0 {
					assert.NoError(t, err)
					assert.Greater(t, n, int64(1), "no call failed")
					return
				}
				require.ErrorIs(t, err, arrowbuf.ErrOutOfMemory, "call %d", n)
			}
		})
	}
}

// Arrays, results and masks have more than 2^32 elements; some that matter are at the
// end.
func TestIndexingReachesBeyond32Bits(t *testing.T) {
	const n = ndtest.HugeExtent
	ndtest.OnHuge(t, 9, func(t *testing.T, dev arrowbuf.Device) {
		a, err := ndview.Zeros(dev, ndview.Uint8, n)
		ndtest.Own(t, a, err)
		mark := ndtest.FromHost(t, dev, ndview.Uint8, []uint8{7, 9}, 2)
		indices := ndtest.FromHost(t, dev, ndview.Int64, []int64{1 << 32, -1}, 2)
		require.NoError(t, ndview.Put(a, indices, mark, ndview.ModeRaise))
		end := ndtest.At(t, a.Buffer(), ndview.Uint8, n-3, 3)
		assert.Equal(t, []byte{0, 0, 9}, ndtest.Elements(t, end))

		got, err := ndview.Take(a, indices, 0, ndview.ModeRaise)
		ndtest.Own(t, got, err)
		assert.Equal(t, []byte{7, 9}, ndtest.Elements(t, got))

		mask, err := a.View(ndview.Bool)
		ndtest.Own(t, mask, err)
		where, err := ndview.ArgWhere(mask)
		ndtest.Own(t, where, err)
		assert.Equal(t, ndtest.Raw[int64](1<<32, n-1), ndtest.Elements(t, where))
		some, err := a.Get(ndview.Mask(mask))
		ndtest.Own(t, some, err)
		assert.Equal(t, []byte{7, 9}, ndtest.Elements(t, some))

		last := ndtest.FromHost(t, dev, ndview.Int64, []int64{n - 1}, 1)
		repeated, err := last.BroadcastTo(n)
		ndtest.Own(t, repeated, err)
		long, err := ndview.Take(a, repeated, 0, ndview.ModeRaise)
		ndtest.Own(t, long, err)
		for _, at32 := range []int64{0, 1<<31 - 2, 1<<32 - 2, n - 4} {
			part, err := long.Slice(0, at32, at32+4)
			ndtest.Own(t, part, err)
			assert.Equal(t, []byte{9, 9, 9, 9}, ndtest.Elements(t, part), "from %d", at32)
		}
	})
}

func TestCompressMatchesNumPy(t *testing.T) {
	cases := golden2(t, "nonzero")[1]
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for i, c := range cases {
			dtype := elementTypes[i%len(elementTypes)]
			a := goldenView(t, dev, dtype, 0, field[int64](t, c[0]), field[[]int64](t, c[1]), field[[]int64](t, c[2]))
			values := field[[]int64](t, c[3])
			condition := maskOf(t, dev, values, i%2, int64(len(values)))
			var got *ndview.NDBuffer
			var err error
			if axis := field[*int](t, c[4]); axis != nil {
				got, err = ndview.Compress(condition, a, *axis)
			} else {
				got, err = ndview.CompressFlat(condition, a)
			}
			if len(c) == 5 {
				require.ErrorIs(t, err, arrowbuf.ErrOutOfRange, "case %d: %s", i, c)
				continue
			}
			ndtest.Own(t, got, err)
			ndtest.RequireBytes(t, patterns(dtype, field[[]int64](t, c[5])), ndtest.Elements(t, got), "case", i, c)
		}
	})
}

func TestTakeTreatsScalarsAsOneElement(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		five := ndtest.FromHost(t, dev, ndview.Int16, []int16{5})
		taken, err := ndview.Take(five, ndtest.FromHost(t, dev, ndview.Int64, []int64{0, -1, 0, 0}, 2, 2), -1, ndview.ModeRaise)
		ndtest.Own(t, taken, err)
		assert.Equal(t, []int64{2, 2}, taken.Shape())
		assert.Equal(t, ndtest.Raw[int16](5, 5, 5, 5), ndtest.Elements(t, taken))
		kept, err := ndview.Compress(ndtest.FromHost(t, dev, ndview.Bool, []bool{true}, 1), five, 0)
		ndtest.Own(t, kept, err)
		assert.Equal(t, []int64{1}, kept.Shape())
		_, err = ndview.Take(five, ndtest.FromHost(t, dev, ndview.Int64, []int64{1}, 1), 0, ndview.ModeRaise)
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
	})
}
