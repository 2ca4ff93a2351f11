package ndview

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

var arrowTypes = map[arrow.Type]DType{
	arrow.INT8: Int8, arrow.INT16: Int16, arrow.INT32: Int32, arrow.INT64: Int64,
	arrow.UINT8: Uint8, arrow.UINT16: Uint16, arrow.UINT32: Uint32, arrow.UINT64: Uint64,
	arrow.FLOAT16: Float16, arrow.FLOAT32: Float32, arrow.FLOAT64: Float64,
	arrow.DATE32: Int32, arrow.TIME32: Int32, arrow.DECIMAL32: Int32,
	arrow.TIME64: Int64, arrow.DECIMAL64: Int64,
}

// FromArrow looks at an Arrow column, on the host or a device, as an array. It
// takes numbers, dates, times and durations, and fixed_size_lists of them to
// any depth, whose lengths become axes: a list of 3 lists of 4 float32 has the
// shape [rows, 3, 4]. Nothing is copied but booleans, which Arrow keeps as bits
// and an array as bytes.
//
// Timestamps and durations become datetime64 and timedelta64, date64
// datetime64[ms]; date32, time32 and time64 keep their integers, which have no
// NumPy type of that width or meaning. A column with nulls is ErrNulls: an
// array has no place for them.
func FromArrow(column arrow.Array) (*NDBuffer, error) {
	data := column.Data()
	shape := []int64{int64(column.Len())}
	at := int64(data.Offset())
	t := data.DataType()
	for {
		if column.NullN() != 0 && data == column.Data() || data.NullN() > 0 {
			return nil, fmt.Errorf("column of type %s: %w", column.DataType(), ErrNulls)
		}
		if ext, ok := t.(arrow.ExtensionType); ok {
			t = ext.StorageType()
			continue
		}
		list, ok := t.(*arrow.FixedSizeListType)
		if !ok {
			break
		}
		data = data.Children()[0]
		at = at*int64(list.Len()) + int64(data.Offset())
		shape = append(shape, int64(list.Len()))
		t = list.Elem()
	}
	if t.ID() == arrow.BOOL {
		return fromBits(data, at, shape)
	}
	dtype, ok := dtypeOf(t)
	if !ok {
		return nil, fmt.Errorf("column of type %s: %w", column.DataType(), ErrDType)
	}
	buf, err := valuesOf(data)
	if err != nil {
		return nil, err
	}
	defer buf.Release()
	if product(shape) == 0 {
		at = 0
	}
	return FromBuffer(buf, dtype, at*dtype.Size(), shape, nil)
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

func fromBits(data arrow.ArrayData, at int64, shape []int64) (*NDBuffer, error) {
	bits, err := valuesOf(data)
	if err != nil {
		return nil, err
	}
	defer bits.Release()
	a, err := Empty(bits.Device(), Bool, shape...)
	if err != nil {
		return nil, err
	}
	if err := a.UnpackBits(bits, at, false); err != nil {
		a.Release()
		return nil, err
	}
	return a, nil
}

func valuesOf(data arrow.ArrayData) (arrowbuf.Buffer, error) {
	if len(data.Buffers()) < 2 || data.Buffers()[1] == nil {
		return arrowbuf.CPU().Alloc(0)
	}
	return arrowbuf.BufferOf(data.Buffers()[1])
}
