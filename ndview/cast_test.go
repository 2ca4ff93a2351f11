package ndview_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"hash/crc32"
	"math"
	"os"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// castTypes are the dtypes that cast to each other.
var castTypes = []ndview.DType{
	ndview.Bool, ndview.Int8, ndview.Uint8, ndview.Int16, ndview.Uint16, ndview.Int32, ndview.Uint32, ndview.Int64, ndview.Uint64,
	ndview.Float16, ndview.BFloat16, ndview.Float32, ndview.Float64, ndview.Complex64, ndview.Complex128,
}

// goldenCasts returns values of each type, and NumPy's casts of them to each type.
func goldenCasts(t *testing.T) (values map[string][]byte, casts map[string][]byte) {
	t.Helper()
	data, err := os.ReadFile("testdata/golden/cast.json")
	require.NoError(t, err)
	var golden struct{ Values, Casts map[string]string }
	require.NoError(t, json.Unmarshal(data, &golden))
	decode := func(texts map[string]string) map[string][]byte {
		raw := map[string][]byte{}
		for name, text := range texts {
			raw[name], err = hex.DecodeString(text)
			require.NoError(t, err)
		}
		return raw
	}
	return decode(golden.Values), decode(golden.Casts)
}

// unifyNaNs replaces every NaN by the same bits, because the bits of a cast's NaN are
// unspecified.
func unifyNaNs(dtype ndview.DType, raw []byte) []byte {
	size := int(dtype.Size())
	var mantissa int
	switch dtype {
	case ndview.Float16:
		mantissa = 10
	case ndview.BFloat16:
		mantissa = 7
	case ndview.Float32, ndview.Complex64:
		size, mantissa = 4, 23
	case ndview.Float64, ndview.Complex128:
		size, mantissa = 8, 52
	default:
		return raw
	}
	out := append([]byte(nil), raw...)
	for i := 0; i < len(out); i += size {
		var bits uint64
		for b := range size {
			bits |= uint64(out[i+b]) << (8 * b)
		}
		magnitude := bits << (65 - 8*size)
		if infinity := uint64(math.MaxUint64) << (65 - 8*size + mantissa); magnitude > infinity {
			for b := range size {
				out[i+b] = 0xff
			}
		}
	}
	return out
}

func TestAsTypeMatchesNumPyForAllPairs(t *testing.T) {
	values, casts := goldenCasts(t)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, from := range castTypes {
			raw := values[from.String()]
			count := int64(len(raw)) / from.Size()
			src := ndtest.Upload(t, dev, raw)
			a := ndtest.At(t, src, from, 0, count)
			for _, to := range castTypes {
				got, err := a.AsType(to, ndview.OrderK, ndview.CastUnsafe)
				ndtest.Own(t, got, err)
				require.Equal(t, to, got.DType())
				want := casts[from.String()+" "+to.String()]
				ndtest.RequireBytes(t, unifyNaNs(to, want), unifyNaNs(to, ndtest.Elements(t, got)), from, to)
			}
		}
	})
}

func TestAsTypeUsesRequestedOrder(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.FromHost(t, dev, ndview.Int16, []int16{1, 2, 3, 4, 5, 6}, 2, 3)
		transposed, err := a.Transpose()
		ndtest.Own(t, transposed, err)
		for order, want := range map[ndview.Order][]int64{
			ndview.OrderC: {16, 8}, ndview.OrderF: {8, 24}, ndview.OrderA: {8, 24}, ndview.OrderK: {8, 24},
		} {
			c, err := transposed.AsType(ndview.Float64, order, ndview.CastSafe)
			ndtest.Own(t, c, err)
			assert.Equal(t, want, c.Strides(), "%c", order)
			assert.Equal(t, ndtest.Raw[float64](1, 4, 2, 5, 3, 6), ndtest.Elements(t, c))
		}
		same, err := a.AsType(ndview.Int16, ndview.OrderK, ndview.CastNo)
		ndtest.Own(t, same, err)
		assert.False(t, ndview.MayShareMemory(a, same), "always a copy")
		row, err := index(t, a, ndview.At(0)).BroadcastTo(4, 3)
		ndtest.Own(t, row, err)
		c, err := row.AsType(ndview.Uint8, ndview.OrderC, ndview.CastUnsafe)
		ndtest.Own(t, c, err)
		assert.Equal(t, ndtest.Raw[uint8](1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3), ndtest.Elements(t, c))
	})
}

