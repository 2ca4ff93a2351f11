package arrowzarr

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/ndview/columns"
)

// decodeRuns replaces run-end encoded inputs by their values. The caller must release
// the arrays.
func decodeRuns(inputs []columnSlice) (decoded []arrow.Array, err error) {
	for i := range inputs {
		s := &inputs[i]
		part := array.NewSlice(arrowdata.Unwrap(s.values), s.from, s.to)
		for err == nil && part.DataType().ID() == arrow.RUN_END_ENCODED {
			var values arrow.Array
			values, err = columns.Decode(part)
			part.Release()
			if part = nil; err == nil {
				part = values
				if inner := arrowdata.Unwrap(values); inner != values {
					inner.Retain()
					values.Release()
					part = inner
				}
			}
		}
		if err != nil {
			break
		}
		if err = countArrayNulls(part.Data()); err != nil {
			part.Release()
			break
		}
		decoded = append(decoded, part)
		s.values, s.from, s.to = part, 0, int64(part.Len())
	}
	if err != nil {
		arrowdata.ReleaseArrays(decoded)
		return nil, err
	}
	return decoded, nil
}

// innermostIndex returns the position of element i among the values of runs of runs.
func innermostIndex(a arrow.Array, i int) int {
	for {
		runs, ok := arrowdata.Unwrap(a).(*array.RunEndEncoded)
		if !ok || i >= runs.Len() {
			return i
		}
		a, i = runs.Values(), runs.GetPhysicalIndex(i)
	}
}

// decodedTextBytes is the size of the bytes of run-end encoded text in rows of it.
func decodedTextBytes(inputs []columnSlice) (total float64, err error) {
	for _, s := range inputs {
		runs, ok := arrowdata.Unwrap(s.values).(*array.RunEndEncoded)
		if !ok {
			return 0, fmt.Errorf("array of %T, expected one of runs: %w", s.values, arrowdata.ErrMalformed)
		}
		values := arrowdata.UnwrapRuns(runs)
		if _, fixed := fixedLayoutOf(values.DataType()); fixed {
			return 0, nil
		}
		if _, isDictionary := values.(*array.Dictionary); isDictionary {
			return 0, nil
		}
		value, err := valueReader(values)
		if err != nil {
			return 0, err
		}
		for row := s.from; row < s.to; {
			at := runs.GetPhysicalIndex(int(row))
			end, err := runEnd(runs, at)
			if err != nil {
				return 0, err
			}
			if at >= runs.Values().Len() || end <= row {
				return 0, fmt.Errorf("run %d of %d ends at %d: %w", at, runs.Values().Len(), end, arrowdata.ErrMalformed)
			}
			next := min(end, s.to)
			if at = innermostIndex(runs.Values(), at); at >= values.Len() {
				return 0, fmt.Errorf("run %d of %d: %w", at, values.Len(), arrowdata.ErrMalformed)
			}
			if values.IsValid(at) {
				total += float64(len(value(at))) * float64(next-row)
			}
			row = next
		}
	}
	return total, nil
}

// runEnd returns the row of an array after run i.
func runEnd(a *array.RunEndEncoded, i int) (int64, error) {
	end, err := indexReader(a.RunEndsArr())
	if err != nil {
		return 0, err
	}
	if i < 0 || i >= a.RunEndsArr().Len() {
		return 0, fmt.Errorf("run %d of %d: %w", i, a.RunEndsArr().Len(), arrowdata.ErrMalformed)
	}
	return end(i) - int64(a.Data().Offset()), nil
}
