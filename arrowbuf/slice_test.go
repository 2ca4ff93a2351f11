package arrowbuf_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

func TestCopyToRejectsShortBuffers(t *testing.T) {
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
		three := []arrow.ArrayData{array.NewData(i32, 3, []*memory.Buffer{nil, bytesOf(12)}, nil, 0, 0)}
		list, views, fields := arrow.ListOf(i32), arrow.ListViewOf(i32), []arrow.Field{{Name: "x", Type: i32}}
		union, runs := arrow.DenseUnionOf(fields, []arrow.UnionTypeCode{1}), arrow.RunEndEncodedOf(i32, i32)
		ids := func(b ...byte) *memory.Buffer { return memory.NewBufferBytes(b) }
		ends := func(b ...byte) []arrow.ArrayData {
			return []arrow.ArrayData{array.NewData(i32, len(b), []*memory.Buffer{nil, offsets(b...)}, nil, 0, 0), three[0]}
		}
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
			"no list values":         array.NewData(arrow.FixedSizeListOf(2, i32), 2, []*memory.Buffer{nil}, nil, 0, 0),
			"list offsets":           array.NewData(list, 2, []*memory.Buffer{nil, offsets(0, 1)}, three, 0, 0),
			"list offsets too far":   array.NewData(list, 2, []*memory.Buffer{nil, offsets(0, 1, 4)}, three, 0, 0),
			"list without a child":   array.NewData(list, 2, []*memory.Buffer{nil, offsets(0, 1, 3)}, nil, 0, 0),
			"list with a nil child":  array.NewData(list, 2, []*memory.Buffer{nil, offsets(0, 1, 3)}, []arrow.ArrayData{nil}, 0, 0),
			"list view sizes":        array.NewData(views, 2, []*memory.Buffer{nil, offsets(0, 1), offsets(1)}, three, 0, 0),
			"list view too far":      array.NewData(views, 1, []*memory.Buffer{nil, offsets(0, 1), offsets(1, 3)}, three, 0, 1),
			"short field":            array.NewData(arrow.StructOf(fields...), 3, []*memory.Buffer{nil}, three, 0, 1),
			"no field":               array.NewData(arrow.StructOf(fields...), 3, []*memory.Buffer{nil}, nil, 0, 0),
			"short union child":      array.NewData(arrow.SparseUnionOf(fields, []arrow.UnionTypeCode{0}), 4, []*memory.Buffer{nil, bytesOf(4)}, three, 0, 0),
			"type ids":               array.NewData(union, 3, []*memory.Buffer{nil, ids(1, 1), offsets(0, 1, 2)}, three, 0, 0),
			"unknown type id":        array.NewData(union, 1, []*memory.Buffer{nil, ids(1, 0), offsets(0, 1)}, three, 0, 1),
			"negative type id":       array.NewData(union, 1, []*memory.Buffer{nil, ids(1, 255), offsets(0, 1)}, three, 0, 1),
			"union offsets":          array.NewData(union, 2, []*memory.Buffer{nil, ids(1, 1), offsets(0)}, three, 0, 0),
			"union offset too far":   array.NewData(union, 1, []*memory.Buffer{nil, ids(1, 1), offsets(0, 3)}, three, 0, 1),
			"runs too short":         array.NewData(runs, 3, []*memory.Buffer{nil}, ends(1, 2, 3), 0, 1),
			"runs without values":    array.NewData(runs, 3, []*memory.Buffer{nil}, ends(1, 2, 3, 4), 0, 0),
			"runs without ends":      array.NewData(runs, 3, []*memory.Buffer{nil}, three, 0, 0),
			"a map of one field":     array.NewData(arrow.MapOf(i32, i32), 1, []*memory.Buffer{nil, offsets(0, 1)}, three, 0, 0),
			"view into no buffer":    array.NewData(arrow.BinaryTypes.StringView, 1, []*memory.Buffer{nil, offsets(0, 0, 0, 0, 13, 0, 0, 0)}, nil, 0, 1),
			"view beyond its buffer": array.NewData(arrow.BinaryTypes.StringView, 1, []*memory.Buffer{nil, offsets(0, 0, 0, 0, 13, 0, 0, 0), bytesOf(12)}, nil, 0, 1),
			"negative view":          array.NewData(arrow.BinaryTypes.StringView, 1, []*memory.Buffer{nil, memory.NewBufferBytes(append(make([]byte, 16), 255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)), bytesOf(12)}, nil, 0, 1),
			"no dictionary":          array.NewData(&arrow.DictionaryType{IndexType: i32, ValueType: str}, 2, []*memory.Buffer{nil, bytesOf(8)}, nil, 0, 0),
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

// bare is an array that arrow-go's constructors reject.
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

// For any offsets, a copy returns an error or an equal array.
func FuzzCopyOfStrings(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0}, []byte("abc"), []byte{3}, 0, 2)
	f.Add([]byte{9, 0, 0, 0, 1, 0, 0, 0, 255, 255, 255, 255}, []byte("abc"), []byte{}, 1, 1)
	f.Add([]byte{1, 0, 0, 0, 1, 0, 0, 0}, []byte("a"), []byte{0}, 0, -1)
	dev := cudatest.NewDevice(f)
	f.Fuzz(func(t *testing.T, offsets, values, bitmap []byte, offset, length int) {
		buffers := []*memory.Buffer{memory.NewBufferBytes(bitmap), memory.NewBufferBytes(offsets), memory.NewBufferBytes(values)}
		data := array.NewData(arrow.BinaryTypes.String, length, buffers, nil, array.UnknownNullCount, offset)
		moved, err := arrowbuf.CopyArrayTo(bare{data}, dev)
		if err != nil {
			require.ErrorIs(t, err, arrow.ErrInvalid)
			return
		}
		defer moved.Release()
		back, err := arrowbuf.CopyArrayTo(moved, arrowbuf.CPU())
		require.NoError(t, err)
		defer back.Release()
		require.Equal(t, length, back.Len())
		require.LessOrEqual(t, back.Data().Buffers()[2].Len(), len(values))
	})
}

