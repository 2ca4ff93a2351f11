package ndview_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func listOf(n int32, of arrow.DataType) arrow.DataType { return arrow.FixedSizeListOf(n, of) }

// columnCases are five rows of each type that FromArrow accepts.
var columnCases = []struct {
	dtype  arrow.DataType
	json   string
	want   ndview.DType
	row    []int64 // the axes after the first
	values []byte
}{
	{arrow.PrimitiveTypes.Int8, `[1, -2, 3, -128, 127]`, ndview.Int8, nil, ndtest.Raw[int8](1, -2, 3, -128, 127)},
	{arrow.PrimitiveTypes.Int16, `[1, -2, 3, 4, 5]`, ndview.Int16, nil, ndtest.Raw[int16](1, -2, 3, 4, 5)},
	{arrow.PrimitiveTypes.Int32, `[1, -2, 3, 4, 5]`, ndview.Int32, nil, ndtest.Raw[int32](1, -2, 3, 4, 5)},
	{arrow.PrimitiveTypes.Int64, `[1, -2, 3, 4, 5]`, ndview.Int64, nil, ndtest.Raw[int64](1, -2, 3, 4, 5)},
	{arrow.PrimitiveTypes.Uint8, `[1, 2, 3, 4, 255]`, ndview.Uint8, nil, ndtest.Raw[uint8](1, 2, 3, 4, 255)},
	{arrow.PrimitiveTypes.Uint16, `[1, 2, 3, 4, 5]`, ndview.Uint16, nil, ndtest.Raw[uint16](1, 2, 3, 4, 5)},
	{arrow.PrimitiveTypes.Uint32, `[1, 2, 3, 4, 5]`, ndview.Uint32, nil, ndtest.Raw[uint32](1, 2, 3, 4, 5)},
	{arrow.PrimitiveTypes.Uint64, `[1, 2, 3, 4, 5]`, ndview.Uint64, nil, ndtest.Raw[uint64](1, 2, 3, 4, 5)},
	{arrow.FixedWidthTypes.Float16, `[1, -1, 0.5, 2, 0]`, ndview.Float16, nil, ndtest.Raw[uint16](0x3c00, 0xbc00, 0x3800, 0x4000, 0)},
	{arrow.PrimitiveTypes.Float32, `[1, -2.5, 3, 4, 5]`, ndview.Float32, nil, ndtest.Raw[float32](1, -2.5, 3, 4, 5)},
	{arrow.PrimitiveTypes.Float64, `[1, -2.5, 3, 4, 5]`, ndview.Float64, nil, ndtest.Raw[float64](1, -2.5, 3, 4, 5)},
	{arrow.FixedWidthTypes.Boolean, `[true, false, true, true, false]`, ndview.Bool, nil, ndtest.Raw(true, false, true, true, false)},
	{arrow.PrimitiveTypes.Date32, `[1, -2, 3, 4, 5]`, ndview.Int32, nil, ndtest.Raw[int32](1, -2, 3, 4, 5)},
	{arrow.PrimitiveTypes.Date64, `[86400000, -86400000, 0, 0, 0]`, ndview.Datetime64(ndview.Millisecond, 1), nil, ndtest.Raw[int64](86400000, -86400000, 0, 0, 0)},
	{arrow.FixedWidthTypes.Time32s, `[1, 2, 3, 4, 5]`, ndview.Int32, nil, ndtest.Raw[int32](1, 2, 3, 4, 5)},
	{arrow.FixedWidthTypes.Time64ns, `[1, 2, 3, 4, 5]`, ndview.Int64, nil, ndtest.Raw[int64](1, 2, 3, 4, 5)},
	{&arrow.TimestampType{Unit: arrow.Second}, `[1, -2, 3, 4, 5]`, ndview.Datetime64(ndview.Second, 1), nil, ndtest.Raw[int64](1, -2, 3, 4, 5)},
	{&arrow.TimestampType{Unit: arrow.Millisecond}, `[1, -2, 3, 4, 5]`, ndview.Datetime64(ndview.Millisecond, 1), nil, ndtest.Raw[int64](1, -2, 3, 4, 5)},
	{&arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, `[1, -2, 3, 4, 5]`, ndview.Datetime64(ndview.Microsecond, 1), nil, ndtest.Raw[int64](1, -2, 3, 4, 5)},
	{&arrow.TimestampType{Unit: arrow.Nanosecond}, `[1, -2, 3, 4, 5]`, ndview.Datetime64(ndview.Nanosecond, 1), nil, ndtest.Raw[int64](1, -2, 3, 4, 5)},
	{arrow.FixedWidthTypes.Duration_ms, `[1, -2, 3, 4, 5]`, ndview.Timedelta64(ndview.Millisecond, 1), nil, ndtest.Raw[int64](1, -2, 3, 4, 5)},
	{&arrow.Decimal32Type{Precision: 5, Scale: 2}, `["1.25", "-2", "0.01", "4", "5"]`, ndview.Int32, nil, ndtest.Raw[int32](125, -200, 1, 400, 500)},
	{&arrow.Decimal64Type{Precision: 15, Scale: 1}, `["1.2", "-2", "0.1", "4", "5"]`, ndview.Int64, nil, ndtest.Raw[int64](12, -20, 1, 40, 50)},
	{&arrow.FixedSizeBinaryType{ByteWidth: 3}, `["YWJj", "ZGVm", "Z2hp", "amts", "bW5v"]`, ndview.Bytes(3), nil, []byte("abcdefghijklmno")},
	{listOf(2, arrow.PrimitiveTypes.Int16), `[[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]`, ndview.Int16, []int64{2},
		ndtest.Raw[int16](0, 1, 2, 3, 4, 5, 6, 7, 8, 9)},
	{listOf(1, listOf(3, arrow.PrimitiveTypes.Float64)), `[[[0, 1, 2]], [[3, 4, 5]], [[6, 7, 8]], [[9, 10, 11]], [[12, 13, 14]]]`, ndview.Float64, []int64{1, 3},
		ndtest.Raw[float64](0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14)},
	{listOf(3, arrow.FixedWidthTypes.Boolean), `[[true, false, true], [true, true, false], [false, false, true], [true, true, true], [false, false, false]]`, ndview.Bool, []int64{3},
		ndtest.Raw(true, false, true, true, true, false, false, false, true, true, true, true, false, false, false)},
	{extensions.NewBool8Type(), `[true, false, true, true, false]`, ndview.Int8, nil, ndtest.Raw[int8](1, 0, 1, 1, 0)},
	{extensions.NewOpaqueType(listOf(2, arrow.PrimitiveTypes.Int32), "pair", "test"), `[[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]`, ndview.Int32, []int64{2},
		ndtest.Raw[int32](0, 1, 2, 3, 4, 5, 6, 7, 8, 9)},
	{listOf(2, extensions.NewBool8Type()), `[[true, false], [false, true], [true, true], [false, false], [true, false]]`, ndview.Int8, []int64{2},
		ndtest.Raw[int8](1, 0, 0, 1, 1, 1, 0, 0, 1, 0)},
}

