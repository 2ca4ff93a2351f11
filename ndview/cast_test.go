package ndview_test

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// numbers are the dtypes that are cast to each other.
var numbers = []ndview.DType{
	ndview.Bool, ndview.Int8, ndview.Uint8, ndview.Int16, ndview.Uint16, ndview.Int32, ndview.Uint32, ndview.Int64, ndview.Uint64,
	ndview.Float16, ndview.BFloat16, ndview.Float32, ndview.Float64, ndview.Complex64, ndview.Complex128,
}

// goldenCasts are values of each type, and the same cast to each type by NumPy.
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

// oneNaN gives every NaN the same bits: which ones a cast makes is not defined.
func oneNaN(dtype ndview.DType, raw []byte) []byte {
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

// repeat returns n elements: those of raw, over and over.
func repeat(raw []byte, size, n int64) []byte {
	out := make([]byte, 0, n*size+int64(len(raw)))
	for int64(len(out)) < n*size {
		out = append(out, raw...)
	}
	return out[:n*size]
}

func TestAsTypeEqualsNumPyForEveryPairOfNumbers(t *testing.T) {
	values, casts := goldenCasts(t)
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, from := range numbers {
			raw := values[from.String()]
			count := int64(len(raw)) / from.Size()
			src := upload(t, dev, raw)
			a := at(t, src, from, 0, count)
			for _, to := range numbers {
				got, err := a.AsType(to, ndview.OrderK, ndview.CastUnsafe)
				own(t, got, err)
				require.Equal(t, to, got.DType())
				want := casts[from.String()+" "+to.String()]
				requireBytes(t, oneNaN(to, want), oneNaN(to, elements(t, got)), from, to)
			}
		}
	})
}

// laid is where the elements of an array of two axes lie in a buffer. Counts of
// elements and bytes are for elements of one byte, and grow with their size.
type laid struct {
	name          string
	rows, columns int64 // strides in elements
	first         int64 // element [0, 0]
	shift         int64 // bytes beside
}

func (p laid) in(t *testing.T, dev arrowbuf.Device, dtype ndview.DType, shape [2]int64, elements []byte) (*ndview.NDBuffer, arrowbuf.Buffer, []byte) {
	t.Helper()
	size := dtype.Size()
	raw := poisoned(int((3*shape[0]*shape[1] + 40) * size))
	p.put(raw, size, shape, elements)
	buf := upload(t, dev, raw)
	a, err := ndview.FromBuffer(buf, dtype, p.first*size+p.shift, shape[:], []int64{p.rows * size, p.columns * size})
	return own(t, a, err), buf, raw
}

// put writes elements, which come in C order, where they lie.
func (p laid) put(raw []byte, size int64, shape [2]int64, elements []byte) {
	for i := range int64(len(elements)) / size {
		at := p.first*size + p.shift + (i/shape[1]*p.rows+i%shape[1]*p.columns)*size
		copy(raw[at:at+size], elements[i*size:(i+1)*size])
	}
}

func TestAssignCastsFromAndToAnyLayout(t *testing.T) {
	values, casts := goldenCasts(t)
	shape := [2]int64{7, 60}
	n := shape[0] * shape[1]
	row := shape[1]
	layouts := []struct{ from, to laid }{
		{laid{"in C order", row, 1, 16, 0}, laid{"in C order", row, 1, 16, 0}},
		{laid{"from an odd element on", row, 1, 3, 0}, laid{"in C order", row, 1, 16, 0}},
		{laid{"in C order", row, 1, 16, 0}, laid{"from an odd element on", row, 1, 5, 0}},
		{laid{"at an odd byte", row, 1, 3, 1}, laid{"at another", row, 1, 5, 3}},
		{laid{"turned around", -row, -1, n + 2, 0}, laid{"in Fortran order", 1, shape[0], 4, 0}},
		{laid{"one row", 0, 1, 4, 0}, laid{"with gaps", 2 * row, 2, 1, 0}},
		{laid{"one element", 0, 0, 9, 0}, laid{"backwards", row + 3, -1, row, 1}},
	}
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, from := range numbers {
			for _, to := range numbers {
				raw, want := repeat(values[from.String()], from.Size(), n), repeat(casts[from.String()+" "+to.String()], to.Size(), n)
				for _, l := range layouts {
					raw, want := l.from.seen(raw, from.Size(), shape), l.from.seen(want, to.Size(), shape)
					src, _, _ := l.from.in(t, dev, from, shape, raw)
					dst, buf, all := l.to.in(t, dev, to, shape, nil)
					require.NoError(t, dst.Assign(src))
					about := []any{from, l.from.name, to, l.to.name}
					requireBytes(t, oneNaN(to, want), oneNaN(to, elements(t, dst)), about...)
					l.to.put(all, to.Size(), shape, elements(t, dst))
					requireBytes(t, all, download(t, buf), about...)
				}
			}
		}
	})
}

