package zarr

import (
	"errors"
	"fmt"
	"slices"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/internal/grid"
	"github.com/quiver-gpu/quiver/zarr/internal/index"
)

// ErrSelection reports a selection that does not fit an array, such as one with too many
// keys. Test with errors.Is. An index outside the array is arrowbuf.ErrOutOfRange
// instead.
var ErrSelection = errors.New("selection does not fit")

// Selection says which elements of an array are read or written, and in which shape. It
// is made by [Select], [Points], [Mask], [Blocks] or [ParseSelection] and can be used for several arrays.
// The zero value selects the whole array.
type Selection struct {
	kind   selectionKind
	keys   []Key
	points [][]int64
	mask   []bool
	shape  []int64 // of points, nil for one axis; of the mask
	err    error

	transform *index.Transform
}

type selectionKind uint8

const (
	selectKeys selectionKind = iota
	selectPoints
	selectMask
	selectBlocks
	selectTransform
)

// Key selects positions along one axis.
type Key struct {
	kind              keyKind
	start, stop, step int64
	list              []int64
	mask              []bool
}

type keyKind uint8

const (
	keySpan keyKind = iota
	keyAt
	keyList
	keyMask
	keyEllipsis
)

var (
	// All selects a whole axis.
	All = Span(ndview.Open, ndview.Open)
	// Ellipsis selects all axes without another key whole. At most one is allowed.
	Ellipsis = Key{kind: keyEllipsis}
)

// At selects one position and drops the axis. A negative position counts from the end.
func At(i int64) Key { return Key{kind: keyAt, start: i} }

// Span selects the positions [start, stop) by Python's rules: a negative bound counts
// from the end, one beyond an end is clamped, and ndview.Open is an absent bound.
func Span(start, stop int64) Key { return SpanStep(start, stop, 1) }

// SpanStep selects every step-th position of a [Span]. The step is at least 1.
func SpanStep(start, stop, step int64) Key {
	return Key{kind: keySpan, start: start, stop: stop, step: step}
}

// List selects positions in any order. Negative ones count from the end. If a position
// is written more than once, the last value stays.
func List(positions ...int64) Key { return Key{kind: keyList, list: slices.Clone(positions)} }

// Where selects the positions at which the mask is true. It has one entry per position
// of the axis.
func Where(mask ...bool) Key { return Key{kind: keyMask, mask: slices.Clone(mask)} }

// Select selects all combinations of the positions of its keys: one key per axis, and
// whole axes for keys that are absent at the end. It does what zarr-python's a[...] does
// for integers and slices, and a.oindex[...] for lists and masks, too.
func Select(keys ...Key) Selection { return Selection{kind: selectKeys, keys: slices.Clone(keys)} }

// Points selects single elements by their coordinates: one list per axis of the array,
// each with one entry per element. A list of one entry stands for all elements.
// Negative coordinates count from the end. The result has one axis; see
// [Selection.Shaped]. It does what zarr-python's a.vindex[...] does.
func Points(coordinates ...[]int64) Selection {
	s := Selection{kind: selectPoints}
	for _, axis := range coordinates {
		s.points = append(s.points, slices.Clone(axis))
	}
	return s
}

// Shaped returns the selection of [Points] with another shape of the result, which has as
// many elements.
func (s Selection) Shaped(shape ...int64) Selection {
	if s.kind != selectPoints {
		s.err = fmt.Errorf("Shaped applies to Points alone: %w", ErrSelection)
	}
	s.shape = append([]int64{}, shape...)
	return s
}

// Mask selects the elements at which a mask in C order is true. The mask has the given
// shape, which is that of the array. The result has one axis.
func Mask(mask []bool, shape ...int64) Selection {
	return Selection{kind: selectMask, mask: slices.Clone(mask), shape: append([]int64{}, shape...)}
}

// Blocks selects whole chunks, or whole shards of a sharded array, by their indices in
// the chunk grid. Keys are [At], which keeps the axis, [Span], [All] and [Ellipsis].
// Chunks are clipped to the shape of the array.
func Blocks(keys ...Key) Selection { return Selection{kind: selectBlocks, keys: slices.Clone(keys)} }

// apply returns the elements that s selects of the elements that base selects. The grid
// is that of the chunks, or nil if base is not a whole array.
func (s Selection) apply(base index.Selection, g grid.Grid) (index.Selection, error) {
	if s.err != nil {
		return index.Selection{}, s.err
	}
	switch s.kind {
	case selectPoints:
		return s.applyPoints(base)
	case selectMask:
		return s.applyMask(base)
	case selectBlocks:
		return s.applyBlocks(base, g)
	case selectTransform:
		return s.applyTransform(base)
	}
	keys, err := expandKeys(s.keys, len(base.Shape))
	if err != nil {
		return index.Selection{}, err
	}
	axes, dropped := make([]index.Positions, len(keys)), make([]bool, len(keys))
	for i, k := range keys {
		if axes[i], err = k.positions(base.Shape[i]); err != nil {
			return index.Selection{}, fmt.Errorf("axis %d: %w", i, err)
		}
		dropped[i] = k.kind == keyAt
	}
	return base.Outer(axes, dropped), nil
}

