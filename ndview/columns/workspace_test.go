package columns_test

import (
	"slices"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview/columns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each call of the driver that moves data fails once; whatever was made by then
// must be given back, which the machine checks.
func TestFailuresLeaveNothing(t *testing.T) {
	var left atomic.Int64
	driver := cudatest.Start(t, cudatest.Config{Fail: func(call string, _ int) cudabuf.Result {
		moves := []string{"cuLaunchKernel", "cuMemsetD8Async", "cuMemAlloc", "cuMemcpyDtoHAsync", "cuMemcpyHtoDAsync", "cuMemcpyDtoDAsync"}
		if slices.Contains(moves, call) && left.Add(-1) == 0 {
			return cudatest.OutOfMemory
		}
		return 0
	}})
	dev, err := driver.Device(0)
	require.NoError(t, err)
	for _, dtype := range types {
		m := newMaker(t, 3, true)
		a, b := on(t, dev, m.array(dtype, 40, true)), on(t, dev, m.array(dtype, 30, true))
		mask := m.array(arrow.FixedWidthTypes.Boolean, 40, true)
		for name, work := range map[string]func() (arrow.Array, error){
			"take":        func() (arrow.Array, error) { return columns.Take(a, columns.Indices(3, 9, 1)) },
			"filter":      func() (arrow.Array, error) { return columns.Filter(a, mask) },
			"concatenate": func() (arrow.Array, error) { return columns.Concatenate(a, b) },
			"flatten":     func() (arrow.Array, error) { return columns.Flatten(a) },
			"decode":      func() (arrow.Array, error) { return columns.Decode(a) },
		} {
			for n := int64(1); ; n++ {
				left.Store(n)
				made, err := work()
				done := left.Swap(0) > 0
				if err == nil {
					made.Release()
				}
				if done {
					break
				}
				require.ErrorIs(t, err, arrowbuf.ErrOutOfMemory, "%s of %s: call %d", name, dtype, n)
			}
		}
	}
}

// askew moves the buffers of an array so many bytes behind where memory begins.
func askew(t *testing.T, dev arrowbuf.Device, data arrow.ArrayData, by int64) *array.Data {
	t.Helper()
	buffers := make([]*memory.Buffer, len(data.Buffers()))
	for i, b := range data.Buffers() {
		if b == nil {
			continue
		}
		whole, err := dev.Alloc(int64(b.Len()) + by)
		require.NoError(t, err)
		_, err = whole.CopyFromHost(b.Bytes(), by)
		require.NoError(t, err)
		part, err := whole.Slice(by, int64(b.Len()))
		require.NoError(t, err)
		buffers[i] = part.Arrow()
		t.Cleanup(buffers[i].Release)
		part.Release()
		whole.Release()
	}
	var children []arrow.ArrayData
	for _, child := range data.Children() {
		children = append(children, askew(t, dev, child, by))
	}
	made := array.NewData(data.DataType(), data.Len(), buffers, children, data.NullN(), data.Offset())
	if dictionary, ok := data.Dictionary().(*array.Data); ok && dictionary != nil {
		made.SetDictionary(askew(t, dev, dictionary, by))
	}
	t.Cleanup(made.Release)
	return made
}

// Buffers of other libraries may lie anywhere.
func TestBuffersLieAnywhere(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		if dev == arrowbuf.CPU() {
			return // arrow-go wants them aligned
		}
		for _, dtype := range types {
			host := newMaker(t, 6, true).array(dtype, 90, true)
			for _, by := range []int64{1, 2, 3, 4, 8} {
				arr := arrowbuf.NewArray(askew(t, dev, host.Data(), by))
				t.Cleanup(arr.Release)
				got, err := columns.Take(arr, columns.Indices(80, 3, 3, 7))
				requireElements(t, host, []int{80, 3, 3, 7}, toHost(t, dev, got, err))
				got, err = columns.Concatenate(arr, arr)
				requireJoined(t, []arrow.Array{host, host}, toHost(t, dev, got, err))
			}
		}
	})
}