// Fewer elements than there are before the first whole vector.
func TestShortCastsWriteTheirElementsOnly(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		const n = 5000 // of which a vector too many would change some
		from := fromHost(t, dev, ndview.Int8, mapped(n, func(i int) byte { return byte(i % 100) }), n)
		for _, dtype := range []ndview.DType{ndview.Uint16, ndview.Float32, ndview.Float64} {
			for first := int64(1); first < 16; first++ {
				for length := int64(1); length < 16; length += 2 {
					zeros, err := ndview.Zeros(dev, dtype, n)
					to := own(t, zeros, err)
					want := make([]float64, n)
					for i := first; i < first+length; i++ {
						want[i] = float64(i)
					}
					require.NoError(t, index(t, to, ndview.Span(first, first+length)).Assign(index(t, from, ndview.Span(first, first+length))))
					got, err := to.AsType(ndview.Float64, ndview.OrderC, ndview.CastUnsafe)
					require.Equal(t, want, hostOf[float64](t, own(t, got, err)), "%s[%d:%d]", dtype, first, first+length)
				}
			}
		}
	})
}

// seen repeats the first elements where the layout does.
func (p laid) seen(elements []byte, size int64, shape [2]int64) []byte {
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

// Bytes of a number's size are no number to a cast.
func TestBytesAndRecordsAreCastToThemselvesOnly(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, dtype := range []ndview.DType{ndview.Bytes(4), ndview.Bytes(3), numpyType(t, `[["a","<i4"]]`)} {
			a, err := ndview.Empty(dev, dtype, 2)
			own(t, a, err)
			same, err := a.AsType(dtype, ndview.OrderC, ndview.CastUnsafe)
			own(t, same, err)
			for _, to := range []ndview.DType{ndview.Float32, ndview.Int32, ndview.Datetime64("s", 1), ndview.Bytes(8)} {
				_, err = a.AsType(to, ndview.OrderC, ndview.CastUnsafe)
				require.ErrorIs(t, err, ndview.ErrDType, "%s to %s", dtype, to)
			}
			numbers := fromHost(t, dev, ndview.Int32, []int32{1, 2}, 2)
			require.ErrorIs(t, a.Assign(numbers), ndview.ErrDType, dtype)
		}
	})
}

// Large arrays in other orders are copied and cast in two steps.
func TestAsTypeOfLargeArraysInOtherOrders(t *testing.T) {
	values, casts := goldenCasts(t)
	shape := [2]int64{70, 90}
	n := shape[0] * shape[1]
	turned := laid{"in Fortran order", 1, shape[0], 3, 0}
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, pair := range [][2]ndview.DType{
			{ndview.Int8, ndview.Float64}, {ndview.Float64, ndview.Int16}, {ndview.Float32, ndview.Uint32}, {ndview.Complex64, ndview.Bool},
		} {
			from, to := pair[0], pair[1]
			src, _, _ := turned.in(t, dev, from, shape, repeat(values[from.String()], from.Size(), n))
			want := repeat(casts[from.String()+" "+to.String()], to.Size(), n)
			got, err := src.AsType(to, ndview.OrderC, ndview.CastUnsafe)
			own(t, got, err)
			requireBytes(t, oneNaN(to, want), oneNaN(to, elements(t, got)), from, to)
			dst, _, _ := laid{"with gaps", 2 * shape[1], 2, 0, 0}.in(t, dev, to, shape, nil)
			require.NoError(t, dst.Assign(src))
			requireBytes(t, oneNaN(to, want), oneNaN(to, elements(t, dst)), from, to)
		}
	})
}
