//go:build linux

package arrowipc_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
	"github.com/quiver-gpu/quiver/arrowbuf/internal/arraytest"
)

func TestAMappedFileIsReadWithoutACopyOnTheHost(t *testing.T) {
	mem := checked(t)
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		moved, host := there(t, batchOf(t, mem, 500, true, types()...), dev)
		path := filepath.Join(t.TempDir(), "batches.arrow")
		require.NoError(t, os.WriteFile(path, ours(t, true, []arrow.RecordBatch{moved, moved}), 0o600))
		r, err := arrowipc.MapFile(path, dev)
		require.NoError(t, err)
		got, err := kept(t, r)
		require.NoError(t, err)
		again, err := r.RecordBatchAt(0)
		require.NoError(t, err)
		defer again.Release()
		r.Release()
		require.Len(t, got, 2)
		for _, batch := range append(got, again) { // the batches outlive the reader
			requireSame(t, host, batch, dev)
		}
	})
}

func TestMapFileRefusesWhatIsNoFile(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		folder := t.TempDir()
		_, err := arrowipc.MapFile(filepath.Join(folder, "none"), dev)
		assert.ErrorIs(t, err, os.ErrNotExist)
		_, err = arrowipc.MapFile(folder, dev)
		assert.Error(t, err)
		for name, raw := range map[string][]byte{"empty": {}, "other": bytes.Repeat([]byte("x"), 5000)} {
			path := filepath.Join(folder, name)
			require.NoError(t, os.WriteFile(path, raw, 0o600))
			_, err = arrowipc.MapFile(path, dev)
			assert.ErrorIs(t, err, arrow.ErrInvalid)
			assert.ErrorContains(t, err, path)
		}
	})
}

// ramDisk is a folder of tmpfs, or the test is skipped.
func ramDisk(t testing.TB) string {
	t.Helper()
	folder, err := os.MkdirTemp("/dev/shm", "quiver")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(folder)) })
	return folder
}

func TestLargeBodiesAreWrittenToARAMDiskAsElsewhere(t *testing.T) {
	folder := ramDisk(t)
	mem := checked(t)
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		batch, _ := arraytest.Wide(t, mem, 8, 10<<20)
		moved, _ := there(t, batch, dev)
		slice := moved.NewSlice(777, moved.NumRows()-3)
		defer slice.Release()
		batches := []arrow.RecordBatch{slice, moved}
		want := ours(t, true, batches)
		for name, flags := range map[string]int{"mapped": os.O_RDWR, "written": os.O_WRONLY, "appended": os.O_RDWR | os.O_APPEND} {
			path := filepath.Join(folder, name)
			file, err := os.OpenFile(path, flags|os.O_CREATE|os.O_TRUNC, 0o600)
			require.NoError(t, err)
			_, err = file.WriteString("12345") // whatever is there stays
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

func TestAFailureOfTheOutputEndsTheStream(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		batch, _ := arraytest.Wide(t, checked(t), 8, 10<<20)
		moved, _ := there(t, batch, dev)
		for _, room := range []int{0, 100, 5000, 1 << 20, 7 << 20} {
			w, err := arrowipc.NewWriter(&short{room: room}, moved.Schema())
			if err == nil {
				err = w.Write(moved)
			}
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			if w != nil {
				assert.ErrorIs(t, w.Write(moved), os.ErrDeadlineExceeded)
				assert.ErrorIs(t, w.Close(), os.ErrDeadlineExceeded)
			}
		}
	})
}

// short takes so many bytes.
type short struct{ room int }

func (s *short) Write(b []byte) (int, error) {
	if len(b) > s.room {
		return s.room, os.ErrDeadlineExceeded
	}
	s.room -= len(b)
	return len(b), nil
}
