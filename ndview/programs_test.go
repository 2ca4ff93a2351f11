package ndview_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// step is one operation of a program. A program is lines of steps, such as
//
//	v2 = binary add v0 v1
//	assign v2 3
//
// The result of a step is text too: that of the array that it made or changed, or "!"
// for an error. testdata/golden/programs.py runs the same language in NumPy.
type step struct {
	// make returns the arguments of a random step, or "" if none fits.
	make func(p *maker) string
	// run returns a new array, or nil if it changed its first argument.
	run func(w *words) (*ndview.NDBuffer, error)
	// often is the weight of the step in random programs; 0 means 1.
	often int
}

// steps returns all steps by name.
func steps() map[string]step {
	all := map[string]step{}
	for _, subject := range []map[string]step{newSteps, viewSteps, moveSteps, indexSteps, joinSteps, computingSteps, reductionSteps} {
		maps.Copy(all, subject)
	}
	return all
}

// machine runs programs on a device.
type machine struct {
	t      *testing.T
	dev    arrowbuf.Device
	steps  map[string]step
	arrays map[string]*ndview.NDBuffer
	done   []string
}

func newMachine(t *testing.T, dev arrowbuf.Device) *machine {
	return &machine{t: t, dev: dev, steps: steps(), arrays: map[string]*ndview.NDBuffer{}}
}

func (m *machine) release() {
	for _, a := range m.arrays {
		a.Release()
	}
}

// errAbsent is the panic of a line that uses an array that no line made, which happens
// while a program is shortened.
var errAbsent = errors.New("no such array")

// run returns the result of a line.
func (m *machine) run(line string) (result string, err error) {
	defer func() {
		r := recover()
		if failed, ok := r.(error); ok && errors.Is(failed, errAbsent) {
			result = "?"
		} else if r != nil {
			panic(fmt.Sprintf("%v, in the program\n%s", r, strings.Join(m.done, "\n")))
		}
	}()
	m.done = append(m.done, line)
	name, call, makes := strings.Cut(line, " = ")
	if !makes {
		name, call = "", line
	}
	w := &words{m: m, left: strings.Fields(call)}
	a, err := m.steps[w.next()].run(w)
	switch {
	case err != nil:
		return "!", err
	case makes:
		m.arrays[name] = a
		return text(m.t, a), nil
	}
	return text(m.t, w.first), nil
}

// runAll returns the result of each line.
func runAll(t *testing.T, dev arrowbuf.Device, program []string) (results []string, errs []error) {
	m := newMachine(t, dev)
	defer m.release()
	for _, line := range program {
		result, err := m.run(line)
		results, errs = append(results, result), append(errs, err)
	}
	return results, errs
}

// differs returns the first line whose results differ, or -1.
func differs(want, got []string) int {
	return slices.IndexFunc(want, func() func(string) bool {
		i := -1
		return func(w string) bool { i++; return !sameText(w, got[i]) }
	}())
}

// sameText compares results. NumPy may write the same float differently.
func sameText(want, got string) bool {
	w, g := strings.FieldsFunc(want, isBetween), strings.FieldsFunc(got, isBetween)
	return want == got || slices.EqualFunc(w, g, func(w, g string) bool {
		x, errX := strconv.ParseFloat(w, 64)
		y, errY := strconv.ParseFloat(g, 64)
		return w == g || errX == nil && errY == nil && x == y && w[0] == g[0]
	})
}

func isBetween(r rune) bool { return strings.ContainsRune(" [,]", r) }

// shortened removes lines for as long as the program still fails.
func shortened(program []string, fails func([]string) bool) []string {
	for again := true; again; {
		again = false
		for i := len(program) - 1; i >= 0; i-- {
			if less := slices.Delete(slices.Clone(program), i, i+1); fails(less) {
				program, again = less, true
			}
		}
	}
	return program
}

