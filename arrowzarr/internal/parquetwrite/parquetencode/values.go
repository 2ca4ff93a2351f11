package parquetencode

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/schema"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
)

// values are the values of a column chunk without nulls, as Parquet stores them.
type values struct {
	n       int
	width   int     // of a value in bytes; 0: by offsets
	bytes   []byte  // of all values; of Booleans a byte each
	offsets []int64 // n+1 positions in bytes, if width is 0
}

// value returns the bytes of value i.
func (v *values) value(i int) []byte {
	if v.width > 0 {
		return v.bytes[i*v.width : (i+1)*v.width]
	}
	return v.bytes[v.offsets[i]:v.offsets[i+1]]
}

// valuesOf returns the values of an array that are not null.
func valuesOf(a arrow.Array, column *schema.Column) (*values, error) {
	if a.DataType().ID() == arrow.NULL || a.NullN() == a.Len() {
		return &values{width: max(1, column.PhysicalType().ByteSize())}, nil
	}
	if column.PhysicalType() == parquet.Types.ByteArray {
		return textOf(a)
	}
	data := a.Data()
	if data.DataType().ID() == arrow.BOOL {
		return booleansOf(a.(*array.Boolean)), nil
	}
	fixed, ok := data.DataType().(arrow.FixedWidthDataType)
	if !ok || len(data.Buffers()) != 2 || data.Buffers()[1] == nil {
		return nil, mismatch(a, column)
	}
	width := fixed.Bytes()
	raw := data.Buffers()[1].Bytes()
	if len(raw) < (data.Offset()+data.Len())*width {
		return nil, fmt.Errorf("%s array with a buffer of %d bytes, expected %d: %w", a.DataType(), len(raw), (data.Offset()+data.Len())*width, arrowdata.ErrMalformed)
	}
	raw = raw[data.Offset()*width:][:data.Len()*width]
	v := &values{n: a.Len() - a.NullN(), width: width, bytes: raw}
	if a.NullN() > 0 {
		v.bytes = make([]byte, 0, v.n*width)
		forEachRun(a, func(from, to int) { v.bytes = append(v.bytes, raw[from*width:to*width]...) })
	}
	return v, v.store(a, column)
}

// forEachRun calls f with runs of elements that are not null.
func forEachRun(a arrow.Array, f func(from, to int)) {
	for i := 0; i < a.Len(); {
		if a.IsNull(i) {
			i++
			continue
		}
		from := i
		for i < a.Len() && a.IsValid(i) {
			i++
		}
		f(from, i)
	}
}

func mismatch(a arrow.Array, column *schema.Column) error {
	return fmt.Errorf("array of type %s for a column of %s: %w", a.DataType(), column.PhysicalType(), errors.ErrUnsupported)
}

func booleansOf(a *array.Boolean) *values {
	v := &values{width: 1}
	for i := range a.Len() {
		if a.IsValid(i) {
			b := byte(0)
			if a.Value(i) {
				b = 1
			}
			v.bytes = append(v.bytes, b)
		}
	}
	v.n = len(v.bytes)
	return v
}

// textOf returns text or bytes.
func textOf(a arrow.Array) (*values, error) {
	data := a.Data()
	v := &values{}
	if len(data.Buffers()) != 3 {
		return nil, fmt.Errorf("%s array of %d buffers: %w", a.DataType(), len(data.Buffers()), arrowdata.ErrMalformed)
	}
	if b := data.Buffers()[2]; b != nil {
		v.bytes = b.Bytes()
	}
	var at []int64
	var err error
	switch data.DataType().ID() {
	case arrow.STRING, arrow.BINARY:
		at, err = offsetsOf[int32](data, len(v.bytes))
	case arrow.LARGE_STRING, arrow.LARGE_BINARY:
		at, err = offsetsOf[int64](data, len(v.bytes))
	default:
		err = fmt.Errorf("array of type %s for text: %w", data.DataType(), errors.ErrUnsupported)
	}
	if err != nil {
		return nil, err
	}
	if a.NullN() == 0 {
		v.n, v.offsets = a.Len(), at
		return v, nil
	}
	all := v.bytes
	v.n, v.bytes, v.offsets = a.Len()-a.NullN(), nil, make([]int64, 1, a.Len()-a.NullN()+1)
	forEachRun(a, func(from, to int) {
		moved := int64(len(v.bytes)) - at[from]
		v.bytes = append(v.bytes, all[at[from]:at[to]]...)
		for _, end := range at[from+1 : to+1] {
			v.offsets = append(v.offsets, end+moved)
		}
	})
	return v, nil
}

// offsetsOf returns the offsets of an array into a number of bytes.
func offsetsOf[O int32 | int64](data arrow.ArrayData, bytes int) ([]int64, error) {
	var stored []O
	if b := data.Buffers()[1]; b != nil {
		stored = view[O](b.Bytes())
	}
	if len(stored) < data.Offset()+data.Len()+1 {
		return nil, fmt.Errorf("%s array of %d offsets, expected %d: %w", data.DataType(), len(stored), data.Offset()+data.Len()+1, arrowdata.ErrMalformed)
	}
	at := make([]int64, 0, data.Len()+1)
	last := int64(0)
	for _, o := range stored[data.Offset():][:data.Len()+1] {
		if int64(o) < last || int64(o) > int64(bytes) {
			return nil, fmt.Errorf("offset %d after %d, of %d bytes: %w", o, last, bytes, arrowdata.ErrMalformed)
		}
		last = int64(o)
		at = append(at, last)
	}
	return at, nil
}

