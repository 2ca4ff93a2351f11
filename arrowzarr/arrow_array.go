package arrowzarr

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/columns"
	"github.com/quiver-gpu/quiver/zarr/element"
)

// validityOf returns the validity bitmap of a mask of missing elements, and the number
// of nulls. It returns nil if nothing is missing.
func validityOf(missing []byte) (*memory.Buffer, int) {
	nulls := 0
	for _, m := range missing {
		nulls += int(m & 1)
	}
	if nulls == 0 {
		return nil, 0
	}
	bits := make([]byte, bitutil.BytesForBits(int64(len(missing))))
	for i, m := range missing {
		if m == 0 {
			bitutil.SetBit(bits, i)
		}
	}
	return memory.NewBufferBytes(bits), nulls
}

// fixedBuffer returns the buffer of n values of a fixed width from elements of Zarr.
func fixedBuffer(t arrow.DataType, l fixedLayout, raw []byte, n int, missing []byte) (*memory.Buffer, error) {
	switch {
	case l.dtype == ndview.Bool:
		bits := make([]byte, bitutil.BytesForBits(int64(n)))
		for i := range n {
			if raw[i] != 0 {
				bitutil.SetBit(bits, i)
			}
		}
		raw = bits
	case l.source.Size() != l.dtype.Size(): // int64 times become int32
		narrow := make([]byte, 0, 4*n)
		for i, v := range widen(raw, 8) {
			if missing != nil && missing[i] != 0 {
				v = 0
			}
			if v != int64(int32(v)) {
				return nil, fmt.Errorf("%d does not fit type %s: %w", v, t, arrowdata.ErrMalformed)
			}
			narrow = binary.LittleEndian.AppendUint32(narrow, uint32(v))
		}
		raw = narrow
	}
	return memory.NewBufferBytes(raw), nil
}

// fixedArray returns an array of n values of a fixed width from elements of Zarr.
func fixedArray(t arrow.DataType, l fixedLayout, raw []byte, n int, missing []byte) (arrow.Array, error) {
	values, err := fixedBuffer(t, l, raw, n, missing)
	if err != nil {
		return nil, err
	}
	validity, nulls := validityOf(missing)
	data := array.NewData(t, n, []*memory.Buffer{validity, values}, nil, nulls, 0)
	defer data.Release()
	return array.MakeFromData(data), nil
}

// textArray returns an array of a type of text or bytes.
func textArray(t arrow.DataType, text *element.VLen, missing []byte) (arrow.Array, error) {
	narrow, wide := text.Offsets()
	if wide == nil {
		wide = make([]int64, len(narrow))
		for i, o := range narrow {
			wide[i] = int64(o)
		}
	}
	if len(wide) == 0 {
		wide = []int64{0}
	}
	return stringArray(t, wide, text.Data(), missing)
}

// stringArray returns an array of the bytes between offsets, of which the first need not
// be 0.
func stringArray(t arrow.DataType, offsets []int64, bytes []byte, missing []byte) (arrow.Array, error) {
	n := len(offsets) - 1
	validity, nulls := validityOf(missing)
	buffers := []*memory.Buffer{validity}
	switch t.ID() {
	case arrow.STRING_VIEW, arrow.BINARY_VIEW:
		return viewArray(t, offsets, bytes, missing)
	case arrow.LARGE_STRING, arrow.LARGE_BINARY:
		buffers = append(buffers, memory.NewBufferBytes(offsets64(offsets)))
	default:
		narrow, err := offsets32(offsets)
		if err != nil {
			return nil, err
		}
		buffers = append(buffers, memory.NewBufferBytes(narrow))
	}
	own := slices.Clone(bytes[offsets[0]:offsets[n]])
	data := array.NewData(t, n, append(buffers, memory.NewBufferBytes(own)), nil, nulls, 0)
	defer data.Release()
	return array.MakeFromData(data), nil
}

func viewArray(t arrow.DataType, offsets []int64, bytes []byte, missing []byte) (arrow.Array, error) {
	if offsets[len(offsets)-1]-offsets[0] > math.MaxInt32 {
		return nil, arrowdata.ErrTooLong
	}
	b := array.NewBuilder(memory.DefaultAllocator, t)
	defer b.Release()
	b.Reserve(len(offsets) - 1)
	for i := range len(offsets) - 1 {
		value := bytes[offsets[i]:offsets[i+1]]
		switch b := b.(type) {
		case *array.StringViewBuilder:
			if missing != nil && missing[i] != 0 {
				b.AppendNull()
			} else {
				b.Append(string(value))
			}
		case *array.BinaryViewBuilder:
			if missing != nil && missing[i] != 0 {
				b.AppendNull()
			} else {
				b.Append(value)
			}
		}
	}
	return b.NewArray(), nil
}

