package ndview_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// maker makes a random program while it runs it on the CPU, so that steps fit
// the arrays that there are.
type maker struct {
	*rand.Rand
	m     *machine
	names []string // the latest arrays
	// special programs have NaNs and infinities among their values, others look
	// at the bits of floats.
	special bool
	line    int
}

const (
	programSteps = 30
	latest       = 7     // so many arrays are taken further
	roomy        = 70000 // elements at most
)

// randomProgram is a program and what it gives on the CPU.
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

// any is one of the latest arrays.
func (p *maker) any() (string, *ndview.NDBuffer) {
	name := p.names[p.IntN(len(p.names))]
	return name, p.m.arrays[name]
}

// such is one of the latest arrays that fits, or "".
func (p *maker) such(fits func(*ndview.NDBuffer) bool) (string, *ndview.NDBuffer) {
	for _, i := range p.Perm(len(p.names)) {
		if a := p.m.arrays[p.names[i]]; fits(a) {
			return p.names[i], a
		}
	}
	return "", nil
}

// rarely is true once in a while, for what is an error.
func (p *maker) rarely() bool { return p.IntN(40) == 0 }

func (p *maker) of(words ...string) string { return words[p.IntN(len(words))] }

func (p *maker) flag() string { return p.of("true", "false") }

var programTypes = []string{"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16",
	"float32", "float64", "complex64", "complex128", "datetime64[s]", "datetime64[ms]", "timedelta64[s]", "timedelta64[25us]", "datetime64[D]", "timedelta64[M]"}

func (p *maker) dtype() string { return p.of(programTypes...) }

// axis is one of an array's, counted from either end; 0 where there are none.
func (p *maker) axis(n int) int {
	if n == 0 || p.rarely() {
		return p.IntN(2)
	}
	return p.IntN(2*n) - n
}

// index is one of an axis, mostly.
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

// operand is an array, or a number.
func (p *maker) operand() (string, *ndview.NDBuffer) {
	if p.IntN(4) > 0 {
		return p.any()
	}
	return p.number(), nil
}

func (p *maker) number() string {
	return p.of("0", "1", "-3", "2", "5", "0.5", "-1.5", "true", "int8:3", "uint16:7", "float32:0.25", "int64:-2", "timedelta64[s]:3")
}

// fits tells whether what shapes broadcast to is not too large, if they do.
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
