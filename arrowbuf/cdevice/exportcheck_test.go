package cdevice

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// loose is an array of which nothing is checked.
type loose struct {
	arrow.Array
	data *array.Data
}

func (l loose) Data() arrow.ArrayData { return l.data }

func TestArraysThatHaveLessThanTheySayAreNotExported(t *testing.T) {
	clean(t)
	ints, text := arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String
	pair := arrow.StructOf(arrow.Field{Name: "x", Type: ints})
	short := array.NewData(ints, 2, []*memory.Buffer{nil, memory.NewBufferBytes(make([]byte, 8))}, nil, 0, 0)
	for about, c := range map[string]struct {
		dtype    arrow.DataType
		length   int
		buffers  []*memory.Buffer
		children []arrow.ArrayData
		nulls    int
		reads    bool // offsets, as is done on the CPU alone
		missing  bool // are the children
	}{
		"buffer 1 has 8 bytes, the array needs 40": {ints, 10, []*memory.Buffer{nil, memory.NewBufferBytes(make([]byte, 8))}, nil, 0, false, false},
		"buffer 1 has 0 bytes, the array needs 40": {ints, 10, []*memory.Buffer{nil, nil}, nil, 0, false, false},
		"validity bitmap of 1 bytes, the array ne": {ints, 10, []*memory.Buffer{memory.NewBufferBytes(make([]byte, 1)), memory.NewBufferBytes(make([]byte, 40))}, nil, array.UnknownNullCount, false, false},
		"2 nulls, and no validity bitmap":          {ints, 10, []*memory.Buffer{nil, memory.NewBufferBytes(make([]byte, 40))}, nil, 2, false, false},
		"20 of 10 elements are null":               {ints, 10, []*memory.Buffer{memory.NewBufferBytes(make([]byte, 2)), memory.NewBufferBytes(make([]byte, 40))}, nil, 20, false, false},
		"buffer 2 has 2 bytes, the array needs 9":  {text, 1, []*memory.Buffer{nil, memory.NewBufferBytes([]byte{0, 0, 0, 0, 9, 0, 0, 0}), memory.NewBufferBytes([]byte("ab"))}, nil, 0, true, false},
		"buffer 1: offsets from 9 to 1":            {text, 1, []*memory.Buffer{nil, memory.NewBufferBytes([]byte{9, 0, 0, 0, 1, 0, 0, 0}), memory.NewBufferBytes([]byte("ab"))}, nil, 0, true, false},
		"child 0 has 2 elements, the array needs ": {pair, 10, []*memory.Buffer{nil}, []arrow.ArrayData{short}, 0, false, false},
		`"x": the array is missing`:                {pair, 10, []*memory.Buffer{nil}, []arrow.ArrayData{short}, 0, false, true},
	} {
		onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
			if (c.reads || c.missing) && !readable(dev) {
				return
			}
			data := onto(t, dev, array.NewData(c.dtype, c.length, c.buffers, c.children, c.nulls, 0))
			defer data.Release()
			if c.missing {
				child := data.Children()[0]
				data.Children()[0] = (*array.Data)(nil)
				defer func() { data.Children()[0] = child }() // which arrow-go releases
			}
			var out DeviceArray
			err := ExportArray(loose{data: data}, dev, &out)
			require.ErrorIs(t, err, arrow.ErrInvalid, about)
			assert.ErrorContains(t, err, about)
			assert.True(t, out.Released())
		})
	}
}

func TestWhatIsNotThereIsNotExported(t *testing.T) {
	clean(t)
	var out DeviceArray
	ones := array.NewNull(1)
	assert.ErrorIs(t, ExportArray(nil, arrowbuf.CPU(), &out), arrow.ErrInvalid)
	assert.ErrorIs(t, ExportArray(ones, arrowbuf.CPU(), nil), arrow.ErrInvalid)
	assert.ErrorIs(t, ExportBatch(nil, arrowbuf.CPU(), &out), arrow.ErrInvalid)
	assert.ErrorIs(t, ExportCPUArray(ones, nil), arrow.ErrInvalid)
	assert.ErrorIs(t, ExportCPUBatch(nil, nil), arrow.ErrInvalid)
	assert.ErrorIs(t, ExportSchema(nil, new(Schema)), arrow.ErrInvalid)
	assert.ErrorIs(t, ExportField(arrow.Field{Type: arrow.Null}, nil), arrow.ErrInvalid)
	assert.ErrorIs(t, ExportStream(nil, arrowbuf.CPU(), new(DeviceStream)), arrow.ErrInvalid)
	assert.ErrorIs(t, ExportCPUStream(nil, nil), arrow.ErrInvalid)
}
