package columns_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview/columns"
)

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
