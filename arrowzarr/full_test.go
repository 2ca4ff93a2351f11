package arrowzarr_test

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/quiver-gpu/quiver/arrowzarr"
)

func init() {
	tasks["small files"] = convertToSmallFiles
	tasks["small disk"] = convertToSmallDisk
}

// convertToSmallFiles converts where no file can be longer than 4 KiB.
func convertToSmallFiles(input, output string) outcome {
	signal.Ignore(unix.SIGXFSZ)
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 4096, Max: 4096}); err != nil {
		return outcome{Wrong: err.Error()}
	}
	_, err := arrowzarr.Convert(context.Background(), input, output, arrowzarr.Options{Codec: none})
	return result(err)
}

// convertToSmallDisk converts to a file system of 256 KiB, and says what is
// left there.
func convertToSmallDisk(input, dir string) outcome {
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		return outcome{Wrong: "no mount: " + err.Error()}
	}
	_, err := arrowzarr.Convert(context.Background(), input, filepath.Join(dir, "output.zarr"), arrowzarr.Options{Codec: none, ChunkRows: 1000})
	o := result(err)
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		o.Wrong = "something is left"
	}
	if err := unix.Unmount(dir, 0); err != nil {
		o.Wrong = err.Error()
	}
	return o
}

func manyNumbers(t *testing.T) string {
	return inputFile(t, single("c", sample(newRand(1), arrow.PrimitiveTypes.Int64, 100_000, 0)).file(t))
}

func TestFilesThatCannotGrow(t *testing.T) {
	dir := t.TempDir()
	o := inChild(t, "small files", manyNumbers(t), filepath.Join(dir, "output.zarr"))
	assert.Empty(t, o.Wrong)
	assert.Equal(t, arrowzarr.PartOutput, o.Part, o.Message)
	assert.Contains(t, o.Message, "file too large")
	requireOnly(t, dir)
}

func TestFullDisks(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root mounts a small disk")
	}
	o := inChild(t, "small disk", manyNumbers(t), t.TempDir())
	if strings.HasPrefix(o.Wrong, "no mount") {
		t.Skip(o.Wrong)
	}
	require.Empty(t, o.Wrong)
	assert.Equal(t, arrowzarr.PartOutput, o.Part, o.Message)
	assert.Contains(t, o.Message, "no space left on device")
}
