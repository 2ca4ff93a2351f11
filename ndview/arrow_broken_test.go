package ndview_test

import (
	"math"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

func TestFromArrowRefusesOtherTypes(t *testing.T) {
	for _, dtype := range []arrow.DataType{
		arrow.Null, arrow.BinaryTypes.String, arrow.BinaryTypes.LargeBinary, arrow.BinaryTypes.StringView,
		&arrow.Decimal128Type{Precision: 10}, &arrow.Decimal256Type{Precision: 50},
		arrow.FixedWidthTypes.MonthInterval, arrow.FixedWidthTypes.MonthDayNanoInterval,
		arrow.ListOf(arrow.PrimitiveTypes.Int32), arrow.StructOf(arrow.Field{Name: "a", Type: arrow.PrimitiveTypes.Int32}),
		&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String},
		listOf(2, arrow.BinaryTypes.String),
	} {
		t.Run(dtype.String(), func(t *testing.T) {
			column := fromJSON(t, dtype, `[]`)
			_, err := ndview.FromArrow(column)
			assert.ErrorIs(t, err, ndview.ErrDType)
			assert.ErrorContains(t, err, dtype.String())
		})
	}
	nulls := array.NewNull(3)
	defer nulls.Release()
	_, err := ndview.FromArrow(nulls)
	assert.ErrorIs(t, err, ndview.ErrDType)
}

// fake is a column of data that arrow-go itself would refuse or fail on.
type fake struct {
	arrow.Array
	data arrow.ArrayData
}

func (f fake) Data() arrow.ArrayData    { return f.data }
func (f fake) DataType() arrow.DataType { return f.data.DataType() }
func (f fake) Len() int                 { return f.data.Len() }

func TestFromArrowOfBrokenColumnsIsAnError(t *testing.T) {
	buffers := func(sizes ...int) []*memory.Buffer {
		var bs []*memory.Buffer
		for _, n := range sizes {
			if n < 0 {
				bs = append(bs, nil)
				continue
			}
			bs = append(bs, memory.NewBufferBytes(make([]byte, n)))
		}
		return bs
	}
	i32, list := arrow.PrimitiveTypes.Int32, listOf(4, arrow.PrimitiveTypes.Int32)
	huge := i32
	for range 5 {
		huge = listOf(math.MaxInt32, huge)
	}
	values := array.NewData(i32, 7, buffers(-1, 64), nil, 0, 0) // with padding that is not the list's
	none := array.NewData(i32, 0, buffers(-1, 0), nil, 0, 0)
	lists := func(dtype arrow.DataType) []arrow.ArrayData {
		return []arrow.ArrayData{array.NewData(dtype, math.MaxInt64, buffers(-1), nil, 0, 0)}
	}
	tests := []struct {
		name string
		data arrow.ArrayData
		want error
	}{
		{"too few values", array.NewData(i32, 8, buffers(-1, 31), nil, 0, 0), arrowbuf.ErrOutOfRange},
		{"too few values after the offset", array.NewData(i32, 4, buffers(-1, 31), nil, 0, 4), arrowbuf.ErrOutOfRange},
		{"values without a buffer", array.NewData(i32, 1, buffers(-1, -1), nil, 0, 0), arrowbuf.ErrOutOfRange},
		{"values without any buffers", array.NewData(i32, 1, nil, nil, 0, 0), arrowbuf.ErrOutOfRange},
		{"too few bits", array.NewData(arrow.FixedWidthTypes.Boolean, 9, buffers(-1, 1), nil, 0, 0), arrowbuf.ErrOutOfRange},
		{"a negative offset", array.NewData(i32, 1, buffers(-1, 8), nil, 0, -1), arrowbuf.ErrOutOfRange},
		{"a negative offset of bits with nulls", array.NewData(arrow.FixedWidthTypes.Boolean, 1, buffers(1, 1), nil, 1, -3), arrowbuf.ErrOutOfRange},
		{"a negative length", array.NewData(i32, -1, buffers(-1, 8), nil, 0, 0), ndview.ErrShape},
		{"too short a validity bitmap", array.NewData(i32, 9, buffers(1, 36), nil, 1, 0), arrowbuf.ErrOutOfRange},
		{"a list without children", array.NewData(list, 1, buffers(-1), nil, 0, 0), arrow.ErrInvalid},
		{"a list with too short a child", array.NewData(list, 2, buffers(-1), []arrow.ArrayData{values}, 0, 0), arrowbuf.ErrOutOfRange},
		{"a list beyond its child", array.NewData(list, 1, buffers(-1), []arrow.ArrayData{values}, 0, 1), arrowbuf.ErrOutOfRange},
		{"a list of an empty child", array.NewData(list, 1, buffers(-1), []arrow.ArrayData{none}, 0, 0), arrowbuf.ErrOutOfRange},
		{"lists of 2^155 elements", array.NewData(huge, 1, buffers(-1), lists(huge.(*arrow.FixedSizeListType).Elem()), 0, 0), nil},
		{"a length that no memory has", array.NewData(i32, math.MaxInt64, buffers(-1, 8), nil, 0, 0), ndview.ErrShape},
		{"bits of a length that no memory has", array.NewData(arrow.FixedWidthTypes.Boolean, math.MaxInt64, buffers(-1, 8), nil, 0, 0), arrowbuf.ErrOutOfRange},
		{"validity of a length that no memory has", array.NewData(i32, math.MaxInt64, buffers(8, 8), nil, 1, 0), arrowbuf.ErrOutOfRange},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ndview.FromArrow(fake{data: tt.data})
			require.Error(t, err)
			if tt.want != nil {
				assert.ErrorIs(t, err, tt.want)
			}
		})
	}
}
