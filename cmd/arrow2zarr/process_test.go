package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestStandardInput(t *testing.T) {
	output := place(t)
	c := command(t, "convert", "-", output)
	c.Stdin = bytes.NewReader(stream(t, weather(), weather(), weather())) // by a pipe
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	requireWeather(t, output, 3)

	file, err := os.Open(inputFile(t, stream(t, weather())))
	require.NoError(t, err)
	defer file.Close()
	redirected := place(t)
	c = command(t, "convert", "-", redirected)
	c.Stdin = file
	out, err = c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	requireWeather(t, redirected, 1)
}

func TestBrokenStandardInput(t *testing.T) {
	whole := stream(t, weather(), weather())
	for name, content := range map[string][]byte{"nothing": nil, "text": []byte("a,b\n1,2\n"), "cut short": whole[:len(whole)-60]} {
		output := place(t)
		c := command(t, "convert", "-", output)
		c.Stdin = bytes.NewReader(content)
		out, _ := c.CombinedOutput()
		assert.Equal(t, exitInput, c.ProcessState.ExitCode(), "%s: %s", name, out)
		assert.Regexp(t, "^arrow2zarr: standard input: |^arrow2zarr: record batch", string(out))
		assert.NotContains(t, string(out), "panic")
		requireNothing(t, output)
	}
}

// waiting starts the command on a pipe that brings the start of a stream and
// then nothing, and returns when it has made its staging directory.
func waiting(t *testing.T, output string) (*exec.Cmd, io.Closer, *bytes.Buffer) {
	t.Helper()
	c := command(t, "convert", "-", output, "--chunk-rows", "2")
	stdin, err := c.StdinPipe()
	require.NoError(t, err)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	require.NoError(t, c.Start())
	t.Cleanup(func() { _ = c.Process.Kill() })
	whole := stream(t, weather(), weather(), weather())
	_, err = stdin.Write(whole[:len(whole)*2/3])
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		entries, err := os.ReadDir(filepath.Dir(output))
		return err == nil && len(entries) == 1
	}, 10*time.Second, time.Millisecond, "no staging directory")
	return c, stdin, &stderr
}

func TestSignalsLeaveNothing(t *testing.T) {
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			output := place(t)
			c, stdin, stderr := waiting(t, output)
			defer stdin.Close()
			require.NoError(t, c.Process.Signal(signal))
			_ = c.Wait()
			assert.Equal(t, exitInterrupted, c.ProcessState.ExitCode(), stderr.String())
			assert.Contains(t, stderr.String(), "interrupted")
			assert.NotContains(t, stderr.String(), "goroutine")
			requireNothing(t, output)
		})
	}
}

// When the input does not even bring a schema, a signal ends the program too.
func TestSignalsWhileThereIsNoSchema(t *testing.T) {
	for _, args := range [][]string{{"convert", "-"}, {"inspect", "-"}} {
		t.Run(args[0], func(t *testing.T) {
			t.Parallel()
			output := place(t)
			if args[0] == "convert" {
				args = append(args, output)
			}
			c := command(t, args...)
			stdin, err := c.StdinPipe()
			require.NoError(t, err)
			defer stdin.Close()
			require.NoError(t, c.Start())
			t.Cleanup(func() { _ = c.Process.Kill() })
			// Metadata of 1 MiB begins. A pipe holds 64 KiB, so when all of this
			// is written the command reads, and long before that it asked for
			// signals.
			_, err = stdin.Write(append([]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 16, 0}, make([]byte, 200_000)...))
			require.NoError(t, err)
			require.NoError(t, c.Process.Signal(os.Interrupt))
			_ = c.Wait()
			assert.Equal(t, exitInterrupted, c.ProcessState.ExitCode())
			requireNothing(t, output)
		})
	}
}

// An input that ends where a signal would have come is a broken input.
func TestPipesThatBreak(t *testing.T) {
	output := place(t)
	c, stdin, stderr := waiting(t, output)
	require.NoError(t, stdin.Close())
	_ = c.Wait()
	assert.Equal(t, exitInput, c.ProcessState.ExitCode())
	assert.Contains(t, stderr.String(), "unexpected EOF")
	requireNothing(t, output)
}
