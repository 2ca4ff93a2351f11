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
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// asCommand is the environment variable that makes the test binary run the command.
const asCommand = "ARROW2ZARR_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	switch as := os.Getenv(asCommand); as {
	case "":
		os.Exit(m.Run())
	case "yes":
		main()
	default: // the file to write the process status to
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

// outcome is the result of a run of the command.
type outcome struct {
	code           int
	stdout, stderr string
}

// arrow2zarr runs the command in this process.
func arrow2zarr(t *testing.T, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), args, &stdout, &stderr)
	return outcome{code, stdout.String(), stderr.String()}
}

// mustRun is arrow2zarr for a command that must succeed.
func mustRun(t *testing.T, args ...string) outcome {
	t.Helper()
	e := arrow2zarr(t, args...)
	require.Equal(t, exitOK, e.code, e.stderr)
	return e
}

// command returns the command as a process of its own.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.Command(os.Args[0], args...)
	c.Env = append(os.Environ(), asCommand+"=yes", "GORACE=atexit_sleep_ms=0")
	return c
}

// weather returns a small batch of numbers, text and nulls.
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

// stream returns batches as an IPC stream.
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

// outputPath returns a path for an output in a folder of its own.
func outputPath(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "output.zarr")
}

// requireNothing checks that neither the output nor any file beside it exists.
func requireNothing(t *testing.T, output string) {
	t.Helper()
	left, err := os.ReadDir(filepath.Dir(output))
	require.NoError(t, err)
	require.Empty(t, left)
}

// lines returns the lines of a text, without the empty one at the end.
func lines(text string) []string { return strings.Split(strings.TrimSuffix(text, "\n"), "\n") }

func TestInvalidArgumentsAreUsageErrors(t *testing.T) {
	input := inputFile(t, stream(t, weather()))
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"frobnicate"}, `unknown command "frobnicate"`},
		{[]string{"convert"}, "requires at least 2 arg(s), only received 0"},
		{[]string{"convert", input}, "requires at least 2 arg(s), only received 1"},
		{[]string{"convert", input, "OUTPUT", "--frobnicate"}, "unknown flag: --frobnicate"},
		{[]string{"convert", input, "OUTPUT", "--progress", "--no-progress"}, "[no-progress progress]"},
		{[]string{"convert", input, "OUTPUT", "--codec", "lzma"}, "expected none, zstd[:LEVEL], gzip[:LEVEL], blosc:"},
		{[]string{"convert", input, "OUTPUT", "--codec", "zstd:23"}, "expected a level from -131072 to 22"},
		{[]string{"convert", input, "OUTPUT", "--codec", "gzip:-1"}, "expected a level from 0 to 9"},
		{[]string{"convert", input, "OUTPUT", "--codec", "gzip:"}, "expected a level"},
		{[]string{"convert", input, "OUTPUT", "--codec", "gzip", "--codec", "wind=none"}, `codec: no column is named "wind"`},
		{[]string{"convert", input, "OUTPUT", "--codec", "none:1"}, "expected nothing after"},
		{[]string{"convert", input, "OUTPUT", "--chunk-rows", "many"}, `invalid argument "many"`},
		{[]string{"convert", input, "OUTPUT", "--chunk-rows", "-1"}, "chunk rows: -1"},
		{[]string{"convert", input, "OUTPUT", "--shard-rows", "8"}, "expected a multiple of the chunk rows"},
		{[]string{"convert", input, "OUTPUT", "--chunk-rows", "3", "--shard-rows", "8"}, "expected a multiple of the chunk rows"},
		{[]string{"convert", input, "OUTPUT", "--jobs", "-2"}, "jobs: -2"},
		{[]string{"convert", input, "OUTPUT", "--max-memory", "lots"}, "expected a size such as 512MiB or 4GiB"},
		{[]string{"convert", input, "OUTPUT", "--max-memory", "1KiB"}, "max memory"},
		{[]string{"convert", input, "OUTPUT", "--max-memory", "2000PB"}, "--max-memory"},
		{[]string{"convert", input, "OUTPUT", "--columns", "temp,wind"}, "columns: no column is named \"wind\"\n  expected some of \"station\", \"temp\", \"when\""},
		{[]string{"convert", input, "OUTPUT", "--device", "tpu"}, "want auto, cpu, cuda, cuda:N, cuda_managed:N or GPU-UUID"},
		{[]string{"convert", input, "OUTPUT", "--device", "cuda:one"}, "want auto, cpu, cuda, cuda:N, cuda_managed:N or GPU-UUID"},
		{[]string{"convert", input, "OUTPUT", "--device", "cuda:-1"}, "want auto, cpu, cuda, cuda:N, cuda_managed:N or GPU-UUID"},
		{[]string{"inspect"}, "accepts 1 arg(s), received 0"},
		{[]string{"inspect", input, input}, "accepts 1 arg(s), received 2"},
	} {
		t.Run(test.want, func(t *testing.T) {
			output := outputPath(t)
			for i, arg := range test.args {
				if arg == "OUTPUT" {
					test.args[i] = output
				}
			}
			e := arrow2zarr(t, test.args...)
			assert.Equal(t, exitUsage, e.code)
			assert.Contains(t, e.stderr, test.want)
			assert.Regexp(t, "^arrow2zarr: ", e.stderr)
			assert.Empty(t, e.stdout)
			requireNothing(t, output)
		})
	}
}

