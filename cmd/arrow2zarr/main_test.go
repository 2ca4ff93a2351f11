package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/cmd/internal/version"
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
		{[]string{"frobnicate"}, `unknown command "frobnicate": arrow2zarr --help lists the commands`},
		{[]string{"conver", input}, `unknown command "conver": did you mean convert?`},
		{[]string{input, "OUTPUT", "--codec", "none"}, "did you mean arrow2zarr convert " + input},
		{[]string{input}, "did you mean arrow2zarr convert " + input},
		{[]string{"--frobnicate"}, "unknown flag: --frobnicate"},
		{[]string{"convert", input, "-"}, "standard output cannot hold it"},
		{[]string{"convert", input, "OUTPUT", "--quiet", "-v"}, "[quiet verbose]"},
		{[]string{"convert", input, "OUTPUT", "--max-memory", "100M"}, "max memory: 104857600 bytes, expected at least 268435456 (256 MiB)"},
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
		{[]string{"convert", input, "OUTPUT", "--chunk-rows", "many"}, `invalid argument "many" for --chunk-rows: expected a whole number`},
		{[]string{"convert", input, "OUTPUT", "--chunk-rows", "-1"}, "chunk rows: -1"},
		{[]string{"convert", input, "OUTPUT", "--shard-rows", "8"}, "expected a multiple of the chunk rows"},
		{[]string{"convert", input, "OUTPUT", "--chunk-rows", "3", "--shard-rows", "8"}, "expected a multiple of the chunk rows"},
		{[]string{"convert", input, "OUTPUT", "--jobs", "-2"}, "jobs: -2"},
		{[]string{"convert", input, "OUTPUT", "--max-memory", "lots"}, "expected a size such as 512M or 4GiB"},
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

func TestSizesAreParsedAsPeopleWriteThem(t *testing.T) {
	for text, want := range map[string]int64{
		"512M": 512 << 20, "4G": 4 << 30, "4g": 4 << 30, "1.5GiB": 3 << 29, "4gb": 4e9, "4 GB": 4e9, "300MB": 300e6, "1T": 1 << 40,
		"268435456": 1 << 28, "64k": 64 << 10, " 1 GiB ": 1 << 30,
	} {
		got, err := parseSize(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "M", "-1G", "1X", "2000PB", "NaN"} {
		_, err := parseSize(text)
		assert.Error(t, err, text)
	}
}

func TestErrorsAreJSONObjectsIfAskedFor(t *testing.T) {
	input, output := inputFile(t, stream(t, weather())), outputPath(t)
	missing := filepath.Join(t.TempDir(), "none")
	for _, test := range []struct {
		args []string
		part string
		code int
	}{
		{[]string{"convert", missing, output, "--json"}, "input", exitInput},
		{[]string{"convert", input, filepath.Join(missing, "w.zarr"), "--json"}, "output", exitOutput},
		{[]string{"convert", input, output, "--json", "--device", "cuda:99"}, "device", exitDevice},
		{[]string{"convert", input, output, "--json", "--columns", "z,y"}, "usage", exitUsage},
		{[]string{"convert", "--json", input, output, "--frobnicate"}, "usage", exitUsage},
		{[]string{"inspect", missing, "--json=true"}, "input", exitInput},
		{[]string{"verify", missing, output, "--json"}, "input", exitInput},
		{[]string{"restore", output, "-", "--json"}, "input", exitInput},
	} {
		e := arrow2zarr(t, test.args...)
		assert.Equal(t, test.code, e.code)
		assert.Empty(t, e.stdout)
		decoder := json.NewDecoder(strings.NewReader(e.stderr))
		decoder.DisallowUnknownFields()
		var got failure
		require.NoError(t, decoder.Decode(&got), e.stderr)
		assert.False(t, decoder.More(), "one object")
		assert.NotEmpty(t, got.Error)
		assert.Equal(t, failure{got.Error, test.part, test.code}, got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr bytes.Buffer
	assert.Equal(t, exitInterrupted, run(ctx, []string{"convert", input, output, "--json"}, &stdout, &stderr))
	assert.JSONEq(t, `{"error": "interrupted; nothing is left behind", "part": "interrupted", "exit_code": 130}`, stderr.String())
}

func TestQuietCommandsPrintNothing(t *testing.T) {
	input, output := inputFile(t, stream(t, weather())), outputPath(t)
	restored := filepath.Join(t.TempDir(), "w.arrow")
	for _, args := range [][]string{{"convert", input, output, "-q"}, {"restore", output, restored, "--quiet"}, {"verify", input, output, "--quiet"}} {
		e := mustRun(t, args...)
		assert.Empty(t, e.stdout+e.stderr, args)
	}
	assert.FileExists(t, restored)
	assert.Equal(t, exitUsage, arrow2zarr(t, "verify", input, "--quiet").code)
}

func TestVersionIsPrinted(t *testing.T) {
	assert.Equal(t, "arrow2zarr version "+version.String()+"\n", mustRun(t, "--version").stdout)
}

// Each shell's script parses, if the shell is installed.
func TestShellsCompleteTheCommand(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		script := mustRun(t, "completion", shell).stdout
		assert.Contains(t, script, "arrow2zarr")
		if path, err := exec.LookPath(shell); err == nil {
			c := exec.Command(path, "-n")
			c.Stdin = strings.NewReader(script)
			out, err := c.CombinedOutput()
			assert.NoError(t, err, "%s: %s", shell, out)
		}
	}
	assert.Contains(t, mustRun(t, "__complete", "con").stdout, "convert")
	assert.Contains(t, mustRun(t, "__complete", "convert", "--skip").stdout, "--skip-unsupported")
}

func TestManPagesDescribeEveryCommand(t *testing.T) {
	dir := t.TempDir()
	mustRun(t, "man", dir)
	for _, c := range newRoot(nil, nil).Commands() {
		if c.Hidden || c.Name() == "help" {
			continue
		}
		page, err := os.ReadFile(filepath.Join(dir, "arrow2zarr-"+c.Name()+".1"))
		require.NoError(t, err)
		assert.Contains(t, string(page), ".TH")
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && f.Name != "help" {
				assert.True(t, bytes.Contains(page, []byte(`\fB--`+f.Name+`\fP`)), "%s --%s", c.Name(), f.Name)
			}
		})
	}
	convert, err := os.ReadFile(filepath.Join(dir, "arrow2zarr-convert.1"))
	require.NoError(t, err)
	assert.Contains(t, string(convert), "Exit codes")
	assert.Contains(t, string(convert), "arrow2zarr convert flights.parquet flights.zarr")
	e := arrow2zarr(t, "man", filepath.Join(dir, "missing"))
	assert.Equal(t, exitOutput, e.code)
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
