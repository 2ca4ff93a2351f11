package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
)

// asCommand is the variable that makes the test binary be the command.
const asCommand = "ARROW2ZARR_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	switch as := os.Getenv(asCommand); as {
	case "":
		os.Exit(m.Run())
	case "yes":
		main()
	default: // a file that takes how much memory it took
		code := run(context.Background(), os.Args[1:], os.Stdout, os.Stderr)
		status, err := os.ReadFile("/proc/self/status")
		if err == nil {
			err = os.WriteFile(as, status, 0o666)
		}
		if err != nil {
			panic(err)
		}
		os.Exit(code)
	}
}

// ending is how a run of the command ended.
type ending struct {
	code           int
	stdout, stderr string
}

// arrow2zarr runs the command in this process.
func arrow2zarr(t *testing.T, args ...string) ending {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), args, &stdout, &stderr)
	return ending{code, stdout.String(), stderr.String()}
}

// succeed is arrow2zarr for what must not fail.
func succeed(t *testing.T, args ...string) ending {
	t.Helper()
	e := arrow2zarr(t, args...)
	require.Equal(t, exitOK, e.code, e.stderr)
	return e
}

// command is the command as a process of its own.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.Command(os.Args[0], args...)
	c.Env = append(os.Environ(), asCommand+"=yes", "GORACE=atexit_sleep_ms=0")
	return c
}

// weather is a small table of numbers, text and nulls.
func weather() arrow.RecordBatch {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "station", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "temp", Type: arrow.PrimitiveTypes.Float32},
		{Name: "when", Type: &arrow.TimestampType{Unit: arrow.Second, TimeZone: "UTC"}},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	b.Field(0).(*array.StringBuilder).AppendValues([]string{"EWR", "", "LGA", "JFK"}, []bool{true, false, true, true})
	b.Field(1).(*array.Float32Builder).AppendValues([]float32{21.5, 23, 18.25, -4}, nil)
	b.Field(2).(*array.TimestampBuilder).AppendValues([]arrow.Timestamp{1, 2, 3, 1 << 31}, nil)
	return b.NewRecordBatch()
}

// stream is batches as an IPC stream.
func stream(t *testing.T, batches ...arrow.RecordBatch) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := ipc.NewWriter(&buf, ipc.WithSchema(batches[0].Schema()))
	for _, b := range batches {
		require.NoError(t, w.Write(b))
	}
	require.NoError(t, w.Close())
	return buf.Bytes()
}

// inputFile writes an input to a folder of its own.
func inputFile(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "input")
	require.NoError(t, os.WriteFile(path, content, 0o666))
	return path
}

// place is the path for an output in a folder of its own.
func place(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "output.zarr")
}

// requireNothing checks that there is no output, and nothing beside it.
func requireNothing(t *testing.T, output string) {
	t.Helper()
	left, err := os.ReadDir(filepath.Dir(output))
	require.NoError(t, err)
	require.Empty(t, left)
}

// lines are those of a text, without the empty one behind it.
func lines(text string) []string { return strings.Split(strings.TrimSuffix(text, "\n"), "\n") }