func TestExitCodesDistinguishTheParts(t *testing.T) {
	whole := stream(t, weather())
	input, output := inputFile(t, whole), outputPath(t)
	missing := filepath.Join(t.TempDir(), "missing")

	e := arrow2zarr(t, "convert", missing, output)
	assert.Equal(t, exitInput, e.code)
	assert.Contains(t, e.stderr, missing)

	e = arrow2zarr(t, "convert", inputFile(t, whole[:len(whole)-50]), output)
	assert.Equal(t, exitInput, e.code)
	requireNothing(t, output)

	e = arrow2zarr(t, "convert", input, filepath.Join(missing, "output.zarr"))
	assert.Equal(t, exitOutput, e.code)

	e = arrow2zarr(t, "inspect", missing)
	assert.Equal(t, exitInput, e.code)

	mustRun(t, "convert", input, output)
	e = arrow2zarr(t, "convert", input, output)
	assert.Equal(t, exitOutput, e.code)
	assert.Contains(t, e.stderr, "exists already (--overwrite replaces it)")
	assert.Len(t, lines(e.stderr), 1)
	mustRun(t, "convert", input, output, "--overwrite")

	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "letter"), nil, 0o666))
	e = arrow2zarr(t, "convert", input, dir, "--overwrite")
	assert.Equal(t, exitOutput, e.code)
	assert.FileExists(t, filepath.Join(dir, "letter"))
}

func TestHelpEndsWithExamplesAndExitCodes(t *testing.T) {
	for _, command := range []string{"convert", "inspect"} {
		e := mustRun(t, command, "--help")
		assert.Contains(t, e.stdout, "Examples:")
		assert.Contains(t, e.stdout, "  arrow2zarr "+command+" ")
		assert.Contains(t, e.stdout, "Exit codes:")
		for _, code := range []string{"  0 ", "  2 ", "  3 ", "  4 ", "  5 ", "  130 "} {
			assert.Contains(t, e.stdout, "\n"+code)
		}
		assert.Empty(t, e.stderr)
	}
	convert := mustRun(t, "convert", "--help").stdout
	for _, flag := range []string{
		"device", "codec", "chunk-rows", "shard-rows", "columns", "exclude", "skip-unsupported", "jobs", "max-memory",
		"overwrite", "progress", "no-progress", "json", "verbose",
	} {
		assert.Contains(t, convert, "--"+flag)
	}
	assert.Contains(t, mustRun(t, "--help").stdout, "convert")
	assert.Contains(t, mustRun(t).stdout, "convert")
}
