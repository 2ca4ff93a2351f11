package arrowbuf

import (
	"encoding/binary"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// ToHost copies the elements that the array shows to the host, and returns
// arrow-go's own array of them. The caller owns one reference to it.
func (a *Array) ToHost() (arrow.Array, error) { return CopyArrayTo(a, CPU()) }

// String prints the elements as arrow-go prints them. It copies the array.
func (a *Array) String() string {
	host, err := a.ToHost()
	if err != nil {
		panic(a.failure("the elements", err))
	}
	defer host.Release()
	return host.String()
}

// MarshalJSON writes the elements as arrow-go writes them. It copies the array.
func (a *Array) MarshalJSON() ([]byte, error) {
	host, err := a.ToHost()
	if err != nil {
		return nil, a.failure("the elements", err)
	}
	defer host.Release()
	return host.MarshalJSON()
}

// ValueStr is element i as a string. It copies that element.
func (a *Array) ValueStr(i int) string {
	host := a.element(i)
	defer host.Release()
	return host.ValueStr(0)
}

// GetOneForMarshal is element i as a value for json.Marshal. It copies that
// element.
func (a *Array) GetOneForMarshal(i int) any {
	host := a.element(i)
	defer host.Release()
	return host.GetOneForMarshal(0)
}

// element copies element i to the host.
func (a *Array) element(i int) arrow.Array {
	if i < 0 || i >= a.Len() {
		panic(fmt.Errorf("arrowbuf: element %d of an array of %d: %w", i, a.Len(), ErrOutOfRange))
	}
	one := a.Slice(i, i+1)
	defer one.Release()
	if err := one.narrow(a.IsNull(i)); err != nil {
		panic(a.failure("an element", err))
	}
	host, err := one.ToHost()
	if err != nil {
		panic(a.failure("an element", err))
	}
	return host
}

// narrow drops from an array of one element what that element does not use,
// where a copy would bring much else: a dictionary keeps one value, views one
// buffer with one value, and neither keeps any for a null.
func (a *Array) narrow(null bool) error {
	var data *array.Data
	var err error
	switch t := storageOf(a.DataType()).(type) {
	case *arrow.DictionaryType:
		data, err = a.oneOfDictionary(t, null)
	case arrow.BinaryViewDataType:
		data, err = a.oneView(null)
	}
	if data == nil || err != nil {
		return err
	}
	a.data.Release()
	a.data = data
	return nil
}

func (a *Array) oneOfDictionary(t *arrow.DictionaryType, null bool) (*array.Data, error) {
	var from, to uint64
	validity, nulls := nullBit(null)
	dictionary, _ := a.data.Dictionary().(*array.Data)
	if dictionary == nil {
		return nil, nil // copying it will say so
	}
	if !null {
		index, err := a.firstBytes(t.Bytes())
		if err != nil {
			return nil, err
		}
		// Arrow's indices are never negative, so all read as unsigned.
		var wide [8]byte
		copy(wide[:], index)
		from = binary.LittleEndian.Uint64(wide[:])
		if from >= uint64(dictionary.Len()) {
			return nil, fmt.Errorf("index %d into a dictionary of %d: %w", from, dictionary.Len(), ErrOutOfRange)
		}
		to = from + 1
	}
	values := array.NewSliceData(dictionary, int64(from), int64(to)).(*array.Data)
	defer values.Release()
	buffers := []*memory.Buffer{validity, memory.NewBufferBytes(make([]byte, t.Bytes()))}
	return array.NewDataWithDictionary(a.DataType(), 1, buffers, nulls, 0, values), nil
}

func (a *Array) oneView(null bool) (*array.Data, error) {
	var view [arrow.ViewHeaderSizeBytes]byte
	validity, nulls := nullBit(null)
	buffers := []*memory.Buffer{validity, memory.NewBufferBytes(view[:])}
	if null {
		return array.NewData(a.DataType(), 1, buffers, nil, nulls, 0), nil
	}
	raw, err := a.firstBytes(len(view))
	if err != nil {
		return nil, err
	}
	copy(view[:], raw)
	const inline = 12 // as many bytes a view holds itself
	if length := int64(binary.LittleEndian.Uint32(raw)); length > inline {
		index, offset := int64(binary.LittleEndian.Uint32(raw[8:])), int64(binary.LittleEndian.Uint32(raw[12:]))
		all := a.data.Buffers()[2:]
		if index >= int64(len(all)) {
			return nil, fmt.Errorf("view into buffer %d of %d: %w", index, len(all), ErrOutOfRange)
		}
		values := orEmpty(all[index])
		if err := CheckRange(offset, length, int64(values.Len())); err != nil {
			return nil, err
		}
		values = memory.SliceBuffer(values, int(offset), int(length))
		defer values.Release()
		buffers = append(buffers, values)
		clear(view[8:]) // buffer 0, offset 0
	}
	return array.NewData(a.DataType(), 1, buffers, nil, nulls, 0), nil
}

// nullBit returns the validity bitmap and the null count of one element.
func nullBit(null bool) (*memory.Buffer, int) {
	if !null {
		return nil, 0
	}
	return memory.NewBufferBytes([]byte{0}), 1
}

// firstBytes copies the value, width bytes wide, of the first element.
func (a *Array) firstBytes(width int) ([]byte, error) {
	var c cutter
	at, err := c.fixed(span{data: a.data, first: a.data.Offset(), length: 1}, 1, width)
	if err != nil {
		return nil, err
	}
	return c.parts[at].read(0, int64(width))
}
