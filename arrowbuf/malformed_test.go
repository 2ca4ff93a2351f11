package arrowbuf_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

func TestCopyToRefusesBuffersThatAreTooSmall(t *testing.T) {
	onDevices(t, func(t *testing.T, dev *countingDevice) {
		bytesOf := func(n int) *memory.Buffer { return memory.NewBufferBytes(make([]byte, n)) }
		offsets := func(b ...byte) *memory.Buffer {
			var out []byte
			for _, v := range b {
				out = append(out, v, 0, 0, 0)
			}
			return memory.NewBufferBytes(out)
		}
		str, i32 := arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int32
		for name, data := range map[string]*array.Data{
			"values":             array.NewData(i32, 3, []*memory.Buffer{nil, bytesOf(11)}, nil, 0, 0),
			"values, offset":     array.NewData(i32, 3, []*memory.Buffer{nil, bytesOf(12)}, nil, 0, 1),
			"no values":          array.NewData(i32, 3, []*memory.Buffer{nil, nil}, nil, 0, 0),
			"no buffers":         array.NewData(i32, 3, nil, nil, 0, 0),
			"negative offset":    array.NewData(i32, 3, []*memory.Buffer{nil, bytesOf(12)}, nil, 0, -1),
			"negative length":    array.NewData(i32, -3, []*memory.Buffer{nil, bytesOf(12)}, nil, 0, 0),
			"huge length":        array.NewData(i32, 1<<62, []*memory.Buffer{nil, bytesOf(12)}, nil, 0, 0),
			"bits":               array.NewData(arrow.FixedWidthTypes.Boolean, 9, []*memory.Buffer{nil, bytesOf(1)}, nil, 0, 0),
			"bitmap":             array.NewData(i32, 9, []*memory.Buffer{bytesOf(1), bytesOf(36)}, nil, 1, 0),
			"bitmap, count open": array.NewData(i32, 9, []*memory.Buffer{bytesOf(1), bytesOf(36)}, nil, -1, 0),
			"string offsets":     array.NewData(str, 2, []*memory.Buffer{nil, offsets(0, 1), bytesOf(2)}, nil, 0, 0),
			"string bytes":       array.NewData(str, 2, []*memory.Buffer{nil, offsets(0, 1, 3), bytesOf(2)}, nil, 0, 0),
			"no string bytes":    array.NewData(str, 2, []*memory.Buffer{nil, offsets(0, 1, 3), nil}, nil, 0, 0),
			"falling offsets":    array.NewData(str, 2, []*memory.Buffer{nil, offsets(2, 1, 1), bytesOf(2)}, nil, 0, 0),
			"negative offsets":   array.NewData(str, 1, []*memory.Buffer{nil, memory.NewBufferBytes([]byte{255, 255, 255, 255, 0, 0, 0, 0}), bytesOf(2)}, nil, 0, 0),
			"views":              array.NewData(arrow.BinaryTypes.StringView, 2, []*memory.Buffer{nil, bytesOf(31)}, nil, 0, 0),
			"list values": array.NewData(arrow.FixedSizeListOf(2, i32), 2, []*memory.Buffer{nil},
				[]arrow.ArrayData{array.NewData(i32, 3, []*memory.Buffer{nil, bytesOf(12)}, nil, 0, 0)}, 0, 0),
			"no list values": array.NewData(arrow.FixedSizeListOf(2, i32), 2, []*memory.Buffer{nil}, nil, 0, 0),
			"no dictionary":  array.NewData(&arrow.DictionaryType{IndexType: i32, ValueType: str}, 2, []*memory.Buffer{nil, bytesOf(8)}, nil, 0, 0),
		} {
			t.Run(name, func(t *testing.T) {
				_, err := arrowbuf.CopyArrayTo(bare{data}, dev)
				require.ErrorIs(t, err, arrow.ErrInvalid)
				assert.ErrorContains(t, err, "array of type "+data.DataType().String())
				assert.Zero(t, dev.allocs.Load())
			})
		}
	})
}

// bare is an array that arrow-go's constructors would not make.
type bare struct{ data *array.Data }

func (b bare) Data() arrow.ArrayData        { return b.data }
func (b bare) Len() int                     { return b.data.Len() }
func (b bare) DataType() arrow.DataType     { return b.data.DataType() }
func (b bare) NullN() int                   { return b.data.NullN() }
func (b bare) NullBitmapBytes() []byte      { return nil }
func (b bare) IsNull(int) bool              { return false }
func (b bare) IsValid(int) bool             { return true }
func (b bare) ValueStr(int) string          { return "" }
func (b bare) GetOneForMarshal(int) any     { return nil }
func (b bare) MarshalJSON() ([]byte, error) { return nil, nil }
func (b bare) String() string               { return "" }
func (b bare) Retain()                      {}
func (b bare) Release()                     {}

// Offsets may say anything: a copy ends in an error, or in the same array.
func FuzzCopyOfStrings(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0}, []byte("abc"), []byte{3}, 0, 2)
	f.Add([]byte{9, 0, 0, 0, 1, 0, 0, 0, 255, 255, 255, 255}, []byte("abc"), []byte{}, 1, 1)
	f.Add([]byte{1, 0, 0, 0, 1, 0, 0, 0}, []byte("a"), []byte{0}, 0, -1)
	dev := cudatest.NewDevice(f)
	f.Fuzz(func(t *testing.T, offsets, values, bitmap []byte, offset, length int) {
		buffers := []*memory.Buffer{memory.NewBufferBytes(bitmap), memory.NewBufferBytes(offsets), memory.NewBufferBytes(values)}
		data := array.NewData(arrow.BinaryTypes.String, length, buffers, nil, array.UnknownNullCount, offset)
		moved, err := arrowbuf.CopyArrayTo(bare{data}, dev)
		if err != nil {
			require.ErrorIs(t, err, arrow.ErrInvalid)
			return
		}
		defer moved.Release()
		back, err := moved.(*arrowbuf.Array).ToHost()
		require.NoError(t, err)
		defer back.Release()
		require.Equal(t, length, back.Len())
		require.LessOrEqual(t, back.Data().Buffers()[2].Len(), len(values))
	})
}