func TestAsTypeRefusesForbiddenCasts(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := ndtest.FromHost(t, dev, ndview.Float64, []float64{1}, 1)
		for _, tt := range []struct {
			to   ndview.DType
			rule ndview.Casting
		}{
			{ndview.Float32, ndview.CastSafe}, {ndview.Int64, ndview.CastSameKind}, {ndview.Complex128, ndview.CastEquiv},
			{ndview.Bytes(8), ndview.CastUnsafe},
		} {
			_, err := a.AsType(tt.to, ndview.OrderC, tt.rule)
			assert.ErrorIs(t, err, ndview.ErrDType, "%s by %s", tt.to, tt.rule)
		}
		_, err := a.AsType(ndview.Int8, 'X', ndview.CastUnsafe)
		assert.ErrorIs(t, err, ndview.ErrShape)
		half := empty(t, dev, ndview.BFloat16, 1)
		_, err = half.AsType(ndview.Datetime64(ndview.Second, 1), ndview.OrderC, ndview.CastUnsafe)
		assert.ErrorIs(t, err, ndview.ErrDType)
	})
}

// TestBytesAndRecordsCastOnlyToThemselves includes bytes of the size of a number.
func TestBytesAndRecordsCastOnlyToThemselves(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, dtype := range []ndview.DType{ndview.Bytes(4), ndview.Bytes(3), numpyType(t, `[["a","<i4"]]`)} {
			a, err := ndview.Empty(dev, dtype, 2)
			ndtest.Own(t, a, err)
			same, err := a.AsType(dtype, ndview.OrderC, ndview.CastUnsafe)
			ndtest.Own(t, same, err)
			for _, to := range []ndview.DType{ndview.Float32, ndview.Int32, ndview.Datetime64("s", 1), ndview.Bytes(8)} {
				_, err = a.AsType(to, ndview.OrderC, ndview.CastUnsafe)
				require.ErrorIs(t, err, ndview.ErrDType, "%s to %s", dtype, to)
			}
			numbers := ndtest.FromHost(t, dev, ndview.Int32, []int32{1, 2}, 2)
			require.ErrorIs(t, a.Assign(numbers), ndview.ErrDType, dtype)
		}
	})
}

// matrixLayout is the layout of an array of two axes in a buffer, in elements.
type matrixLayout struct {
	name          string
	rows, columns int64 // strides in elements
	first         int64 // element [0, 0]
	shift         int64 // bytes to add
}

// array returns an array of this layout with the elements, its buffer, and the
// buffer's bytes.
func (p matrixLayout) array(t *testing.T, dev arrowbuf.Device, dtype ndview.DType, shape [2]int64, elements []byte) (*ndview.NDBuffer, arrowbuf.Buffer, []byte) {
	t.Helper()
	size := dtype.Size()
	raw := poisoned(int((3*shape[0]*shape[1] + 40) * size))
	p.put(raw, size, shape, elements)
	buf := ndtest.Upload(t, dev, raw)
	a, err := ndview.FromBuffer(buf, dtype, p.first*size+p.shift, shape[:], []int64{p.rows * size, p.columns * size})
	return ndtest.Own(t, a, err), buf, raw
}

// put writes elements, given in C order, at the positions of the layout.
func (p matrixLayout) put(raw []byte, size int64, shape [2]int64, elements []byte) {
	for i := range int64(len(elements)) / size {
		at := p.first*size + p.shift + (i/shape[1]*p.rows+i%shape[1]*p.columns)*size
		copy(raw[at:at+size], elements[i*size:(i+1)*size])
	}
}