// offsets64 and offsets32 return offsets as Arrow's buffers have them, from 0.
func offsets64(offsets []int64) []byte {
	raw := make([]byte, 0, 8*len(offsets))
	for _, o := range offsets {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(o-offsets[0]))
	}
	return raw
}

func offsets32(offsets []int64) ([]byte, error) {
	if offsets[len(offsets)-1]-offsets[0] > math.MaxInt32 {
		return nil, arrowdata.ErrTooLong
	}
	raw := make([]byte, 0, 4*len(offsets))
	for _, o := range offsets {
		raw = binary.LittleEndian.AppendUint32(raw, uint32(o-offsets[0]))
	}
	return raw, nil
}

// dictionaryArray returns a dictionary array of codes, of which -1 is a null.
func dictionaryArray(t *arrow.DictionaryType, codes []int64, dictionary arrow.Array) (arrow.Array, error) {
	width := t.IndexType.(arrow.FixedWidthDataType).Bytes()
	limit := int64(math.MaxInt64)
	switch bits := 8 * width; {
	case arrow.IsUnsignedInteger(t.IndexType.ID()) && bits < 64:
		limit = 1<<bits - 1
	case bits < 64:
		limit = 1<<(bits-1) - 1
	}
	raw := make([]byte, 0, len(codes)*width)
	var missing []byte
	for i, code := range codes {
		if code < -1 || code >= int64(dictionary.Len()) {
			return nil, fmt.Errorf("code %d of %d categories: %w", code, dictionary.Len(), arrowdata.ErrMalformed)
		}
		if code > limit {
			return nil, fmt.Errorf("code %d does not fit dictionary indices of type %s", code, t.IndexType)
		}
		if code == -1 {
			if missing == nil {
				missing = make([]byte, len(codes))
			}
			missing[i], code = 1, 0
		}
		raw = binary.LittleEndian.AppendUint64(raw, uint64(code))[:len(raw)+width]
	}
	validity, nulls := validityOf(missing)
	data := array.NewDataWithDictionary(t, len(codes), []*memory.Buffer{validity, memory.NewBufferBytes(raw)}, nulls, 0, dictionary.Data().(*array.Data))
	defer data.Release()
	return array.MakeFromData(data), nil
}

// childType returns the declared type of a child of a nested type.
func childType(t arrow.DataType, i int) arrow.DataType {
	switch t := t.(type) {
	case *arrow.DictionaryType:
		return t.ValueType
	case arrow.ListLikeType:
		return t.Elem()
	case arrow.NestedType:
		return t.Fields()[i].Type
	}
	return nil
}

// nestedArray returns an array of a nested type. Buffers follow the validity.
func nestedArray(t arrow.DataType, n int, missing []byte, buffers []*memory.Buffer, children ...arrow.Array) (arrow.Array, error) {
	validity, nulls := validityOf(missing)
	data := make([]arrow.ArrayData, len(children))
	for i, child := range children {
		data[i] = child.Data()
	}
	whole := array.NewData(t, n, append([]*memory.Buffer{validity}, buffers...), data, nulls, 0)
	defer whole.Release()
	return array.MakeFromData(whole), nil
}

// nullArray returns n nulls of a type, or values of a union whose values are null.
// arrow-go's MakeArrayOfNull (v18.8) panics for types that have Null inside.
func nullArray(t arrow.DataType, n int) (arrow.Array, error) {
	storage := arrowdata.StorageType(t)
	if !arrow.TypeEqual(storage, t) {
		values, err := nullArray(storage, n)
		if err != nil {
			return nil, err
		}
		return restoreType(values, t)
	}
	missing := slices.Repeat([]byte{1}, n)
	switch t := t.(type) {
	case *arrow.DictionaryType:
		values, err := nullArray(t.ValueType, 0)
		if err != nil {
			return nil, err
		}
		defer values.Release()
		return dictionaryArray(t, slices.Repeat([]int64{-1}, n), values)
	case *arrow.RunEndEncodedType:
		return nullRuns(t, n)
	case arrow.UnionType:
		return nullUnion(t, n)
	case *arrow.FixedSizeListType:
		return nestedNulls(t, n, missing, nil, n*int(t.Len()))
	case *arrow.StructType:
		return nestedNulls(t, n, missing, nil, n)
	case *arrow.ListViewType:
		return nestedNulls(t, n, missing, []*memory.Buffer{zeros(4 * n), zeros(4 * n)}, 0)
	case *arrow.LargeListViewType:
		return nestedNulls(t, n, missing, []*memory.Buffer{zeros(8 * n), zeros(8 * n)}, 0)
	case *arrow.LargeListType:
		return nestedNulls(t, n, missing, []*memory.Buffer{zeros(8 * (n + 1))}, 0)
	case *arrow.ListType, *arrow.MapType:
		return nestedNulls(t, n, missing, []*memory.Buffer{zeros(4 * (n + 1))}, 0)
	}
	return array.MakeArrayOfNull(memory.DefaultAllocator, t, n), nil
}

