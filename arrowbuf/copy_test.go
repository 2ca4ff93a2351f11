package arrowbuf_test

import (
	"bytes"
	"math/rand/v2"
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

func TestCopyToTheCPUSharesAHostBatch(t *testing.T) {
	mem := checked(t)
	host := randomBatch(t, mem, 20, arrow.PrimitiveTypes.Int32, arrow.ListOf(arrow.PrimitiveTypes.Int8), arrow.BinaryTypes.String)
	same, err := arrowbuf.CopyTo(host, arrowbuf.CPU())
	require.NoError(t, err)
	assert.Same(t, host, same)
	same.Release()
	assert.Zero(t, testing.AllocsPerRun(10, func() {
		same, _ := arrowbuf.CopyTo(host, arrowbuf.CPU())
		same.Release()
	}), "allocations")
}

func TestCopyToTheDeviceOfABatchSharesIt(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		moved := copyBatch(t, randomBatch(t, checked(t), 20, arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String), dev)
		defer moved.Release()
		copies := dev.up.Load()
		same, err := arrowbuf.CopyTo(moved, dev)
		require.NoError(t, err)
		defer same.Release()
		assert.Same(t, moved, same)
		assert.Equal(t, copies, dev.up.Load())
	})
}

func TestBatchesGoFromDeviceToDevice(t *testing.T) {
	host := randomBatch(t, checked(t), 50, movable...)
	cudatest.ForEachDriver(t, 2, func(t *testing.T, d *cudabuf.Driver) {
		var devices [2]*cudabuf.Device
		for i := range devices {
			var err error
			devices[i], err = d.Device(i)
			require.NoError(t, err)
		}
		first := copyBatch(t, host, devices[0])
		defer first.Release()
		second := copyBatch(t, first, devices[1])
		defer second.Release()
		requireSameBatch(t, host, second)
	})
}

func TestABatchOfSeveralDevicesMovesOnlyWhatIsElsewhere(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		host := randomBatch(t, checked(t), 20, arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String)
		there := copyArray(t, host.Column(0), dev)
		defer there.Release()
		mixed, err := arrowbuf.NewRecordBatch(host.Schema(), []arrow.Array{there, host.Column(1)}, 20)
		require.NoError(t, err)
		defer mixed.Release()
		moved := copyBatch(t, mixed, dev)
		defer moved.Release()
		assert.Same(t, there, moved.Column(0))
		requireSameBatch(t, host, moved)
		back, err := mixed.ToHost()
		require.NoError(t, err)
		defer back.Release()
		assert.Same(t, host.Column(1), back.Column(1))
		assert.True(t, array.RecordEqual(host, back))
	})
}

func TestBatchesWithoutRowsOrColumnsGoToADevice(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		mem := checked(t)
		noRows := randomBatch(t, mem, 0, movable...)
		noColumns := array.NewRecordBatch(arrow.NewSchema(nil, nil), nil, 0)
		never := array.NewRecordBatch(noRows.Schema(), buildEmpty(t, noRows.Schema()), 0)
		for name, host := range map[string]arrow.RecordBatch{"no rows": noRows, "no columns": noColumns, "no buffers": never} {
			t.Run(name, func(t *testing.T) {
				moved := copyBatch(t, host, dev)
				defer moved.Release()
				requireSameBatch(t, host, moved)
				assert.Equal(t, host.NumCols(), moved.NumCols())
			})
		}
	})
}

// buildEmpty makes columns whose buffers are all nil, as foreign producers do.
func buildEmpty(t *testing.T, schema *arrow.Schema) []arrow.Array {
	columns := make([]arrow.Array, schema.NumFields())
	for i := range columns {
		dtype := schema.Field(i).Type
		arr := randomArray(t, memory.DefaultAllocator, rand.New(rand.NewPCG(1, 1)), dtype, 0, false)
		data := arr.Data().(*array.Data).Copy()
		clear(data.Buffers())
		columns[i] = array.MakeFromData(data)
	}
	return columns
}

