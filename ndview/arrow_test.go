package ndview_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview"
)

func listOf(n int32, of arrow.DataType) arrow.DataType { return arrow.FixedSizeListOf(n, of) }

// columns are five rows of each type that FromArrow takes.
var columns = []struct {
	dtype  arrow.DataType
	json   string
	want   ndview.DType
	row    []int64 // the axes after the first
	values []byte
}{
	{arrow.PrimitiveTypes.Int8, `[1, -2, 3, -128, 127]`, ndview.Int8, nil, raw[int8](1, -2, 3, -128, 127)},
	{arrow.PrimitiveTypes.Int16, `[1, -2, 3, 4, 5]`, ndview.Int16, nil, raw[int16](1, -2, 3, 4, 5)},
	{arrow.PrimitiveTypes.Int32, `[1, -2, 3, 4, 5]`, ndview.Int32, nil, raw[int32](1, -2, 3, 4, 5)},
	{arrow.PrimitiveTypes.Int64, `[1, -2, 3, 4, 5]`, ndview.Int64, nil, raw[int64](1, -2, 3, 4, 5)},
	{arrow.PrimitiveTypes.Uint8, `[1, 2, 3, 4, 255]`, ndview.Uint8, nil, raw[uint8](1, 2, 3, 4, 255)},
	{arrow.PrimitiveTypes.Uint16, `[1, 2, 3, 4, 5]`, ndview.Uint16, nil, raw[uint16](1, 2, 3, 4, 5)},
	{arrow.PrimitiveTypes.Uint32, `[1, 2, 3, 4, 5]`, ndview.Uint32, nil, raw[uint32](1, 2, 3, 4, 5)},
	{arrow.PrimitiveTypes.Uint64, `[1, 2, 3, 4, 5]`, ndview.Uint64, nil, raw[uint64](1, 2, 3, 4, 5)},
	{arrow.FixedWidthTypes.Float16, `[1, -1, 0.5, 2, 0]`, ndview.Float16, nil, raw[uint16](0x3c00, 0xbc00, 0x3800, 0x4000, 0)},
	{arrow.PrimitiveTypes.Float32, `[1, -2.5, 3, 4, 5]`, ndview.Float32, nil, raw[float32](1, -2.5, 3, 4, 5)},
	{arrow.PrimitiveTypes.Float64, `[1, -2.5, 3, 4, 5]`, ndview.Float64, nil, raw[float64](1, -2.5, 3, 4, 5)},
	{arrow.FixedWidthTypes.Boolean, `[true, false, true, true, false]`, ndview.Bool, nil, raw(true, false, true, true, false)},
	{arrow.PrimitiveTypes.Date32, `[1, -2, 3, 4, 5]`, ndview.Int32, nil, raw[int32](1, -2, 3, 4, 5)},
	{arrow.PrimitiveTypes.Date64, `[86400000, -86400000, 0, 0, 0]`, ndview.Datetime64(ndview.Millisecond, 1), nil, raw[int64](86400000, -86400000, 0, 0, 0)},
	{arrow.FixedWidthTypes.Time32s, `[1, 2, 3, 4, 5]`, ndview.Int32, nil, raw[int32](1, 2, 3, 4, 5)},
	{arrow.FixedWidthTypes.Time64ns, `[1, 2, 3, 4, 5]`, ndview.Int64, nil, raw[int64](1, 2, 3, 4, 5)},
	{&arrow.TimestampType{Unit: arrow.Second}, `[1, -2, 3, 4, 5]`, ndview.Datetime64(ndview.Second, 1), nil, raw[int64](1, -2, 3, 4, 5)},
	{&arrow.TimestampType{Unit: arrow.Millisecond}, `[1, -2, 3, 4, 5]`, ndview.Datetime64(ndview.Millisecond, 1), nil, raw[int64](1, -2, 3, 4, 5)},
	{&arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, `[1, -2, 3, 4, 5]`, ndview.Datetime64(ndview.Microsecond, 1), nil, raw[int64](1, -2, 3, 4, 5)},
	{&arrow.TimestampType{Unit: arrow.Nanosecond}, `[1, -2, 3, 4, 5]`, ndview.Datetime64(ndview.Nanosecond, 1), nil, raw[int64](1, -2, 3, 4, 5)},
	{arrow.FixedWidthTypes.Duration_ms, `[1, -2, 3, 4, 5]`, ndview.Timedelta64(ndview.Millisecond, 1), nil, raw[int64](1, -2, 3, 4, 5)},
	{&arrow.Decimal32Type{Precision: 5, Scale: 2}, `["1.25", "-2", "0.01", "4", "5"]`, ndview.Int32, nil, raw[int32](125, -200, 1, 400, 500)},
	{&arrow.Decimal64Type{Precision: 15, Scale: 1}, `["1.2", "-2", "0.1", "4", "5"]`, ndview.Int64, nil, raw[int64](12, -20, 1, 40, 50)},
	{&arrow.FixedSizeBinaryType{ByteWidth: 3}, `["YWJj", "ZGVm", "Z2hp", "amts", "bW5v"]`, ndview.Bytes(3), nil, []byte("abcdefghijklmno")},
	{listOf(2, arrow.PrimitiveTypes.Int16), `[[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]`, ndview.Int16, []int64{2},
		raw[int16](0, 1, 2, 3, 4, 5, 6, 7, 8, 9)},
	{listOf(1, listOf(3, arrow.PrimitiveTypes.Float64)), `[[[0, 1, 2]], [[3, 4, 5]], [[6, 7, 8]], [[9, 10, 11]], [[12, 13, 14]]]`, ndview.Float64, []int64{1, 3},
		raw[float64](0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14)},
	{listOf(3, arrow.FixedWidthTypes.Boolean), `[[true, false, true], [true, true, false], [false, false, true], [true, true, true], [false, false, false]]`, ndview.Bool, []int64{3},
		raw(true, false, true, true, true, false, false, false, true, true, true, true, false, false, false)},
	{extensions.NewBool8Type(), `[true, false, true, true, false]`, ndview.Int8, nil, raw[int8](1, 0, 1, 1, 0)},
	{extensions.NewOpaqueType(listOf(2, arrow.PrimitiveTypes.Int32), "pair", "test"), `[[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]`, ndview.Int32, []int64{2},
		raw[int32](0, 1, 2, 3, 4, 5, 6, 7, 8, 9)},
	{listOf(2, extensions.NewBool8Type()), `[[true, false], [false, true], [true, true], [false, false], [true, false]]`, ndview.Int8, []int64{2},
		raw[int8](1, 0, 0, 1, 1, 1, 0, 0, 1, 0)},
}