// expandKeys returns one key per axis.
func expandKeys(keys []Key, axes int) ([]Key, error) {
	isEllipsis := func(k Key) bool { return k.kind == keyEllipsis }
	at := slices.IndexFunc(keys, isEllipsis)
	before, after := keys, []Key(nil)
	if at >= 0 {
		before, after = keys[:at], keys[at+1:]
		if slices.ContainsFunc(after, isEllipsis) {
			return nil, fmt.Errorf("more than one ellipsis: %w", ErrSelection)
		}
	}
	absent := axes - len(before) - len(after)
	if absent < 0 {
		return nil, fmt.Errorf("%d keys for %d axes: %w", len(before)+len(after), axes, ErrSelection)
	}
	return slices.Concat(before, slices.Repeat([]Key{All}, absent), after), nil
}

// positions returns the positions that a key selects along an axis.
func (k Key) positions(extent int64) (index.Positions, error) {
	switch k.kind {
	case keyAt:
		i, err := position(k.start, extent)
		return index.Range(i, 1, 1), err
	case keyList:
		list := make([]int64, len(k.list))
		for j, i := range k.list {
			var err error
			if list[j], err = position(i, extent); err != nil {
				return index.Positions{}, err
			}
		}
		return index.List(list), nil
	case keyMask:
		if int64(len(k.mask)) != extent {
			return index.Positions{}, fmt.Errorf("mask of %d entries for %d positions: %w", len(k.mask), extent, ErrSelection)
		}
		var list []int64
		for i, selected := range k.mask {
			if selected {
				list = append(list, int64(i))
			}
		}
		return index.List(list), nil
	}
	step := k.step
	if step == ndview.Open {
		step = 1
	}
	if step < 1 {
		return index.Positions{}, fmt.Errorf("step %d, want at least 1: %w", step, ErrSelection)
	}
	start, stop := k.start, k.stop
	if start == ndview.Open {
		start = 0
	}
	start, stop = clamp(start, stop, extent)
	return index.Range(start, step, (stop-start)/step+min((stop-start)%step, 1)), nil
}

// position resolves a position that may count from the end.
func position(i, extent int64) (int64, error) {
	if i < -extent || i >= extent {
		return 0, fmt.Errorf("position %d of %d: %w", i, extent, arrowbuf.ErrOutOfRange)
	}
	if i < 0 {
		i += extent
	}
	return i, nil
}

func (s Selection) applyPoints(base index.Selection) (index.Selection, error) {
	if len(s.points) != len(base.Shape) {
		return index.Selection{}, fmt.Errorf("coordinates for %d axes, want %d: %w", len(s.points), len(base.Shape), ErrSelection)
	}
	shape := s.shape
	if shape == nil {
		n := int64(1)
		for _, axis := range s.points {
			if len(axis) != 1 {
				n = int64(len(axis))
			}
		}
		shape = []int64{n}
	}
	n, err := grid.ByteSize(shape, 1)
	if err != nil {
		return index.Selection{}, fmt.Errorf("%w: %w", err, ErrSelection)
	}
	points := make([][]int64, len(s.points))
	for i, axis := range s.points {
		if int64(len(axis)) != n && len(axis) != 1 {
			return index.Selection{}, fmt.Errorf("%d coordinates of axis %d for %d elements: %w", len(axis), i, n, ErrSelection)
		}
		points[i] = make([]int64, 0, len(axis))
		for _, c := range axis {
			resolved, err := position(c, base.Shape[i])
			if err != nil {
				return index.Selection{}, fmt.Errorf("axis %d: %w", i, err)
			}
			points[i] = append(points[i], resolved)
		}
		if int64(len(axis)) != n {
			points[i] = slices.Repeat(points[i], int(n))
		}
	}
	return base.Pick(points, shape), nil
}

func (s Selection) applyMask(base index.Selection) (index.Selection, error) {
	if !slices.Equal(s.shape, base.Shape) || int64(len(s.mask)) != grid.Size(s.shape) {
		return index.Selection{}, fmt.Errorf("mask of %d entries and shape %v for shape %v: %w", len(s.mask), s.shape, base.Shape, ErrSelection)
	}
	points := make([][]int64, len(base.Shape))
	i, n := 0, int64(0)
	for at := range grid.Indices(base.Shape) {
		if s.mask[i] {
			for axis, c := range at {
				points[axis] = append(points[axis], c)
			}
			n++
		}
		i++
	}
	return base.Pick(points, []int64{n}), nil
}

func (s Selection) applyBlocks(base index.Selection, g grid.Grid) (index.Selection, error) {
	if g == nil {
		return index.Selection{}, fmt.Errorf("blocks of a view, which has no chunk grid: %w", ErrSelection)
	}
	keys, err := expandKeys(s.keys, len(g))
	if err != nil {
		return index.Selection{}, err
	}
	axes := make([]index.Positions, len(g))
	for i, k := range keys {
		if k.kind == keyList || k.kind == keyMask || k.step > 1 {
			return index.Selection{}, fmt.Errorf("axis %d: blocks are selected by At and Span alone: %w", i, ErrSelection)
		}
		extent := base.Shape[i]
		chunks, err := k.positions(g[i].Count(extent))
		if err != nil {
			return index.Selection{}, fmt.Errorf("axis %d: chunk %w", i, err)
		}
		if chunks.Len == 0 {
			axes[i] = index.Range(0, 1, 0)
			continue
		}
		start, _ := g[i].Chunk(chunks.At(0))
		_, stop := g[i].Chunk(chunks.At(chunks.Len - 1))
		axes[i] = index.Range(start, 1, min(stop, extent)-start)
	}
	return base.Outer(axes, make([]bool, len(g))), nil
}
