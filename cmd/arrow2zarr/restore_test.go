package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// weatherFile writes weather as an Arrow IPC stream and returns its path.
func weatherFile(t *testing.T) string {
	t.Helper()
	var buf bytes.Buffer
	b := weather()
	w := ipc.NewWriter(&buf, ipc.WithSchema(b.Schema()))
	require.NoError(t, w.Write(b))
	require.NoError(t, w.Close())
	path := filepath.Join(t.TempDir(), "weather.arrows")
	require.NoError(t, os.WriteFile(path, buf.Bytes(), 0o666))
	return path
}

func TestRestoredTablesVerify(t *testing.T) {
	input, dir := weatherFile(t), t.TempDir()
	zarr := filepath.Join(dir, "w.zarr")
	mustRun(t, "convert", input, zarr)
	for _, name := range []string{"w.arrow", "w.arrows", "w.parquet"} {
		restored := filepath.Join(dir, name)
		mustRun(t, "restore", zarr, restored)
		if name != "w.parquet" { // Parquet adds field ids
			assert.Contains(t, mustRun(t, "verify", restored, zarr).stdout, "4 rows, 3 columns")
		}
		again := arrow2zarr(t, "restore", zarr, restored)
		assert.Equal(t, exitOutput, again.code)
		assert.Contains(t, again.stderr, "exists already")
		mustRun(t, "restore", zarr, restored, "--overwrite")
	}
	stream := mustRun(t, "restore", zarr, "-").stdout
	r, err := ipc.NewReader(bytes.NewReader([]byte(stream)))
	require.NoError(t, err)
	defer r.Release()
	require.True(t, r.Next())
	assert.Equal(t, int64(4), r.RecordBatch().NumRows())
	assert.Equal(t, exitUsage, arrow2zarr(t, "restore", zarr, filepath.Join(dir, "w.txt")).code)
	missing := arrow2zarr(t, "restore", filepath.Join(dir, "none.zarr"), "-")
	assert.Equal(t, exitInput, missing.code)
	assert.Contains(t, missing.stderr, "none.zarr does not exist")
}

// A chunk of other values is a difference, which verify names with exit code 1.
func TestVerifyNamesTheFirstDifference(t *testing.T) {
	input, dir := weatherFile(t), t.TempDir()
	zarr := filepath.Join(dir, "w.zarr")
	mustRun(t, "convert", input, zarr, "--codec", "none")
	chunk := filepath.Join(zarr, "temp", "c", "0")
	raw, err := os.ReadFile(chunk)
	require.NoError(t, err)
	raw[9] ^= 1 // of row 2
	require.NoError(t, os.WriteFile(chunk, raw, 0o666))
	result := arrow2zarr(t, "verify", input, zarr)
	assert.Equal(t, exitDifferent, result.code)
	assert.Contains(t, result.stdout, `column "temp", row 2: `)
	var report struct{ Difference string }
	require.NoError(t, json.Unmarshal([]byte(arrow2zarr(t, "verify", input, zarr, "--json").stdout), &report))
	assert.Contains(t, report.Difference, `column "temp", row 2: `)
}

func TestSummariesThatCannotBeWrittenFail(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer func() { require.NoError(t, full.Close()) }()
	input, dir := weatherFile(t), t.TempDir()
	zarr := filepath.Join(dir, "w.zarr")
	for _, args := range [][]string{
		{"convert", input, zarr}, {"convert", input, zarr, "--overwrite", "--json"}, {"inspect", zarr}, {"verify", input, zarr}, {"restore", zarr, filepath.Join(dir, "w.arrow")},
	} {
		var stderr bytes.Buffer
		assert.Equal(t, exitOutput, run(t.Context(), args, full, &stderr), "%v: %s", args, &stderr)
		assert.Contains(t, stderr.String(), "no space left")
	}
}

// A terminal that closes sends SIGHUP.
func TestHangupLeavesNothingBehind(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o666))
	writer, err := os.OpenFile(pipe, os.O_RDWR, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, writer.Close()) }()
	content, err := os.ReadFile(weatherFile(t))
	require.NoError(t, err)
	_, err = writer.Write(content[:len(content)-16]) // without the end of the stream
	require.NoError(t, err)
	dir := t.TempDir()
	c := command(t, "convert", pipe, filepath.Join(dir, "w.zarr"))
	require.NoError(t, c.Start())
	require.Eventually(t, func() bool { entries, _ := os.ReadDir(dir); return len(entries) > 0 }, 10*time.Second, 5*time.Millisecond)
	require.NoError(t, c.Process.Signal(syscall.SIGHUP))
	_ = c.Wait() // the exit code tells
	assert.Equal(t, exitInterrupted, c.ProcessState.ExitCode())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, entries)
}
