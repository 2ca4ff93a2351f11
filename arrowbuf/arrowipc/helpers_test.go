package arrowipc_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
	"github.com/quiver-gpu/quiver/arrowbuf/internal/arraytest"
)

func TestMain(m *testing.M) {
	if err := arrow.RegisterExtensionType(arraytest.Tagged(arrow.Null)); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

func checked(t testing.TB) memory.Allocator {
	mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
	t.Cleanup(func() { mem.AssertSize(t, 0) })
	return mem
}

// types are the types that arrow-go can write: those of arraytest except an
// extension over a dictionary, for which arrow-go has no schema.
func types() (all []arrow.DataType) {
	for _, dtype := range arraytest.Types {
		ext, ok := dtype.(arrow.ExtensionType)
		if !ok || ext.StorageType().ID() != arrow.DICTIONARY {
			all = append(all, dtype)
		}
	}
	return all
}

// batchOf returns a batch of random columns.
func batchOf(t testing.TB, mem memory.Allocator, rows int, nulls bool, types ...arrow.DataType) arrow.RecordBatch {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, uint64(rows)))
	fields, columns := make([]arrow.Field, len(types)), make([]arrow.Array, len(types))
	for i, dtype := range types {
		fields[i] = arrow.Field{Name: dtype.Name(), Type: dtype, Nullable: true}
		columns[i] = arraytest.Random(t, mem, rng, dtype, rows, nulls)
		defer columns[i].Release()
	}
	made := array.NewRecordBatchWithMetadata(arrow.NewSchema(fields, nil), columns, int64(rows), arrow.MetadataFrom(map[string]string{"made": "at random"}))
	t.Cleanup(made.Release)
	return made
}

// toDeviceAndBack copies a batch to a device, and back to a host batch with the same
// buffers.
func toDeviceAndBack(t testing.TB, batch arrow.RecordBatch, dev arrowbuf.Device) (moved, host arrow.RecordBatch) {
	t.Helper()
	moved, err := arrowbuf.CopyTo(batch, dev)
	require.NoError(t, err)
	t.Cleanup(moved.Release)
	host, err = arrowbuf.CopyTo(moved, arrowbuf.CPU())
	require.NoError(t, err)
	t.Cleanup(host.Release)
	return moved, host
}

// encodeWithArrowGo returns what arrow-go's writer makes of batches.
func encodeWithArrowGo(t testing.TB, file bool, batches []arrow.RecordBatch, options ...ipc.Option) ([]byte, error) {
	t.Helper()
	var out bytes.Buffer
	options = append(options, ipc.WithSchema(batches[0].Schema()))
	if file {
		w, err := ipc.NewFileWriter(&out, options...)
		require.NoError(t, err)
		for _, batch := range batches {
			if err := writeWithArrowGo(w, batch); err != nil {
				return nil, err
			}
		}
		require.NoError(t, w.Close())
		return out.Bytes(), nil
	}
	w := ipc.NewWriter(&out, options...)
	for _, batch := range batches {
		if err := writeWithArrowGo(w, batch); err != nil {
			_ = w.Close()
			return nil, err
		}
	}
	require.NoError(t, w.Close())
	return out.Bytes(), nil
}

// encodeWithQuiver returns what this package's writer makes of batches.
func encodeWithQuiver(t testing.TB, file bool, batches []arrow.RecordBatch, options ...arrowipc.Option) []byte {
	t.Helper()
	var out bytes.Buffer
	var w interface {
		Write(arrow.RecordBatch) error
		Close() error
	}
	var err error
	if file {
		w, err = arrowipc.NewFileWriter(&out, batches[0].Schema(), options...)
	} else {
		w, err = arrowipc.NewWriter(&out, batches[0].Schema(), options...)
	}
	require.NoError(t, err)
	for _, batch := range batches {
		require.NoError(t, w.Write(batch))
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}
