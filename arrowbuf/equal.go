package arrowbuf

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// BitwiseEqual reports whether two arrays of the host have equal types and bitwise
// equal values. It differs from array.Equal for floats: 0 differs from -0, and a NaN
// equals a NaN of the same bits. Values of null elements are ignored. A nil array
// equals only a nil array. BitwiseEqual panics with an error wrapping ErrDeviceMemory
// if the host cannot access an array.
func BitwiseEqual(a, b arrow.Array) bool {
	if isNil(a) || isNil(b) {
		return isNil(a) && isNil(b)
	}
	for _, arr := range []arrow.Array{a, b} {
		if dev := DeviceOf(arr); !hostReads(dev) {
			panic(fmt.Errorf("arrowbuf.BitwiseEqual: an array of type %s is on %s: %w", arr.DataType(), dev, ErrDeviceMemory))
		}
	}
	if !arrow.TypeEqual(a.DataType(), b.DataType()) {
		return false
	}
	left, right := asBits(a), asBits(b)
	defer left.Release()
	defer right.Release()
	return array.Equal(left, right)
}

// asBits returns arr with unsigned integers in place of floats.
func asBits(arr arrow.Array) arrow.Array {
	data := bitsOf(arr.Data())
	defer data.Release()
	return array.MakeFromData(data)
}

// bitsOf returns data with unsigned integers in place of floats.
func bitsOf(data arrow.ArrayData) *array.Data {
	var children []arrow.ArrayData
	for _, child := range data.Children() {
		if child == nil {
			children = append(children, nil)
			continue
		}
		bits := bitsOf(child)
		defer bits.Release()
		children = append(children, bits)
	}
	made := array.NewData(bitsTypeOf(data.DataType()), data.Len(), data.Buffers(), children, data.NullN(), data.Offset())
	if dictionary, ok := data.Dictionary().(*array.Data); ok && dictionary != nil {
		values := bitsOf(dictionary)
		defer values.Release()
		made.SetDictionary(values)
	}
	return made
}

// bitsTypeOf returns a type of the same layout without floats. It drops what two
// equal types may differ in, such as names of list fields.
func bitsTypeOf(dtype arrow.DataType) arrow.DataType {
	switch t := dtype.(type) {
	case arrow.ExtensionType:
		return bitsTypeOf(t.StorageType())
	case *arrow.Float16Type:
		return arrow.PrimitiveTypes.Uint16
	case *arrow.Float32Type:
		return arrow.PrimitiveTypes.Uint32
	case *arrow.Float64Type:
		return arrow.PrimitiveTypes.Uint64
	case *arrow.ListType:
		return arrow.ListOf(bitsTypeOf(t.Elem()))
	case *arrow.LargeListType:
		return arrow.LargeListOf(bitsTypeOf(t.Elem()))
	case *arrow.ListViewType:
		return arrow.ListViewOf(bitsTypeOf(t.Elem()))
	case *arrow.LargeListViewType:
		return arrow.LargeListViewOf(bitsTypeOf(t.Elem()))
	case *arrow.FixedSizeListType:
		return arrow.FixedSizeListOf(t.Len(), bitsTypeOf(t.Elem()))
	case *arrow.MapType:
		return arrow.ListOf(bitsTypeOf(t.Elem()))
	case *arrow.StructType:
		return arrow.StructOf(bitsFields(t.Fields())...)
	case *arrow.SparseUnionType:
		return arrow.SparseUnionOf(bitsFields(t.Fields()), t.TypeCodes())
	case *arrow.DenseUnionType:
		return arrow.DenseUnionOf(bitsFields(t.Fields()), t.TypeCodes())
	case *arrow.RunEndEncodedType:
		return arrow.RunEndEncodedOf(t.RunEnds(), bitsTypeOf(t.Encoded()))
	case *arrow.DictionaryType:
		return &arrow.DictionaryType{IndexType: t.IndexType, ValueType: bitsTypeOf(t.ValueType), Ordered: t.Ordered}
	default:
		return dtype
	}
}

func bitsFields(fields []arrow.Field) []arrow.Field {
	made := make([]arrow.Field, len(fields))
	for i, f := range fields {
		made[i] = arrow.Field{Name: f.Name, Type: bitsTypeOf(f.Type), Nullable: f.Nullable}
	}
	return made
}
