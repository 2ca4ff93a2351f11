package arrowbuf_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/compute"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// onManaged runs a test with a batch of the columns of arrowGoCalls, on the host and on
// each device of managed memory. The calls release nothing, so nothing is said of leaks.
func onManaged(t *testing.T, test func(t *testing.T, host, moved arrow.RecordBatch)) {
	open := map[string]func() (*cudabuf.Driver, error){
		"simulated": func() (*cudabuf.Driver, error) { return cudatest.New(cudatest.Config{}), nil },
	}
	if cudatest.OnGPU() {
		open["cuda"] = cudabuf.Open
	}
	for kind, open := range open {
		t.Run(kind, func(t *testing.T) {
			d, err := open()
			require.NoError(t, err)
			defer func() { _ = d.Close() }()
			dev, err := d.ManagedDevice(0)
			require.NoError(t, err)
			host := withNulls(t, randomBatch(t, memory.DefaultAllocator, 100, arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String, arrow.ListOf(arrow.PrimitiveTypes.Int32),
				&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}))
			test(t, host, copyBatch(t, host, dev))
		})
	}
}

func TestAllCallsOfArrowGoWorkOnManagedMemory(t *testing.T) {
	onManaged(t, func(t *testing.T, _, moved arrow.RecordBatch) {
		assert.NoError(t, arrowbuf.CheckHost(moved))
		for i := range moved.Columns() {
			assert.Equal(t, "cuda_managed:0", arrowbuf.DeviceOf(moved.Column(i)).String())
		}
		for _, c := range arrowGoCalls {
			t.Run(c.name, func(t *testing.T) { assert.NoError(t, c.call(moved)) })
		}
	})
}

func TestComputeOnManagedMemoryEqualsThatOnTheHost(t *testing.T) {
	add := func(b arrow.RecordBatch) (arrow.Array, error) {
		sum, err := compute.Add(context.Background(), compute.ArithmeticOptions{}, compute.NewDatum(b.Column(number)), compute.NewDatum(b.Column(number)))
		if err != nil {
			return nil, err
		}
		defer sum.Release()
		return sum.(*compute.ArrayDatum).MakeArray(), nil
	}
	for name, run := range map[string]func(b arrow.RecordBatch) (arrow.Array, error){
		"add": add,
		"cast": func(b arrow.RecordBatch) (arrow.Array, error) {
			return compute.CastArray(context.Background(), b.Column(number), compute.SafeCastOptions(arrow.PrimitiveTypes.Int64))
		},
		"take of text": func(b arrow.RecordBatch) (arrow.Array, error) {
			return compute.TakeArray(context.Background(), b.Column(text), positions())
		},
		"unique": func(b arrow.RecordBatch) (arrow.Array, error) {
			return compute.UniqueArray(context.Background(), b.Column(number))
		},
		"slice of lists": func(b arrow.RecordBatch) (arrow.Array, error) { return array.NewSlice(b.Column(list), 3, 40), nil },
		"concatenation of text": func(b arrow.RecordBatch) (arrow.Array, error) {
			return array.Concatenate([]arrow.Array{b.Column(text), b.Column(text)}, memory.DefaultAllocator)
		},
	} {
		t.Run(name, func(t *testing.T) {
			onManaged(t, func(t *testing.T, host, moved arrow.RecordBatch) {
				want, err := run(host)
				require.NoError(t, err)
				defer want.Release()
				got, err := run(moved)
				require.NoError(t, err)
				defer got.Release()
				assert.True(t, array.Equal(want, got), "got %v, want %v", got, want)
			})
		})
	}
}

func TestFilesFromManagedMemoryReadBackAsTheHostsBatch(t *testing.T) {
	onManaged(t, func(t *testing.T, host, moved arrow.RecordBatch) {
		t.Run("IPC stream", func(t *testing.T) {
			var out bytes.Buffer
			w := ipc.NewWriter(&out, ipc.WithSchema(moved.Schema()), ipc.WithZstd(), ipc.WithCompressConcurrency(2))
			require.NoError(t, w.Write(moved))
			require.NoError(t, w.Close())
			r, err := ipc.NewReader(&out)
			require.NoError(t, err)
			defer r.Release()
			require.True(t, r.Next(), r.Err())
			assert.True(t, array.RecordEqual(host, r.RecordBatch()))
		})
		t.Run("Parquet", func(t *testing.T) {
			var out bytes.Buffer
			columns := only(moved, number, text, list)
			w, err := pqarrow.NewFileWriter(columns.Schema(), &out, nil, pqarrow.NewArrowWriterProperties(pqarrow.WithStoreSchema()))
			require.NoError(t, err)
			require.NoError(t, w.Write(columns))
			require.NoError(t, w.Close())
			table, err := pqarrow.ReadTable(context.Background(), bytes.NewReader(out.Bytes()), nil, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
			require.NoError(t, err)
			defer table.Release()
			for i := range columns.Columns() {
				got, err := array.Concatenate(table.Column(i).Data().Chunks(), memory.DefaultAllocator)
				require.NoError(t, err)
				assert.True(t, array.Equal(host.Column(i), got), "column %d", i)
			}
		})
	})
}
