package arrowbuf

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// maker makes arrays of cuts over the moved parts, on a device.
type maker struct {
	moved []*memory.Buffer
	dev   Device
	// Room for the buffers and the arrays of a batch, in one piece each, as far
	// as there is any.
	room   []*memory.Buffer
	arrays []Array
}

// array makes the array of a cut. What arrow-go refuses to make on the host, by a
// panic, is an error.
func (m *maker) array(out *cut) (arr arrow.Array, err error) {
	data := m.data(out)
	defer data.Release()
	if len(m.arrays) > 0 {
		a := &m.arrays[0]
		m.arrays = m.arrays[1:]
		a.begin(data, m.dev)
		return a, nil
	}
	defer func() {
		if refusal := recover(); refusal != nil {
			err = fmt.Errorf("%v: %w", refusal, arrow.ErrInvalid)
		}
	}()
	return over(data, m.dev), nil
}

func (m *maker) data(out *cut) *array.Data {
	buffers := m.take(len(out.buffers))
	for i, part := range out.buffers {
		if part != absent {
			buffers[i] = m.moved[part]
		}
	}
	var children []arrow.ArrayData
	for i := range out.children {
		child := m.data(&out.children[i])
		defer child.Release()
		children = append(children, child)
	}
	nulls := out.nulls
	if out.late != nil {
		nulls = out.late.nulls
	}
	data := array.NewData(out.dtype, out.length, buffers, children, nulls, 0)
	if d := out.dictionary; d != nil {
		if d.built != nil { // there already
			data.SetDictionary(d.built)
			return data
		}
		d.built = m.data(d)
		defer d.built.Release()
		data.SetDictionary(d.built)
	}
	return data
}

// take returns room for n buffers.
func (m *maker) take(n int) []*memory.Buffer {
	if n > len(m.room) {
		return make([]*memory.Buffer, n)
	}
	b := m.room[:n:n]
	m.room = m.room[n:]
	return b
}
