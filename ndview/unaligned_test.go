package ndview_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
	"github.com/stretchr/testify/require"
)

// stridedArray is an array of any layout: at any byte, with gaps between elements and
// rows, reversed or not, with the axes in any order.
type stridedArray struct {
	dtype          ndview.DType
	offset         int64
	shape, strides []int64
	memory         []byte
}

// newStridedArray returns a random layout with random small numbers.
func newStridedArray(t *testing.T, r *rand.Rand, dtype ndview.DType, shape ...int64) stridedArray {
	t.Helper()
	l := stridedArray{dtype: dtype, shape: shape, strides: make([]int64, len(shape))}
	gaps := []int64{0, 0, 0, 1, 2, 3, dtype.Size(), 16 - dtype.Size()%16}
	order := r.Perm(len(shape))
	if r.IntN(2) == 0 { // C order
		for i := range order {
			order[i] = len(shape) - 1 - i
		}
	}
	step, contiguous := dtype.Size(), r.IntN(3) == 0
	first := int64(0)
	for _, axis := range order {
		if !contiguous {
			step += gaps[r.IntN(len(gaps))]
		}
		l.strides[axis] = step
		if !contiguous && r.IntN(4) == 0 {
			l.strides[axis] = -step
			first += (shape[axis] - 1) * step
		}
		step *= shape[axis]
	}
	before := r.Int64N(17)
	l.offset = before + first
	l.memory = make([]byte, before+step+16)
	for i := range l.memory {
		l.memory[i] = poison
	}
	// Small numbers fit every type, and their sums are exact.
	numbers := make([]byte, product(shape)*dtype.Size())
	for i := range numbers {
		numbers[i] = byte(r.IntN(4))
	}
	a := l.array(t, arrowbuf.CPU())
	if dtype.Kind() == ndview.KindBytes || dtype.Kind() == ndview.KindRecord {
		require.NoError(t, a.CopyFrom(ndtest.At(t, ndtest.Upload(t, arrowbuf.CPU(), numbers), dtype, 0, shape...)))
	} else {
		require.NoError(t, a.Assign(ndtest.At(t, ndtest.Upload(t, arrowbuf.CPU(), numbers), ndview.Int8, 0, shape...)))
	}
	l.memory = ndtest.Download(t, a.Buffer())
	return l
}

func (l stridedArray) array(t *testing.T, dev arrowbuf.Device) *ndview.NDBuffer {
	t.Helper()
	a, err := ndview.FromBuffer(ndtest.Upload(t, dev, l.memory), l.dtype, l.offset, l.shape, l.strides)
	return ndtest.Own(t, a, err)
}

// kernelCase is an operation on arrays of two axes: x and y of one type, a mask,
// indices of the first rows, and out, of the type of the result.
type kernelCase struct {
	result  ndview.DType // zero for that of x
	dropped []int        // the axes that out lacks
	run     func(out, x, y, mask, indices *ndview.NDBuffer) (*ndview.NDBuffer, error)
}

// writesOut returns the case of an operation that writes out.
func writesOut(do func(out, x, y *ndview.NDBuffer) error) kernelCase {
	return kernelCase{run: func(out, x, y, _, _ *ndview.NDBuffer) (*ndview.NDBuffer, error) { return nil, do(out, x, y) }}
}

// reducesAxis returns the case of a reduction of one axis.
func reducesAxis(r ndview.Reduction, result ndview.DType, axis int) kernelCase {
	return kernelCase{result: result, dropped: []int{axis}, run: func(out, x, _, _, _ *ndview.NDBuffer) (*ndview.NDBuffer, error) {
		return nil, r.Into(out, x, ndview.ReduceOptions{Axes: []int{axis}})
	}}
}

