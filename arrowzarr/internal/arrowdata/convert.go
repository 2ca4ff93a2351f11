package arrowdata

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// IsBinary reports whether a type is bytes or text with offsets of 32 bits.
func IsBinary(t arrow.DataType) bool { return t.ID() == arrow.BINARY || t.ID() == arrow.STRING }

// IsText reports whether a type is one of text, not of bytes.
func IsText(t arrow.DataType) bool {
	return t.ID() == arrow.STRING || t.ID() == arrow.LARGE_STRING || t.ID() == arrow.STRING_VIEW
}

// ConvertTo returns an array as one of another type, with the same values. The types are
// those that Parquet files have for each other. The caller owns a reference.
func ConvertTo(a arrow.Array, t arrow.DataType, mem memory.Allocator) (arrow.Array, error) {
	if arrow.TypeEqual(a.DataType(), t) {
		a.Retain()
		return a, nil
	}
	if from, ok := a.(array.ExtensionArray); ok { // its storage is written in another form
		return ConvertTo(from.Storage(), t, mem)
	}
	if ext, ok := t.(arrow.ExtensionType); ok {
		storage, err := ConvertTo(a, ext.StorageType(), mem)
		if err != nil {
			return nil, err
		}
		defer storage.Release()
		return array.NewExtensionArrayWithStorage(ext, storage), nil
	}
	switch t.ID() {
	case arrow.DECIMAL32:
		return narrowDecimals(a.(*array.Decimal128), t, 4, mem)
	case arrow.DECIMAL64:
		return narrowDecimals(a.(*array.Decimal128), t, 8, mem)
	case arrow.STRING_VIEW, arrow.BINARY_VIEW:
		return makeViews(a, t, mem)
	case arrow.DECIMAL128, arrow.DECIMAL256:
		if from := a.DataType().(arrow.DecimalType); from.GetScale() < 0 && t.(arrow.DecimalType).GetScale() == 0 {
			return scaleDecimals(a, t, mem)
		}
		if t.ID() == arrow.DECIMAL128 {
			return widenDecimals(a, t, mem), nil
		}
	case arrow.STRING, arrow.BINARY:
		if id := a.DataType().ID(); id == arrow.STRING_VIEW || id == arrow.BINARY_VIEW {
			return readViews(a, mem), nil
		}
	case arrow.TIMESTAMP:
		if from, to := a.DataType().(*arrow.TimestampType), t.(*arrow.TimestampType); from.Unit != to.Unit {
			return nil, fmt.Errorf("%s as %s: %w", from, to, errors.ErrUnsupported)
		}
	case arrow.LARGE_STRING:
		if IsBinary(a.DataType()) {
			return widenText(a, mem), nil
		}
	case arrow.LIST_VIEW, arrow.LARGE_LIST_VIEW:
		if lists, ok := a.(array.ListLike); ok && a.DataType().ID() != t.ID() {
			return toListViews(lists, t, mem)
		}
	case arrow.LIST, arrow.LARGE_LIST:
		switch a.DataType().ID() {
		case arrow.LIST_VIEW, arrow.LARGE_LIST_VIEW, arrow.FIXED_SIZE_LIST:
			return toLists(a.(array.ListLike), t, mem)
		}
	case arrow.DICTIONARY:
		if a.DataType().ID() != arrow.DICTIONARY {
			return makeDictionary(a, t.(*arrow.DictionaryType), mem)
		}
	}
	data := a.Data()
	children := make([]arrow.ArrayData, len(data.Children()))
	if nested, ok := t.(arrow.NestedType); ok && len(children) == len(nested.Fields()) {
		for i, f := range nested.Fields() {
			child := array.MakeFromData(data.Children()[i])
			made, err := ConvertTo(child, f.Type, mem)
			child.Release()
			if err != nil {
				return nil, err
			}
			defer made.Release()
			children[i] = made.Data()
		}
	} else {
		copy(children, data.Children())
	}
	renamed := array.NewData(t, data.Len(), data.Buffers(), children, data.NullN(), data.Offset())
	defer renamed.Release()
	return array.MakeFromData(renamed), nil
}

// narrowDecimals returns decimals of width bytes.
func narrowDecimals(a *array.Decimal128, t arrow.DataType, width int, mem memory.Allocator) (arrow.Array, error) {
	data := a.Data()
	values := memory.NewResizableBuffer(mem)
	defer values.Release()
	end := data.Offset() + data.Len()
	values.Resize(end * width)
	out := values.Bytes()
	for i := range a.Len() {
		at := (data.Offset() + i) * width
		n := int64(0)
		if !a.IsNull(i) {
			v := a.Value(i)
			if n = int64(v.LowBits()); v != decimal128.FromI64(n) || width == 4 && n != int64(int32(n)) {
				return nil, fmt.Errorf("a decimal of %s that does not fit: %w", t, ErrMalformed)
			}
		}
		if width == 4 {
			binary.NativeEndian.PutUint32(out[at:], uint32(n))
		} else {
			binary.NativeEndian.PutUint64(out[at:], uint64(n))
		}
	}
	made := array.NewData(t, data.Len(), []*memory.Buffer{data.Buffers()[0], values}, nil, data.NullN(), data.Offset())
	defer made.Release()
	return array.MakeFromData(made), nil
}