func TestCopyToNamesTheColumnItCannotMove(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		mem := checked(t)
		list := arrow.ListOf(arrow.PrimitiveTypes.Int8)
		for _, dtype := range []arrow.DataType{
			list, arrow.LargeListOf(arrow.PrimitiveTypes.Int8), arrow.ListViewOf(arrow.PrimitiveTypes.Int8),
			arrow.StructOf(arrow.Field{Name: "x", Type: arrow.PrimitiveTypes.Int8}),
			arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int8),
			arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int8),
			arrow.SparseUnionOf([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Int8}}, []arrow.UnionTypeCode{0}),
			arrow.DenseUnionOf([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Int8}}, []arrow.UnionTypeCode{0}),
			arrow.FixedSizeListOf(1, list), newTagged(list),
		} {
			t.Run(dtype.String(), func(t *testing.T) {
				builder := array.NewBuilder(mem, dtype)
				defer builder.Release()
				builder.AppendEmptyValue()
				column := builder.NewArray()
				defer column.Release()
				fine := array.NewNull(1)
				schema := arrow.NewSchema([]arrow.Field{{Name: "fine", Type: arrow.Null}, {Name: "odd", Type: dtype}}, nil)
				host := array.NewRecordBatch(schema, []arrow.Array{fine, column}, 1)
				defer host.Release()
				_, err := arrowbuf.CopyTo(host, dev)
				require.ErrorIs(t, err, arrow.ErrNotImplemented)
				assert.ErrorContains(t, err, `column 1, "odd", of type `+dtype.String())
				assert.Zero(t, dev.allocs.Load())
			})
		}
	})
}

func TestCopyToRefusesBuffersThatAreTooSmall(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		bytesOf := func(n int) *memory.Buffer { return memory.NewBufferBytes(make([]byte, n)) }
		offsets := func(b ...byte) *memory.Buffer {
			var out []byte
			for _, v := range b {
				out = append(out, v, 0, 0, 0)
			}
			return memory.NewBufferBytes(out)
		}
		str, i32 := arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int32
		for name, data := range map[string]*array.Data{
			"values":             array.NewData(i32, 3, []*memory.Buffer{nil, bytesOf(11)}, nil, 0, 0),
			"values, offset":     array.NewData(i32, 3, []*memory.Buffer{nil, bytesOf(12)}, nil, 0, 1),
			"no values":          array.NewData(i32, 3, []*memory.Buffer{nil, nil}, nil, 0, 0),
			"no buffers":         array.NewData(i32, 3, nil, nil, 0, 0),
			"negative offset":    array.NewData(i32, 3, []*memory.Buffer{nil, bytesOf(12)}, nil, 0, -1),
			"negative length":    array.NewData(i32, -3, []*memory.Buffer{nil, bytesOf(12)}, nil, 0, 0),
			"huge length":        array.NewData(i32, 1<<62, []*memory.Buffer{nil, bytesOf(12)}, nil, 0, 0),
			"bits":               array.NewData(arrow.FixedWidthTypes.Boolean, 9, []*memory.Buffer{nil, bytesOf(1)}, nil, 0, 0),
			"bitmap":             array.NewData(i32, 9, []*memory.Buffer{bytesOf(1), bytesOf(36)}, nil, 1, 0),
			"bitmap, count open": array.NewData(i32, 9, []*memory.Buffer{bytesOf(1), bytesOf(36)}, nil, -1, 0),
			"string offsets":     array.NewData(str, 2, []*memory.Buffer{nil, offsets(0, 1), bytesOf(2)}, nil, 0, 0),
			"string bytes":       array.NewData(str, 2, []*memory.Buffer{nil, offsets(0, 1, 3), bytesOf(2)}, nil, 0, 0),
			"no string bytes":    array.NewData(str, 2, []*memory.Buffer{nil, offsets(0, 1, 3), nil}, nil, 0, 0),
			"falling offsets":    array.NewData(str, 2, []*memory.Buffer{nil, offsets(2, 1, 1), bytesOf(2)}, nil, 0, 0),
			"negative offsets":   array.NewData(str, 1, []*memory.Buffer{nil, memory.NewBufferBytes([]byte{255, 255, 255, 255, 0, 0, 0, 0}), bytesOf(2)}, nil, 0, 0),
			"views":              array.NewData(arrow.BinaryTypes.StringView, 2, []*memory.Buffer{nil, bytesOf(31)}, nil, 0, 0),
			"list values": array.NewData(arrow.FixedSizeListOf(2, i32), 2, []*memory.Buffer{nil},
				[]arrow.ArrayData{array.NewData(i32, 3, []*memory.Buffer{nil, bytesOf(12)}, nil, 0, 0)}, 0, 0),
			"no list values": array.NewData(arrow.FixedSizeListOf(2, i32), 2, []*memory.Buffer{nil}, nil, 0, 0),
			"no dictionary":  array.NewData(&arrow.DictionaryType{IndexType: i32, ValueType: str}, 2, []*memory.Buffer{nil, bytesOf(8)}, nil, 0, 0),
		} {
			t.Run(name, func(t *testing.T) {
				_, err := arrowbuf.CopyArrayTo(bare{data}, dev)
				require.ErrorIs(t, err, arrow.ErrInvalid)
				assert.ErrorContains(t, err, "array of type "+data.DataType().String())
				assert.Zero(t, dev.allocs.Load())
			})
		}
	})
}

