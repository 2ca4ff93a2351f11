package columns

import (
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/quiver-gpu/quiver/arrowbuf"
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

// takeRuns makes one run of neighbours that come from one.
func (w *work) takeRuns(data arrow.ArrayData, t *arrow.RunEndEncodedType, s selection) (*array.Data, error) {
	r, err := runs(data, t)
	if err != nil {
		return nil, err
	}
	if s.n > mostRuns(r.width) {
		return nil, fmt.Errorf("%d elements, more than run ends of type %s count; decode it first: %w", s.n, r.ends.DataType(), arrowbuf.ErrOutOfRange)
	}
	found, err := w.find(r, int64(data.Offset()), int64(data.Len()), &s)
	if err != nil {
		return nil, err
	}
	ends, values := found, found
	if s.n > 0 {
		begins, err := w.empty(ndview.Bool, s.n)
		if err != nil {
			return nil, err
		}
		if err := w.run(nestProgram, "quiver_run_begins", s.n, perTile, found.at, s.n, written{begins}); err != nil {
			return nil, err
		}
		if ends.at, err = w.places(begins); err != nil {
			return nil, err
		}
		ends.n, values.n = ends.at.Size(), ends.at.Size()
		if values.at, err = w.chosen(found.at, ends.at); err != nil {
			return nil, err
		}
	}
	to, err := w.empty(dtypeOf(r.width), ends.n)
	if err != nil {
		return nil, err
	}
	err = w.run(nestProgram, fmt.Sprintf("quiver_run_ends_%d", 8*r.width), ends.n, perTile, ends.at, ends.n, s.n, written{to})
	if err != nil {
		return nil, err
	}
	b, err := w.buffer(to, ends.n*r.width)
	if err != nil {
		return nil, err
	}
	taken, err := w.take(r.values, values)
	if err != nil {
		return nil, fmt.Errorf("values of runs: %w", err)
	}
	return w.data(data.DataType(), s.n, nil, w.data(r.ends.DataType(), ends.n, []*memory.Buffer{nil, b}), taken), nil
}
