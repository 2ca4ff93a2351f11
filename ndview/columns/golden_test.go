package columns_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview/columns"
)

// Reads the streams that Arrow implementations exchange as integration tests.
// Concatenated, taken and filtered rows must equal the rows that arrow-go reads.
func TestGoldenBatchesMatchArrowGo(t *testing.T) {
	root := filepath.Join("..", "..", "..", "shared", "data", "arrow-testing", "arrow-ipc-stream", "integration")
	files, err := filepath.Glob(filepath.Join(root, "*", "*.stream"))
	require.NoError(t, err)
	if len(files) == 0 {
		require.Empty(t, os.Getenv("CI"), "no golden files in %s", root)
		t.Skip("no golden files in ", root)
	}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, file := range files {
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			r, err := ipc.NewReader(bytes.NewReader(raw))
			require.NoError(t, err, file)
			var host, moved []arrow.RecordBatch
			for r.Next() {
				b := r.RecordBatch()
				b.Retain()
				there, err := arrowbuf.CopyTo(b, dev)
				require.NoError(t, err, file)
				host, moved = append(host, b), append(moved, there)
				t.Cleanup(b.Release)
				t.Cleanup(there.Release)
			}
			r.Release()
			if len(host) > 0 {
				checkGolden(t, file, host, moved)
			}
		}
	})
}

func checkGolden(t *testing.T, file string, host, moved []arrow.RecordBatch) {
	t.Helper()
	column := func(b arrow.RecordBatch, i int) arrow.Array {
		c, err := arrowbuf.CopyArrayTo(b.Column(i), arrowbuf.CPU())
		require.NoError(t, err, file)
		t.Cleanup(c.Release)
		return c
	}
	joined, err := columns.ConcatenateBatches(moved...)
	require.NoError(t, err, file)
	defer joined.Release()
	for i := range int(joined.NumCols()) {
		var parts []arrow.Array
		for _, b := range host {
			parts = append(parts, b.Column(i))
		}
		requireJoined(t, parts, column(joined, i))
	}
	rng := rand.New(rand.NewPCG(6, uint64(len(file))))
	rows := int(host[0].NumRows())
	m := maker{t, rng, true}
	from := m.below(min(rows, 50), max(rows, 1))
	taken, err := columns.TakeBatch(moved[0], columns.Indices(from...))
	require.NoError(t, err, file)
	defer taken.Release()
	mask := m.array(arrow.FixedWidthTypes.Boolean, rows, false)
	kept, err := columns.FilterBatch(moved[0], mask)
	require.NoError(t, err, file)
	defer kept.Release()
	for i, want := range host[0].Columns() {
		requireElements(t, want, from, column(taken, i))
		requireElements(t, want, chosen(mask), column(kept, i))
	}
}