// bare is an array that arrow-go's constructors would not make.
type bare struct{ data *array.Data }

func (b bare) Data() arrow.ArrayData        { return b.data }
func (b bare) Len() int                     { return b.data.Len() }
func (b bare) DataType() arrow.DataType     { return b.data.DataType() }
func (b bare) NullN() int                   { return b.data.NullN() }
func (b bare) NullBitmapBytes() []byte      { return nil }
func (b bare) IsNull(int) bool              { return false }
func (b bare) IsValid(int) bool             { return true }
func (b bare) ValueStr(int) string          { return "" }
func (b bare) GetOneForMarshal(int) any     { return nil }
func (b bare) MarshalJSON() ([]byte, error) { return nil, nil }
func (b bare) String() string               { return "" }
func (b bare) Retain()                      {}
func (b bare) Release()                     {}

func TestCopyToPassesTheDevicesErrorsOn(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		host := randomBatch(t, checked(t), 20, movable...)
		dev.failAlloc.Store(true)
		_, err := arrowbuf.CopyTo(host, dev)
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfMemory)
		dev.failAlloc.Store(false)
		dev.failCopies.Store(true)
		_, err = arrowbuf.CopyTo(host, dev)
		assert.ErrorIs(t, err, errBroken)
		dev.failCopies.Store(false)
		moved := copyBatch(t, host, dev)
		defer moved.Release()
		dev.failCopies.Store(true)
		_, err = moved.ToHost()
		assert.ErrorIs(t, err, errBroken)
		_, err = moved.MarshalJSON()
		assert.ErrorIs(t, err, errBroken)
		_, err = arrowbuf.CopyTo(host, nil)
		assert.ErrorContains(t, err, "there is no device")
	})
}

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
// could not load them otherwise.
func TestMisalignedValuesAreAlignedOnTheDevice(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		block := memory.NewBufferBytes(make([]byte, 4096))
		var columns []arrow.Array
		var fields []arrow.Field
		for i, dtype := range []arrow.FixedWidthDataType{
			arrow.PrimitiveTypes.Int64.(arrow.FixedWidthDataType), arrow.PrimitiveTypes.Int32.(arrow.FixedWidthDataType),
			arrow.PrimitiveTypes.Int16.(arrow.FixedWidthDataType), &arrow.Decimal128Type{Precision: 10},
		} {
			values := memory.SliceBuffer(block, 1000*i+3, 160)
			data := array.NewData(dtype, 160/dtype.Bytes(), []*memory.Buffer{nil, values}, nil, 0, 0)
			columns = append(columns, array.NewSlice(array.MakeFromData(data), 0, 10))
			fields = append(fields, arrow.Field{Name: dtype.Name(), Type: dtype})
		}
		moved := copyBatch(t, array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, 10), dev)
		defer moved.Release()
		requireAligned(t, moved)
	})
}

