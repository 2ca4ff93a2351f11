package columns

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/ndview"
)

// A union has no validity bitmap: where the index is null, an element of the
// first child is.

func (w *work) takeSparseUnion(data arrow.ArrayData, t *arrow.SparseUnionType, s selection) (*array.Data, error) {
	_, ids, err := w.takeIDs(data, t, s)
	if err != nil {
		return nil, err
	}
	fields, err := w.takeFields(data, t.Fields(), s)
	return w.data(data.DataType(), s.n, []*memory.Buffer{nil, ids}, fields...), err
}

// takeIDs takes the type ids of a union.
func (w *work) takeIDs(data arrow.ArrayData, t arrow.UnionType, s selection) (*ndview.NDBuffer, *memory.Buffer, error) {
	ids, err := w.fixed(data, 1, 1)
	if err != nil {
		return nil, nil, fmt.Errorf("type ids: %w", err)
	}
	if len(t.TypeCodes()) == 0 && s.n > 0 {
		return nil, nil, fmt.Errorf("elements of a union without children: %w", arrow.ErrInvalid)
	}
	taken, err := w.empty(ndview.Int8, s.n)
	if err == nil && s.n > 0 {
		err = w.run(nestProgram, "quiver_union_ids", s.n, perTile, ids, ids.Size(), s.at, s.n, int64(t.TypeCodes()[0]), written{taken})
	}
	if err != nil {
		return nil, nil, err
	}
	b, err := w.buffer(taken, s.n)
	return taken, b, err
}

// takeDenseUnion takes of each child what the selection names, in its order, so
// that offsets increase as the format wants it.
func (w *work) takeDenseUnion(data arrow.ArrayData, t *arrow.DenseUnionType, s selection) (*array.Data, error) {
	all, err := children(data, t.NumFields())
	if err != nil {
		return nil, err
	}
	taken, ids, err := w.takeIDs(data, t, s)
	if err != nil {
		return nil, err
	}
	from, err := w.fixed(data, 2, 4)
	if err != nil {
		return nil, fmt.Errorf("offsets: %w", err)
	}
	offsets, err := w.array(ndview.Zeros(w.dev, ndview.Int32, s.n))
	if err != nil {
		return nil, err
	}
	parts := make([]arrow.ArrayData, len(all))
	for i, child := range all {
		part, err := w.ofChild(taken, t.TypeCodes()[i], from, int64(child.Len()), s, offsets)
		if err == nil {
			parts[i], err = w.take(child, part)
		}
		if err != nil {
			return nil, fmt.Errorf("field %q: %w", t.Fields()[i].Name, err)
		}
	}
	places, err := w.buffer(offsets, 4*s.n)
	return w.data(data.DataType(), s.n, []*memory.Buffer{nil, ids, places}, parts...), err
}

// ofChild is what a selection, whose type ids were taken, takes of the child with
// a type code, which has extent elements. It writes where they then are to the
// offsets.
func (w *work) ofChild(ids *ndview.NDBuffer, code arrow.UnionTypeCode, from *ndview.NDBuffer, extent int64,
	s selection, offsets *ndview.NDBuffer) (part selection, err error) {
	part = selection{nulls: s.nulls, at: s.at}
	if s.n == 0 {
		return part, nil
	}
	mask, err := w.empty(ndview.Bool, s.n)
	if err != nil {
		return part, err
	}
	at, err := w.empty(ndview.Int64, s.n)
	if err != nil {
		return part, err
	}
	f, err := w.flag()
	if err != nil {
		return part, err
	}
	err = w.run(nestProgram, "quiver_union_child", s.n, perTile,
		ids, from, from.Size(), s.at, s.n, int64(code), extent, written{mask}, written{at}, written{f})
	if err != nil {
		return part, err
	}
	bad, err := w.first(f)
	if err != nil {
		return part, err
	}
	if bad >= 0 {
		return part, fmt.Errorf("the offset of what is to be element %d is outside %d elements: %w", bad, extent, arrow.ErrInvalid)
	}
	places, err := w.places(mask)
	if err != nil {
		return part, err
	}
	part.n = places.Size()
	if err := w.run(nestProgram, "quiver_union_ranks", part.n, perTile, places, part.n, written{offsets}, s.n); err != nil {
		return part, err
	}
	part.at, err = w.chosen(at, places)
	return part, err
}

// places tells which elements of a mask are true.
func (w *work) places(mask *ndview.NDBuffer) (*ndview.NDBuffer, error) {
	all, err := ndview.NonZero(mask)
	if err != nil {
		return nil, err
	}
	return w.array(all[0], nil)
}

// chosen are the elements of an array at places.
func (w *work) chosen(a, places *ndview.NDBuffer) (*ndview.NDBuffer, error) {
	if places.Size() == 0 {
		return w.empty(a.DType(), 0)
	}
	return w.array(ndview.Take(a, places, 0, w.mode(places.Size())))
}