// fromJSON builds an array whose memory must all be released when the test ends.
func fromJSON(t *testing.T, dtype arrow.DataType, json string) arrow.Array {
	t.Helper()
	mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
	t.Cleanup(func() { mem.AssertSize(t, 0) })
	a, _, err := array.FromJSON(mem, dtype, strings.NewReader(json))
	return own(t, a, err)
}

// shown calls f with elements [i, j) of a column: where it is, cut and then
// copied to the device, and copied and then cut.
func shown(t *testing.T, dev arrowbuf.Device, column arrow.Array, i, j int, f func(t *testing.T, column arrow.Array)) {
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
	there := whole.(*arrowbuf.Array).Slice(i, j)
	defer there.Release()
	f(t, there)
}

func TestFromArrowShowsColumnsOfEveryType(t *testing.T) {
	bounds := [][2]int{{0, 5}, {1, 4}, {4, 5}, {0, 0}, {2, 2}, {5, 5}}
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, tt := range columns {
			t.Run(tt.dtype.String(), func(t *testing.T) {
				column := fromJSON(t, tt.dtype, tt.json)
				width := len(tt.values) / 5
				for _, b := range bounds {
					shown(t, dev, column, b[0], b[1], func(t *testing.T, column arrow.Array) {
						a, err := ndview.FromArrow(column)
						require.NoError(t, err)
						defer a.Release()
						about := fmt.Sprint(b)
						assert.Equal(t, tt.want, a.DType(), about)
						assert.Equal(t, append([]int64{int64(b[1] - b[0])}, tt.row...), a.Shape(), about)
						assert.Equal(t, dev, a.Device(), about)
						assert.Equal(t, tt.values[b[0]*width:b[1]*width], elements(t, a), about)
					})
				}
			})
		}
	})
}

func TestFromArrowTakesColumnsThatNeverHadARow(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, tt := range columns {
			column := fromJSON(t, tt.dtype, `[]`)
			shown(t, dev, column, 0, 0, func(t *testing.T, column arrow.Array) {
				a, err := ndview.FromArrow(column)
				require.NoError(t, err, tt.dtype)
				defer a.Release()
				assert.Equal(t, append([]int64{0}, tt.row...), a.Shape(), tt.dtype)
				assert.Empty(t, elements(t, a), tt.dtype)
			})
		}
		// A slice of no rows, with an offset and without a buffer of values.
		validity := upload(t, dev, []byte{0}).Arrow()
		defer validity.Release()
		for _, dtype := range []arrow.DataType{arrow.PrimitiveTypes.Int32, arrow.FixedWidthTypes.Boolean} {
			data := array.NewData(dtype, 0, []*memory.Buffer{validity, nil}, nil, 0, 77)
			defer data.Release()
			a, err := ndview.FromArrow(fake{data: data})
			own(t, a, err)
			assert.Zero(t, a.Size())
			assert.Equal(t, dev, a.Device())
		}
	})
}

// Bits of lists start anywhere in a byte, and far from the start.
func TestFromArrowUnpacksSlicesOfBooleansFromAnyBit(t *testing.T) {
	const n = 77
	var json []string
	var want []byte
	for i := range n {
		v := i*i%7 < 3
		json, want = append(json, fmt.Sprint(v)), append(want, raw(v)...)
	}
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		column := fromJSON(t, arrow.FixedWidthTypes.Boolean, "["+strings.Join(json, ",")+"]")
		for i := range 17 {
			for _, j := range []int{i, i + 1, i + 9, n} {
				shown(t, dev, column, i, j, func(t *testing.T, column arrow.Array) {
					a, err := ndview.FromArrow(column)
					require.NoError(t, err)
					defer a.Release()
					assert.Equal(t, want[i:j], elements(t, a), "%d:%d", i, j)
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
	own(t, a, err)
	host, ok := a.HostBytes()
	require.True(t, ok)
	assert.Same(t, &values.Bytes()[16], &host[0])

	onCUDA(t, func(t *testing.T, dev *cudabuf.Device) {
		moved, err := arrowbuf.CopyArrayTo(column, dev)
		own(t, moved, err)
		before := dev.MemoryStats().InUse
		a, err := ndview.FromArrow(moved)
		own(t, a, err)
		assert.Equal(t, before, dev.MemoryStats().InUse)
	})
}

func TestFromArrowKeepsTheColumnsMemory(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		host := fromJSON(t, arrow.PrimitiveTypes.Int64, `[1, 2, 3]`)
		column, err := arrowbuf.CopyArrayTo(host, dev)
		require.NoError(t, err)
		a, err := ndview.FromArrow(column)
		require.NoError(t, err)
		column.Release()
		assert.Equal(t, raw[int64](1, 2, 3), elements(t, a))
		a.Release()
		assertAlive(t, dev, false)
	})
}