// view returns bytes as numbers. Arrow's buffers and Go's allocations are aligned.
func view[T any](b []byte) []T {
	var t T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(t)))
}

// store changes values of an Arrow type to those of the column's.
func (v *values) store(a arrow.Array, column *schema.Column) error {
	switch column.PhysicalType() {
	case parquet.Types.Int32:
		return storeIntegers[int32](v, a, column)
	case parquet.Types.Int64:
		return storeIntegers[int64](v, a, column)
	case parquet.Types.Float, parquet.Types.Double:
		if !arrow.IsFloating(a.DataType().ID()) || v.width != column.PhysicalType().ByteSize() {
			return mismatch(a, column)
		}
		return nil
	case parquet.Types.FixedLenByteArray:
		return v.storeFixed(a, column)
	}
	return mismatch(a, column)
}

// storeIntegers changes integers and times to integers of a width.
func storeIntegers[T int32 | int64](v *values, a arrow.Array, column *schema.Column) error {
	divisor, factor := int64(1), int64(1)
	switch t := a.DataType().(type) {
	case *arrow.Int8Type:
		storeWider[T, int8](v)
	case *arrow.Uint8Type:
		storeWider[T, uint8](v)
	case *arrow.Int16Type:
		storeWider[T, int16](v)
	case *arrow.Uint16Type:
		storeWider[T, uint16](v)
	case *arrow.Uint32Type:
		if v.width != int(unsafe.Sizeof(T(0))) {
			storeWider[T, uint32](v)
		}
	case *arrow.Date64Type:
		if column.PhysicalType() == parquet.Types.Int32 {
			divisor = 86_400_000
		}
	case *arrow.TimestampType:
		if t.Unit == arrow.Second {
			factor = 1000
		}
	case *arrow.Time32Type:
		if t.Unit == arrow.Second {
			factor = 1000
		}
	case *arrow.Int32Type, *arrow.Int64Type, *arrow.Uint64Type, *arrow.Date32Type, *arrow.Time64Type:
	default:
		return mismatch(a, column)
	}
	if divisor > 1 || factor > 1 {
		scaled := make([]T, v.n)
		for i := range scaled {
			var from int64
			if v.width == 4 {
				from = int64(view[int32](v.bytes)[i])
			} else {
				from = view[int64](v.bytes)[i]
			}
			to := from / divisor * factor
			if from%divisor != 0 {
				return fmt.Errorf("%d milliseconds are not a date of whole days, which are all that Parquet has: %w", from, arrow.ErrInvalid)
			}
			if to/factor*divisor != from || to != int64(T(to)) {
				return fmt.Errorf("%d of type %s is beyond the range of Parquet's milliseconds: %w", from, a.DataType(), arrow.ErrInvalid)
			}
			scaled[i] = T(to)
		}
		v.set(bytesOf(scaled), int(unsafe.Sizeof(T(0))))
	}
	if v.width != int(unsafe.Sizeof(T(0))) {
		return mismatch(a, column)
	}
	return nil
}

// storeWider changes integers to ones of more bits.
func storeWider[T int32 | int64, F int8 | uint8 | int16 | uint16 | uint32](v *values) {
	wider := make([]T, v.n)
	for i, x := range view[F](v.bytes) {
		wider[i] = T(x)
	}
	v.set(bytesOf(wider), int(unsafe.Sizeof(T(0))))
}

// storeFixed changes decimals to big-endian integers of the width that Parquet has for
// their precision.
func (v *values) storeFixed(a arrow.Array, column *schema.Column) error {
	width := column.TypeLength()
	switch a.DataType().ID() {
	case arrow.DECIMAL128, arrow.DECIMAL256:
	case arrow.FIXED_SIZE_BINARY, arrow.FLOAT16:
		if v.width != width {
			return mismatch(a, column)
		}
		return nil
	default:
		return mismatch(a, column)
	}
	if width > v.width {
		return mismatch(a, column)
	}
	out := make([]byte, v.n*width)
	for i := range v.n {
		in := v.value(i)
		sign := byte(int8(in[width-1]) >> 7)
		for _, b := range in[width:] {
			if b != sign {
				return fmt.Errorf("a decimal that type %s cannot hold: %w", a.DataType(), arrow.ErrInvalid)
			}
		}
		for j := range width {
			out[i*width+j] = in[width-1-j]
		}
	}
	v.set(out, width)
	return nil
}

func (v *values) set(bytes []byte, width int) { v.bytes, v.width = bytes, width }

// bytesOf returns numbers as bytes.
func bytesOf[T int32 | int64 | uint32 | uint64](numbers []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(numbers))), len(numbers)*int(unsafe.Sizeof(T(0))))
}