func TestWhatIsNotThereIsInvalid(t *testing.T) {
	one := columns.Indices(0)
	defer one.Release()
	rows := array.NewRecordBatch(arrow.NewSchema(nil, nil), nil, 3)
	for about, do := range map[string]func() error{
		"Take":               func() error { _, err := columns.Take(nil, one); return err },
		"Take by nothing":    func() error { _, err := columns.Take(one, nil); return err },
		"Filter":             func() error { _, err := columns.Filter(one, nil); return err },
		"Concatenate":        func() error { _, err := columns.Concatenate(one, nil); return err },
		"Decode":             func() error { _, err := columns.Decode(nil); return err },
		"Flatten":            func() error { _, err := columns.Flatten(nil); return err },
		"CastIndices":        func() error { _, err := columns.CastIndices(one, nil); return err },
		"CastOffsets":        func() error { _, err := columns.CastOffsets(nil, arrow.BinaryTypes.String); return err },
		"TakeBatch":          func() error { _, err := columns.TakeBatch(rows, nil); return err },
		"FilterBatch":        func() error { _, err := columns.FilterBatch(nil, one); return err },
		"ConcatenateBatches": func() error { _, err := columns.ConcatenateBatches(rows, nil); return err },
	} {
		assert.ErrorIs(t, do(), arrow.ErrInvalid, about)
	}
}

func TestRowsWithoutMemoryAreTakenByIndicesOfADevice(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		indices, err := arrowbuf.CopyArrayTo(columns.Indices(2, 0), dev)
		require.NoError(t, err)
		defer indices.Release()
		for _, batch := range []arrow.RecordBatch{
			array.NewRecordBatch(arrow.NewSchema(nil, nil), nil, 3),
			array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.Null}}, nil), []arrow.Array{array.NewNull(3)}, 3),
		} {
			taken, err := columns.TakeBatch(batch, indices)
			require.NoError(t, err)
			assert.Equal(t, int64(2), taken.NumRows())
			taken.Release()
		}
	})
}

// The type of the first array is the result's, with its names, though it has no elements.
func TestTheFirstArrayGivesTheType(t *testing.T) {
	list := func(item string, values ...int32) arrow.Array {
		b := array.NewListBuilderWithField(memory.DefaultAllocator, arrow.Field{Name: item, Type: arrow.PrimitiveTypes.Int32, Nullable: true})
		defer b.Release()
		for _, v := range values {
			b.Append(true)
			b.ValueBuilder().(*array.Int32Builder).Append(v)
		}
		return b.NewArray()
	}
	none, one, two := list("item"), list("element", 1), list("element", 2)
	for _, arrays := range [][]arrow.Array{{none, one}, {none, one, two}} {
		joined, err := columns.Concatenate(arrays...)
		require.NoError(t, err)
		assert.Equal(t, none.DataType().String(), joined.DataType().String())
		assert.Equal(t, len(arrays)-1, joined.Len())
		joined.Release()
	}
}

func TestListViewsBeyondTheirValuesAreNotCast(t *testing.T) {
	values := array.NewData(arrow.PrimitiveTypes.Int8, 8, []*memory.Buffer{nil, memory.NewBufferBytes(make([]byte, 8))}, nil, 0, 0)
	word := func(v byte) *memory.Buffer { return memory.NewBufferBytes([]byte{v, 0, 0, 0}) }
	views := array.NewData(arrow.ListViewOf(arrow.PrimitiveTypes.Int8), 1, []*memory.Buffer{nil, word(5), word(7)}, []arrow.ArrayData{values}, 0, 0)
	_, err := columns.CastOffsets(arrowbuf.NewArray(views), arrow.LargeListViewOf(arrow.PrimitiveTypes.Int8))
	assert.ErrorIs(t, err, arrow.ErrInvalid)
}

func TestALengthThatIsNotThereIsNotAllocated(t *testing.T) {
	good := array.NewData(arrow.FixedWidthTypes.Boolean, 8, []*memory.Buffer{nil, memory.NewBufferBytes([]byte{1})}, nil, 0, 0)
	bad := array.NewData(arrow.FixedWidthTypes.Boolean, 1<<40, []*memory.Buffer{nil, memory.NewBufferBytes([]byte{1})}, nil, 0, 0)
	_, err := columns.Concatenate(part{data: good}, part{data: bad})
	assert.ErrorIs(t, err, arrow.ErrInvalid)
	assert.NotErrorIs(t, err, arrowbuf.ErrOutOfMemory)
}