var kernelCases = map[string]kernelCase{
	"copy":   writesOut(func(out, x, _ *ndview.NDBuffer) error { return out.CopyFrom(x) }),
	"add":    writesOut(func(out, x, y *ndview.NDBuffer) error { return ndview.Add.Into(out, x, y) }),
	"add 1":  writesOut(func(out, x, _ *ndview.NDBuffer) error { return ndview.Add.Into(out, x, 1) }),
	"square": writesOut(func(out, x, _ *ndview.NDBuffer) error { return ndview.Square.Into(out, x) }),
	"power":  writesOut(func(out, x, y *ndview.NDBuffer) error { return ndview.Power.Into(out, x, y) }), // divide would make NaNs, whose bits are unspecified
	"fill":   writesOut(func(out, _, _ *ndview.NDBuffer) error { return out.Fill(3) }),
	"swap":   writesOut(func(out, _, _ *ndview.NDBuffer) error { return out.ByteSwap() }),
	"less": {result: ndview.Bool, run: func(out, x, y, _, _ *ndview.NDBuffer) (*ndview.NDBuffer, error) {
		return nil, ndview.Less.Into(out, x, y)
	}},
	"where": {run: func(out, x, y, mask, _ *ndview.NDBuffer) (*ndview.NDBuffer, error) {
		return nil, ndview.WhereInto(out, mask, x, y)
	}},
	"clip": writesOut(func(out, x, y *ndview.NDBuffer) error { return ndview.ClipInto(out, x, 1, y) }),
	"tril": writesOut(func(out, _, _ *ndview.NDBuffer) error { return out.TrilInPlace(0) }),
	"put": {run: func(out, x, _, _, indices *ndview.NDBuffer) (*ndview.NDBuffer, error) {
		return nil, ndview.Put(out, indices, x, ndview.ModeRaise)
	}},
	"take": {run: func(_, x, _, _, indices *ndview.NDBuffer) (*ndview.NDBuffer, error) {
		return ndview.Take(x, indices, 0, ndview.ModeRaise)
	}},
	"take clipped": {run: func(_, x, _, _, indices *ndview.NDBuffer) (*ndview.NDBuffer, error) {
		return ndview.Take(x, indices, 1, ndview.ModeClip)
	}},
	"get masked": {run: func(_, x, _, mask, _ *ndview.NDBuffer) (*ndview.NDBuffer, error) { return x.Get(ndview.Mask(mask)) }},
	"set masked": {run: func(out, x, _, mask, _ *ndview.NDBuffer) (*ndview.NDBuffer, error) {
		one, err := x.Index(ndview.At(0), ndview.At(0))
		if err != nil {
			return nil, err
		}
		defer one.Release()
		return nil, out.Set(one, ndview.Mask(mask))
	}},
	"set at": {run: func(out, x, _, _, indices *ndview.NDBuffer) (*ndview.NDBuffer, error) {
		some, err := ndview.Take(x, indices, 0, ndview.ModeRaise)
		if err != nil {
			return nil, err
		}
		defer some.Release()
		return nil, out.Set(some, ndview.IntArray(indices))
	}},
	"nonzero": {run: func(_, x, _, _, _ *ndview.NDBuffer) (*ndview.NDBuffer, error) { return ndview.ArgWhere(x) }},
	"concatenate": {run: func(_, x, y, _, _ *ndview.NDBuffer) (*ndview.NDBuffer, error) {
		return ndview.Concatenate([]*ndview.NDBuffer{x, y}, 1)
	}},
	"equal": {run: func(_, x, y, _, _ *ndview.NDBuffer) (*ndview.NDBuffer, error) {
		same, err := x.Equal(y)
		if err != nil {
			return nil, err
		}
		itself, err := x.AllEqual(x, true)
		if err != nil {
			return nil, err
		}
		ones, err := x.AllEqual(y, false)
		if err != nil {
			return nil, err
		}
		return ndview.FromHost(x.Device(), ndview.Bool, []bool{same, itself, ones}, 3)
	}},
	"sum rows":          reducesAxis(ndview.Sum, ndview.DType{}, 1),
	"sum columns":       reducesAxis(ndview.Sum, ndview.DType{}, 0),
	"max rows":          reducesAxis(ndview.Max, ndview.DType{}, 1),
	"max columns":       reducesAxis(ndview.Max, ndview.DType{}, 0),
	"argmax of rows":    reducesAxis(ndview.ArgMax, ndview.Int64, 1),
	"argmax of columns": reducesAxis(ndview.ArgMax, ndview.Int64, 0),
	"count rows":        reducesAxis(ndview.CountNonzero, ndview.Int64, 1),
	"count columns":     reducesAxis(ndview.CountNonzero, ndview.Int64, 0),
	"any":               reducesAxis(ndview.AnyTrue, ndview.Bool, 0),
}

func init() {
	for _, to := range []ndview.DType{ndview.Bool, ndview.Int8, ndview.Float16, ndview.Int32, ndview.Float64, ndview.Complex128, ndview.Timedelta64(ndview.Microsecond, 1)} {
		kernelCases["cast to "+to.String()] = kernelCase{result: to, run: func(out, x, _, _, _ *ndview.NDBuffer) (*ndview.NDBuffer, error) {
			return nil, out.Assign(x)
		}}
		kernelCases["compare with "+to.String()] = kernelCase{result: to, run: func(out, x, _, _, _ *ndview.NDBuffer) (*ndview.NDBuffer, error) {
			if err := out.Assign(x); err != nil {
				return nil, err
			}
			same, err := out.AllEqual(x, false)
			if err != nil {
				return nil, err
			}
			return ndview.FromHost(x.Device(), ndview.Bool, []bool{same}, 1)
		}}
	}
}

