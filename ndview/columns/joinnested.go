package columns

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/internal/launch"
)

// joinDenseUnions joins the children whole. Those of a slice, which are longer
// than it, are cut to what it shows before.
func (w *work) joinDenseUnions(parts []arrow.ArrayData, t *arrow.DenseUnionType, n int64) (arrow.ArrayData, error) {
	joined := make([]arrow.ArrayData, t.NumFields())
	whole := make([]arrow.ArrayData, len(parts))
	for k, part := range parts {
		all, err := children(part, t.NumFields())
		if err != nil {
			return nil, err
		}
		elements := 0
		for _, child := range all {
			elements += child.Len()
		}
		if whole[k] = part; elements != part.Len() {
			s, err := w.all(int64(part.Len()))
			if err == nil {
				whole[k], err = w.takeDenseUnion(part, t, s)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	offsets, err := w.joinUnionOffsets(whole, t, n)
	if err != nil {
		return nil, err
	}
	ids, err := w.joinFixed(whole, 1, 1)
	if err != nil {
		return nil, fmt.Errorf("type ids: %w", err)
	}
	for i, f := range t.Fields() {
		of := make([]arrow.ArrayData, len(whole))
		for k, part := range whole {
			of[k] = part.Children()[i]
		}
		if joined[i], err = w.join(of); err != nil {
			return nil, fmt.Errorf("field %q: %w", f.Name, err)
		}
	}
	return w.data(parts[0].DataType(), n, []*memory.Buffer{nil, ids, offsets}, joined...), nil
}

func (w *work) joinUnionOffsets(parts []arrow.ArrayData, t *arrow.DenseUnionType, n int64) (*memory.Buffer, error) {
	if n > math.MaxInt32 {
		return nil, fmt.Errorf("%d elements, more than offsets of a dense union count: %w", n, arrowbuf.ErrOutOfRange)
	}
	out, err := w.empty(ndview.Int32, n)
	if err != nil {
		return nil, err
	}
	var before shifts
	at := int64(0)
	for _, part := range parts {
		ids, err := w.fixed(part, 1, 1)
		if err != nil {
			return nil, fmt.Errorf("type ids: %w", err)
		}
		from, err := w.fixed(part, 2, 4)
		if err != nil {
			return nil, fmt.Errorf("offsets: %w", err)
		}
		to, err := w.array(out.Slice(0, at, at+from.Size()))
		if err != nil {
			return nil, err
		}
		err = w.run(joinProgram, "quiver_shift_union", from.Size(), perTile, ids, from, from.Size(), launch.StructOf(&before), written{to})
		if err != nil {
			return nil, err
		}
		for i, code := range t.TypeCodes() {
			before.of[code] += int32(part.Children()[i].Len())
		}
		at += from.Size()
	}
	return w.buffer(out, 4*n)
}

// joinRuns joins the runs that the parts show.
func (w *work) joinRuns(parts []arrow.ArrayData, t *arrow.RunEndEncodedType, n int64) (arrow.ArrayData, error) {
	shown, err := w.shownRuns(parts, t)
	if err != nil {
		return nil, err
	}
	width, count := shown[0].width, int64(0)
	if n > mostRuns(width) {
		return nil, fmt.Errorf("%d elements, more than run ends of type %s count; decode them first: %w", n, t.RunEnds(), arrowbuf.ErrOutOfRange)
	}
	values := make([]arrow.ArrayData, len(parts))
	for k, r := range shown {
		values[k], count = r.values, count+int64(r.ends.Len())
	}
	ends, err := w.empty(dtypeOf(width), count)
	if err != nil {
		return nil, err
	}
	at, before := int64(0), int64(0)
	for k, r := range shown {
		from, err := w.fixed(r.ends, 1, width)
		if err != nil {
			return nil, fmt.Errorf("run ends: %w", err)
		}
		to, err := w.array(ends.Slice(0, at, at+from.Size()))
		if err != nil {
			return nil, err
		}
		err = w.run(joinProgram, fmt.Sprintf("quiver_shift_ends_%d", 8*width), from.Size(), perTile,
			from, from.Size(), int64(parts[k].Offset()), int64(parts[k].Len()), before, written{to})
		if err != nil {
			return nil, err
		}
		at, before = at+from.Size(), before+int64(parts[k].Len())
	}
	b, err := w.buffer(ends, count*width)
	if err != nil {
		return nil, err
	}
	joined, err := w.join(values)
	if err != nil {
		return nil, fmt.Errorf("values of runs: %w", err)
	}
	return w.data(parts[0].DataType(), n, nil, w.data(t.RunEnds(), count, []*memory.Buffer{nil, b}), joined), nil
}

// shownRuns are the runs that elements of the parts are in, of which each has
// some. Where the first and the last is comes from the device in one copy.
func (w *work) shownRuns(parts []arrow.ArrayData, t *arrow.RunEndEncodedType) ([]runsOf, error) {
	shown := make([]runsOf, len(parts))
	places, err := w.empty(ndview.Int64, 2*int64(len(parts)))
	if err != nil {
		return nil, err
	}
	for k, part := range parts {
		if shown[k], err = runs(part, t); err != nil {
			return nil, err
		}
		ends, err := w.fixed(shown[k].ends, 1, shown[k].width)
		if err != nil {
			return nil, fmt.Errorf("run ends: %w", err)
		}
		for i, element := range []int{part.Offset(), part.Offset() + part.Len() - 1} {
			to, err := w.array(places.Slice(0, int64(2*k+i), int64(2*k+i+1)))
			if err != nil {
				return nil, err
			}
			err = w.run(nestProgram, fmt.Sprintf("quiver_find_runs_%d", 8*shown[k].width), 1, perTile,
				ends, ends.Size(), int64(element), (*ndview.NDBuffer)(nil), int64(1), written{to})
			if err != nil {
				return nil, err
			}
		}
	}
	raw := make([]byte, places.NBytes())
	if err := places.CopyToHost(raw); err != nil {
		return nil, err
	}
	for k := range shown {
		first, last := int64(binary.NativeEndian.Uint64(raw[16*k:])), int64(binary.NativeEndian.Uint64(raw[16*k+8:]))
		if shown[k].ends, err = w.sliced(shown[k].ends, first, last+1-first, "run ends"); err != nil {
			return nil, err
		}
		if shown[k].values, err = w.sliced(shown[k].values, first, last+1-first, "values of runs"); err != nil {
			return nil, err
		}
	}
	return shown, nil
}
