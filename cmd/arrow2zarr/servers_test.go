package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// startS3 starts versitygw, an S3 server, with a bucket "tests". It returns the folder of
// the bucket and a function that returns the URL of a prefix. Without the server it skips
// the test, or fails if CI is set.
func startS3(t *testing.T) (bucket string, location func(prefix string) string) {
	t.Helper()
	if testing.Short() {
		t.Skip("servers are slow")
	}
	file, err := filepath.Abs("../../.tools/bin/versitygw")
	require.NoError(t, err)
	if _, err := os.Stat(file); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%v: make stores installs it", err)
		}
		t.Skip("no server: make stores installs it")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	require.NoError(t, listener.Close())
	data := t.TempDir()
	bucket = filepath.Join(data, "tests")
	require.NoError(t, os.Mkdir(bucket, 0o777))
	server := exec.Command(file, "--port", address, "posix", data)
	server.Env = append(os.Environ(), "ROOT_ACCESS_KEY=id", "ROOT_SECRET_KEY=secret")
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait() // it was killed
	})
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", address)
		if err != nil {
			return false
		}
		return c.Close() == nil
	}, time.Minute, 20*time.Millisecond)
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	return bucket, func(prefix string) string {
		return "s3://tests/" + prefix + "?region=us-east-1&use_path_style=true&disable_https=true&endpoint=http://" + address
	}
}

// objectsUnder returns the content of all objects below a prefix of a bucket's folder.
func objectsUnder(t *testing.T, bucket, prefix string) map[string]string {
	t.Helper()
	content := files(t, filepath.Join(bucket, prefix))
	for key := range content {
		require.False(t, strings.HasPrefix(key, ".arrow2zarr"), key)
	}
	return content
}

// On an S3 server, convert and the three steps write what convert writes to a folder. A
// process of a partition that is killed and one that runs twice change nothing.
func TestServersGetTheSameOutputFromAllWays(t *testing.T) {
	bucket, location := startS3(t)
	input, folder := manyTags(t, 8), outputPath(t)
	flags := []string{"--chunk-rows", "64"}
	mustRun(t, append([]string{"convert", input, folder}, flags...)...)
	want := files(t, folder)

	mustRun(t, append([]string{"convert", input, location("whole")}, flags...)...)
	require.Equal(t, want, objectsUnder(t, bucket, "whole"))
	e := arrow2zarr(t, "convert", input, location("whole"))
	assert.Equal(t, exitOutput, e.code)
	assert.Contains(t, e.stderr, "exists already")
	assert.NotContains(t, e.stderr, "endpoint", "the query of a URL may have secrets")
	mustRun(t, append([]string{"convert", input, location("whole"), "--overwrite"}, flags...)...)
	require.Equal(t, want, objectsUnder(t, bucket, "whole"))
	mustRun(t, "verify", input, location("whole"))

	output := location("parts")
	mustRun(t, append([]string{"plan", input, output, "--partitions", "4"}, flags...)...)
	killed := command(t, "partition", output, "2")
	require.NoError(t, killed.Start())
	time.Sleep(100 * time.Millisecond)
	require.NoError(t, killed.Process.Kill())
	_ = killed.Wait() // it was killed
	var running []*exec.Cmd
	for _, number := range []int{3, 1, 2, 2, 0, 1} {
		c := command(t, "partition", output, strconv.Itoa(number))
		require.NoError(t, c.Start())
		running = append(running, c)
	}
	for _, c := range running {
		require.NoError(t, c.Wait())
	}
	assert.Contains(t, mustRun(t, "status", output).stdout, "4 of 4 partitions are written")
	mustRun(t, "finalize", output)
	require.Equal(t, want, objectsUnder(t, bucket, "parts"))
}

// A conversion to an S3 server that is killed goes on with --resume.
func TestServersKeepWhatAKilledConversionHasWritten(t *testing.T) {
	bucket, location := startS3(t)
	input, folder := manyTags(t, 16), outputPath(t)
	flags := []string{"--chunk-rows", "32", "--checkpoint", "1ms"}
	mustRun(t, append([]string{"convert", input, folder}, flags...)...)
	output := location("killed")
	for range 3 {
		c := command(t, append([]string{"convert", input, output, "--resume"}, flags...)...)
		require.NoError(t, c.Start())
		time.Sleep(200 * time.Millisecond)
		_ = c.Process.Kill()
		_ = c.Wait() // it was killed, or done
	}
	s, err := store.Open(t.Context(), output)
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close(s)) }()
	if complete, err := store.Exists(t.Context(), s, "zarr.json"); err == nil && !complete {
		e := arrow2zarr(t, "convert", input, output, "--overwrite")
		assert.Equal(t, exitOutput, e.code)
		assert.Contains(t, e.stderr, "unfinished")
		mustRun(t, append([]string{"convert", input, output, "--resume"}, flags...)...)
	}
	require.Equal(t, files(t, folder), objectsUnder(t, bucket, "killed"))
}

// Appending to a table on an S3 server gives the rows of both inputs, also after an append
// that was killed.
func TestServersAppendToTables(t *testing.T) {
	_, location := startS3(t)
	first, second := manyTags(t, 8), manyTags(t, 12)
	output := location("appended")
	mustRun(t, "convert", first, output, "--chunk-rows", "96")
	killed := command(t, "append", "-", output)
	stdin, err := killed.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, killed.Start())
	content, err := os.ReadFile(second)
	require.NoError(t, err)
	_, err = stdin.Write(content[:len(content)-8]) // without the end, so the root does not change
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		s, err := arrowzarr.Status(t.Context(), output)
		return err == nil && s.State == arrowzarr.StateAppending
	}, time.Minute, 10*time.Millisecond)
	require.NoError(t, killed.Process.Kill())
	require.Error(t, killed.Wait())
	assert.Contains(t, arrow2zarr(t, "append", second, output).stderr, "arrow2zarr abort")
	mustRun(t, "abort", output)
	mustRun(t, "verify", first, output)
	mustRun(t, "append", second, output)
	mustRun(t, "verify", first, second, output)
	mustRun(t, "append", first, output)
	mustRun(t, "verify", first, second, first, output)
}
