package ndview_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// golden reads the cases of testdata/golden/NAME.json, which are arrays in JSON.
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

// field is a part of a case.
func field[T any](t *testing.T, raw json.RawMessage) (v T) {
	t.Helper()
	require.NoError(t, json.Unmarshal(raw, &v))
	return v
}

// patterns are n elements 0, 1, 2, ... of a dtype, in which every byte tells
// which element it is of, and which of its bytes.
func patterns(dtype ndview.DType, elements []int64) []byte {
	var raw []byte
	for _, e := range elements {
		for b := range dtype.Size() {
			raw = append(raw, byte(e+17*b))
		}
	}
	return raw
}

func upTo(n int64) []int64 {
	all := make([]int64, n)
	for i := range all {
		all[i] = int64(i)
	}
	return all
}

// goldenView is a view of elements 0, 1, 2, ... by an offset, a shape and strides
// in elements, somewhere in a buffer.
func goldenView(t *testing.T, dev arrowbuf.Device, dtype ndview.DType, skip int64, offset int64, shape, strides []int64) *ndview.NDBuffer {
	t.Helper()
	size := dtype.Size()
	buf := upload(t, dev, append(poisoned(int(skip)), patterns(dtype, upTo(240))...))
	bytes := make([]int64, len(strides))
	for i, s := range strides {
		bytes[i] = s * size
	}
	a, err := ndview.FromBuffer(buf, dtype, skip+offset*size, shape, bytes)
	return own(t, a, err)
}

// integers uploads indices as a dtype.
func integers(t *testing.T, dev arrowbuf.Device, dtype ndview.DType, values []int64, shape []int64) *ndview.NDBuffer {
	t.Helper()
	var raw []byte
	for _, v := range values {
		for b := range dtype.Size() {
			raw = append(raw, byte(v>>(8*b)))
		}
	}
	a, err := ndview.Empty(dev, dtype, shape...)
	own(t, a, err)
	require.NoError(t, a.CopyFromHost(raw))
	return a
}

var indexTypes = map[string]ndview.DType{
	"int8": ndview.Int8, "int16": ndview.Int16, "int32": ndview.Int32, "int64": ndview.Int64,
	"uint8": ndview.Uint8, "uint16": ndview.Uint16, "uint32": ndview.Uint32, "uint64": ndview.Uint64,
}

var modes = map[string]ndview.Mode{"raise": ndview.ModeRaise, "wrap": ndview.ModeWrap, "clip": ndview.ModeClip}

// elementTypes have sizes that are units of kernels, and others.
var elementTypes = []ndview.DType{
	ndview.Int8, ndview.Float16, ndview.Float32, ndview.Int64, ndview.Complex128,
	ndview.Bytes(3), ndview.Bytes(12), ndview.Bytes(40),
}

func TestTakeIsNumPys(t *testing.T) {
	cases := golden(t, "take")
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
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
			own(t, got, err)
			requireBytes(t, patterns(dtype, field[[]int64](t, c[8])), elements(t, got), "case", i, c)
			if axis != nil {
				at := (*axis + a.NDim()) % a.NDim()
				want := append(append(append([]int64{}, a.Shape()[:at]...), indices.Shape()...), a.Shape()[at+1:]...)
				require.Equal(t, want, append([]int64{}, got.Shape()...), "case %d: %s", i, c)
			}
		}
	})
}

// As for results of more elements than a launch counts.
func TestTakeInManyLaunchesIsNumPys(t *testing.T) {
	ndview.CutWalks(t, 3)
	TestTakeIsNumPys(t)
	TestTakeNamesTheFirstBadIndex(t)
}

// The ways of bucket.cu: lengths around the tiles' edges, negative indices, and bad
// ones.
func TestTakeByBucketsIsTake(t *testing.T) {
	ndview.UseBuckets(t, 1000, 4096)
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		r := rand.New(rand.NewPCG(4, 4))
		for _, n := range []int64{1000, 4095, 8191, 8193, 50_001} {
			extent := 1 + r.Int64N(100_000)
			values, indices, want := make([]uint64, extent), make([]int64, n), []byte(nil)
			for i := range values {
				values[i] = r.Uint64()
			}
			for j := range indices {
				indices[j] = r.Int64N(2*extent) - extent
				want = append(want, raw(values[(indices[j]+extent)%extent])...)
			}
			a := fromHost(t, dev, ndview.Uint64, values, extent)
			halves, err := a.View(ndview.Uint32)
			own(t, halves, err)
			pairs, err := halves.Reshape(extent, 2)
			own(t, pairs, err)
			low, err := pairs.Index(ndview.All, ndview.At(0))
			own(t, low, err)
			gapless, err := low.Get()
			own(t, gapless, err)
			for _, dtype := range []ndview.DType{ndview.Int32, ndview.Int64} {
				by := integers(t, dev, dtype, indices, []int64{n})
				got, err := ndview.Take(a, by, 0, ndview.ModeRaise)
				own(t, got, err)
				requireBytes(t, want, elements(t, got), n, extent, dtype)
				got, err = ndview.Take(gapless, by, 0, ndview.ModeRaise)
				own(t, got, err)
				var low []byte
				for j := range n {
					low = append(low, want[8*j:8*j+4]...)
				}
				requireBytes(t, low, elements(t, got), n, extent, dtype)
			}
			indices[n-1], indices[n/2] = extent, -extent-1
			_, err = ndview.Take(a, integers(t, dev, ndview.Int64, indices, []int64{n}), 0, ndview.ModeRaise)
			require.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
			require.ErrorContains(t, err, fmt.Sprintf("index %d is outside", -extent-1))
		}
	})
}

func TestTakeNamesTheFirstBadIndex(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		a := fromHost(t, dev, ndview.Float32, make([]float32, 7*5), 7, 5)
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

func TestTakeRefusesWhatIsNoIndex(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		a := fromHost(t, dev, ndview.Float32, make([]float32, 6), 2, 3)
		_, err := ndview.Take(a, a, 0, ndview.ModeRaise)
		assert.ErrorIs(t, err, ndview.ErrDType)
		one := []int64{1}
		_, err = ndview.Take(a, integers(t, otherThan(t, dev), ndview.Int64, one, one), 0, ndview.ModeRaise)
		assert.ErrorIs(t, err, arrowbuf.ErrDevice)
		_, err = ndview.Take(a, integers(t, dev, ndview.Int64, one, one), 2, ndview.ModeRaise)
		assert.ErrorIs(t, err, ndview.ErrShape)
		empty := fromHost(t, dev, ndview.Float32, []float32{}, 0, 3)
		_, err = ndview.Take(empty, integers(t, dev, ndview.Int64, one, one), 0, ndview.ModeClip)
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
		none := integers(t, dev, ndview.Int64, nil, []int64{0})
		got, err := ndview.Take(empty, none, 0, ndview.ModeRaise)
		own(t, got, err)
		assert.Equal(t, []int64{0, 3}, got.Shape())
	})
}