// broadcast repeats the first elements if the layout does.
func (p matrixLayout) broadcast(elements []byte, size int64, shape [2]int64) []byte {
	out := append([]byte(nil), elements...)
	for i := range shape[0] {
		for j := range shape[1] {
			from := i*shape[1] + j
			if p.rows == 0 {
				from = j
			}
			if p.columns == 0 {
				from = 0
			}
			copy(out[(i*shape[1]+j)*size:], elements[from*size:(from+1)*size])
		}
	}
	return out
}

func TestAssignCastsBetweenLayouts(t *testing.T) {
	values, casts := goldenCasts(t)
	shape := [2]int64{7, 60}
	n := shape[0] * shape[1]
	row := shape[1]
	layouts := []struct{ from, to matrixLayout }{
		{matrixLayout{"in C order", row, 1, 16, 0}, matrixLayout{"in C order", row, 1, 16, 0}},
		{matrixLayout{"from an odd element on", row, 1, 3, 0}, matrixLayout{"in C order", row, 1, 16, 0}},
		{matrixLayout{"in C order", row, 1, 16, 0}, matrixLayout{"from an odd element on", row, 1, 5, 0}},
		{matrixLayout{"at an odd byte", row, 1, 3, 1}, matrixLayout{"at another", row, 1, 5, 3}},
		{matrixLayout{"reversed", -row, -1, n + 2, 0}, matrixLayout{"in Fortran order", 1, shape[0], 4, 0}},
		{matrixLayout{"one row", 0, 1, 4, 0}, matrixLayout{"with gaps", 2 * row, 2, 1, 0}},
		{matrixLayout{"one element", 0, 0, 9, 0}, matrixLayout{"backwards", row + 3, -1, row, 1}},
	}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, from := range castTypes {
			for _, to := range castTypes {
				raw, want := repeat(values[from.String()], from.Size(), n), repeat(casts[from.String()+" "+to.String()], to.Size(), n)
				for _, l := range layouts {
					raw, want := l.from.broadcast(raw, from.Size(), shape), l.from.broadcast(want, to.Size(), shape)
					src, _, _ := l.from.array(t, dev, from, shape, raw)
					dst, buf, all := l.to.array(t, dev, to, shape, nil)
					require.NoError(t, dst.Assign(src))
					about := []any{from, l.from.name, to, l.to.name}
					ndtest.RequireBytes(t, unifyNaNs(to, want), unifyNaNs(to, ndtest.Elements(t, dst)), about...)
					l.to.put(all, to.Size(), shape, ndtest.Elements(t, dst))
					ndtest.RequireBytes(t, all, ndtest.Download(t, buf), about...)
				}
			}
		}
	})
}

// TestShortCastsWriteOnlyTheirElements casts fewer elements than lie before the first
// whole vector.
func TestShortCastsWriteOnlyTheirElements(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		const n = 5000 // enough to detect a vector too many
		from := ndtest.FromHost(t, dev, ndview.Int8, ndtest.Mapped(n, func(i int) byte { return byte(i % 100) }), n)
		for _, dtype := range []ndview.DType{ndview.Uint16, ndview.Float32, ndview.Float64} {
			for first := int64(1); first < 16; first++ {
				for length := int64(1); length < 16; length += 2 {
					zeros, err := ndview.Zeros(dev, dtype, n)
					to := ndtest.Own(t, zeros, err)
					want := make([]float64, n)
					for i := first; i < first+length; i++ {
						want[i] = float64(i)
					}
					require.NoError(t, index(t, to, ndview.Span(first, first+length)).Assign(index(t, from, ndview.Span(first, first+length))))
					got, err := to.AsType(ndview.Float64, ndview.OrderC, ndview.CastUnsafe)
					require.Equal(t, want, ndtest.HostOf[float64](t, ndtest.Own(t, got, err)), "%s[%d:%d]", dtype, first, first+length)
				}
			}
		}
	})
}