// referringTypes are types whose buffers refer to values.
var referringTypes = []arrow.DataType{
	arrow.ListOf(arrow.PrimitiveTypes.Int8), arrow.LargeListOf(arrow.PrimitiveTypes.Int8), arrow.ListViewOf(arrow.PrimitiveTypes.Int8),
	arrow.BinaryTypes.StringView, arrow.BinaryTypes.LargeString, arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Int8),
	&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int16, ValueType: arrow.PrimitiveTypes.Int8},
	arrow.DenseUnionOf([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Int8}}, []arrow.UnionTypeCode{1}),
	arrow.SparseUnionOf([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Int8}}, []arrow.UnionTypeCode{1}),
	arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Int8),
	arrow.StructOf(arrow.Field{Name: "x", Type: arrow.PrimitiveTypes.Int8}), arrow.MapOf(arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int8),
}

// For any buffers, each method of a device array returns a result or an error
// wrapping arrow.ErrInvalid, and a valid array prints.
func FuzzArraysOnADevice(f *testing.F) {
	for i := range referringTypes {
		f.Add(byte(i), []byte{3}, []byte{0, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0}, []byte{1, 0, 0, 0, 2, 0, 0, 0}, []byte{1, 2, 3}, 0, 2)
		f.Add(byte(i), []byte{}, []byte{1, 1, 1, 0, 255, 255, 255, 255}, []byte{13, 0, 0, 0}, []byte{1, 0, 2, 0, 9, 0}, 1, 2)
	}
	dev := cudatest.NewDevice(f)
	f.Fuzz(func(t *testing.T, kind byte, bitmap, first, second, values []byte, offset, length int) {
		dtype := referringTypes[int(kind)%len(referringTypes)]
		bytesOf := memory.NewBufferBytes
		child := func(dtype arrow.DataType, n int) arrow.ArrayData {
			return array.NewData(dtype, n, []*memory.Buffer{nil, bytesOf(values)}, nil, 0, 0)
		}
		n, i8 := len(values), arrow.PrimitiveTypes.Int8
		buffers, children := []*memory.Buffer{bytesOf(bitmap), bytesOf(first), bytesOf(second)}, []arrow.ArrayData{child(i8, n)}
		switch dt := dtype.(type) {
		case *arrow.RunEndEncodedType:
			children = []arrow.ArrayData{child(arrow.PrimitiveTypes.Int16, n/2), child(i8, n/2)}
		case *arrow.MapType:
			children = []arrow.ArrayData{array.NewData(dt.Elem(), n, []*memory.Buffer{bytesOf(bitmap)}, []arrow.ArrayData{children[0], children[0]}, array.UnknownNullCount, 0)}
		}
		data := array.NewData(dtype, length, buffers, children, array.UnknownNullCount, offset)
		if dtype.ID() == arrow.DICTIONARY {
			data = array.NewDataWithDictionary(dtype, length, buffers, array.UnknownNullCount, offset, children[0].(*array.Data))
		}
		made, err := arrowbuf.CopyArrayTo(bare{data}, dev)
		if err != nil {
			require.ErrorIs(t, err, arrow.ErrInvalid)
			return
		}
		defer made.Release()
		moved := made.(*arrowbuf.Array)
		for i := 0; i < min(length, 3); i++ {
			slice := moved.Slice(i, length-i/2)
			useFuzzed(t, slice)
			slice.Release()
		}
	})
}

func useFuzzed(t *testing.T, a *arrowbuf.Array) {
	invalid := func(err error) bool {
		if err != nil {
			require.ErrorIs(t, err, arrow.ErrInvalid)
		}
		return err != nil
	}
	invalid(a.Validate())
	host, err := arrowbuf.CopyArrayTo(a, arrowbuf.CPU())
	if invalid(err) {
		require.Error(t, a.ValidateFull())
		return
	}
	defer host.Release()
	if invalid(a.ValidateFull()) {
		return
	}
	require.NoError(t, a.Validate())
	require.Equal(t, host.String(), a.String())
	for i := range min(a.Len(), 4) {
		require.Equal(t, host.ValueStr(i), a.ValueStr(i))
	}
}