// fromJSON returns an array whose memory must all be released when the test ends.
func fromJSON(t *testing.T, dtype arrow.DataType, json string) arrow.Array {
	t.Helper()
	mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
	t.Cleanup(func() { mem.AssertSize(t, 0) })
	a, _, err := array.FromJSON(mem, dtype, strings.NewReader(json))
	return ndtest.Own(t, a, err)
}

// forSlice calls f with elements [i, j) of a column on a device: sliced before the
// copy to the device, and after it.
func forSlice(t *testing.T, dev arrowbuf.Device, column arrow.Array, i, j int, f func(t *testing.T, column arrow.Array)) {
	t.Helper()
	cut := array.NewSlice(column, int64(i), int64(j))
	defer cut.Release()
	if dev == arrowbuf.CPU() {
		f(t, cut)
		return
	}
	moved, err := arrowbuf.CopyArrayTo(cut, dev)
	require.NoError(t, err)
	f(t, moved)
	moved.Release()
	whole, err := arrowbuf.CopyArrayTo(column, dev)
	require.NoError(t, err)
	defer whole.Release()
	slice := whole.(*arrowbuf.Array).Slice(i, j)
	defer slice.Release()
	f(t, slice)
}

func TestFromArrowViewsColumnsOfEveryType(t *testing.T) {
	bounds := [][2]int{{0, 5}, {1, 4}, {4, 5}, {0, 0}, {2, 2}, {5, 5}}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, tt := range columnCases {
			t.Run(tt.dtype.String(), func(t *testing.T) {
				column := fromJSON(t, tt.dtype, tt.json)
				width := len(tt.values) / 5
				for _, b := range bounds {
					forSlice(t, dev, column, b[0], b[1], func(t *testing.T, column arrow.Array) {
						a, err := ndview.FromArrow(column)
						require.NoError(t, err)
						defer a.Release()
						about := fmt.Sprint(b)
						assert.Equal(t, tt.want, a.DType(), about)
						assert.Equal(t, append([]int64{int64(b[1] - b[0])}, tt.row...), a.Shape(), about)
						assert.Equal(t, dev, a.Device(), about)
						assert.Equal(t, tt.values[b[0]*width:b[1]*width], ndtest.Elements(t, a), about)
					})
				}
			})
		}
	})
}

