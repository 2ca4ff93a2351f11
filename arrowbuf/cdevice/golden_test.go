//go:build linux || darwin

package cdevice

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// The streams that Arrow's implementations test one another with, of all
// versions, go out as C's streams and come in again, slices of them too.
func TestGoldenStreamsGoThereAndBack(t *testing.T) {
	root := filepath.Join("..", "..", "..", "shared", "data", "arrow-testing", "arrow-ipc-stream", "integration")
	files, err := filepath.Glob(filepath.Join(root, "*", "*.stream"))
	require.NoError(t, err)
	if len(files) == 0 {
		require.Empty(t, os.Getenv("CI"), "no golden files in %s", root)
		t.Skip("no golden files in ", root)
	}
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, file := range files {
			t.Run(filepath.Base(filepath.Dir(file))+"/"+filepath.Base(file), func(t *testing.T) {
				schema, hosts := readStream(t, file)
				checkGolden(t, dev, schema, hosts)
			})
		}
	})
}

// readStream returns the batches of a file, each followed by a slice of it.
func readStream(t *testing.T, file string) (*arrow.Schema, []arrow.RecordBatch) {
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	r, err := ipc.NewReader(f)
	require.NoError(t, err)
	defer r.Release()
	rng := rand.New(rand.NewPCG(3, 3))
	var batches []arrow.RecordBatch
	for r.Next() {
		whole := r.RecordBatch()
		whole.Retain()
		from := rng.Int64N(whole.NumRows() + 1)
		batches = append(batches, whole, whole.NewSlice(from, from+rng.Int64N(whole.NumRows()-from+1)))
	}
	require.NoError(t, r.Err())
	t.Cleanup(func() {
		for _, b := range batches {
			b.Release()
		}
	})
	return r.Schema(), batches
}

func checkGolden(t *testing.T, dev arrowbuf.Device, schema *arrow.Schema, hosts []arrow.RecordBatch) {
	from := &batches{schema: schema, refs: 1}
	for _, host := range hosts {
		moved, err := arrowbuf.CopyTo(host, dev)
		require.NoError(t, err)
		defer moved.Release()
		from.all = append(from.all, moved)
	}
	var out DeviceStream
	require.NoError(t, ExportStream(from, dev, &out))
	r, err := ImportStream(&out, dev)
	require.NoError(t, err)
	defer r.Release()
	require.True(t, schema.Equal(r.Schema()), "want %v\ngot %v", schema, r.Schema())
	for _, host := range hosts {
		require.True(t, r.Next(), r.Err())
		back, err := arrowbuf.CopyTo(r.RecordBatch(), arrowbuf.CPU())
		require.NoError(t, err)
		require.NoError(t, array.ValidateRecordFull(back))
		require.True(t, array.RecordEqual(host, back), "want %v\ngot %v", host, back)
		back.Release()
	}
	require.False(t, r.Next())
	require.NoError(t, r.Err())
}