// widenDecimals returns decimals of 16 bytes.
func widenDecimals(a arrow.Array, t arrow.DataType, mem memory.Allocator) arrow.Array {
	b := array.NewDecimal128Builder(mem, t.(*arrow.Decimal128Type))
	defer b.Release()
	b.Reserve(a.Len())
	for i := range a.Len() {
		switch {
		case a.IsNull(i):
			b.AppendNull()
		case a.DataType().ID() == arrow.DECIMAL32:
			b.Append(decimal128.FromI64(int64(a.(*array.Decimal32).Value(i))))
		default:
			b.Append(decimal128.FromI64(int64(a.(*array.Decimal64).Value(i))))
		}
	}
	return b.NewArray()
}

// scaleDecimals returns decimals of a negative scale as ones of scale 0.
func scaleDecimals(a arrow.Array, t arrow.DataType, mem memory.Allocator) (arrow.Array, error) {
	from := a.DataType().(arrow.DecimalType)
	b := array.NewBuilder(mem, t)
	defer b.Release()
	b.Reserve(a.Len())
	for i := range a.Len() {
		if a.IsNull(i) {
			b.AppendNull()
			continue
		}
		var v decimal256.Num
		switch a := a.(type) {
		case *array.Decimal32:
			v = decimal256.FromI64(int64(a.Value(i)))
		case *array.Decimal64:
			v = decimal256.FromI64(int64(a.Value(i)))
		case *array.Decimal128:
			v = decimal256.FromDecimal128(a.Value(i))
		case *array.Decimal256:
			v = a.Value(i)
		}
		if !v.FitsInPrecision(from.GetPrecision()) {
			return nil, fmt.Errorf("a decimal that type %s cannot hold: %w", from, arrow.ErrInvalid)
		}
		v = v.IncreaseScaleBy(-from.GetScale())
		if narrow, ok := b.(*array.Decimal128Builder); ok {
			words := v.Array()
			narrow.Append(decimal128.New(int64(words[1]), words[0]))
		} else {
			b.(*array.Decimal256Builder).Append(v)
		}
	}
	return b.NewArray(), nil
}

// widenText returns text with offsets of 64 bits.
func widenText(a arrow.Array, mem memory.Allocator) arrow.Array {
	b := array.NewLargeStringBuilder(mem)
	defer b.Release()
	b.Reserve(a.Len())
	for i := range a.Len() {
		if a.IsNull(i) {
			b.AppendNull()
		} else {
			b.Append(textValue(a, i))
		}
	}
	return b.NewArray()
}

// textValue returns a value of text, or of bytes that are text.
func textValue(a arrow.Array, i int) string {
	if bytes, ok := a.(*array.Binary); ok {
		return bytes.ValueString(i)
	}
	return a.(*array.String).Value(i)
}

// readViews returns the text or bytes of an array of views.
func readViews(a arrow.Array, mem memory.Allocator) arrow.Array {
	t := arrow.BinaryTypes.Binary
	value := func(i int) []byte { return a.(*array.BinaryView).Value(i) }
	if text, ok := a.(*array.StringView); ok {
		value = func(i int) []byte { return []byte(text.Value(i)) }
		t = arrow.BinaryTypes.String
	}
	b := array.NewBinaryBuilder(mem, t)
	defer b.Release()
	b.Reserve(a.Len())
	for i := range a.Len() {
		if a.IsNull(i) {
			b.AppendNull()
		} else {
			b.Append(value(i))
		}
	}
	return b.NewArray()
}

// makeViews returns an array of views of text or bytes.
func makeViews(a arrow.Array, t arrow.DataType, mem memory.Allocator) (arrow.Array, error) {
	b := array.NewBuilder(mem, t)
	defer b.Release()
	b.Reserve(a.Len())
	for i := range a.Len() {
		switch {
		case a.IsNull(i):
			b.AppendNull()
		case t.ID() == arrow.STRING_VIEW:
			b.(*array.StringViewBuilder).Append(textValue(a, i))
		default:
			b.(*array.BinaryViewBuilder).Append(a.(*array.Binary).Value(i))
		}
	}
	return b.NewArray(), nil
}

// makeDictionary returns values as a dictionary with one for each row, if the indices can
// count them: they are compared only once, with those of all batches. Otherwise it has
// those that are different.
func makeDictionary(a arrow.Array, t *arrow.DictionaryType, mem memory.Allocator) (arrow.Array, error) {
	width := t.IndexType.(arrow.FixedWidthDataType).Bytes()
	if width < 4 || int64(a.Len()) > math.MaxInt32 {
		b := array.NewDictionaryBuilder(mem, t)
		defer b.Release()
		b.Reserve(a.Len())
		if err := b.AppendArray(a); err != nil {
			return nil, err
		}
		return b.NewArray(), nil
	}
	indices := memory.NewResizableBuffer(mem)
	defer indices.Release()
	indices.Resize(a.Len() * width)
	raw := indices.Bytes()
	for i := range a.Len() {
		if width == 4 {
			binary.LittleEndian.PutUint32(raw[4*i:], uint32(i))
		} else {
			binary.LittleEndian.PutUint64(raw[8*i:], uint64(i))
		}
	}
	data := array.NewDataWithDictionary(t, a.Len(), []*memory.Buffer{nil, indices}, 0, 0, a.Data().(*array.Data))
	defer data.Release()
	return array.MakeFromData(data), nil
}