func TestFromArrowAcceptsEmptyColumns(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, tt := range columnCases {
			column := fromJSON(t, tt.dtype, `[]`)
			forSlice(t, dev, column, 0, 0, func(t *testing.T, column arrow.Array) {
				a, err := ndview.FromArrow(column)
				require.NoError(t, err, tt.dtype)
				defer a.Release()
				assert.Equal(t, append([]int64{0}, tt.row...), a.Shape(), tt.dtype)
				assert.Empty(t, ndtest.Elements(t, a), tt.dtype)
			})
		}
		// A slice of no rows, with an offset and without a buffer of values.
		validity := ndtest.Upload(t, dev, []byte{0}).Arrow()
		defer validity.Release()
		for _, dtype := range []arrow.DataType{arrow.PrimitiveTypes.Int32, arrow.FixedWidthTypes.Boolean} {
			data := array.NewData(dtype, 0, []*memory.Buffer{validity, nil}, nil, 0, 77)
			defer data.Release()
			a, err := ndview.FromArrow(fakeColumn{data: data})
			ndtest.Own(t, a, err)
			assert.Zero(t, a.Size())
			assert.Equal(t, dev, a.Device())
		}
	})
}

// TestFromArrowUnpacksSlicesOfBooleansFromAnyBit covers slices that start at any bit
// of a byte.
func TestFromArrowUnpacksSlicesOfBooleansFromAnyBit(t *testing.T) {
	const n = 77
	var json []string
	var want []byte
	for i := range n {
		v := i*i%7 < 3
		json, want = append(json, fmt.Sprint(v)), append(want, ndtest.Raw(v)...)
	}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		column := fromJSON(t, arrow.FixedWidthTypes.Boolean, "["+strings.Join(json, ",")+"]")
		for i := range 17 {
			for _, j := range []int{i, i + 1, i + 9, n} {
				forSlice(t, dev, column, i, j, func(t *testing.T, column arrow.Array) {
					a, err := ndview.FromArrow(column)
					require.NoError(t, err)
					defer a.Release()
					assert.Equal(t, want[i:j], ndtest.Elements(t, a), "%d:%d", i, j)
				})
			}
		}
	})
}

func TestFromArrowCopiesNothing(t *testing.T) {
	column := fromJSON(t, listOf(2, arrow.PrimitiveTypes.Float64), `[[1, 2], [3, 4], [5, 6]]`)
	values := column.Data().Children()[0].Buffers()[1]
	slice := array.NewSlice(column, 1, 3)
	defer slice.Release()
	a, err := ndview.FromArrow(slice)
	ndtest.Own(t, a, err)
	host, ok := a.HostBytes()
	require.True(t, ok)
	assert.Same(t, &values.Bytes()[16], &host[0])

	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		moved, err := arrowbuf.CopyArrayTo(column, dev)
		ndtest.Own(t, moved, err)
		before := dev.MemoryStats().InUse
		a, err := ndview.FromArrow(moved)
		ndtest.Own(t, a, err)
		assert.Equal(t, before, dev.MemoryStats().InUse)
	})
}

func TestFromArrowRetainsColumnMemory(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		host := fromJSON(t, arrow.PrimitiveTypes.Int64, `[1, 2, 3]`)
		column, err := arrowbuf.CopyArrayTo(host, dev)
		require.NoError(t, err)
		a, err := ndview.FromArrow(column)
		require.NoError(t, err)
		column.Release()
		assert.Equal(t, ndtest.Raw[int64](1, 2, 3), ndtest.Elements(t, a))
		a.Release()
		assertAlive(t, dev, false)
	})
}

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

// fakeColumn is a column of data that arrow-go refuses or panics on.
type fakeColumn struct {
	arrow.Array
	data arrow.ArrayData
}