// TestAsTypeOfLargeArraysInOtherOrders covers the casts that take two steps, a copy
// and a cast.
func TestAsTypeOfLargeArraysInOtherOrders(t *testing.T) {
	values, casts := goldenCasts(t)
	shape := [2]int64{70, 90}
	n := shape[0] * shape[1]
	transposed := matrixLayout{"in Fortran order", 1, shape[0], 3, 0}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, pair := range [][2]ndview.DType{
			{ndview.Int8, ndview.Float64}, {ndview.Float64, ndview.Int16}, {ndview.Float32, ndview.Uint32}, {ndview.Complex64, ndview.Bool},
		} {
			from, to := pair[0], pair[1]
			src, _, _ := transposed.array(t, dev, from, shape, repeat(values[from.String()], from.Size(), n))
			want := repeat(casts[from.String()+" "+to.String()], to.Size(), n)
			got, err := src.AsType(to, ndview.OrderC, ndview.CastUnsafe)
			ndtest.Own(t, got, err)
			ndtest.RequireBytes(t, unifyNaNs(to, want), unifyNaNs(to, ndtest.Elements(t, got)), from, to)
			dst, _, _ := matrixLayout{"with gaps", 2 * shape[1], 2, 0, 0}.array(t, dev, to, shape, nil)
			require.NoError(t, dst.Assign(src))
			ndtest.RequireBytes(t, unifyNaNs(to, want), unifyNaNs(to, ndtest.Elements(t, dst)), from, to)
		}
	})
}

// roundingCases is the function of testdata/golden/half.py: each positive finite value
// of 16 bits, the midpoint to the next, values close to it, and the negatives of all.
func roundingCases(wide []float64, infinity int) []float64 {
	cases := make([]float64, 8*infinity)
	for i := range infinity {
		low, high := wide[i], wide[i+1]
		if i == infinity-1 {
			high = 2*low - wide[i-1] // the next value without a limit of range
		}
		middle, gap := (low+high)/2, high-low
		for j, x := range []float64{low, middle, middle - gap*0x1p-10, middle + gap*0x1p-10} {
			cases[j*infinity+i], cases[(4+j)*infinity+i] = x, -x
		}
	}
	return cases
}

// TestHalfFloatCastsMatchNumPy casts all values of 16 bits, and a million values to 16
// bits.
func TestHalfFloatCastsMatchNumPy(t *testing.T) {
	var golden map[string]uint32
	readGolden(t, "half.json", &golden)
	all := make([]uint16, 1<<16)
	for i := range all {
		all[i] = uint16(i)
	}
	scattered := make([]float32, 1<<20)
	for i := range scattered {
		scattered[i] = math.Float32frombits(uint32(i) * 2654435761)
	}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		check := func(name string, a *ndview.NDBuffer, to ndview.DType) {
			t.Helper()
			cast, err := a.AsType(to, ndview.OrderC, ndview.CastUnsafe)
			ndtest.Own(t, cast, err)
			data, nan := unifyNaNs(to, ndtest.Elements(t, cast)), bytes.Repeat([]byte{0xff}, int(to.Size()))
			one := append([]byte{1}, make([]byte, to.Size()-1)...) // a NaN in the golden file's checksum
			for i := 0; i < len(data); i += int(to.Size()) {
				if bytes.Equal(data[i:i+int(to.Size())], nan) {
					copy(data[i:], one)
				}
			}
			require.Contains(t, golden, name)
			assert.Equal(t, golden[name], crc32.ChecksumIEEE(data), name)
		}
		for _, f := range []struct {
			dtype    ndview.DType
			infinity int
			wide     func([]byte) []float64
		}{{ndview.Float16, 0x7c00, halves}, {ndview.BFloat16, 0x7f80, bfloats}} {
			name := f.dtype.String()
			check(name+" to float32", ndtest.FromHost(t, dev, f.dtype, all, 1<<16), ndview.Float32)
			exact := roundingCases(f.wide(ndtest.Raw(all...)), f.infinity)
			between := make([]float32, len(exact))
			for i, x := range exact {
				between[i] = float32(x)
			}
			check("float32 to "+name+", between", ndtest.FromHost(t, dev, ndview.Float32, between, int64(len(between))), f.dtype)
			check("float32 to "+name+", scattered", ndtest.FromHost(t, dev, ndview.Float32, scattered, 1<<20), f.dtype)
			if f.dtype == ndview.Float16 {
				for i := range exact {
					exact[i] *= 1 + 0x1p-40
				}
				check("float64 to float16, between", ndtest.FromHost(t, dev, ndview.Float64, exact, int64(len(exact))), f.dtype)
			}
		}
	})
}

