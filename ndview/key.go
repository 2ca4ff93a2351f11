package ndview

import "github.com/quiver-gpu/quiver/ndview/internal/layout"

// Key says what an index takes of one axis. Its rules are Python's and NumPy's.
type Key struct{ basic layout.Key }

// Open is a bound or a step that is absent.
const Open = layout.Open

var (
	// All takes an axis whole: NumPy's a[:].
	All = SpanStep(Open, Open, Open)
	// Ellipsis takes all axes whole that the other keys leave: a[...]. An index
	// has one at most.
	Ellipsis = Key{layout.Key{Kind: layout.KeyEllipsis}}
	// NewAxis puts an axis of extent 1 into the result: a[None].
	NewAxis = Key{layout.Key{Kind: layout.KeyNewAxis}}
)

// At takes one element, and drops the axis. A negative index counts from the
// end.
func At(i int64) Key { return Key{layout.Key{Kind: layout.KeyAt, At: i}} }

// Span takes elements start, start+1, ... before stop: a[start:stop]. A negative
// bound counts from the end, one beyond an end is cut there, and Open is that
// end itself.
func Span(start, stop int64) Key { return SpanStep(start, stop, 1) }

// SpanStep takes elements start, start+step, ... before stop, or backwards if
// step is negative: a[start:stop:step]. A step of 0 is an error.
func SpanStep(start, stop, step int64) Key {
	return Key{layout.Key{Kind: layout.KeySpan, Start: start, Stop: stop, Step: step}}
}
