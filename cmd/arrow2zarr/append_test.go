package main

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr"
)

func TestAppendedTablesVerify(t *testing.T) {
	first, second, output := inputFile(t, stream(t, tags(0))), inputFile(t, stream(t, tags(1), tags(2))), outputPath(t)
	mustRun(t, "convert", first, output)
	assert.Contains(t, mustRun(t, "append", second, output).stdout, "200 rows appended to 5 columns, 300 rows in all")
	mustRun(t, "verify", first, second, output)

	var report arrowzarr.AppendReport
	require.NoError(t, json.Unmarshal([]byte(mustRun(t, "append", first, second, output, "--json").stdout), &report))
	assert.Equal(t, int64(300), report.Appended)
	assert.Equal(t, int64(600), report.Rows)
	assert.Equal(t, int64(600), report.ChunkRows)
	mustRun(t, "verify", first, second, first, second, output)
	assert.Empty(t, mustRun(t, "append", first, output, "--quiet").stdout)
	assert.Contains(t, mustRun(t, "append", first, output, "-v").stdout, "write")

	var failure failure
	e := arrow2zarr(t, "append", weatherFile(t), output, "--json")
	assert.Equal(t, exitInput, e.code)
	require.NoError(t, json.Unmarshal([]byte(e.stderr), &failure))
	assert.Equal(t, "input", failure.Part)
	assert.Contains(t, failure.Error, `has no column "id" of type int64`)
	assert.Equal(t, exitOutput, arrow2zarr(t, "append", first, outputPath(t)).code)
	mustRun(t, "verify", first, second, first, second, first, first, output)
}

// A process that appends and is killed at any moment leaves the table as it was, and the
// same append has the right result.
func TestKilledAppendsLeaveTheTable(t *testing.T) {
	first, second := manyTags(t, 20), manyTags(t, 40)
	flags := []string{"--device", "cpu", "--jobs", "2"}
	whole := outputPath(t)
	mustRun(t, "convert", first, whole, "--chunk-rows", "96")
	start := time.Now()
	require.NoError(t, command(t, append([]string{"append", second, whole}, flags...)...).Run())
	took := time.Since(start)
	rng := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	for kills, rounds := 0, killRounds(t); kills < rounds; {
		output := outputPath(t)
		mustRun(t, "convert", first, output, "--chunk-rows", "96")
		c := command(t, append([]string{"append", second, output}, flags...)...)
		require.NoError(t, c.Start())
		timer := time.AfterFunc(time.Duration(rng.Int64N(int64(took))), func() { _ = c.Process.Kill() })
		err := c.Wait()
		timer.Stop()
		if err != nil {
			require.Equal(t, -1, c.ProcessState.ExitCode(), "killed, not failed")
			kills++
			if arrow2zarr(t, "verify", first, output).code == exitOK {
				mustRun(t, append([]string{"append", second, output}, flags...)...)
			} else { // it was killed after the root had changed
				mustRun(t, "abort", output)
			}
		}
		require.Equal(t, files(t, whole), files(t, output))
	}
}

// A signal ends an append, and the table is as it was.
func TestSignalsUndoAppends(t *testing.T) {
	first, output := manyTags(t, 20), outputPath(t)
	mustRun(t, "convert", first, output, "--chunk-rows", "96")
	before := files(t, output)
	c := command(t, "append", "-", output, "--device", "cpu")
	stdin, err := c.StdinPipe()
	require.NoError(t, err)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	require.NoError(t, c.Start())
	content := stream(t, tags(0), tags(1))
	_, err = stdin.Write(content[:len(content)-8]) // without the end
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		s, err := arrowzarr.Status(t.Context(), output)
		return err == nil && s.State == arrowzarr.StateAppending
	}, time.Minute, time.Millisecond)
	assert.Contains(t, mustRun(t, "status", output).stdout, "rows are being appended")
	e := arrow2zarr(t, "append", first, output)
	assert.Equal(t, exitOutput, e.code)
	assert.Contains(t, e.stderr, "another process appends")
	e = arrow2zarr(t, "convert", first, output, "--overwrite")
	assert.Equal(t, exitOutput, e.code)
	assert.Contains(t, e.stderr, "rows are being appended")
	require.NoError(t, c.Process.Signal(syscall.SIGTERM))
	require.Error(t, c.Wait())
	require.Equal(t, exitInterrupted, c.ProcessState.ExitCode(), stderr.String())
	assert.Contains(t, stderr.String(), "the table is as it was")
	assert.Equal(t, before["zarr.json"], files(t, output)["zarr.json"])
	mustRun(t, "verify", first, output)
	requireDone(t, output)
}

// requireDone checks that nothing is unfinished.
func requireDone(t *testing.T, output string) {
	t.Helper()
	assert.Contains(t, mustRun(t, "abort", output).stdout, "nothing is unfinished")
}
