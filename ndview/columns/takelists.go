package columns

import (
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/ndview"
)

func (w *work) takeBinary(data arrow.ArrayData, s selection, valid *memory.Buffer, width int64) (*array.Data, error) {
	var size int64
	if b := bufferOf(data, 2); b != nil {
		size = int64(b.Len())
	}
	values, err := w.bytes(bufferOf(data, 2), ndview.Uint8, 0, size, 1)
	if err != nil {
		return nil, err
	}
	p, err := w.takeRanges(data, s, width, size)
	if err != nil {
		return nil, err
	}
	offsets, err := w.offsetsBuffer(p)
	if err != nil {
		return nil, err
	}
	bytes, err := w.gather(p, values, 1)
	if err != nil {
		return nil, err
	}
	text, err := w.buffer(bytes, p.total)
	return w.data(data.DataType(), s.n, []*memory.Buffer{valid, offsets, text}), err
}

// takeRanges measures what a selection takes of an array with offsets.
func (w *work) takeRanges(data arrow.ArrayData, s selection, width, values int64) (pieces, error) {
	r, err := w.offsetRanges(data, width, values)
	if err != nil {
		return pieces{}, fmt.Errorf("offsets: %w", err)
	}
	valid, err := w.validity(data)
	if err != nil {
		return pieces{}, err
	}
	return w.pieces(r, valid, &s, width)
}

func (w *work) takeLists(data arrow.ArrayData, s selection, valid *memory.Buffer, width int64) (*array.Data, error) {
	all, err := children(data, 1)
	if err != nil {
		return nil, err
	}
	p, err := w.takeRanges(data, s, width, int64(all[0].Len()))
	if err != nil {
		return nil, err
	}
	offsets, err := w.offsetsBuffer(p)
	if err != nil {
		return nil, err
	}
	values, err := w.takePieces(all[0], p)
	if err != nil {
		return nil, fmt.Errorf("list values: %w", err)
	}
	return w.data(data.DataType(), s.n, []*memory.Buffer{valid, offsets}, values), nil
}

// takePieces makes an array of pieces of a list's values. Those of fixed width
// without nulls are copied as bytes are.
func (w *work) takePieces(values arrow.ArrayData, p pieces) (*array.Data, error) {
	if width := plainWidth(values); width > 0 {
		from, err := w.fixed(values, 1, width)
		if err != nil {
			return nil, err
		}
		bytes, err := w.gather(p, from, width)
		if err != nil {
			return nil, err
		}
		taken, err := w.buffer(bytes, p.total*width)
		return w.data(values.DataType(), p.total, []*memory.Buffer{nil, taken}), err
	}
	s, err := w.expand(p)
	if err != nil {
		return nil, err
	}
	return w.take(values, s)
}

// plainWidth is how many bytes a value of an array has that is nothing but
// values of fixed width, without nulls; 0 for others.
func plainWidth(data arrow.ArrayData) int64 {
	if data.Len() == 0 || bufferOf(data, 0) != nil && data.NullN() != 0 {
		return 0
	}
	return int64(plainWidthOf(data.DataType()))
}

// plainWidthOf is how many bytes a value has of a type whose arrays are values of
// fixed width, or 0.
func plainWidthOf(dtype arrow.DataType) int {
	t, ok := storageOf(dtype).(arrow.FixedWidthDataType)
	if _, nested := t.(arrow.NestedType); !ok || nested || t.ID() == arrow.BOOL || t.ID() == arrow.DICTIONARY {
		return 0
	}
	return t.Bytes()
}

// takeListViews shares the values.
func (w *work) takeListViews(data arrow.ArrayData, s selection, valid *memory.Buffer, width int64) (*array.Data, error) {
	all, err := children(data, 1)
	if err != nil {
		return nil, err
	}
	offsets, err := w.takeFixed(data, 1, width, s)
	if err != nil {
		return nil, err
	}
	sizes, err := w.takeFixed(data, 2, width, s)
	return w.data(data.DataType(), s.n, []*memory.Buffer{valid, offsets, sizes}, all[0]), err
}

func (w *work) takeFixedSizeLists(data arrow.ArrayData, t *arrow.FixedSizeListType, s selection, valid *memory.Buffer) (*array.Data, error) {
	all, err := children(data, 1)
	if err != nil {
		return nil, err
	}
	each, n := int64(t.Len()), s.n
	values, err := w.sliced(all[0], int64(data.Offset())*each, int64(data.Len())*each, "list values")
	if err != nil {
		return nil, err
	}
	var taken *array.Data
	if width := plainWidth(values); width > 0 && width*each <= math.MaxInt32 {
		var b *memory.Buffer
		if b, err = w.takeRows(values, width, each, s); err == nil {
			taken = w.data(values.DataType(), s.n*each, []*memory.Buffer{nil, b})
		}
	} else if s, err = w.spread(s, each); err == nil {
		taken, err = w.take(values, s)
	}
	if err != nil {
		return nil, fmt.Errorf("list values: %w", err)
	}
	return w.data(data.DataType(), n, []*memory.Buffer{valid}, taken), nil
}

// takeRows takes rows of each values of width bytes.
func (w *work) takeRows(values arrow.ArrayData, width, each int64, s selection) (*memory.Buffer, error) {
	flat, err := w.fixed(values, 1, width)
	if err != nil {
		return nil, err
	}
	rows, err := w.array(flat.Reshape(flat.Size()/each, each))
	if err != nil {
		return nil, err
	}
	return w.takeValues(rows, s)
}