func TestTimeUnitConversionsMatchNumPy(t *testing.T) {
	data, err := os.ReadFile("testdata/golden/ticks.json")
	require.NoError(t, err)
	var cases [][4]json.RawMessage
	require.NoError(t, json.Unmarshal(data, &cases))
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, c := range cases {
			var names [2]string
			var counts, want []int64
			var found []*int64
			for i, to := range []any{&names[0], &names[1], &counts, &found} {
				require.NoError(t, json.Unmarshal(c[i], to))
			}
			var kept []int64
			from, to := parseType(t, names[0]), parseType(t, names[1])
			for i, v := range counts {
				if found[i] != nil {
					kept, want = append(kept, v), append(want, *found[i])
					continue
				}
				beyond := ndtest.FromHost(t, dev, from, []int64{1, v}, 2)
				_, err := beyond.AsType(to, ndview.OrderC, ndview.CastUnsafe)
				assert.ErrorIs(t, err, ndview.ErrRange, "%d of %s as %s", v, from, to)
			}
			a := ndtest.FromHost(t, dev, from, kept, int64(len(kept)))
			got, err := a.AsType(to, ndview.OrderC, ndview.CastUnsafe)
			ndtest.Own(t, got, err)
			assert.Equal(t, ndtest.Raw(want...), ndtest.Elements(t, got), "%v of %s as %s", kept, from, to)
		}
	})
}

func TestTimeUnitConversionsAcceptStrides(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		seconds := ndtest.FromHost(t, dev, ndview.Datetime64(ndview.Second, 1), []int64{1, 2, 3, 4, 5, 6}, 2, 3)
		transposed, err := seconds.Transpose()
		ndtest.Own(t, transposed, err)
		millis := ndtest.FromHost(t, dev, ndview.Datetime64(ndview.Millisecond, 1), make([]int64, 12), 3, 4)
		require.NoError(t, millis.Set(transposed, ndview.All, ndview.SpanStep(0, 4, 2)))
		assert.Equal(t, ndtest.Raw[int64](1000, 0, 4000, 0, 2000, 0, 5000, 0, 3000, 0, 6000, 0), ndtest.Elements(t, millis))
	})
}

func TestTimesCastToNumbersAsCounts(t *testing.T) {
	const nat = -1 << 63
	at, span := ndview.Datetime64(ndview.Second, 1), ndview.Timedelta64(ndview.Millisecond, 1)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		cast := func(a *ndview.NDBuffer, to ndview.DType) []byte {
			got, err := a.AsType(to, ndview.OrderC, ndview.CastUnsafe)
			return ndtest.Elements(t, ndtest.Own(t, got, err))
		}
		times := ndtest.FromHost(t, dev, at, []int64{1500, nat}, 2)
		assert.Equal(t, ndtest.Raw[int64](1500, nat), cast(times, span))
		assert.Equal(t, ndtest.Raw(1500.0, nat), cast(times, ndview.Float64))
		assert.Equal(t, ndtest.Raw[int32](1500, 0), cast(times, ndview.Int32))
		assert.Equal(t, ndtest.Raw(true, true), cast(times, ndview.Bool))
		floats := ndtest.FromHost(t, dev, ndview.Float64, []float64{-2.9, 1e300}, 2)
		assert.Equal(t, ndtest.Raw[int64](-2, nat), cast(floats, at))
	})
}

func parseType(t *testing.T, name string) ndview.DType {
	t.Helper()
	dtype, _, err := ndview.ParseDType(name)
	require.NoError(t, err)
	return dtype
}
