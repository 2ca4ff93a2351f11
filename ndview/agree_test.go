package ndview_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// A program is lines of steps, such as
//
//	v2 = binary add v0 v1
//	assign v2 3
//
// What a step gives is text too: that of the array it made or changed, or "!"
// where it is an error. The steps are in agree_*_test.go, each with how a random
// one is made; testdata/golden/programs.py is the same language in NumPy.
type step struct {
	// make gives the arguments of a random step, or "" where none fits.
	make func(p *maker) string
	// run gives a new array, or nil where it changed its first argument.
	run func(w *words) (*ndview.NDBuffer, error)
	// often is how many times as likely as others the step is; 0 means 1.
	often int
}

// steps are all there are, by name.
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

// errAbsent is the panic of a line that takes an array that no line made, as
// happens while a program is made shorter.
var errAbsent = errors.New("no such array")

// run gives the result of a line.
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

// runAll gives the result of each line.
func runAll(t *testing.T, dev arrowbuf.Device, program []string) (results []string, errs []error) {
	m := newMachine(t, dev)
	defer m.release()
	for _, line := range program {
		result, err := m.run(line)
		results, errs = append(results, result), append(errs, err)
	}
	return results, errs
}

// differs is the first line whose results are not the same, -1 for none.
func differs(want, got []string) int {
	return slices.IndexFunc(want, func() func(string) bool {
		i := -1
		return func(w string) bool { i++; return !sameText(w, got[i]) }
	}())
}

// sameText compares results; NumPy writes the same floats in other ways.
func sameText(want, got string) bool {
	w, g := strings.FieldsFunc(want, isBetween), strings.FieldsFunc(got, isBetween)
	return want == got || slices.EqualFunc(w, g, func(w, g string) bool {
		x, errX := strconv.ParseFloat(w, 64)
		y, errY := strconv.ParseFloat(g, 64)
		return w == g || errX == nil && errY == nil && x == y && w[0] == g[0]
	})
}

func isBetween(r rune) bool { return strings.ContainsRune(" [,]", r) }

// shortened leaves out lines for as long as a program fails.
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

// TestRandomProgramsAgreeOnAllDevices makes random programs of all that there is
// to do with arrays, and runs each on the CPU and on a device.
// QUIVER_RANDOM_PROGRAMS=100000 makes more of them.
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
	onCUDA(t, func(t *testing.T, dev *cudabuf.Device) {
		last := 0
		defer func() {
			if t.Failed() { // which the device may not have survived
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
			require.GreaterOrEqual(t, at, 0, "seed %d: the program differs in some runs only", seed)
			require.Failf(t, "devices disagree", "seed %d:\n%s\ncpu: %s %v\n%s: %s %v", seed, strings.Join(program, "\n"),
				want[at], wantErrs[at], dev, got[at], gotErrs[at])
		}
	})
}

// TestProgramsGiveWhatNumPyGives runs the programs of testdata/golden/programs.txt,
// or of another file that programs.py has made.
func TestProgramsGiveWhatNumPyGives(t *testing.T) {
	path := "testdata/golden/programs.txt"
	if other := os.Getenv("QUIVER_PROGRAMS"); other != "" {
		path = other
	}
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	programs := strings.Split(strings.TrimSpace(string(file)), "\n\n")
	require.Greater(t, len(programs), 10)
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
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
			less := shortened(program[:at+1], func(less []string) bool { // what makes the same of the line
				results, _ := runAll(t, dev, less)
				last := len(less) - 1
				return last >= 0 && less[last] == program[at] && results[last] == got[at]
			})
			require.Failf(t, "NumPy has another result", "program %d of %s:\n%s\nNumPy: %s\nndview: %s %v", n, path,
				strings.Join(less, "\n"), want[at], got[at], errs[at])
		}
	})
}

// TestProgramsAreWritten is how programs.py comes by programs: QUIVER_NEW_PROGRAMS
// is "SEED COUNT FILE".
func TestProgramsAreWritten(t *testing.T) {
	ask := os.Getenv("QUIVER_NEW_PROGRAMS")
	if ask == "" {
		t.Skip("QUIVER_NEW_PROGRAMS names no file")
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
