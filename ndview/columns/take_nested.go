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

func (w *workspace) takeBinary(data arrow.ArrayData, s selection, valid *memory.Buffer, width int64) (*array.Data, error) {
	var size int64
	if b := bufferOf(data, 2); b != nil {
		size = int64(b.Len())
	}
	values, err := w.viewBuffer(bufferOf(data, 2), ndview.Uint8, 0, size, 1)
	if err != nil {
		return nil, err
	}
	p, err := w.planTake(data, s, width, size)
	if err != nil {
		return nil, err
	}
	offsets, err := w.planOffsets(p)
	if err != nil {
		return nil, err
	}
	bytes, err := w.gatherBytes(p, values, 1)
	if err != nil {
		return nil, err
	}
	text, err := w.toBuffer(bytes, p.total)
	return w.newData(data.DataType(), s.n, []*memory.Buffer{valid, offsets, text}), err
}

func (w *workspace) takeLists(data arrow.ArrayData, s selection, valid *memory.Buffer, width int64) (*array.Data, error) {
	all, err := children(data, 1)
	if err != nil {
		return nil, err
	}
	p, err := w.planTake(data, s, width, int64(all[0].Len()))
	if err != nil {
		return nil, err
	}
	offsets, err := w.planOffsets(p)
	if err != nil {
		return nil, err
	}
	values, err := w.gatherValues(all[0], p)
	if err != nil {
		return nil, fmt.Errorf("list values: %w", err)
	}
	return w.newData(data.DataType(), s.n, []*memory.Buffer{valid, offsets}, values), nil
}

// gatherValues returns the planned ranges of a list's values. Values of fixed width
// without nulls are copied as bytes.
func (w *workspace) gatherValues(values arrow.ArrayData, p gatherPlan) (*array.Data, error) {
	if width := plainWidth(values); width > 0 {
		from, err := w.viewFixed(values, 1, width)
		if err != nil {
			return nil, err
		}
		bytes, err := w.gatherBytes(p, from, width)
		if err != nil {
			return nil, err
		}
		taken, err := w.toBuffer(bytes, p.total*width)
		return w.newData(values.DataType(), p.total, []*memory.Buffer{nil, taken}), err
	}
	s, err := w.expandPlan(p)
	if err != nil {
		return nil, err
	}
	return w.takeData(values, s)
}

// plainWidth returns the size of a value in bytes if the array consists of fixed-width
// values without nulls, otherwise 0.
func plainWidth(data arrow.ArrayData) int64 {
	if data.Len() == 0 || bufferOf(data, 0) != nil && data.NullN() != 0 {
		return 0
	}
	return int64(plainWidthOf(data.DataType()))
}

// plainWidthOf returns the size of a value in bytes for types whose only buffer besides
// validity is fixed-width values, otherwise 0.
func plainWidthOf(dtype arrow.DataType) int {
	t, ok := storageOf(dtype).(arrow.FixedWidthDataType)
	if _, nested := t.(arrow.NestedType); !ok || nested || t.ID() == arrow.BOOL || t.ID() == arrow.DICTIONARY {
		return 0
	}
	return t.Bytes()
}

// takeListViews shares the values.
func (w *workspace) takeListViews(data arrow.ArrayData, s selection, valid *memory.Buffer, width int64) (*array.Data, error) {
	all, err := children(data, 1)
	if err != nil {
		return nil, err
	}
	offsets, err := w.takeFixed(data, 1, width, s)
	if err != nil {
		return nil, err
	}
	sizes, err := w.takeFixed(data, 2, width, s)
	return w.newData(data.DataType(), s.n, []*memory.Buffer{valid, offsets, sizes}, all[0]), err
}

func (w *workspace) takeFixedSizeLists(data arrow.ArrayData, t *arrow.FixedSizeListType, s selection, valid *memory.Buffer) (*array.Data, error) {
	all, err := children(data, 1)
	if err != nil {
		return nil, err
	}
	each, n := int64(t.Len()), s.n
	values, err := w.sliceData(all[0], int64(data.Offset())*each, int64(data.Len())*each, "list values")
	if err != nil {
		return nil, err
	}
	var taken *array.Data
	if width := plainWidth(values); width > 0 && width*each <= math.MaxInt32 {
		var b *memory.Buffer
		if b, err = w.takeRows(values, width, each, s); err == nil {
			taken = w.newData(values.DataType(), s.n*each, []*memory.Buffer{nil, b})
		}
	} else if s, err = w.expandFixedSize(s, each); err == nil {
		taken, err = w.takeData(values, s)
	}
	if err != nil {
		return nil, fmt.Errorf("list values: %w", err)
	}
	return w.newData(data.DataType(), n, []*memory.Buffer{valid}, taken), nil
}

