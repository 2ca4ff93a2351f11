package arrowzarr_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

func TestCancelledBeforeItBegins(t *testing.T) {
	noGoroutinesLeft(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	columns := sampleTable(1, []int{20}, 0.2)
	for _, content := range [][]byte{columns.file(t), columns.stream(t), single("a", texts("x")).parquet(t)} {
		output := filepath.Join(t.TempDir(), "output.zarr")
		_, err := arrowzarr.Convert(ctx, inputFile(t, content), output, arrowzarr.Options{})
		require.ErrorIs(t, err, context.Canceled)
		requireOnly(t, filepath.Dir(output))
	}
}

// A conversion whose input comes to a halt in the middle of a batch ends when
// its context does, and leaves nothing: no file, no memory, and no goroutine,
// since the pipe can be told to stop.
func TestCancelledWhileItWaitsForInput(t *testing.T) {
	noGoroutinesLeft(t)
	stream := sampleTable(1, []int{50, 50, 50, 50}, 0.2).stream(t)
	run := func(t *testing.T, dev arrowbuf.Device) {
		ctx, cancel := context.WithCancelCause(t.Context())
		input := pipe(t, stream[:len(stream)*2/3], func() { cancel(errors.New("enough")) })
		output := filepath.Join(t.TempDir(), "output.zarr")
		_, err := arrowzarr.Convert(ctx, input, output, arrowzarr.Options{Device: dev, ChunkRows: 10, ShardRows: 20})
		require.EqualError(t, err, "enough")
		requireOnly(t, filepath.Dir(output))
	}
	t.Run("cpu", func(t *testing.T) { run(t, arrowbuf.CPU()) })
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) { run(t, dev) })
}

// pipe is a named pipe that brings some bytes and then nothing, for ever. When
// all are read, or the reader's buffers hold them, it calls then.
func pipe(t *testing.T, content []byte, then func()) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, unix.Mkfifo(path, 0o600))
	done := make(chan struct{})
	go func() {
		defer close(done)
		w, err := os.OpenFile(path, os.O_WRONLY, 0)
		if !assert.NoError(t, err) {
			return
		}
		_, err = w.Write(content)
		assert.NoError(t, err)
		then()
		<-t.Context().Done()
		assert.NoError(t, w.Close())
	}()
	t.Cleanup(func() { <-done })
	return path
}

// A cancelled conversion stops in the middle of its work too: here, when it
// makes its n-th call of the device.
func TestCancelledWhileItWorks(t *testing.T) {
	noGoroutinesLeft(t)
	columns := sampleTable(1, []int{100, 100}, 0.2)
	for name, content := range map[string][]byte{"file": columns.file(t), "stream": columns.stream(t)} {
		for call, nth := range map[string]int{"cuMemAlloc": 1, "cuMemcpyHtoDAsync": 2, "cuLaunchKernel": 20, "cuMemcpyDtoHAsync": 50} {
			t.Run(name+" "+call, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				dev := softDevice(t, cudatest.Config{Fail: func(made string, n int) cudabuf.Result {
					if made == call && n == nth {
						cancel()
					}
					return 0
				}})
				output := filepath.Join(t.TempDir(), "output.zarr")
				_, err := arrowzarr.Convert(ctx, inputFile(t, content), output, arrowzarr.Options{Device: dev, ChunkRows: 15, Jobs: 2})
				require.ErrorIs(t, err, context.Canceled)
				requireOnly(t, filepath.Dir(output))
			})
		}
	}
}

// A mapped file that someone cuts short meanwhile is an error, not a crash.
func TestFilesThatShrinkWhileTheyAreRead(t *testing.T) {
	var batches []arrow.Array
	for i := range 400 {
		batches = append(batches, sample(newRand(uint64(i)), arrow.PrimitiveTypes.Int64, 1000, 0.1))
	}
	input := inputFile(t, single("c", batches...).file(t))
	progress := &arrowzarr.Progress{}
	ctx, cancel := context.WithCancel(t.Context())
	cut := make(chan struct{})
	go func() {
		defer close(cut)
		for done, _ := progress.Rows(); done == 0 && ctx.Err() == nil; done, _ = progress.Rows() {
			continue
		}
		assert.NoError(t, os.Truncate(input, 100_000))
	}()
	output := filepath.Join(t.TempDir(), "output.zarr")
	_, err := arrowzarr.Convert(t.Context(), input, output, arrowzarr.Options{ChunkRows: 500, Progress: progress})
	cancel()
	<-cut
	if err != nil { // it may have been faster
		requirePart(t, arrowzarr.PartInput, err)
		requireOnly(t, filepath.Dir(output))
	}
}
