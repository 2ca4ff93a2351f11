package ndview_test

import (
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/ndview"
)

// words are what is left of a line of a program.
type words struct {
	m     *machine
	left  []string
	first *ndview.NDBuffer // the first array that was asked for
}

func (w *words) next() string {
	require.NotEmpty(w.m.t, w.left, "a step of too few words")
	word := w.left[0]
	w.left = w.left[1:]
	return word
}

func (w *words) array() *ndview.NDBuffer {
	a, ok := w.m.arrays[w.next()]
	if !ok {
		panic(errAbsent)
	}
	if w.first == nil {
		w.first = a
	}
	return a
}

// arrays are all that the other words name.
func (w *words) arrays() (all []*ndview.NDBuffer) {
	for len(w.left) > 0 {
		all = append(all, w.array())
	}
	return all
}

func (w *words) int() int64 {
	n, err := strconv.ParseInt(w.next(), 10, 64)
	require.NoError(w.m.t, err)
	return n
}

func (w *words) axis() int             { return int(w.int()) }
func (w *words) flag() bool            { return w.next() == "true" }
func (w *words) order() ndview.Order   { return ndview.Order(w.next()[0]) }
func (w *words) dtype() ndview.DType   { return numpyType(w.m.t, w.next()) }
func (w *words) mode() ndview.Mode     { return modes[w.next()] }
func (w *words) ints() []int64         { return list(w.m.t, w.next(), parseInt) }
func (w *words) floats() []float64     { return list(w.m.t, w.next(), parseFloat) }
func parseInt(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) }

func parseFloat(s string) (float64, error) { return strconv.ParseFloat(s, 64) }

// list reads "[1,2]".
func list[T any](t *testing.T, word string, parse func(string) (T, error)) []T {
	values := []T{}
	for _, part := range strings.FieldsFunc(word, isBetween) {
		v, err := parse(part)
		require.NoError(t, err, word)
		values = append(values, v)
	}
	return values
}

// axes are a list, or nil for "-".
func (w *words) axes() []int {
	if w.left[0] == "-" {
		w.next()
		return nil
	}
	axes := []int{}
	for _, i := range w.ints() {
		axes = append(axes, int(i))
	}
	return axes
}

// operand is an array, a number as Go has it, or one of a dtype: "int8:3"; and
// nil for "-".
func (w *words) operand() any {
	word := w.left[0]
	dtype, number, strong := strings.Cut(word, ":")
	if !strong {
		number = word
	}
	switch {
	case word[0] == 'v':
		return w.array()
	case word == "-":
		w.next()
		return nil
	}
	w.next()
	var value any = number == "true"
	if n, err := strconv.Atoi(number); err == nil {
		value = n
	} else if f, err := strconv.ParseFloat(number, 64); err == nil {
		value = f
	}
	if strong {
		s, err := ndview.NewScalar(numpyType(w.m.t, dtype), value)
		require.NoError(w.m.t, err, word)
		return s
	}
	return value
}

// keys are what Python would write between brackets: "1", "::2", "new", "...",
// "[0,-1]" for integers, and arrays of integers or bools by name.
func (w *words) keys() (all []ndview.Key) {
	for len(w.left) > 0 {
		switch word := w.left[0]; {
		case word[0] == '[':
			all = append(all, ndview.Ints(w.ints()...))
		case word[0] == 'v':
			if a := w.array(); a.DType() == ndview.Bool {
				all = append(all, ndview.Mask(a))
			} else {
				all = append(all, ndview.IntArray(a))
			}
		default:
			all = append(all, keys(w.m.t, w.next())...)
		}
	}
	return all
}

// spelled is how many elements a result has in full; more are a checksum.
const spelled = 24

// text is an array as results have it: "int8 [2,2] [1,2,3,4]".
func text(t *testing.T, a *ndview.NDBuffer) string {
	data := elements(t, a)
	if a.Size() > spelled {
		return fmt.Sprintf("%s %s #%08x", a.DType(), bracketed(a.Shape()), crc32.ChecksumIEEE(oneNaN(a.DType(), data)))
	}
	var values string
	switch a.DType().Kind() {
	case ndview.KindFloat, ndview.KindBFloat, ndview.KindComplex:
		var all []string
		for _, f := range reals(a.DType(), data) {
			all = append(all, strings.TrimPrefix(strings.ToLower(strconv.FormatFloat(f, 'g', -1, 64)), "+"))
		}
		values = "[" + strings.Join(all, ",") + "]"
	default:
		values = bracketed(counts(a.DType(), data))
	}
	return fmt.Sprintf("%s %s %s", a.DType(), bracketed(a.Shape()), values)
}

func bracketed[T any](values []T) string {
	return strings.ReplaceAll(fmt.Sprintf("%v", append([]T{}, values...)), " ", ",")
}

// reals are the floats of elements, two for each complex number.
func reals(dtype ndview.DType, data []byte) []float64 {
	switch dtype {
	case ndview.Float16:
		return halves(data)
	case ndview.BFloat16:
		return bfloats(data)
	case ndview.Float32, ndview.Complex64:
		return as64(slice[float32](data))
	}
	return slice[float64](data)
}

// counts are the integers of elements, uint64 as if signed.
func counts(dtype ndview.DType, data []byte) []int64 {
	out := make([]int64, 0, len(data))
	size := int(dtype.Size())
	for i := 0; i < len(data); i += size {
		var u uint64
		for b := size - 1; b >= 0; b-- {
			u = u<<8 | uint64(data[i+b])
		}
		if shift := 64 - 8*size; dtype.Kind() != ndview.KindUint && dtype.Kind() != ndview.KindBool {
			u = uint64(int64(u<<shift) >> shift)
		}
		out = append(out, int64(u))
	}
	return out
}
