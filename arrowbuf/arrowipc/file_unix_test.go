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
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

func TestMapFileSharesPageCacheOnCPU(t *testing.T) {
	mem := checked(t)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		moved, host := toDeviceAndBack(t, batchOf(t, mem, 500, true, types()...), dev)
		path := filepath.Join(t.TempDir(), "batches.arrow")
		require.NoError(t, os.WriteFile(path, encodeWithQuiver(t, true, []arrow.RecordBatch{moved, moved}), 0o600))
		r, err := arrowipc.MapFile(path, dev)
		require.NoError(t, err)
		got, err := readAllBatches(t, r)
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

func TestMapFileRejectsInvalidFiles(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
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
