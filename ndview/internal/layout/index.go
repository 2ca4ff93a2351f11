package layout

import (
	"fmt"
	"math"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// Key says what an index takes of an axis, as NumPy's basic indexing does.
type Key struct {
	Kind              KeyKind
	At                int64 // of KeyAt; a negative one counts from the end
	Start, Stop, Step int64 // of KeySpan; Open where absent
}

// KeyKind is the kind of a Key.
type KeyKind byte

// The kinds of keys.
const (
	KeySpan     KeyKind = iota + 1 // elements Start, Start+Step, ... before Stop
	KeyAt                          // one element, and the axis is gone
	KeyEllipsis                    // all of the axes that the other keys leave
	KeyNewAxis                     // an axis of extent 1 that was not there
)

// Open is the absent bound or step of a span.
const Open int64 = math.MinInt64

var all = Key{Kind: KeySpan, Start: Open, Stop: Open, Step: Open}

// complete gives each of n axes a key, in place of an ellipsis or at the end.
func complete(keys []Key, n int) ([]Key, error) {
	used, ellipsis := 0, -1
	for i, k := range keys {
		switch k.Kind {
		case KeySpan, KeyAt:
			used++
		case KeyNewAxis:
		case KeyEllipsis:
			if ellipsis >= 0 {
				return nil, fmt.Errorf("an index with two ellipses: want one at most: %w", ErrShape)
			}
			ellipsis = i
		default:
			return nil, fmt.Errorf("key %d of an index is empty: %w", i, ErrShape)
		}
	}
	if used > n {
		return nil, fmt.Errorf("an index of %d axes for an array of %d: %w", used, n, ErrShape)
	}
	before, after := keys, []Key(nil)
	if ellipsis >= 0 {
		before, after = keys[:ellipsis], keys[ellipsis+1:]
	}
	full := append(make([]Key, 0, n+len(keys)), before...)
	for range n - used {
		full = append(full, all)
	}
	return append(full, after...), nil
}

// Place is the position in an axis of an index that may count from the end.
// One outside the axis is arrowbuf.ErrOutOfRange.
func Place(at, extent int64) (int64, error) {
	if at < -extent || at >= extent {
		return 0, fmt.Errorf("index %d of an axis of %d elements: %w", at, extent, arrowbuf.ErrOutOfRange)
	}
	if at < 0 {
		at += extent
	}
	return at, nil
}

// span applies Python's rules for slices: a negative bound counts from the end,
// one beyond an end is cut there.
func (k Key) span(extent int64) (start, count, step int64, err error) {
	step = k.Step
	switch step {
	case 0:
		return 0, 0, 0, fmt.Errorf("a span with step 0: %w", ErrShape)
	case Open:
		step = 1
	}
	// Between first and last, both included, lie the bounds that mean something.
	first, last := int64(0), extent
	if step < 0 {
		first, last = -1, extent-1
	}
	bound := func(b, absent int64) int64 {
		switch {
		case b == Open:
			return absent
		case b < 0:
			return max(b+extent, first)
		default:
			return min(b, last)
		}
	}
	if step > 0 {
		start, stop := bound(k.Start, first), bound(k.Stop, last)
		if start < stop {
			return start, (stop-start-1)/step + 1, step, nil
		}
	} else {
		start, stop := bound(k.Start, last), bound(k.Stop, first)
		if stop < start {
			return start, (start-stop-1)/-step + 1, step, nil
		}
	}
	return 0, 0, 1, nil
}

// Index looks at what the keys take. Keys are matched with axes from the first;
// axes without a key are taken whole. An At outside its axis is
// arrowbuf.ErrOutOfRange, more keys than axes, a second ellipsis or a step of 0
// are ErrShape. Where nothing is left, the offset stays.
func (r Run) Index(keys []Key) (Run, error) {
	keys, err := complete(keys, len(r.Shape))
	if err != nil {
		return Run{}, err
	}
	out := Run{Offset: r.Offset, Size: r.Size, Shape: []int64{}, Strides: []int64{}}
	axis := 0
	for _, k := range keys {
		if k.Kind == KeyNewAxis {
			out.Shape, out.Strides = append(out.Shape, 1), append(out.Strides, 0)
			continue
		}
		extent, stride := r.Shape[axis], r.Strides[axis]
		if k.Kind == KeyAt {
			at, err := Place(k.At, extent)
			if err != nil {
				return Run{}, fmt.Errorf("axis %d: %w", axis, err)
			}
			out.Offset += at * stride
		} else {
			start, count, step, err := k.span(extent)
			if err != nil {
				return Run{}, fmt.Errorf("axis %d: %w", axis, err)
			}
			out.Offset += start * stride
			out.Shape, out.Strides = append(out.Shape, count), append(out.Strides, stride*step)
		}
		axis++
	}
	if Product(out.Shape) == 0 {
		out.Offset = r.Offset // a start may lie beyond the buffer
	}
	return out, nil
}