// takeRows takes rows of `each` values, width bytes per value.
func (w *workspace) takeRows(values arrow.ArrayData, width, each int64, s selection) (*memory.Buffer, error) {
	flat, err := w.viewFixed(values, 1, width)
	if err != nil {
		return nil, err
	}
	rows, err := w.ownArray(flat.Reshape(flat.Size()/each, each))
	if err != nil {
		return nil, err
	}
	return w.takeValues(rows, s)
}

// planTake plans the gathering of selected elements of an array with offsets.
func (w *workspace) planTake(data arrow.ArrayData, s selection, width, values int64) (gatherPlan, error) {
	r, err := w.rangesOfOffsets(data, width, values)
	if err != nil {
		return gatherPlan{}, fmt.Errorf("offsets: %w", err)
	}
	valid, err := w.viewValidity(data)
	if err != nil {
		return gatherPlan{}, err
	}
	return w.planGather(r, valid, &s, width)
}

// takeSparseUnion represents null elements by a null of the first child, since a union
// has no validity bitmap.
func (w *workspace) takeSparseUnion(data arrow.ArrayData, t *arrow.SparseUnionType, s selection) (*array.Data, error) {
	_, ids, err := w.takeTypeIDs(data, t, s)
	if err != nil {
		return nil, err
	}
	fields, err := w.takeFields(data, t.Fields(), s)
	return w.newData(data.DataType(), s.n, []*memory.Buffer{nil, ids}, fields...), err
}

// takeTypeIDs takes the type ids of a union. Null indices get the first type code.
func (w *workspace) takeTypeIDs(data arrow.ArrayData, t arrow.UnionType, s selection) (*ndview.NDBuffer, *memory.Buffer, error) {
	ids, err := w.viewFixed(data, 1, 1)
	if err != nil {
		return nil, nil, fmt.Errorf("type ids: %w", err)
	}
	if len(t.TypeCodes()) == 0 && s.n > 0 {
		return nil, nil, fmt.Errorf("union without children has elements: %w", arrow.ErrInvalid)
	}
	taken, err := w.alloc(ndview.Int8, s.n)
	if err == nil && s.n > 0 {
		err = w.launch(nestProgram, "quiver_union_ids", s.n, itemsPerBlock, ids, ids.Size(), s.indices, s.n, int64(t.TypeCodes()[0]), output{taken})
	}
	if err != nil {
		return nil, nil, err
	}
	b, err := w.toBuffer(taken, s.n)
	return taken, b, err
}

// takeDenseUnion takes from each child the elements that the selection names, in order.
// Offsets of the result therefore increase, as the format requires.
func (w *workspace) takeDenseUnion(data arrow.ArrayData, t *arrow.DenseUnionType, s selection) (*array.Data, error) {
	all, err := children(data, t.NumFields())
	if err != nil {
		return nil, err
	}
	taken, ids, err := w.takeTypeIDs(data, t, s)
	if err != nil {
		return nil, err
	}
	from, err := w.viewFixed(data, 2, 4)
	if err != nil {
		return nil, fmt.Errorf("offsets: %w", err)
	}
	offsets, err := w.ownArray(ndview.Zeros(w.dev, ndview.Int32, s.n))
	if err != nil {
		return nil, err
	}
	parts := make([]arrow.ArrayData, len(all))
	for i, child := range all {
		part, err := w.selectChild(taken, t.TypeCodes()[i], from, int64(child.Len()), s, offsets)
		if err == nil {
			parts[i], err = w.takeData(child, part)
		}
		if err != nil {
			return nil, fmt.Errorf("field %q: %w", t.Fields()[i].Name, err)
		}
	}
	offsetsBuffer, err := w.toBuffer(offsets, 4*s.n)
	return w.newData(data.DataType(), s.n, []*memory.Buffer{nil, ids, offsetsBuffer}, parts...), err
}

