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

// runsOf are the children of a run-end encoded array, of which the last run may
// reach beyond the last element, as in a slice.
type runsOf struct {
	ends, values arrow.ArrayData
	width        int64 // bytes of a run end: 2, 4 or 8
}

func runs(data arrow.ArrayData, t *arrow.RunEndEncodedType) (r runsOf, err error) {
	all, err := children(data, 2)
	if err != nil {
		return r, err
	}
	r = runsOf{ends: all[0], values: all[1]}
	if !t.ValidRunEndsType(r.ends.DataType()) || r.ends.Len() != r.values.Len() || r.ends.Len() == 0 && data.Len() > 0 {
		return r, fmt.Errorf("%d run ends of type %s for %d values: %w", r.ends.Len(), r.ends.DataType(), r.values.Len(), arrow.ErrInvalid)
	}
	r.width = int64(r.ends.DataType().(arrow.FixedWidthDataType).Bytes())
	return r, nil
}

// mostRuns is the last end that a run end of so many bytes can be.
func mostRuns(width int64) int64 { return math.MaxInt64 >> (64 - 8*width) }

// find makes of a selection of elements, or of all n where there is none, the
// selection of the runs that they are in.
func (w *work) find(r runsOf, offset, n int64, s *selection) (selection, error) {
	out := selection{n: n}
	var at *ndview.NDBuffer
	if s != nil {
		at, out.n, out.nulls = s.at, s.n, s.nulls
	}
	var err error
	if out.at, err = w.empty(ndview.Int64, out.n); err != nil || out.n == 0 {
		return out, err
	}
	ends, err := w.fixed(r.ends, 1, r.width)
	if err != nil {
		return out, fmt.Errorf("run ends: %w", err)
	}
	return out, w.run(nestProgram, fmt.Sprintf("quiver_find_runs_%d", 8*r.width), out.n, perTile,
		ends, ends.Size(), offset, at, out.n, written{out.at})
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
		if err := w.run(nestProgram, "quiver_run_starts", s.n, perTile, found.at, s.n, written{begins}); err != nil {
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