func (f fakeColumn) Data() arrow.ArrayData    { return f.data }
func (f fakeColumn) DataType() arrow.DataType { return f.data.DataType() }
func (f fakeColumn) Len() int                 { return f.data.Len() }

func TestFromArrowRefusesInvalidColumns(t *testing.T) {
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
	values := array.NewData(i32, 7, buffers(-1, 64), nil, 0, 0) // with padding after the list's elements
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
			_, err := ndview.FromArrow(fakeColumn{data: tt.data})
			require.Error(t, err)
			if tt.want != nil {
				assert.ErrorIs(t, err, tt.want)
			}
		})
	}
}

func TestFromArrowRefusesNullsInSlice(t *testing.T) {
	i32, boolean := arrow.PrimitiveTypes.Int32, arrow.FixedWidthTypes.Boolean
	pairs, nested := listOf(2, i32), listOf(1, listOf(2, i32))
	tests := []struct {
		name  string
		dtype arrow.DataType
		json  string
		i, j  int
		nulls bool
	}{
		{"an element", i32, `[1, null, 3, 4]`, 0, 4, true},
		{"an element after the slice", i32, `[1, null, 3, 4]`, 0, 1, false},
		{"an element before the slice", i32, `[1, null, 3, 4]`, 2, 4, false},
		{"all elements", i32, `[null, null]`, 0, 2, true},
		{"no rows of nulls", i32, `[null, null]`, 1, 1, false},
		{"a boolean", boolean, `[true, null, true]`, 0, 3, true},
		{"a boolean beside the slice", boolean, `[true, null, true]`, 2, 3, false},
		{"a list", pairs, `[[1, 2], null, [3, 4]]`, 0, 3, true},
		{"a list beside the slice", pairs, `[[1, 2], null, [3, 4]]`, 2, 3, false},
		{"a list's element", pairs, `[[1, 2], [3, null], [5, 6]]`, 0, 3, true},
		{"a list's element in the slice", pairs, `[[1, 2], [3, null], [5, 6]]`, 1, 2, true},
		{"a list's element before the slice", pairs, `[[1, 2], [3, null], [5, 6]]`, 2, 3, false},
		{"a list's element after the slice", pairs, `[[1, 2], [3, null], [5, 6]]`, 0, 1, false},
		{"an inner list", nested, `[[[1, 2]], [null], [[3, 4]]]`, 0, 3, true},
		{"an inner list beside the slice", nested, `[[[1, 2]], [null], [[3, 4]]]`, 0, 1, false},
		{"an inner list's element", nested, `[[[1, 2]], [[3, null]], [[5, 6]]]`, 0, 2, true},
		{"an inner list's element beside the slice", nested, `[[[1, 2]], [[3, null]], [[5, 6]]]`, 2, 3, false},
		{"an extension's element", extensions.NewBool8Type(), `[true, null]`, 0, 2, true},
	}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				forSlice(t, dev, fromJSON(t, tt.dtype, tt.json), tt.i, tt.j, func(t *testing.T, column arrow.Array) {
					a, err := ndview.FromArrow(column)
					if tt.nulls {
						assert.ErrorIs(t, err, ndview.ErrNulls)
						assert.ErrorContains(t, err, tt.dtype.String())
						return
					}
					require.NoError(t, err)
					defer a.Release()
					assert.EqualValues(t, tt.j-tt.i, a.Shape()[0])
				})
			})
		}
	})
}

// TestFromArrowCountsUnknownNulls covers a list whose child does not know its number
// of nulls.
func TestFromArrowCountsUnknownNulls(t *testing.T) {
	values := fromJSON(t, arrow.PrimitiveTypes.Int32, `[1, 2, 3, null]`).Data()
	for n, nulls := range map[int]bool{1: false, 2: true} {
		child := array.NewData(values.DataType(), 4, slices.Clone(values.Buffers()), nil, array.UnknownNullCount, 0)
		defer child.Release()
		data := array.NewData(listOf(2, values.DataType()), n, []*memory.Buffer{nil}, []arrow.ArrayData{child}, 0, 0)
		defer data.Release()
		column := array.MakeFromData(data)
		defer column.Release()
		a, err := ndview.FromArrow(column)
		if nulls {
			assert.ErrorIs(t, err, ndview.ErrNulls)
			continue
		}
		assert.Equal(t, ndtest.Raw[int32](1, 2), ndtest.Elements(t, ndtest.Own(t, a, err)))
	}
}
