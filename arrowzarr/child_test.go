package arrowzarr_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr"
)

// childTask is the variable that names the task of a child process.
const childTask = "ARROWZARR_TEST_TASK"

// outcome is how a conversion in a child process went.
type outcome struct {
	Part     arrowzarr.Part // that failed, 0 where none did
	Message  string
	Wrong    string // how the output differs from what the input holds
	PeakRSS  int64  // bytes, right after the conversion
	Unmarked bool   // the error is no *Error
}

var tasks = map[string]func(input, output string) outcome{}

// runChild is main in a child process: it prints an outcome.
func runChild(task string) int {
	o := tasks[task](os.Args[1], os.Args[2])
	if err := json.NewEncoder(os.Stdout).Encode(o); err != nil {
		return 1
	}
	return 0
}

// inChild converts in a process of its own, which must end by itself in time.
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

// result is the outcome of a conversion.
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

// peakRSS is the most memory that this process had at a time. (What wait4 says
// of a child counts its parent's memory too, from before the exec.)
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