// TestRandomProgramsAgreeOnAllDevices runs random programs of all steps on the CPU and on
// a CUDA device. QUIVER_RANDOM_PROGRAMS sets their number.
func TestRandomProgramsAgreeOnAllDevices(t *testing.T) {
	var programs, results [][]string
	rounds := uint64(300)
	if more := os.Getenv("QUIVER_RANDOM_PROGRAMS"); more != "" {
		var err error
		rounds, err = strconv.ParseUint(more, 10, 64)
		require.NoError(t, err)
	}
	for seed := range rounds {
		program, result := randomProgram(t, rand.New(rand.NewPCG(seed, 1)))
		programs, results = append(programs, program), append(results, result)
	}
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		last := 0
		defer func() {
			if t.Failed() { // the device may be unusable now
				t.Logf("seed %d was:\n%s", last, strings.Join(programs[last], "\n"))
			}
		}()
		for seed, program := range programs {
			last = seed
			got, _ := runAll(t, dev, program)
			if differs(results[seed], got) < 0 {
				continue
			}
			program = shortened(program, func(less []string) bool {
				want, _ := runAll(t, arrowbuf.CPU(), less)
				got, _ := runAll(t, dev, less)
				return differs(want, got) >= 0
			})
			want, wantErrs := runAll(t, arrowbuf.CPU(), program)
			got, gotErrs := runAll(t, dev, program)
			at := differs(want, got)
			require.GreaterOrEqual(t, at, 0, "seed %d: the results differ only in some runs", seed)
			require.Failf(t, "devices disagree", "seed %d:\n%s\ncpu: %s %v\n%s: %s %v", seed, strings.Join(program, "\n"),
				want[at], wantErrs[at], dev, got[at], gotErrs[at])
		}
	})
}

// TestProgramsMatchNumPy runs the programs of testdata/golden/programs.txt, or of the file
// of programs.py that QUIVER_PROGRAMS names.
func TestProgramsMatchNumPy(t *testing.T) {
	path := "testdata/golden/programs.txt"
	if other := os.Getenv("QUIVER_PROGRAMS"); other != "" {
		path = other
	}
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	programs := strings.Split(strings.TrimSpace(string(file)), "\n\n")
	require.Greater(t, len(programs), 10)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for n, lines := range programs {
			var program, want []string
			for _, line := range strings.Split(lines, "\n") {
				ask, result, found := strings.Cut(line, " > ")
				require.True(t, found, "program %d of %s has no result: %s", n, path, line)
				program, want = append(program, ask), append(want, result)
			}
			got, errs := runAll(t, dev, program)
			at := differs(want, got)
			if at < 0 {
				continue
			}
			less := shortened(program[:at+1], func(less []string) bool { // the last line has the same result
				results, _ := runAll(t, dev, less)
				last := len(less) - 1
				return last >= 0 && less[last] == program[at] && results[last] == got[at]
			})
			require.Failf(t, "the result differs from NumPy's", "program %d of %s:\n%s\nNumPy: %s\nndview: %s %v", n, path,
				strings.Join(less, "\n"), want[at], got[at], errs[at])
		}
	})
}

// TestWritePrograms writes programs for programs.py. QUIVER_NEW_PROGRAMS is
// "SEED COUNT FILE".
func TestWritePrograms(t *testing.T) {
	ask := os.Getenv("QUIVER_NEW_PROGRAMS")
	if ask == "" {
		t.Skip("QUIVER_NEW_PROGRAMS is not set")
	}
	var seed, count uint64
	var path string
	_, err := fmt.Sscan(ask, &seed, &count, &path)
	require.NoError(t, err)
	var programs []string
	for i := range count {
		program, _ := randomProgram(t, rand.New(rand.NewPCG(seed, i+2)))
		programs = append(programs, strings.Join(program, "\n"))
	}
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(programs, "\n\n")+"\n"), 0o644))
}

// The methods below report which steps have the same result on every device and in NumPy,
// so that a random program may contain them.

// reals returns the elements of an array as floats.
func (p *maker) reals(a *ndview.NDBuffer) []float64 {
	data := ndtest.Elements(p.m.t, a)
	if isFloat(a) {
		return reals(a.DType(), data)
	}
	var out []float64
	for _, n := range counts(a.DType(), data) {
		out = append(out, float64(n))
	}
	return out
}

func isFloat(a *ndview.NDBuffer) bool {
	switch a.DType().Kind() {
	case ndview.KindFloat, ndview.KindBFloat, ndview.KindComplex:
		return true
	}
	return false
}

func isComplex(a *ndview.NDBuffer) bool { return a.DType().Kind() == ndview.KindComplex }

// every reports whether a condition holds for all numbers of an array.
func (p *maker) every(a *ndview.NDBuffer, is func(float64) bool) bool {
	return a == nil || !slices.ContainsFunc(p.reals(a), func(x float64) bool { return !is(x) })
}

// hasNaN reports whether an array has a NaN, whose bits differ between devices.
func (p *maker) hasNaN(a *ndview.NDBuffer) bool {
	return a != nil && isFloat(a) && !p.every(a, func(x float64) bool { return x == x })
}

// oneZero reports whether an array has no -0: which of 0 and -0 is the maximum is
// undefined in NumPy.
func (p *maker) oneZero(a *ndview.NDBuffer) bool {
	return a == nil || !isFloat(a) || p.every(a, func(x float64) bool { return x != 0 || !math.Signbit(x) })
}