func zeros(n int) *memory.Buffer { return memory.NewBufferBytes(make([]byte, n)) }

// nestedNulls returns an array of a nested type whose children have a number of nulls.
func nestedNulls(t arrow.DataType, n int, missing []byte, buffers []*memory.Buffer, inner int) (arrow.Array, error) {
	var children []arrow.Array
	defer func() { arrowdata.ReleaseArrays(children) }()
	for _, f := range t.(arrow.NestedType).Fields() {
		child, err := nullArray(f.Type, inner)
		if err != nil {
			return nil, err
		}
		children = append(children, child)
	}
	return nestedArray(t, n, missing, buffers, children...)
}

// nullUnion returns nulls of a union's first type.
func nullUnion(t arrow.UnionType, n int) (arrow.Array, error) {
	code := byte(0)
	if len(t.Fields()) > 0 {
		code = byte(t.TypeCodes()[0])
	} else if n > 0 {
		return nil, fmt.Errorf("%d values of a union of no types: %w", n, arrowdata.ErrMalformed)
	}
	buffers := []*memory.Buffer{memory.NewBufferBytes(slices.Repeat([]byte{code}, n))}
	inner := n
	if t.Mode() == arrow.DenseMode {
		buffers, inner = append(buffers, zeros(4*n)), min(n, 1)
	}
	return nestedNulls(t, n, nil, buffers, inner)
}

// nullRuns returns one run of nulls, or none.
func nullRuns(t *arrow.RunEndEncodedType, n int) (arrow.Array, error) {
	ends := array.NewBuilder(memory.DefaultAllocator, t.RunEnds())
	defer ends.Release()
	if int64(n) > runLimit(t) {
		return nil, arrowdata.ErrTooLong
	}
	if n > 0 {
		if err := ends.AppendValueFromString(fmt.Sprint(n)); err != nil {
			return nil, err
		}
	}
	values, err := nullArray(t.Encoded(), min(n, 1))
	if err != nil {
		return nil, err
	}
	defer values.Release()
	runEnds := ends.NewArray()
	defer runEnds.Release()
	return array.NewRunEndEncodedArrayWithType(t, runEnds, values, n, 0), nil
}

// restoreType returns values as a type whose values they are: an extension of their
// type, or runs of them. It releases values.
func restoreType(values arrow.Array, t arrow.DataType) (arrow.Array, error) {
	defer values.Release()
	storage := arrowdata.StorageType(t)
	if runs, ok := storage.(*arrow.RunEndEncodedType); ok {
		values.Retain()
		inner, err := restoreType(values, runs.Encoded())
		if err != nil {
			return nil, err
		}
		defer inner.Release()
		encoded, err := encodeRuns(inner, runs)
		if err != nil {
			return nil, err
		}
		defer encoded.Release()
		data := retype(encoded.Data(), t)
		defer data.Release()
		return array.MakeFromData(data), nil
	}
	data := retype(values.Data(), t)
	defer data.Release()
	return array.MakeFromData(data), nil
}

// retype returns data with another type of the same layout.
func retype(data arrow.ArrayData, t arrow.DataType) arrow.ArrayData {
	if d, ok := data.Dictionary().(*array.Data); ok && d != nil {
		return array.NewDataWithDictionary(t, data.Len(), data.Buffers(), data.NullN(), data.Offset(), d)
	}
	return array.NewData(t, data.Len(), data.Buffers(), data.Children(), data.NullN(), data.Offset())
}

// encodeRuns returns values as runs of equal ones.
func encodeRuns(values arrow.Array, t *arrow.RunEndEncodedType) (arrow.Array, error) {
	var starts []int64
	ends := array.NewBuilder(memory.DefaultAllocator, t.RunEnds())
	defer ends.Release()
	var last, key []byte
	n := values.Len()
	if int64(n) > runLimit(t) {
		return nil, arrowdata.ErrTooLong
	}
	appendEnd := func(end int) error { return ends.AppendValueFromString(fmt.Sprint(end)) }
	for i := range n {
		var err error
		if key, err = appendValueKey(key[:0], values, i); err != nil {
			return nil, err
		}
		if i > 0 && slices.Equal(key, last) {
			continue
		}
		if i > 0 {
			if err := appendEnd(i); err != nil {
				return nil, err
			}
		}
		starts = append(starts, int64(i))
		last, key = key, last
	}
	if n > 0 {
		if err := appendEnd(n); err != nil {
			return nil, err
		}
	}
	ofRuns, err := columns.Take(values, columns.Indices(starts...))
	if err != nil {
		return nil, err
	}
	defer ofRuns.Release()
	runEnds := ends.NewArray()
	defer runEnds.Release()
	return array.NewRunEndEncodedArrayWithType(t, runEnds, ofRuns, n, 0), nil
}
