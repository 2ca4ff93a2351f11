package columns_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/ndview/columns"
)

// FuzzMalformed makes arrays of bytes from anywhere: offsets, sizes, type ids, run
// ends and indices. Whatever is in them, nothing outside the buffers is read, which
// Go's bounds tell on the CPU.
func FuzzMalformed(f *testing.F) {
	f.Add(uint8(0), uint8(3), uint8(0), []byte{0, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 9, 0, 0, 0}, []byte("text"))
	f.Add(uint8(3), uint8(2), uint8(1), []byte{0, 0, 0, 0, 255, 255, 255, 255, 1, 0, 0, 0}, []byte{1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 128})
	f.Add(uint8(6), uint8(4), uint8(0), []byte{1, 0, 9, 0, 2, 0, 4, 0}, []byte{1})
	f.Fuzz(func(t *testing.T, kind, length, offset uint8, a, b []byte) {
		n := int(length)
		one, two := memory.NewBufferBytes(append(make([]byte, 0, len(a)+64), a...)), memory.NewBufferBytes(append(make([]byte, 0, len(b)+64), b...))
		child := func(dtype arrow.DataType, n int) arrow.ArrayData {
			return array.NewData(dtype, n, []*memory.Buffer{nil, memory.NewBufferBytes(make([]byte, 4*n, 4*n+64))}, nil, 0, 0)
		}
		values := child(arrow.PrimitiveTypes.Int32, len(b)%50)
		dtypes := []arrow.DataType{
			arrow.BinaryTypes.Binary, arrow.BinaryTypes.LargeBinary, arrow.ListOf(arrow.PrimitiveTypes.Int32), arrow.ListViewOf(arrow.PrimitiveTypes.Int32),
			arrow.DenseUnionOf([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int32}, {Name: "b", Type: arrow.PrimitiveTypes.Int32}}, []arrow.UnionTypeCode{2, 5}),
			&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int16, ValueType: arrow.PrimitiveTypes.Int32},
			arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int32), arrow.BinaryTypes.BinaryView, arrow.LargeListOf(arrow.PrimitiveTypes.Int32),
		}
		dtype := dtypes[int(kind)%len(dtypes)]
		buffers, children := []*memory.Buffer{nil, one, two}, []arrow.ArrayData(nil)
		switch dtype.ID() {
		case arrow.LIST, arrow.LARGE_LIST:
			buffers, children = buffers[:2], []arrow.ArrayData{values}
		case arrow.LIST_VIEW:
			children = []arrow.ArrayData{values}
		case arrow.DENSE_UNION:
			children = []arrow.ArrayData{values, child(arrow.PrimitiveTypes.Int32, 3)}
		case arrow.DICTIONARY:
			buffers = buffers[:2]
		case arrow.RUN_END_ENCODED:
			ends := array.NewData(arrow.PrimitiveTypes.Int16, len(a)/2, []*memory.Buffer{nil, one}, nil, 0, 0)
			buffers, children = []*memory.Buffer{nil}, []arrow.ArrayData{ends, child(arrow.PrimitiveTypes.Int32, len(a)/2)}
		}
		data := array.NewData(dtype, n, buffers, children, 0, int(offset))
		if dtype.ID() == arrow.DICTIONARY {
			data.SetDictionary(values.(*array.Data))
		}
		arr := part{data: data}
		done := func(got arrow.Array, err error) {
			if err == nil {
				got.Release()
			}
		}
		done(columns.Take(arr, columns.Indices(upTo(n)...)))
		done(columns.Concatenate(arr, arr))
		done(columns.Flatten(arr))
		done(columns.Decode(arr))
		done(columns.CastOffsets(arr, arrow.BinaryTypes.LargeBinary))
		done(columns.CastIndices(arr, arrow.PrimitiveTypes.Int8))
	})
}
