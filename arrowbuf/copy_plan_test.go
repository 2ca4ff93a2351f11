package arrowbuf_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

func TestCopyToCopiesIPCMessageInOneCall(t *testing.T) {
	host := randomBatch(t, memory.DefaultAllocator, 500, typesWithoutDictionaries()...)
	var stream bytes.Buffer
	w := ipc.NewWriter(&stream, ipc.WithSchema(host.Schema()))
	require.NoError(t, w.Write(host))
	require.NoError(t, w.Close())
	for name, from := range map[string]int64{"whole": 0, "slice": 8, "odd slice": 13} {
		t.Run(name, func(t *testing.T) {
			onDevices(t, func(t *testing.T, dev *countingDevice) {
				r, err := ipc.NewReader(bytes.NewReader(stream.Bytes()))
				require.NoError(t, err)
				defer r.Release()
				require.True(t, r.Next())
				read := r.RecordBatch().NewSlice(from, 499)
				defer read.Release()
				moved := copyBatch(t, read, dev)
				defer moved.Release()
				assert.EqualValues(t, 1, dev.allocs.Load(), "allocations")
				assert.EqualValues(t, 1, dev.up.Load(), "copies")
				requireAligned(t, moved)
				requireSameBatch(t, read, moved)
				assert.EqualValues(t, 1+3, dev.down.Load(), "copies down: one, and a look at the ends of each column of runs")
			})
		})
	}
}

// typesWithoutDictionaries is the movable types without dictionaries, which have messages of their own.
func typesWithoutDictionaries() (types []arrow.DataType) {
	for _, dtype := range allTypes {
		if !strings.Contains(dtype.String(), "dictionary") {
			types = append(types, dtype)
		}
	}
	return types
}

func TestCopyToMakesOneAlignedAllocation(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		host := randomBatch(t, checked(t), 33, allTypes...)
		moved := copyBatch(t, host, dev)
		defer moved.Release()
		assert.EqualValues(t, 1, dev.allocs.Load(), "allocations")
		assert.EqualValues(t, 1, dev.up.Load(), "copies")
		requireAligned(t, moved)
	})
}

func TestSeparateAllocationsFreeMemoryByColumn(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, gpu *cudabuf.Device) {
		dev := counted(gpu)
		host := randomBatch(t, checked(t), 33, arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int8)
		moved, err := arrowbuf.CopyTo(host, dev, arrowbuf.WithSeparateAllocations())
		require.NoError(t, err)
		assert.EqualValues(t, 2+2+2, dev.allocs.Load(), "allocations")
		requireSameBatch(t, host, moved.(*arrowbuf.RecordBatch))
		kept := moved.Column(0)
		kept.Retain()
		before := gpu.MemoryStats().InUse
		moved.Release()
		assert.Less(t, gpu.MemoryStats().InUse, before)
		requireSame(t, host.Column(0), kept.(*arrowbuf.Array))
		kept.Release()

		dev.failCopies.Store(true)
		_, err = arrowbuf.CopyTo(host, dev, arrowbuf.WithSeparateAllocations())
		assert.ErrorIs(t, err, errBroken)
	})
}

// The small buffers exceed the staging memory.
func TestCopyToGathersSmallBuffers(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		const size, columns = 50 << 10, 60
		var fields []arrow.Field
		var arrays []arrow.Array
		for i := range columns {
			fields = append(fields, arrow.Field{Name: string(rune('A' + i)), Type: arrow.PrimitiveTypes.Int8})
			arrays = append(arrays, int8s(memory.NewBufferBytes(sequence(i, size+i))))
		}
		host := array.NewRecordBatch(arrow.NewSchema(fields, nil), arrays, size)
		moved := copyBatch(t, host, dev)
		defer moved.Release()
		assert.EqualValues(t, 3, dev.up.Load(), "copies")
		requireAligned(t, moved)
		for i := range columns {
			back, err := arrowbuf.CopyArrayTo(moved.Column(i), arrowbuf.CPU())
			require.NoError(t, err)
			require.True(t, array.Equal(arrays[i], back))
			back.Release()
		}
	})
}

// Two buffers without a common root must not be copied as one, even if they are
// close: the bytes between them may belong to another owner.
func TestCopyToJoinsOnlyBuffersOfOneRoot(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		const size = 128 << 10 // above maxStaged
		memoryBlock := make([]byte, 2*size)
		columns := []arrow.Array{
			int8s(memory.NewBufferBytes(memoryBlock[:size])),
			int8s(memory.NewBufferBytes(memoryBlock[size:])),
		}
		schema := arrow.NewSchema([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int8}, {Name: "b", Type: arrow.PrimitiveTypes.Int8}}, nil)
		moved := copyBatch(t, array.NewRecordBatch(schema, columns, size), dev)
		defer moved.Release()
		assert.EqualValues(t, 2, dev.up.Load(), "copies")
	})
}

