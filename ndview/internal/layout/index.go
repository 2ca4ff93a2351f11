package layout

import (
	"fmt"
	"math"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// Key selects elements of an axis, as an item of NumPy's basic indexing.
type Key struct {
	Kind              KeyKind
	At                int64 // KeyAt: a negative index counts from the end
	Start, Stop, Step int64 // KeySpan: Open if absent
}

// KeyKind is the kind of a Key.
type KeyKind byte

// The kinds of keys.
const (
	KeySlice    KeyKind = iota + 1 // elements Start, Start+Step, ... before Stop
	KeyIndex                       // one element; the axis is removed
	KeyEllipsis                    // all axes without another key
	KeyNewAxis                     // a new axis of extent 1
)

// Open is an absent bound or step of a KeySpan.
const Open int64 = math.MinInt64

var wholeAxis = Key{Kind: KeySlice, Start: Open, Stop: Open, Step: Open}

// expandKeys returns one key per axis: it replaces an ellipsis, or appends whole axes. The
// caller must not modify it.
func expandKeys(keys []Key, n int) ([]Key, error) {
	used, ellipsis := 0, -1
	for i, k := range keys {
		switch k.Kind {
		case KeySlice, KeyIndex:
			used++
		case KeyNewAxis:
		case KeyEllipsis:
			if ellipsis >= 0 {
				return nil, fmt.Errorf("an index with two ellipses: want one at most: %w", ErrShape)
			}
			ellipsis = i
		default:
			return nil, fmt.Errorf("key %d of an index has no kind: %w", i, ErrShape)
		}
	}
	if used > n {
		return nil, fmt.Errorf("an index of %d axes for an array of %d: %w", used, n, ErrShape)
	}
	if ellipsis < 0 && used == n {
		return keys, nil
	}
	before, after := keys, []Key(nil)
	if ellipsis >= 0 {
		before, after = keys[:ellipsis], keys[ellipsis+1:]
	}
	full := append(make([]Key, 0, n+len(keys)), before...)
	for range n - used {
		full = append(full, wholeAxis)
	}
	return append(full, after...), nil
}

// NormalizeIndex returns the position of an index, which may count from the end. It returns
// arrowbuf.ErrOutOfRange if the index is outside the axis.
func NormalizeIndex(at, extent int64) (int64, error) {
	if at < -extent || at >= extent {
		return 0, fmt.Errorf("index %d of an axis of %d elements: %w", at, extent, arrowbuf.ErrOutOfRange)
	}
	if at < 0 {
		at += extent
	}
	return at, nil
}

// slice applies Python's slicing rules: a negative bound counts from the end, and
// bounds are clamped.
func (k Key) slice(extent int64) (start, count, step int64, err error) {
	step = k.Step
	switch step {
	case 0:
		return 0, 0, 0, fmt.Errorf("slice step 0: want another step: %w", ErrShape)
	case Open:
		step = 1
	}
	// Bounds are clamped to [first, last].
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

// Index returns the part of r that the keys select. Keys are matched with axes from the
// first; axes without a key are selected whole. An index outside its axis returns
// arrowbuf.ErrOutOfRange; more keys than axes, a second ellipsis or a step of 0 return
// ErrShape. If nothing is selected, the offset is r's.
func (r Run) Index(keys []Key) (Run, error) {
	keys, err := expandKeys(keys, len(r.Shape))
	if err != nil {
		return Run{}, err
	}
	out := Run{Offset: r.Offset, Size: r.Size, Shape: make([]int64, 0, len(keys)), Strides: make([]int64, 0, len(keys))}
	axis := 0
	for _, k := range keys {
		if k.Kind == KeyNewAxis {
			out.Shape, out.Strides = append(out.Shape, 1), append(out.Strides, 0)
			continue
		}
		extent, stride := r.Shape[axis], r.Strides[axis]
		if k.Kind == KeyIndex {
			at, err := NormalizeIndex(k.At, extent)
			if err != nil {
				return Run{}, fmt.Errorf("axis %d: %w", axis, err)
			}
			out.Offset += at * stride
		} else {
			start, count, step, err := k.slice(extent)
			if err != nil {
				return Run{}, fmt.Errorf("axis %d: %w", axis, err)
			}
			out.Offset += start * stride
			out.Shape, out.Strides = append(out.Shape, count), append(out.Strides, stride*step)
		}
		axis++
	}
	if Product(out.Shape) == 0 {
		out.Offset = r.Offset // the start may be outside the buffer
	}
	return out, nil
}