// tame reports whether numbers have so little precision that sums of products are exact.
func (p *maker) tame(a *ndview.NDBuffer) bool {
	return p.every(a, func(x float64) bool { return x*4 == math.Trunc(x*4) && math.Abs(x) < 64 })
}

// casts reports whether a cast has the same result everywhere. NumPy's loops disagree on
// floats beyond an integer type, and ml_dtypes rounds twice.
func (p *maker) casts(a *ndview.NDBuffer, to ndview.DType) bool {
	switch kind := to.Kind(); {
	case a == nil:
		return true
	case a.DType() == ndview.BFloat16 && to.IsTime(), a.DType().IsTime() && to == ndview.BFloat16:
		return false
	case kind == ndview.KindBFloat && a.DType() != to:
		return p.every(a, func(x float64) bool { return math.Abs(x) <= 64 && x*2 == math.Trunc(x*2) })
	case !isFloat(a) || kind == ndview.KindBool || kind == ndview.KindFloat || kind == ndview.KindBFloat || kind == ndview.KindComplex:
		return true
	case kind == ndview.KindUint:
		return p.every(a, func(x float64) bool { return x >= 0 && x < 128 })
	}
	return p.every(a, func(x float64) bool { return math.Abs(x) < 128 })
}

// typeOf returns the type of an operand, or the zero DType for a plain number.
func (p *maker) typeOf(word string, a *ndview.NDBuffer) ndview.DType {
	if a != nil {
		return a.DType()
	}
	if name, _, strong := strings.Cut(word, ":"); strong {
		return numpyType(p.m.t, name)
	}
	return ndview.DType{}
}

// mixes reports whether ndview promotes types as NumPy does. It does not promote times
// with floats, nor bfloat16 with types for which ml_dtypes has no common type.
func (p *maker) mixes(types ...ndview.DType) bool {
	times, floats, brain, others := false, false, false, false
	for _, t := range types {
		switch kind := t.Kind(); {
		case t.IsTime():
			times = true
		case kind == ndview.KindBFloat:
			brain, floats = true, true
		case kind == ndview.KindFloat || kind == ndview.KindComplex:
			floats = true
			others = others || t == ndview.Float16
		case t.Size() > 1:
			others = true
		}
	}
	return !(times && floats) && !(brain && others)
}