// selectChild returns the part of selection s that falls into the child with a type
// code, which has extent elements. ids are the type ids of the result. It writes the
// position of each such element within the child's result to offsets.
func (w *workspace) selectChild(ids *ndview.NDBuffer, code arrow.UnionTypeCode, from *ndview.NDBuffer, extent int64,
	s selection, offsets *ndview.NDBuffer) (part selection, err error) {
	part = selection{hasNulls: s.hasNulls, indices: s.indices}
	if s.n == 0 {
		return part, nil
	}
	mask, err := w.alloc(ndview.Bool, s.n)
	if err != nil {
		return part, err
	}
	at, err := w.alloc(ndview.Int64, s.n)
	if err != nil {
		return part, err
	}
	f, err := w.newFlag()
	if err != nil {
		return part, err
	}
	err = w.launch(nestProgram, "quiver_union_child", s.n, itemsPerBlock,
		ids, from, from.Size(), s.indices, s.n, int64(code), extent, output{mask}, output{at}, output{f})
	if err != nil {
		return part, err
	}
	bad, err := w.readFlag(f)
	if err != nil {
		return part, err
	}
	if bad >= 0 {
		return part, fmt.Errorf("offset of result element %d is outside %d elements: %w", bad, extent, arrow.ErrInvalid)
	}
	positions, err := w.trueIndices(mask)
	if err != nil {
		return part, err
	}
	part.n = positions.Size()
	if err := w.launch(nestProgram, "quiver_union_ranks", part.n, itemsPerBlock, positions, part.n, output{offsets}, s.n); err != nil {
		return part, err
	}
	part.indices, err = w.takeElements(at, positions)
	return part, err
}

// trueIndices returns the indices of the true elements of a mask.
func (w *workspace) trueIndices(mask *ndview.NDBuffer) (*ndview.NDBuffer, error) {
	all, err := ndview.NonZero(mask)
	if err != nil {
		return nil, err
	}
	return w.ownArray(all[0], nil)
}

// takeElements returns the elements of an array at valid indices.
func (w *workspace) takeElements(a, indices *ndview.NDBuffer) (*ndview.NDBuffer, error) {
	if indices.Size() == 0 {
		return w.alloc(a.DType(), 0)
	}
	return w.ownArray(ndview.Take(a, indices, 0, w.takeMode(indices.Size())))
}

// takeRuns merges neighbours of the result that come from one run into one run.
func (w *workspace) takeRuns(data arrow.ArrayData, t *arrow.RunEndEncodedType, s selection) (*array.Data, error) {
	r, err := runEndsOf(data, t)
	if err != nil {
		return nil, err
	}
	if s.n > maxRunEnd(r.width) {
		return nil, fmt.Errorf("%d elements exceed run ends of type %s; decode it first: %w", s.n, r.ends.DataType(), arrowbuf.ErrOutOfRange)
	}
	found, err := w.findRuns(r, int64(data.Offset()), int64(data.Len()), &s)
	if err != nil {
		return nil, err
	}
	ends, values := found, found
	if s.n > 0 {
		begins, err := w.alloc(ndview.Bool, s.n)
		if err != nil {
			return nil, err
		}
		if err := w.launch(nestProgram, "quiver_run_starts", s.n, itemsPerBlock, found.indices, s.n, output{begins}); err != nil {
			return nil, err
		}
		if ends.indices, err = w.trueIndices(begins); err != nil {
			return nil, err
		}
		ends.n, values.n = ends.indices.Size(), ends.indices.Size()
		if values.indices, err = w.takeElements(found.indices, ends.indices); err != nil {
			return nil, err
		}
	}
	to, err := w.alloc(dtypeOf(r.width), ends.n)
	if err != nil {
		return nil, err
	}
	err = w.launch(nestProgram, fmt.Sprintf("quiver_run_ends_%d", 8*r.width), ends.n, itemsPerBlock, ends.indices, ends.n, s.n, output{to})
	if err != nil {
		return nil, err
	}
	b, err := w.toBuffer(to, ends.n*r.width)
	if err != nil {
		return nil, err
	}
	taken, err := w.takeData(r.values, values)
	if err != nil {
		return nil, fmt.Errorf("values of runs: %w", err)
	}
	return w.newData(data.DataType(), s.n, nil, w.newData(r.ends.DataType(), ends.n, []*memory.Buffer{nil, b}), taken), nil
}
