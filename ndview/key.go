package ndview

import "github.com/quiver-gpu/quiver/ndview/internal/layout"

// Key says what an index takes of one axis. Its rules are Python's and NumPy's.
type Key struct {
	basic  layout.Key
	chosen *chosen // of a key that is an array
}

// chosen is what a key chooses by an array, which the caller owns.
type chosen struct {
	array *NDBuffer // of indices, or a mask
	list  []int64   // indices, where there is no array: not nil
	mask  bool
}

// Open is a bound or a step that is absent.
const Open = layout.Open

var (
	// All takes an axis whole: NumPy's a[:].
	All = SpanStep(Open, Open, Open)
	// Ellipsis takes all axes whole that the other keys leave: a[...]. An index
	// has one at most.
	Ellipsis = Key{basic: layout.Key{Kind: layout.KeyEllipsis}}
	// NewAxis puts an axis of extent 1 into the result: a[None].
	NewAxis = Key{basic: layout.Key{Kind: layout.KeyNewAxis}}
)

// At takes one element, and drops the axis. A negative index counts from the
// end.
func At(i int64) Key { return Key{basic: layout.Key{Kind: layout.KeyAt, At: i}} }

// Span takes elements start, start+1, ... before stop: a[start:stop]. A negative
// bound counts from the end, one beyond an end is cut there, and Open is that
// end itself.
func Span(start, stop int64) Key { return SpanStep(start, stop, 1) }

// SpanStep takes elements start, start+step, ... before stop, or backwards if
// step is negative: a[start:stop:step]. A step of 0 is an error.
func SpanStep(start, stop, step int64) Key {
	return Key{basic: layout.Key{Kind: layout.KeySpan, Start: start, Stop: stop, Step: step}}
}

// IntArray takes the elements at indices, in their shape: an array of any integer
// type on the device of the array that is indexed. Negative indices count from
// the end. Only Get and Set take such keys.
func IntArray(indices *NDBuffer) Key { return Key{chosen: &chosen{array: indices}} }

// Ints is IntArray of one axis of indices.
func Ints(indices ...int64) Key {
	return Key{chosen: &chosen{list: append([]int64{}, indices...)}}
}

// Mask takes the elements at which an array of dtype bool is true, from as many
// axes as it has, which have its shape. Only Get and Set take such keys.
func Mask(mask *NDBuffer) Key { return Key{chosen: &chosen{array: mask, mask: true}} }
