//go:build emulate

package batchtest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Emulator is a process of kernels/emulate that runs kernels on the CPU. It ends with a
// report if one accesses memory outside its buffers.
type Emulator struct {
	t      *testing.T
	in     io.Writer
	out    *bufio.Reader
	report bytes.Buffer
}

// StartEmulator starts the program emulate-decode in the folder that QUIVER_EMULATE names.
func StartEmulator(t *testing.T) *Emulator {
	e := &Emulator{t: t}
	command := exec.CommandContext(t.Context(), os.Getenv("QUIVER_EMULATE")+"/emulate-decode")
	command.Env = append(os.Environ(), "ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=0")
	command.Stderr = &e.report
	in, err := command.StdinPipe()
	require.NoError(t, err)
	out, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start(), "make emulate builds it")
	e.in, e.out = in, bufio.NewReader(out)
	return e
}

// Launch runs a kernel. An argument is an int64, or a []byte that the kernel may change.
func (e *Emulator) Launch(kernel string, blocks, threads int64, arguments ...any) {
	e.t.Helper()
	var line strings.Builder
	fmt.Fprintf(&line, "%s %d %d", kernel, blocks, threads)
	for _, a := range arguments {
		switch a := a.(type) {
		case int64:
			fmt.Fprintf(&line, " =%d", a)
		case []byte:
			fmt.Fprintf(&line, " %d", len(a))
		default:
			e.t.Fatalf("argument of type %T", a)
		}
	}
	_, err := fmt.Fprintln(e.in, line.String())
	for _, a := range arguments {
		if b, ok := a.([]byte); ok && err == nil {
			_, err = e.in.Write(b)
		}
	}
	for _, a := range arguments {
		if b, ok := a.([]byte); ok && err == nil {
			_, err = io.ReadFull(e.out, b)
		}
	}
	require.NoError(e.t, err, "%s: %s", line.String(), e.report.String())
}
