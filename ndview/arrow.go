package ndview

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/bitutil"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

var arrowTypes = map[arrow.Type]DType{
	arrow.BOOL: Bool,
	arrow.INT8: Int8, arrow.INT16: Int16, arrow.INT32: Int32, arrow.INT64: Int64,
	arrow.UINT8: Uint8, arrow.UINT16: Uint16, arrow.UINT32: Uint32, arrow.UINT64: Uint64,
	arrow.FLOAT16: Float16, arrow.FLOAT32: Float32, arrow.FLOAT64: Float64,
	arrow.DATE32: Int32, arrow.TIME32: Int32, arrow.DECIMAL32: Int32,
	arrow.TIME64: Int64, arrow.DECIMAL64: Int64,
}

// FromArrow looks at an Arrow column, on the host or a device, as an array. It
// takes numbers, dates, times, durations and booleans, decimals of 32 and 64
// bits as their unscaled integers, fixed_size_lists of all these to any depth,
// and extension types over them, as what they are stored as. The lengths of
// lists become axes: a list of 3 lists of 4 float32 has the shape [rows, 3, 4].
// Nothing is copied but booleans, which Arrow keeps as bits and an array as
// bytes. Another type is ErrDType.
//
// Timestamps and durations become datetime64 and timedelta64, date64
// datetime64[ms]; date32, time32 and time64 keep their integers, which have no
// NumPy type of that width or meaning. A column with nulls among the elements
// that it shows, or in the lists around them, is ErrNulls: an array has no
// place for them. A column whose children or buffers are too small for its
// length is arrowbuf.ErrOutOfRange.
func FromArrow(column arrow.Array) (*NDBuffer, error) {
	a, err := fromArrow(column)
	if err != nil {
		return nil, fmt.Errorf("column of type %s: %w", column.DataType(), err)
	}
	return a, nil
}

func fromArrow(column arrow.Array) (*NDBuffer, error) {
	data, t := column.Data(), storageOf(column.DataType())
	first, shape := int64(data.Offset()), []int64{int64(column.Len())}
	for {
		n, err := byteCount(Uint8, shape)
		if err != nil {
			return nil, err
		}
		if end := int64(data.Offset()) + int64(data.Len()); first < 0 || n > end-first {
			return nil, fmt.Errorf("elements [%d, %d+%d) of %d: %w", first, first, n, end, arrowbuf.ErrOutOfRange)
		}
		if err := checkNoNulls(data, first, n); err != nil {
			return nil, err
		}
		list, ok := t.(*arrow.FixedSizeListType)
		if !ok {
			break
		}
		if len(data.Children()) != 1 {
			return nil, fmt.Errorf("a fixed_size_list with %d children: %w", len(data.Children()), arrow.ErrInvalid)
		}
		data = data.Children()[0]
		first = first*int64(list.Len()) + int64(data.Offset())
		shape = append(shape, int64(list.Len()))
		t = storageOf(list.Elem())
	}
	dtype, ok := dtypeOf(t)
	if !ok {
		return nil, ErrDType
	}
	if product(shape) == 0 {
		first = 0
	}
	buf, err := valuesOf(data, arrowbuf.DeviceOf(column))
	if err != nil {
		return nil, err
	}
	defer buf.Release()
	if dtype == Bool {
		return fromBits(buf, first, shape)
	}
	return FromBuffer(buf, dtype, first*dtype.Size(), shape, nil)
}

// checkNoNulls looks for nulls among elements [first, first+n) of an array's
// buffers, which may be fewer than the array has.
func checkNoNulls(data arrow.ArrayData, first, n int64) error {
	if data.NullN() == 0 || n == 0 || len(data.Buffers()) == 0 || data.Buffers()[0] == nil || data.Buffers()[0].Len() == 0 {
		return nil
	}
	bitmap, err := arrowbuf.BufferOf(data.Buffers()[0])
	if err != nil {
		return err
	}
	defer bitmap.Release()
	shown, err := bitmap.Slice(first/8, bitutil.BytesForBits(first%8+n))
	if err != nil {
		return fmt.Errorf("validity bitmap: %w", err)
	}
	defer shown.Release()
	bits := make([]byte, shown.Len())
	if _, err := shown.CopyToHost(bits, 0); err != nil {
		return fmt.Errorf("validity bitmap: %w", err)
	}
	if valid := bitutil.CountSetBits(bits, int(first%8), int(n)); int64(valid) != n {
		return fmt.Errorf("%d of %d elements are missing: %w", n-int64(valid), n, ErrNulls)
	}
	return nil
}

// storageOf is the type whose layout an array has.
func storageOf(t arrow.DataType) arrow.DataType {
	for {
		ext, ok := t.(arrow.ExtensionType)
		if !ok {
			return t
		}
		t = ext.StorageType()
	}
}

func dtypeOf(t arrow.DataType) (DType, bool) {
	switch t := t.(type) {
	case *arrow.TimestampType:
		return Datetime64(TimeUnit(t.Unit.String()), 1), true
	case *arrow.DurationType:
		return Timedelta64(TimeUnit(t.Unit.String()), 1), true
	case *arrow.Date64Type:
		return Datetime64(Millisecond, 1), true
	}
	dtype, ok := arrowTypes[t.ID()]
	return dtype, ok
}

func fromBits(bits arrowbuf.Buffer, first int64, shape []int64) (*NDBuffer, error) {
	// Before there is memory for bits that there are not.
	if err := arrowbuf.CheckRange(first/8, (first%8+product(shape)+7)/8, bits.Len()); err != nil {
		return nil, err
	}
	a, err := Empty(bits.Device(), Bool, shape...)
	if err != nil {
		return nil, err
	}
	if err := a.UnpackBits(bits, first, false); err != nil {
		a.Release()
		return nil, err
	}
	return a, nil
}

// valuesOf is the second buffer of an array. One without elements may lack it.
func valuesOf(data arrow.ArrayData, dev arrowbuf.Device) (arrowbuf.Buffer, error) {
	if len(data.Buffers()) < 2 || data.Buffers()[1] == nil {
		return dev.Alloc(0)
	}
	return arrowbuf.BufferOf(data.Buffers()[1])
}
