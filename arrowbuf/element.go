package arrowbuf

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// element returns an array of the host with element i alone.
func (a *Array) element(i int) (arrow.Array, error) {
	if err := CheckRange(int64(i), 1, int64(a.Len())); err != nil {
		return nil, err
	}
	one := a.Slice(i, i+1)
	defer one.Release()
	null := a.IsNull(i)
	switch t := storageOf(a.DataType()).(type) {
	case *arrow.DictionaryType:
		return one.oneOfDictionary(t, null)
	case arrow.BinaryViewDataType:
		return one.oneView(null)
	default:
		return one.ToHost()
	}
}

// oneOfDictionary copies the first element with the one value that it names,
// or with none if it is null.
func (a *Array) oneOfDictionary(t *arrow.DictionaryType, null bool) (arrow.Array, error) {
	data, ok := a.data.Dictionary().(*array.Data)
	if !ok || data == nil {
		return a.ToHost() // which says what is wrong
	}
	dictionary := over(data, a.dev).(*Array)
	defer dictionary.Release()
	value, err := a.valueIn(dictionary, t.Bytes(), null)
	if err != nil {
		return nil, fmt.Errorf("dictionary: %w", err)
	}
	defer value.Release()
	validity, nulls := nullBit(null)
	buffers := []*memory.Buffer{validity, memory.NewBufferBytes(make([]byte, t.Bytes()))}
	one := array.NewDataWithDictionary(a.DataType(), 1, buffers, nulls, 0, value.Data().(*array.Data))
	defer one.Release()
	return array.MakeFromData(one), nil
}

func (a *Array) valueIn(dictionary *Array, width int, null bool) (arrow.Array, error) {
	if null {
		none := dictionary.Slice(0, 0)
		defer none.Release()
		return none.ToHost()
	}
	raw, err := a.firstBytes(width)
	if err != nil {
		return nil, err
	}
	// Arrow's indices are never negative, so all read as unsigned.
	var wide [8]byte
	copy(wide[:], raw)
	return dictionary.element(int(min(binary.LittleEndian.Uint64(wide[:]), math.MaxInt)))
}

// oneView copies the first element with the bytes that its view points to.
func (a *Array) oneView(null bool) (arrow.Array, error) {
	view := make([]byte, arrow.ViewHeaderSizeBytes)
	validity, nulls := nullBit(null)
	buffers := []*memory.Buffer{validity, memory.NewBufferBytes(view)}
	if !null {
		raw, err := a.firstBytes(len(view))
		if err != nil {
			return nil, err
		}
		copy(view, raw)
		const inline = 12 // as many bytes a view holds itself
		if length := binary.LittleEndian.Uint32(view); length > inline {
			index, offset := binary.LittleEndian.Uint32(view[8:]), binary.LittleEndian.Uint32(view[12:])
			values, err := readBuffer(a.variadic(index), int64(offset), int64(length))
			if err != nil {
				return nil, fmt.Errorf("view into buffer %d: %w", index, err)
			}
			buffers = append(buffers, memory.NewBufferBytes(values))
			clear(view[8:]) // buffer 0, offset 0
		}
	}
	one := array.NewData(a.DataType(), 1, buffers, nil, nulls, 0)
	defer one.Release()
	return array.MakeFromData(one), nil
}

// variadic returns one of the buffers that views point into, an empty one where
// there is none.
func (a *Array) variadic(i uint32) *memory.Buffer {
	if all := a.data.Buffers()[2:]; int64(i) < int64(len(all)) {
		return orEmpty(all[i])
	}
	return empty
}

// firstBytes reads the value, width bytes wide, of the first element.
func (a *Array) firstBytes(width int) ([]byte, error) {
	var c cutter
	at, err := c.fixed(span{data: a.data, first: a.data.Offset(), length: 1}, width)
	if err != nil {
		return nil, err
	}
	return c.parts[at].read(0, int64(width))
}

// nullBit returns the validity bitmap and the null count of one element.
func nullBit(null bool) (*memory.Buffer, int) {
	if !null {
		return nil, 0
	}
	return memory.NewBufferBytes([]byte{0}), 1
}