func TestSlicesCopyOnlyWhatTheyShow(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		host := randomArray(t, checked(t), rand.New(rand.NewPCG(3, 3)), arrow.PrimitiveTypes.Int64, 1<<16, true)
		defer host.Release()
		slice := array.NewSlice(host, 30003, 30013)
		defer slice.Release()
		moved := copyArray(t, slice, dev)
		defer moved.Release()
		assert.EqualValues(t, 2+13*8, dev.bytesUp.Load())
	})
}

func TestALookAtOneElementCopiesLittle(t *testing.T) {
	mem := checked(t)
	big := array.NewStringViewBuilder(mem)
	defer big.Release()
	for range 1000 {
		big.Append(strings.Repeat("long", 30))
	}
	views := big.NewArray()
	defer views.Release()
	indices := int8s(memory.NewBufferBytes(make([]byte, 100)))
	dtype := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: views.DataType()}
	dictionary := array.NewDictionaryArray(dtype, indices, views)
	defer dictionary.Release()
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		for _, host := range []arrow.Array{views, dictionary} {
			moved := copyArray(t, host, dev)
			dev.bytesDown.Store(0)
			assert.Equal(t, host.ValueStr(7), moved.ValueStr(7))
			assert.Less(t, dev.bytesDown.Load(), int64(200))
			moved.Release()
		}
	})
}

func checked(t testing.TB) memory.Allocator {
	mem := memory.NewCheckedAllocator(memory.DefaultAllocator)
	t.Cleanup(func() { mem.AssertSize(t, 0) })
	return mem
}

// randomBatch makes a batch that is released at the end of the test.
func randomBatch(t testing.TB, mem memory.Allocator, rows int, types ...arrow.DataType) arrow.RecordBatch {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, uint64(rows)))
	fields := make([]arrow.Field, len(types))
	columns := make([]arrow.Array, len(types))
	for i, dtype := range types {
		fields[i] = arrow.Field{Name: string(rune('a'+i%26)) + strings.Repeat("'", i/26), Type: dtype, Nullable: true}
		if dtype.ID() == arrow.LIST {
			b := array.NewBuilder(mem, dtype)
			b.AppendEmptyValues(rows)
			columns[i] = b.NewArray()
			b.Release()
		} else {
			columns[i] = randomArray(t, mem, rng, dtype, rows, i%2 == 0)
		}
		defer columns[i].Release()
	}
	made := array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, int64(rows))
	t.Cleanup(made.Release)
	return made
}

func copyBatch(t testing.TB, b arrow.RecordBatch, dev arrowbuf.Device) *arrowbuf.RecordBatch {
	t.Helper()
	moved, err := arrowbuf.CopyTo(b, dev)
	require.NoError(t, err)
	require.IsType(t, (*arrowbuf.RecordBatch)(nil), moved)
	return moved.(*arrowbuf.RecordBatch)
}

func requireSameBatch(t testing.TB, host arrow.RecordBatch, moved *arrowbuf.RecordBatch) {
	t.Helper()
	back, err := moved.ToHost()
	require.NoError(t, err)
	defer back.Release()
	require.True(t, host.Schema().Equal(back.Schema()))
	require.Equal(t, host.NumRows(), back.NumRows())
	for i, want := range host.Columns() {
		require.True(t, array.Equal(want, back.Column(i)), "column %d, %s: want %v\ngot %v", i, want.DataType(), want, back.Column(i))
	}
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