// TestKernelsAcceptUnalignedArrays compares a GPU with the CPU on arrays that begin at
// any byte. A kernel that accesses an unaligned vector would fail, and make the
// context unusable.
func TestKernelsAcceptUnalignedArrays(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	packed, err := ndview.Record(29, ndview.Field{Name: "a", DType: ndview.Int8}, ndview.Field{Name: "b", DType: ndview.Float32, Offset: 1},
		ndview.Field{Name: "c", DType: ndview.Complex128, Offset: 5}, ndview.Field{Name: "d", DType: ndview.Int64, Offset: 21})
	require.NoError(t, err)
	dtypes := []ndview.DType{ndview.Int8, ndview.Uint16, ndview.Float16, ndview.Float32, ndview.Int64, ndview.Float64, ndview.Complex64, ndview.Complex128,
		seconds, ndview.Timedelta64(ndview.Millisecond, 1), ndview.Bytes(3), ndview.Bytes(6), ndview.Bytes(12), ndview.Bytes(16), ndview.Bytes(24), packed}
	extents := []int64{1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 33, 48, 64, 65, 128, 300, 1024}
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		for name, work := range kernelCases {
			t.Run(name, func(t *testing.T) {
				for seed := range uint64(60) {
					r := rand.New(rand.NewPCG(seed, 17))
					dtype := dtypes[r.IntN(len(dtypes))]
					rows, columns := extents[r.IntN(len(extents))], extents[r.IntN(len(extents))]
					if rows*columns > 20000 {
						rows = 3
					}
					result, shape := work.result, []int64{rows, columns}
					if result == (ndview.DType{}) {
						result = dtype
					}
					for _, axis := range work.dropped {
						shape = slices.Delete(shape, axis, axis+1)
					}
					arrays := []stridedArray{
						newStridedArray(t, r, result, shape...), newStridedArray(t, r, dtype, rows, columns), newStridedArray(t, r, dtype, rows, columns),
						newStridedArray(t, r, ndview.Bool, rows, columns),
						newStridedArray(t, r, []ndview.DType{ndview.Int32, ndview.Int64, ndview.Uint8}[r.IntN(3)], min(rows, 4)),
					}
					about := fmt.Sprintf("seed %d", seed)
					for _, a := range arrays {
						about += fmt.Sprintf(", %s %v %v at %d", a.dtype, a.shape, a.strides, a.offset)
					}
					run := func(dev arrowbuf.Device) (whole, made []byte, err error) {
						var on [5]*ndview.NDBuffer
						for i, a := range arrays {
							on[i] = a.array(t, dev)
						}
						got, err := work.run(on[0], on[1], on[2], on[3], on[4])
						if err == nil && got != nil {
							made = ndtest.Elements(t, ndtest.Own(t, got, nil))
						}
						return ndtest.Download(t, on[0].Buffer()), made, err
					}
					wantWhole, want, wantErr := run(arrowbuf.CPU())
					gotWhole, got, err := run(dev)
					require.Equal(t, wantErr == nil, err == nil, "%v: %s", err, about)
					ndtest.RequireBytes(t, wantWhole, gotWhole, about)
					require.Equal(t, want, got, about)
				}
			})
		}
	})
}

// TestBucketKernelsAcceptUnalignedArrays covers the kernels that sort indices into
// buckets, with indices and elements at any byte.
func TestBucketKernelsAcceptUnalignedArrays(t *testing.T) {
	ndview.UseBuckets(t, 1000, 4096)
	const n, extent = 2000, 9000
	r := rand.New(rand.NewPCG(5, 16))
	data, places := randomBytes(r, 8*extent+17), make([]int64, n)
	for i := range places {
		places[i] = r.Int64N(extent)
	}
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		for _, dtype := range []ndview.DType{ndview.Uint32, ndview.Uint64} {
			for at := range int64(17) {
				results := [2][]byte{}
				for i, dev := range []arrowbuf.Device{arrowbuf.CPU(), dev} {
					shown := func(dtype ndview.DType, data []byte, offset, n int64) *ndview.NDBuffer {
						a, err := ndview.FromBuffer(ndtest.Upload(t, dev, data), dtype, offset, []int64{n}, nil)
						return ndtest.Own(t, a, err)
					}
					source := shown(dtype, data, at, extent)
					for _, behind := range []int64{0, at} {
						by := shown(ndview.Int64, slices.Concat(make([]byte, behind), ndtest.Raw(places...)), behind, n)
						got, err := ndview.Take(source, by, 0, ndview.ModeRaise)
						results[i] = append(results[i], ndtest.Elements(t, ndtest.Own(t, got, err))...)
						for _, values := range []*ndview.NDBuffer{got, shown(dtype, data, 16-at, n)} {
							require.NoError(t, ndview.Put(source, by, values, ndview.ModeRaise))
							results[i] = append(results[i], ndtest.Download(t, source.Buffer())...)
						}
					}
				}
				ndtest.RequireBytes(t, results[0], results[1], dtype, at)
			}
		}
	})
}
