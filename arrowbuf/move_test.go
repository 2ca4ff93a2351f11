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
)

func TestTheBuffersOfAnIPCMessageGoInOneCopy(t *testing.T) {
	host := randomBatch(t, memory.DefaultAllocator, 500, plain()...)
	var stream bytes.Buffer
	w := ipc.NewWriter(&stream, ipc.WithSchema(host.Schema()))
	require.NoError(t, w.Write(host))
	require.NoError(t, w.Close())
	for name, c := range map[string]struct{ from, copies int64 }{
		"whole": {0, 1},
		"slice": {8, 1 + int64(countOffsets(host.Schema()))}, // rebased ones come from elsewhere
	} {
		t.Run(name, func(t *testing.T) {
			onDevices(t, func(t *testing.T, dev *countingDevice) {
				r, err := ipc.NewReader(bytes.NewReader(stream.Bytes()))
				require.NoError(t, err)
				defer r.Release()
				require.True(t, r.Next())
				read := r.RecordBatch().NewSlice(c.from, 499)
				defer read.Release()
				moved := copyBatch(t, read, dev)
				defer moved.Release()
				assert.EqualValues(t, 1, dev.allocs.Load(), "allocations")
				assert.Equal(t, c.copies, dev.up.Load(), "copies")
				requireAligned(t, moved)
				requireSameBatch(t, read, moved)
				assert.EqualValues(t, 1, dev.down.Load(), "copies down")
			})
		})
	}
}

// plain is the movable types without dictionaries, which come in messages of
// their own.
func plain() (types []arrow.DataType) {
	for _, dtype := range movable {
		if !strings.Contains(dtype.String(), "dictionary") {
			types = append(types, dtype)
		}
	}
	return types
}

func countOffsets(schema *arrow.Schema) (n int) {
	for _, f := range schema.Fields() {
		name := f.Type.String()
		if strings.Contains(name, "utf8") || strings.Contains(name, "binary") {
			if !strings.Contains(name, "view") && !strings.Contains(name, "fixed_size_binary") {
				n++
			}
		}
	}
	return n
}

func TestBuffersOfTheirOwnShareOneAlignedAllocation(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		host := randomBatch(t, checked(t), 33, arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String)
		moved := copyBatch(t, host, dev)
		defer moved.Release()
		assert.EqualValues(t, 1, dev.allocs.Load(), "allocations")
		for _, column := range moved.Columns() {
			for _, b := range column.Data().Buffers() {
				if b != nil {
					assert.Zero(t, bufferOf(t, b).Address()%64)
				}
			}
		}
	})
}

// Two buffers without a common root may not be copied as one, however close:
// the bytes between them belong to somebody else.
func TestOnlyBuffersOfOneRootAreJoined(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		memoryBlock := make([]byte, 64)
		columns := []arrow.Array{
			int8s(memory.NewBufferBytes(memoryBlock[:16])),
			int8s(memory.NewBufferBytes(memoryBlock[16:32])),
		}
		schema := arrow.NewSchema([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int8}, {Name: "b", Type: arrow.PrimitiveTypes.Int8}}, nil)
		moved := copyBatch(t, array.NewRecordBatch(schema, columns, 16), dev)
		defer moved.Release()
		assert.EqualValues(t, 2, dev.up.Load(), "copies")
	})
}

func TestFarPartsOfOneRootAreNotJoined(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		root := memory.NewBufferBytes(make([]byte, 1<<20))
		columns := []arrow.Array{int8s(memory.SliceBuffer(root, 0, 16)), int8s(memory.SliceBuffer(root, 1<<19, 16))}
		schema := arrow.NewSchema([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int8}, {Name: "b", Type: arrow.PrimitiveTypes.Int8}}, nil)
		moved := copyBatch(t, array.NewRecordBatch(schema, columns, 16), dev)
		defer moved.Release()
		assert.EqualValues(t, 2, dev.up.Load(), "copies")
		assert.EqualValues(t, 32, dev.bytesUp.Load())
	})
}

func int8s(b *memory.Buffer) arrow.Array {
	return array.NewInt8Data(array.NewData(arrow.PrimitiveTypes.Int8, b.Len(), []*memory.Buffer{nil, b}, nil, 0, 0))
}

// Values that lie askew on the host are straight on the device, where a kernel
// could not load them otherwise; what lies straight already still goes
// together.
func TestMisalignedValuesAreAlignedOnTheDevice(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		block := memory.NewBufferBytes(count(0, 8192))
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
		assert.EqualValues(t, 5, dev.up.Load(), "copies")
	})
}

func TestBytesShownTwiceAreCopiedOnce(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		root := memory.NewBufferBytes(count(0, 1000))
		outer, inner := int8s(root), int8s(memory.SliceBuffer(root, 10, 1))
		dtype := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.PrimitiveTypes.Int8}
		host := array.NewDictionaryArray(dtype, array.NewSlice(inner, 0, 1), outer)
		moved := copyArray(t, host, dev)
		defer moved.Release()
		back, err := moved.ToHost()
		require.NoError(t, err)
		defer back.Release()
		assert.True(t, array.Equal(host, back))
		assert.EqualValues(t, 1, dev.up.Load(), "copies")
		assert.EqualValues(t, 1000, dev.bytesUp.Load())
	})
}

// arrow-go lets a parent move on to other memory under its slices.
func TestASliceIsCopiedFromWhereItIsNotWhereItsParentWent(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		parent := memory.NewResizableBuffer(memory.DefaultAllocator)
		parent.Resize(64)
		copy(parent.Bytes(), count(0, 64))
		host := int8s(memory.SliceBuffer(parent, 8, 16))
		parent.Resize(1 << 20)
		clear(parent.Bytes())
		moved := copyArray(t, host, dev)
		defer moved.Release()
		assert.Equal(t, host.String(), moved.String())
	})
}

// requireAligned checks what CopyTo promises of values' addresses.
func requireAligned(t testing.TB, b *arrowbuf.RecordBatch) {
	t.Helper()
	for _, column := range b.Columns() {
		width, ok := column.DataType().(arrow.FixedWidthDataType)
		if !ok || column.DataType().ID() == arrow.BOOL || column.DataType().ID() == arrow.FIXED_SIZE_BINARY {
			continue
		}
		address := bufferOf(t, column.Data().Buffers()[1]).Address()
		require.Zero(t, address%uintptr(min(8, width.Bytes())), "%s at %x", column.DataType(), address)
	}
}

// bufferOf looks at a buffer that an array keeps alive.
func bufferOf(t testing.TB, b *memory.Buffer) arrowbuf.Buffer {
	t.Helper()
	buf, err := arrowbuf.BufferOf(b)
	require.NoError(t, err)
	t.Cleanup(buf.Release)
	return buf
}
