package arrowbuf_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

func TestValidateAcceptsValidArrays(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		host := randomBatch(t, checked(t), 31, allTypes...)
		moved := copyBatch(t, host, dev)
		defer moved.Release()
		for i, want := range host.Columns() {
			got := moved.Column(i).(*arrowbuf.Array)
			slice, wantSlice := got.Slice(5, 23), array.NewSlice(want, 5, 23)
			assert.NoError(t, got.Validate(), want.DataType())
			assert.NoError(t, slice.Validate(), want.DataType())
			sameVerdict(t, array.ValidateFull(want), got.ValidateFull(), want.DataType())
			sameVerdict(t, array.ValidateFull(wantSlice), slice.ValidateFull(), want.DataType())
			slice.Release()
			wantSlice.Release()
		}
	})
}

func sameVerdict(t *testing.T, host, device error, what any) {
	t.Helper()
	assert.Equal(t, host == nil, device == nil, "%v: the host says %v, the device %v", what, host, device)
	if device != nil {
		assert.ErrorIs(t, device, arrow.ErrInvalid)
	}
}

func TestValidateRejectsInvalidArrays(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		bytesOf := func(b ...byte) *memory.Buffer { return onDevice(t, dev, b) }
		words := func(b ...byte) *memory.Buffer {
			var out []byte
			for _, v := range b {
				out = append(out, v, 0, 0, 0)
			}
			return onDevice(t, dev, out)
		}
		newData := func(dtype arrow.DataType, n int, buffers []*memory.Buffer, children []arrow.ArrayData, nulls, offset int) *array.Data {
			data := array.NewData(dtype, n, buffers, children, nulls, offset)
			t.Cleanup(data.Release)
			return data
		}
		dictionary := func(data *array.Data, values arrow.ArrayData) *array.Data {
			data.SetDictionary(values)
			return data
		}
		str, i32, i8 := arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int8
		three := func() []arrow.ArrayData {
			return []arrow.ArrayData{newData(i8, 3, []*memory.Buffer{nil, bytesOf(1, 2, 3)}, nil, 0, 0)}
		}
		fields := []arrow.Field{{Name: "x", Type: i8}}
		for name, c := range map[string]struct {
			data *array.Data
			o1   bool // Validate finds it, without ValidateFull
		}{
			"values":          {newData(i32, 3, []*memory.Buffer{nil, words(1, 2)}, nil, 0, 0), true},
			"offsets' end":    {newData(str, 2, []*memory.Buffer{nil, words(0, 1, 9), bytesOf(65, 66)}, nil, 0, 0), true},
			"list's end":      {newData(arrow.ListOf(i8), 2, []*memory.Buffer{nil, words(0, 1, 9)}, three(), 0, 0), true},
			"runs' end":       {newData(arrow.RunEndEncodedOf(i32, i8), 9, []*memory.Buffer{nil}, []arrow.ArrayData{newData(i32, 3, []*memory.Buffer{nil, words(1, 2, 3)}, nil, 0, 0), three()[0]}, 0, 0), true},
			"a short child":   {newData(arrow.StructOf(fields...), 4, []*memory.Buffer{nil}, three(), 0, 0), true},
			"nulls unseen":    {newData(i32, 3, []*memory.Buffer{nil, words(1, 2, 3)}, nil, 2, 0), true},
			"an empty bitmap": {newData(i32, 3, []*memory.Buffer{bytesOf(), words(1, 2, 3)}, nil, array.UnknownNullCount, 0), true},
			"falling offsets": {newData(str, 3, []*memory.Buffer{nil, words(0, 2, 1, 2), bytesOf(65, 66)}, nil, 0, 0), false},
			"falling lists":   {newData(arrow.ListOf(i8), 3, []*memory.Buffer{nil, words(0, 2, 1, 3)}, three(), 0, 0), false},
			"not UTF-8":       {newData(str, 1, []*memory.Buffer{nil, words(0, 2), bytesOf(255, 255)}, nil, 0, 0), false},
			"null count":      {newData(i8, 3, []*memory.Buffer{bytesOf(7), bytesOf(1, 2, 3)}, nil, 2, 0), false},
			"nulls after all": {newData(i8, 3, []*memory.Buffer{bytesOf(1), bytesOf(1, 2, 3)}, nil, 0, 0), false},
			"an index":        {dictionary(newData(&arrow.DictionaryType{IndexType: i8, ValueType: i8}, 2, []*memory.Buffer{nil, bytesOf(0, 3)}, nil, 0, 0), three()[0]), false},
			"a type id":       {newData(arrow.SparseUnionOf(fields, []arrow.UnionTypeCode{4}), 2, []*memory.Buffer{nil, bytesOf(4, 5)}, three(), 0, 0), false},
			"a union offset":  {newData(arrow.DenseUnionOf(fields, []arrow.UnionTypeCode{4}), 2, []*memory.Buffer{nil, bytesOf(4, 4), words(0, 3)}, three(), 0, 0), false},
			"a list view":     {newData(arrow.ListViewOf(i8), 2, []*memory.Buffer{nil, words(0, 2), words(1, 2)}, three(), 0, 0), false},
			"a view":          {newData(arrow.BinaryTypes.BinaryView, 1, []*memory.Buffer{nil, words(13, 0, 0, 1), bytesOf(make([]byte, 13)...)}, nil, 0, 0), false},
			"a null key": {newData(arrow.MapOf(i8, i8), 1, []*memory.Buffer{nil, words(0, 1)}, []arrow.ArrayData{
				newData(arrow.StructOf(arrow.Field{Name: "key", Type: i8}, arrow.Field{Name: "value", Type: i8, Nullable: true}), 1, []*memory.Buffer{nil}, []arrow.ArrayData{
					newData(i8, 1, []*memory.Buffer{bytesOf(0), bytesOf(1)}, nil, 1, 0), three()[0]}, 0, 0)}, 0, 0), true},
		} {
			t.Run(name, func(t *testing.T) {
				arr := arrowbuf.NewArray(c.data).(*arrowbuf.Array)
				defer arr.Release()
				if c.o1 {
					assert.ErrorIs(t, arr.Validate(), arrow.ErrInvalid)
				} else {
					assert.NoError(t, arr.Validate())
				}
				err := arr.ValidateFull()
				require.ErrorIs(t, err, arrow.ErrInvalid)
				assert.ErrorContains(t, err, "of an array of type "+c.data.DataType().String()+" on cuda:0")
				schema := arrow.NewSchema([]arrow.Field{{Name: "odd", Type: arr.DataType(), Nullable: true}}, nil)
				batch, err := arrowbuf.NewRecordBatch(schema, []arrow.Array{arr}, -1)
				require.NoError(t, err)
				defer batch.Release()
				assert.ErrorContains(t, batch.ValidateFull(), `column 0, "odd"`)
			})
		}
	})
}

// onDevice copies bytes to device memory that is released at the end of the test.
func onDevice(t *testing.T, dev arrowbuf.Device, b []byte) *memory.Buffer {
	buf, err := dev.Alloc(int64(len(b)))
	require.NoError(t, err)
	_, err = buf.CopyFromHost(b, 0)
	require.NoError(t, err)
	made := buf.Arrow()
	buf.Release()
	t.Cleanup(made.Release)
	return made
}

func TestValidateFullDoesNotCopyValues(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		const n = 10000
		host := randomBatch(t, checked(t), n, arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.LargeBinary)
		moved := copyBatch(t, host, dev)
		defer moved.Release()
		require.NoError(t, moved.Validate())
		assert.Less(t, dev.bytesDown.Load(), int64(100))
		require.NoError(t, moved.ValidateFull())
		assert.Less(t, dev.bytesDown.Load(), int64(n/8+(n+1)*8+200), "a bitmap and offsets")
	})
}