func TestCopyToJoinsCloseRangesOfOneRoot(t *testing.T) {
	const size = 128 << 10
	for name, c := range map[string]struct{ second, copies, bytes int64 }{
		"adjacent":      {size, 1, 2 * size},
		"a gap":         {size + 8<<10, 1, 2*size + 8<<10},
		"far":           {8 * size, 2, 2 * size},
		"askew":         {size + 8, 2, 2 * size},
		"one inside":    {0, 1, size},
		"half overlaps": {size / 2, 1, size + size/2},
	} {
		t.Run(name, func(t *testing.T) {
			onDevices(t, func(t *testing.T, dev *countingDevice) {
				root := memory.NewBufferBytes(sequence(0, 16*size))
				columns := []arrow.Array{int8s(memory.SliceBuffer(root, 0, size)), int8s(memory.SliceBuffer(root, int(c.second), size))}
				schema := arrow.NewSchema([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int8}, {Name: "b", Type: arrow.PrimitiveTypes.Int8}}, nil)
				host := array.NewRecordBatch(schema, columns, size)
				moved := copyBatch(t, host, dev)
				defer moved.Release()
				assert.EqualValues(t, c.copies, dev.up.Load(), "copies")
				assert.EqualValues(t, c.bytes, dev.bytesUp.Load())
				requireAligned(t, moved)
				requireSameBatch(t, host, moved)
			})
		})
	}
}

func int8s(b *memory.Buffer) arrow.Array {
	return array.NewInt8Data(array.NewData(arrow.PrimitiveTypes.Int8, b.Len(), []*memory.Buffer{nil, b}, nil, 0, 0))
}

// A kernel cannot load misaligned values.
func TestCopyToAlignsMisalignedValues(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		block := memory.NewBufferBytes(sequence(0, 8192))
		var columns []arrow.Array
		var fields []arrow.Field
		for i, c := range []struct {
			dtype arrow.FixedWidthDataType
			at    int
		}{
			{&arrow.Int64Type{}, 0}, {&arrow.Int64Type{}, 1003}, {&arrow.Int32Type{}, 2000}, {&arrow.Int16Type{}, 2400},
			{&arrow.Decimal128Type{Precision: 10}, 3002}, {&arrow.Int32Type{}, 4001},
		} {
			values := memory.SliceBuffer(block, c.at, 160)
			data := array.NewData(c.dtype, 10, []*memory.Buffer{nil, values}, nil, 0, 0)
			columns = append(columns, array.MakeFromData(data))
			fields = append(fields, arrow.Field{Name: string(rune('a' + i)), Type: c.dtype})
		}
		host := array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, 10)
		moved := copyBatch(t, host, dev)
		defer moved.Release()
		requireAligned(t, moved)
		requireSameBatch(t, host, moved)
		assert.EqualValues(t, 1, dev.up.Load(), "copies")
	})
}

func TestCopyToCopiesSharedBytesOnce(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		root := memory.NewBufferBytes(sequence(0, 1000))
		outer, inner := int8s(root), int8s(memory.SliceBuffer(root, 64, 1))
		dtype := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.PrimitiveTypes.Int8}
		host := array.NewDictionaryArray(dtype, array.NewSlice(inner, 0, 1), outer)
		moved := copyArray(t, host, dev)
		defer moved.Release()
		back, err := arrowbuf.CopyArrayTo(moved, arrowbuf.CPU())
		require.NoError(t, err)
		defer back.Release()
		assert.True(t, array.Equal(host, back))
		assert.EqualValues(t, 1, dev.up.Load(), "copies")
		assert.EqualValues(t, 1024, dev.bytesUp.Load(), "padded")
	})
}

// arrow-go can reallocate the memory of a buffer that has slices.
func TestCopyToAfterParentWasReallocated(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		parent := memory.NewResizableBuffer(memory.DefaultAllocator)
		parent.Resize(64)
		copy(parent.Bytes(), sequence(0, 64))
		host := int8s(memory.SliceBuffer(parent, 8, 16))
		parent.Resize(1 << 20)
		clear(parent.Bytes())
		moved := copyArray(t, host, dev)
		defer moved.Release()
		assert.Equal(t, host.String(), moved.String())
	})
}

// requireAligned checks the alignment that CopyTo guarantees for all buffers.
func requireAligned(t testing.TB, b *arrowbuf.RecordBatch) {
	t.Helper()
	for _, column := range b.Columns() {
		requireAlignedData(t, column.Data())
	}
}

func requireAlignedData(t testing.TB, data arrow.ArrayData) {
	t.Helper()
	for _, b := range data.Buffers() {
		if b != nil {
			require.Zero(t, bufferOf(t, b).Address()%64, data.DataType())
		}
	}
	for _, child := range data.Children() {
		requireAlignedData(t, child)
	}
	if dictionary, ok := data.Dictionary().(*array.Data); ok && dictionary != nil {
		requireAlignedData(t, dictionary)
	}
}

// bufferOf returns a buffer that an array keeps alive.
func bufferOf(t testing.TB, b *memory.Buffer) arrowbuf.Buffer {
	t.Helper()
	buf, err := arrowbuf.BufferOf(b)
	require.NoError(t, err)
	t.Cleanup(buf.Release)
	return buf
}

// The buffers are long enough for CopyRangesFromHost.
func TestCopyToLongBuffers(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		for name, mem := range map[string]memory.Allocator{"ordinary": checked(t), "pinned": dev.HostAllocator()} {
			t.Run(name, func(t *testing.T) {
				host := wideInts(mem, 1_500_000)
				defer host.Release()
				moved, err := arrowbuf.CopyTo(host, dev)
				require.NoError(t, err)
				defer moved.Release()
				requireSameBatch(t, host, moved.(*arrowbuf.RecordBatch))
			})
		}
	})
}
