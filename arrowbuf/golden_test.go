package arrowbuf_test

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// The streams that Arrow's implementations test one another with, written by
// Arrow C++.
func TestGoldenBatchesGoToADeviceAndBack(t *testing.T) {
	root := filepath.Join("..", "..", "shared", "data", "arrow-testing", "arrow-ipc-stream", "integration")
	var files []string
	for _, version := range []string{"1.0.0-littleendian", "2.0.0-compression"} {
		found, err := filepath.Glob(filepath.Join(root, version, "*.stream"))
		require.NoError(t, err)
		files = append(files, found...)
	}
	if len(files) == 0 {
		require.Empty(t, os.Getenv("CI"), "no golden files in %s", root)
		t.Skip("no golden files in ", root)
	}
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		for _, file := range files {
			t.Run(filepath.Base(filepath.Dir(file))+"/"+filepath.Base(file), func(t *testing.T) { testGolden(t, dev, file) })
		}
	})
}

func testGolden(t *testing.T, dev arrowbuf.Device, file string) {
	mem := checked(t)
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	r, err := ipc.NewReader(f, ipc.WithAllocator(mem))
	require.NoError(t, err)
	defer r.Release()
	rng := rand.New(rand.NewPCG(5, 5))
	for r.Next() {
		batch := r.RecordBatch()
		for i, column := range batch.Columns() {
			moved, err := arrowbuf.CopyArrayTo(column, dev)
			if !isMovable(column.DataType()) {
				require.ErrorIs(t, err, arrow.ErrNotImplemented, "column %d: %s", i, column.DataType())
				_, err = arrowbuf.CopyTo(batch, dev)
				require.ErrorIs(t, err, arrow.ErrNotImplemented)
				continue
			}
			require.NoError(t, err)
			back, err := moved.(*arrowbuf.Array).ToHost()
			require.NoError(t, err)
			assert.True(t, array.Equal(column, back), "column %d, %s", i, column.DataType())
			assert.Equal(t, column.String(), moved.String())
			from := rng.IntN(column.Len() + 1)
			to := from + rng.IntN(column.Len()-from+1)
			want := array.NewSlice(column, int64(from), int64(to))
			slice := moved.(*arrowbuf.Array).Slice(from, to)
			assert.Equal(t, want.String(), slice.String())
			assert.Equal(t, want.NullN(), slice.NullN())
			slice.Release()
			want.Release()
			back.Release()
			moved.Release()
		}
		wholeBatch(t, batch, dev)
	}
	if !errors.Is(r.Err(), io.EOF) {
		require.NoError(t, r.Err())
	}
}

func wholeBatch(t *testing.T, host arrow.RecordBatch, dev arrowbuf.Device) {
	for _, column := range host.Columns() {
		if !isMovable(column.DataType()) {
			return
		}
	}
	moved := copyBatch(t, host, dev)
	defer moved.Release()
	requireSameBatch(t, host, moved)
}

// isMovable repeats what CopyTo's comment lists.
func isMovable(dtype arrow.DataType) bool {
	switch dt := dtype.(type) {
	case arrow.ExtensionType:
		return isMovable(dt.StorageType())
	case *arrow.DictionaryType:
		return isMovable(dt.ValueType)
	case *arrow.FixedSizeListType:
		return isMovable(dt.Elem())
	case arrow.NestedType, *arrow.RunEndEncodedType:
		return false
	}
	return true
}
