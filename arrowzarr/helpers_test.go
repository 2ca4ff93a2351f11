package arrowzarr_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source/inputs"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source/sourcetest"
)

// sourceOf returns an opener of what Convert reads with these options, in short batches.
func sourceOf(options arrowzarr.InputOptions, names ...string) sourcetest.Opener {
	return func() (source.Source, error) {
		o := sourcetest.Options()
		o.Text = options.TextOptions()
		return inputs.Open(context.Background(), names, o)
	}
}

// inputFile writes an input to a folder of its own. The folder of the output then has
// no other file.
func inputFile(tb testing.TB, content []byte) string {
	tb.Helper()
	return sourcetest.WriteFile(tb, "input", content)
}

// convert converts an input and checks that it leaves no file but the output. It
// returns the path of the output and the report.
func convertCodes(tb testing.TB, input []byte, options arrowzarr.Options) (string, *arrowzarr.Report) {
	tb.Helper()
	return convertFile(tb, inputFile(tb, input), options)
}

func convertFile(tb testing.TB, input string, options arrowzarr.Options) (string, *arrowzarr.Report) {
	tb.Helper()
	output := filepath.Join(tb.TempDir(), "output.zarr")
	report, err := arrowzarr.Convert(tb.Context(), input, output, options)
	require.NoError(tb, err)
	requireOnly(tb, filepath.Dir(output), filepath.Base(output))
	return output, report
}

// refuse checks that converting an input fails in one part and leaves no file. It
// returns the text of the error.
func refuse(tb testing.TB, part arrowzarr.Part, input string, options arrowzarr.Options) string {
	tb.Helper()
	output := filepath.Join(tb.TempDir(), "output.zarr")
	report, err := arrowzarr.Convert(tb.Context(), input, output, options)
	require.Error(tb, err)
	assert.Nil(tb, report)
	requirePart(tb, part, err)
	requireOnly(tb, filepath.Dir(output))
	return err.Error()
}

func requirePart(tb testing.TB, part arrowzarr.Part, err error) {
	tb.Helper()
	var failure *arrowzarr.Error
	require.ErrorAs(tb, err, &failure)
	require.Equal(tb, part, failure.Part, "the part that %q is blamed on", err)
}

// requireOnly checks that a directory has exactly these entries.
func requireOnly(tb testing.TB, dir string, names ...string) {
	tb.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(tb, err)
	found := []string{}
	for _, e := range entries {
		found = append(found, e.Name())
	}
	require.ElementsMatch(tb, names, found, "entries of the output's directory")
}

// noGoroutinesLeft fails the test if it ends with more goroutines than now. Such a test
// must not run in parallel with others.
func noGoroutinesLeft(t *testing.T) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		stacks := make([]byte, 1<<20)
		ok := assert.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+1 }, 10*time.Second, 5*time.Millisecond) // Eventually has one
		if !ok {
			t.Logf("goroutines:\n%s", stacks[:runtime.Stack(stacks, true)])
		}
	})
}

// TestMain runs the tests. In a child process of a test it runs one task.
func TestMain(m *testing.M) {
	if task := os.Getenv(childTask); task != "" {
		os.Exit(runChild(task))
	}
	useMemoryForFiles()
	os.Exit(m.Run())
}

// useMemoryForFiles makes tests write their thousands of small files to memory, if
// there is enough, because creating them on a disk takes most of the time. TMPDIR
// overrides it.
func useMemoryForFiles() {
	const shared = "/dev/shm"
	var fs unix.Statfs_t
	if os.Getenv("TMPDIR") == "" && unix.Statfs(shared, &fs) == nil && fs.Bavail*uint64(fs.Bsize) > 1<<30 {
		if err := os.Setenv("TMPDIR", shared); err != nil {
			panic(err)
		}
	}
}

// childTask is the environment variable with the task of a child process.
const childTask = "ARROWZARR_TEST_TASK"

// outcome is the result of a conversion in a child process.
type outcome struct {
	Part     arrowzarr.Part // that failed; 0 for none
	Message  string
	Wrong    string // how the output differs from the input
	PeakRSS  int64  // in bytes, after the conversion
	Unmarked bool   // the error is no *Error
}

var tasks = map[string]func(input, output string) outcome{}

// runChild is the main function of a child process. It prints an outcome.
func runChild(task string) int {
	o := tasks[task](os.Args[1], os.Args[2])
	if err := json.NewEncoder(os.Stdout).Encode(o); err != nil {
		return 1
	}
	return 0
}

// inChild converts in a child process, which must end within 20 s.
func inChild(tb testing.TB, task, input, output string) outcome {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 20*time.Second)
	defer cancel()
	child := exec.CommandContext(ctx, os.Args[0], input, output)
	child.Env = append(os.Environ(), childTask+"="+task, "GORACE=atexit_sleep_ms=0")
	var stdout, stderr bytes.Buffer
	child.Stdout, child.Stderr = &stdout, &stderr
	err := child.Run()
	require.NoError(tb, ctx.Err(), "the conversion takes more than 20 s")
	require.NoError(tb, err, "the child ends with\n%s", tail(stderr.String()))
	require.NotContains(tb, stderr.String(), "panic")
	var o outcome
	require.NoError(tb, json.Unmarshal(stdout.Bytes(), &o))
	return o
}

func tail(text string) string { return text[max(0, len(text)-3000):] }

// result returns the outcome of a conversion that returned err.
func result(err error) outcome {
	o := outcome{PeakRSS: peakRSS()}
	if err == nil {
		return o
	}
	o.Message = err.Error()
	var failure *arrowzarr.Error
	if o.Unmarked = !errors.As(err, &failure); !o.Unmarked {
		o.Part = failure.Part
	}
	return o
}

// peakRSS returns the peak of this process's resident memory, in bytes. wait4 does not
// do: for a child, it includes the parent's memory before the exec.
func peakRSS() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(status)) {
		var kib int64
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kib); err == nil {
			return kib << 10
		}
	}
	return -1
}
