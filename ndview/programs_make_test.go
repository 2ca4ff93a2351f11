package ndview_test

import (
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
	"github.com/stretchr/testify/require"
)

// maker makes a random program while running it on the CPU, so that steps fit the arrays
// made so far.
type maker struct {
	*rand.Rand
	m     *machine
	names []string // the latest arrays
	// special programs have NaNs and infinities among their values. Only the other
	// programs view the bits of floats.
	special bool
	line    int
}

const (
	programSteps = 30
	latest       = 7     // the number of arrays that steps may use
	roomy        = 70000 // the maximum of elements
)

// randomProgram returns a program and its results on the CPU.
func randomProgram(t *testing.T, r *rand.Rand) (program, results []string) {
	p := &maker{Rand: r, m: newMachine(t, arrowbuf.CPU()), special: r.IntN(3) == 0}
	defer p.m.release()
	var names []string
	for name, s := range p.m.steps {
		names = append(names, slices.Repeat([]string{name}, max(s.often, 1))...)
	}
	slices.Sort(names) // the same seed makes the same program
	large := r.IntN(4) == 0
	for len(program) < programSteps {
		name := names[r.IntN(len(names))]
		switch {
		case len(program) == 0 && large:
			name = "ramp"
		case len(program) < 3:
			name = "new"
		}
		line := p.m.steps[name].make(p)
		if line == "" {
			continue
		}
		program = append(program, p.named(name, line))
		results = append(results, p.run(program[len(program)-1]))
	}
	for _, name := range p.names { // arrays share memory
		program = append(program, "show "+name)
		results = append(results, p.run(program[len(program)-1]))
	}
	return program, results
}

// changing are the steps that change their first argument.
var changing = []string{"show", "assign", "fill", "zero", "set", "put", "tril_in", "triu_in", "swap", "fill_where",
	"unary_into", "binary_into", "where_into", "clip_into", "reduce_into"}

func (p *maker) named(step, arguments string) string {
	line := step + " " + arguments
	if !slices.Contains(changing, step) {
		line = fmt.Sprintf("v%d = %s", p.line, line)
	}
	p.line++
	return line
}

func (p *maker) run(line string) string {
	result, err := p.m.run(line)
	if name, _, makes := strings.Cut(line, " = "); makes && err == nil {
		if p.names = append(p.names, name); len(p.names) > latest {
			p.names = p.names[1:]
		}
	}
	return result
}

// any returns one of the latest arrays.
func (p *maker) any() (string, *ndview.NDBuffer) {
	name := p.names[p.IntN(len(p.names))]
	return name, p.m.arrays[name]
}

// such returns one of the latest arrays that fits, or "" and nil.
func (p *maker) such(fits func(*ndview.NDBuffer) bool) (string, *ndview.NDBuffer) {
	for _, i := range p.Perm(len(p.names)) {
		if a := p.m.arrays[p.names[i]]; fits(a) {
			return p.names[i], a
		}
	}
	return "", nil
}

// rarely returns true with a low probability, for steps that fail.
func (p *maker) rarely() bool { return p.IntN(40) == 0 }

func (p *maker) of(words ...string) string { return words[p.IntN(len(words))] }

func (p *maker) flag() string { return p.of("true", "false") }

var programTypes = []string{"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16",
	"float32", "float64", "complex64", "complex128", "datetime64[s]", "datetime64[ms]", "timedelta64[s]", "timedelta64[25us]", "datetime64[D]", "timedelta64[M]"}

func (p *maker) dtype() string { return p.of(programTypes...) }

// axis returns an axis of an array of n axes, counted from either end.
func (p *maker) axis(n int) int {
	if n == 0 || p.rarely() {
		return p.IntN(2)
	}
	return p.IntN(2*n) - n
}

// index returns an index of an axis, rarely one out of range.
func (p *maker) index(extent int64) int64 {
	if extent == 0 || p.rarely() {
		return extent
	}
	return p.Int64N(2*extent) - extent
}

func (p *maker) indices(extent int64, n int) string {
	list := make([]int64, n)
	for i := range list {
		list[i] = p.index(extent)
	}
	return bracketed(list)
}

// operand returns an array, or a number and nil.
func (p *maker) operand() (string, *ndview.NDBuffer) {
	if p.IntN(4) > 0 {
		return p.any()
	}
	return p.number(), nil
}

func (p *maker) number() string {
	return p.of("0", "1", "-3", "2", "5", "0.5", "-1.5", "true", "int8:3", "uint16:7", "float32:0.25", "int64:-2", "timedelta64[s]:3")
}

// fits reports whether the shape to which arrays broadcast is not too large.
func (p *maker) fits(arrays ...*ndview.NDBuffer) bool {
	var shape []int64
	for _, a := range arrays {
		if a == nil {
			continue
		}
		for i, d := range slices.Backward(a.Shape()) {
			if at := len(a.Shape()) - 1 - i; at < len(shape) {
				shape[at] = max(shape[at], d)
			} else {
				shape = append(shape, d)
			}
		}
	}
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	return n <= roomy
}

// words are the unread words of a line.
type words struct {
	m     *machine
	left  []string
	first *ndview.NDBuffer // the first array that was read
}

func (w *words) next() string {
	require.NotEmpty(w.m.t, w.left, "too few words")
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

// arrays returns the arrays that all unread words name.
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

// list parses "[1,2]".
func list[T any](t *testing.T, word string, parse func(string) (T, error)) []T {
	values := []T{}
	for _, part := range strings.FieldsFunc(word, isBetween) {
		v, err := parse(part)
		require.NoError(t, err, word)
		values = append(values, v)
	}
	return values
}

// axes returns a list, or nil for "-".
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

// operand returns an array, a Go number, a scalar of a dtype for "int8:3", or nil for "-".
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

// keys returns index keys as Python writes them between brackets: "1", "::2", "new",
// "...", "[0,-1]" for integers, and arrays of integers or bools by name.
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

// spelled is the maximum of elements that a result lists; of more it has a checksum.
const spelled = 24

// text returns the text of a result: "int8 [2,2] [1,2,3,4]".
func text(t *testing.T, a *ndview.NDBuffer) string {
	data := ndtest.Elements(t, a)
	if a.Size() > spelled {
		return fmt.Sprintf("%s %s #%08x", a.DType(), bracketed(a.Shape()), crc32.ChecksumIEEE(unifyNaNs(a.DType(), data)))
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

// reals returns the floats of elements, two per complex number.
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

// counts returns the integers of elements, uint64 as if signed.
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
