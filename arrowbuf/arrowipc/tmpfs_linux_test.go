//go:build linux

package arrowipc_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
	"github.com/quiver-gpu/quiver/arrowbuf/internal/arraytest"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// tmpfsDir returns a folder on tmpfs, or skips the test.
func tmpfsDir(t testing.TB) string {
	t.Helper()
	folder, err := os.MkdirTemp("/dev/shm", "quiver")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(folder)) })
	return folder
}

func TestWriterToTmpfsWritesSameBytes(t *testing.T) {
	folder := tmpfsDir(t)
	mem := checked(t)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		batch, _ := arraytest.Wide(t, mem, 8, 10<<20)
		moved, _ := toDeviceAndBack(t, batch, dev)
		slice := moved.NewSlice(777, moved.NumRows()-3)
		defer slice.Release()
		batches := []arrow.RecordBatch{slice, moved}
		want := encodeWithQuiver(t, true, batches)
		for name, flags := range map[string]int{"mapped": os.O_RDWR, "written": os.O_WRONLY, "appended": os.O_RDWR | os.O_APPEND} {
			path := filepath.Join(folder, name)
			file, err := os.OpenFile(path, flags|os.O_CREATE|os.O_TRUNC, 0o600)
			require.NoError(t, err)
			_, err = file.WriteString("12345") // existing bytes must stay
			require.NoError(t, err)
			w, err := arrowipc.NewFileWriter(file, moved.Schema())
			require.NoError(t, err)
			for _, batch := range batches {
				require.NoError(t, w.Write(batch))
			}
			require.NoError(t, w.Close())
			require.NoError(t, file.Close())
			got, err := os.ReadFile(path)
			require.NoError(t, err)
			requireSameBytes(t, append([]byte("12345"), want...), got)
		}
	})
}