// TestProgramsOfPastDefects runs programs that once had a wrong result.
func TestProgramsOfPastDefects(t *testing.T) {
	tests := []struct{ name, program, want string }{
		{"a scalar beside halves that a kernel of float32 computes", "v0 = new bfloat16 [2] [3,-5]\nv1 = binary fmod v0 2", "bfloat16 [2] [1,-1]"},
		{"the same of float16", "v0 = new float16 [2] [7,-5]\nv1 = binary floor_divide v0 2", "float16 [2] [3,-3]"},
		{"times of two units to choose from", "v0 = new datetime64[s] [1] [1]\nv1 = new datetime64[ms] [1] [5]\nv2 = where v0 v0 v1", "datetime64[ms] [1] [1000]"},
		{"a condition that stands still", "v0 = new bool [] [1]\nv1 = new bool [3] [0,1,0]\nv2 = where v0 v1 v1", "bool [3] [0,1,0]"},
		{"bools computed into gaps", "v0 = new bool [3,2] [0,0,0,0,0,0]\nv1 = index v0 :: 1\nv2 = new bool [3] [1,0,1]\nunary_into v1 absolute v2", "bool [3] [1,0,1]"},
		{"complex numbers between bounds", "v0 = new complex64 [2] [1,2,5,0]\nv1 = clip v0 2 float32:3.5", "complex64 [2] [2,0,3.5,0]"},
		{"a bound beyond the type", "v0 = new uint8 [2] [1,200]\nv1 = clip v0 -3 -", "uint8 [2] [1,200]"},
		{"a plain number beside scalars of a type", "v0 = new int8 [1] [5]\nv1 = clip v0 float32:0.5 1.5", "float32 [1] [1.5]"},
		{"complex numbers from the first bound on", "v0 = new bool [2] [0,1]\nv1 = new complex64 [] [-0.25,0]\nv2 = clip v0 1 v1", "complex64 [2] [-0.25,0,-0.25,0]"},
		{"timedeltas between bounds", "v0 = new timedelta64[s] [2] [1,9]\nv1 = clip v0 timedelta64[s]:3 timedelta64[s]:5", "timedelta64[s] [2] [3,5]"},
		{"no elements, turned around", "v0 = new float16 [3,0,2] []\nv1 = index v0 ::-1 ::-1 ::-1\nv2 = reduce count_nonzero v1 [1,2] false -", "int64 [3] [0,0,0]"},
		{"products of integers as floats", "v0 = new int32 [3] [2,-3,5]\nv1 = reduce prod v0 - false float64", "float64 [] [-30]"},
		{"a plain integer and bfloat16", "v0 = new bfloat16 [2] [2,2]\nv1 = all_equal v0 2 false", "bool [] [1]"},
		{"zeros of bfloat16 and a plain 0", "v0 = new bfloat16 [2] [0,0]\nv1 = unary negative v0\nv2 = all_equal v1 0 true", "bool [] [1]"},
		{"a large plain integer and bfloat16", "v0 = new bfloat16 [1] [300]\nv1 = all_equal v0 300 false", "bool [] [1]"},
		{"times of two units", "v0 = new datetime64[s] [1] [1]\nv1 = new datetime64[ms] [1] [1000]\nv2 = all_equal v0 v1 false", "bool [] [1]"},
		{"a number beyond the type is true", "v0 = new uint8 [2] [0,1]\nv1 = binary logical_xor v0 -3", "bool [2] [1,0]"},
		{"three types together", "v0 = new int8 [1] [1]\nv1 = new uint8 [1] [2]\nv2 = new float16 [1] [0.5]\nv3 = concatenate 0 v0 v1 v2", "float16 [3] [1,2,0.5]"},
		{"repeated elements in order K", "v0 = new int8 [2] [1,2]\nv1 = broadcast v0 [2,2]\nv2 = ravel v1 K", "int8 [4] [1,2,1,2]"},
		{"datetimes joined with timedeltas", "v0 = new datetime64[s] [1] [1]\nv1 = new timedelta64[s] [1] [1]\nv2 = concatenate 0 v0 v1", "!"},
		{"times beyond the other's unit, of which none is taken", "v0 = new datetime64[s] [2] [4e18,0]\nv1 = new datetime64[ms] [0,2] []\nv2 = binary less v0 v1", "bool [0,2] []"},
		{"and none is chosen", "v0 = new timedelta64[s] [2] [4e18,0]\nv1 = new timedelta64[ms] [0,2] []\nv2 = new bool [0,1] []\nv3 = where v2 v0 v1", "timedelta64[ms] [0,2] []"},
		{"numbers beside times, of which none is chosen", "v0 = new int16 [0,3] []\nv1 = new timedelta64[s] [3] [1,2,3]\nv2 = new bool [0,1] []\nv3 = where v2 v0 v1", "timedelta64[s] [0,3] []"},
		{"one time beyond it", "v0 = new datetime64[s] [1] [4e18]\nv1 = new datetime64[ms] [0] []\nv2 = binary less v0 v1", "!"},
		{"times beyond it", "v0 = new datetime64[s] [2] [0,4e18]\nv1 = new datetime64[ms] [1] [1]\nv2 = binary less v0 v1", "!"},
		{"times beyond it in an array", "v0 = new datetime64[s] [2] [0,4e18]\nv1 = new datetime64[ms] [2] [1,1]\nv2 = all_equal v0 v1 false", "bool [] [0]"},
		{"months added to a day", "v0 = new datetime64[D] [1] [0]\nv1 = new timedelta64[M] [1] [1]\nv2 = binary add v0 v1", "!"},
		{"months added to months", "v0 = new datetime64[M] [1] [0]\nv1 = new timedelta64[Y] [1] [1]\nv2 = binary add v0 v1", "datetime64[M] [1] [12]"},
		{"days added to a month", "v0 = new datetime64[M] [1] [1]\nv1 = new timedelta64[D] [1] [1]\nv2 = binary add v0 v1", "datetime64[D] [1] [32]"},
		{"a number beside halves, too small for them but true", "v0 = new float16 [2] [1,0]\nv1 = binary logical_and v0 1e-300", "bool [2] [1,0]"},
		{"times that cannot be assigned", "v0 = new datetime64[ms] [2] [7,8]\nv1 = new datetime64[s] [2] [1,4e18]\nassign v0 v1\nv2 = get v0", "datetime64[ms] [2] [7,8]"},
		{"times of which some cannot be set", "v0 = new datetime64[ms] [2] [7,8]\nv1 = new datetime64[s] [2] [1,4e18]\nset v0 v1 :\nv2 = get v0", "datetime64[ms] [2] [7,8]"},
		{"a timedelta and a bool", "v0 = new timedelta64[s] [2] [3,4]\nv1 = new bool [2] [1,0]\nv2 = binary multiply v0 v1", "timedelta64[s] [2] [3,0]"},
	}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, tt := range tests {
			got, errs := runAll(t, dev, strings.Split(tt.program, "\n"))
			last := len(got) - 1
			assert.Equal(t, tt.want, got[last], "%s: %v", tt.name, errs[last])
		}
	})
}
