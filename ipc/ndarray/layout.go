package ndarray

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"unicode/utf8"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/dtype"
)

// ErrLayout means that bytes are no layout, or that a layout cannot be encoded.
var ErrLayout = errors.New("invalid array layout")

// Layout describes the elements of an array in a buffer.
type Layout struct {
	DType   dtype.DType
	Offset  int64   // of the element whose indices are all 0, in bytes
	Shape   []int64 // elements per axis
	Strides []int64 // bytes per step along each axis; may be negative or 0
}

// Of returns the layout of an array in its extent, and the extent: a slice of the
// array's buffer from the first byte of any element to the end of the last. It is
// empty if the array has no elements. The caller owns one reference to the buffer and
// must release it. The error wraps ndview.ErrNil if a is nil, and
// arrowbuf.ErrReleased after the last release.
func Of(a *ndview.NDBuffer) (Layout, arrowbuf.Buffer, error) {
	if a == nil {
		return Layout{}, nil, fmt.Errorf("ndarray.Of: %w", ndview.ErrNil)
	}
	buffer := a.Buffer()
	if buffer == nil {
		return Layout{}, nil, fmt.Errorf("ndarray.Of: %w", arrowbuf.ErrReleased)
	}
	l := Layout{DType: a.DType(), Offset: a.Offset(), Shape: a.Shape(), Strides: a.Strides()}
	low, high := l.extent()
	extent, err := buffer.Slice(low, high-low)
	if err != nil {
		return Layout{}, nil, fmt.Errorf("ndarray.Of: %w", err)
	}
	l.Offset -= low
	return l, extent, nil
}

// extent returns the bytes [low, high) of the elements. For an array without elements
// both are the offset. The array exists, so nothing overflows.
func (l Layout) extent() (low, high int64) {
	low, high = l.Offset, l.Offset
	if slices.Contains(l.Shape, 0) {
		return low, high
	}
	for i, n := range l.Shape {
		if last := (n - 1) * l.Strides[i]; last < 0 {
			low += last
		} else {
			high += last
		}
	}
	return low, high + l.DType.Size()
}

// Array returns an array over a buffer, without a copy, and retains the buffer. It is
// read-only if the buffer is. The caller must release it. The error wraps
// arrowbuf.ErrOutOfRange if an element is outside the buffer, ndview.ErrShape if the
// shape is negative, too large or does not fit the strides, ndview.ErrDType for the
// zero DType, and arrowbuf.ErrDevice if b is nil.
func (l Layout) Array(b arrowbuf.Buffer) (*ndview.NDBuffer, error) {
	strides := l.Strides
	if strides == nil {
		strides = []int64{} // nil would mean C order
	}
	a, err := ndview.FromBuffer(b, l.DType, l.Offset, l.Shape, strides)
	if err != nil {
		return nil, fmt.Errorf("ndarray.Layout.Array: %w", err)
	}
	return a, nil
}

// The encoding of docs/sharing.md: a header, the shape, the strides, the dtype.
const (
	layoutVersion    = 1
	layoutHeaderSize = 16
	maxAxes          = math.MaxUint8
)

var order = binary.LittleEndian

// MarshalBinary encodes the layout as docs/sharing.md specifies it. The error wraps
// ErrLayout if it has more than 255 axes, other numbers of extents and strides, a
// negative extent, or an invalid DType.
func (l Layout) MarshalBinary() ([]byte, error) {
	if err := l.check(); err != nil {
		return nil, fmt.Errorf("ndarray.Layout.MarshalBinary: %w", err)
	}
	name := l.DType.NumPy()
	b := make([]byte, 0, layoutHeaderSize+16*len(l.Shape)+len(name))
	b = append(b, layoutVersion, byte(len(l.Shape)), 0, 0)
	b = order.AppendUint32(b, uint32(len(name)))
	b = order.AppendUint64(b, uint64(l.Offset))
	for _, n := range l.Shape {
		b = order.AppendUint64(b, uint64(n))
	}
	for _, stride := range l.Strides {
		b = order.AppendUint64(b, uint64(stride))
	}
	return append(b, name...), nil
}

// check returns ErrLayout unless the layout can be encoded.
func (l Layout) check() error {
	switch {
	case len(l.Shape) > maxAxes:
		return fmt.Errorf("axes: got %d, want at most %d: %w", len(l.Shape), maxAxes, ErrLayout)
	case len(l.Strides) != len(l.Shape):
		return fmt.Errorf("got %d strides for %d axes: %w", len(l.Strides), len(l.Shape), ErrLayout)
	case l.Offset < 0:
		return fmt.Errorf("offset: got %d, want at least 0: %w", l.Offset, ErrLayout)
	case l.DType.Size() < 1:
		return fmt.Errorf("the zero DType: %w", ErrLayout)
	}
	count := uint64(l.DType.Size())
	for i, n := range l.Shape {
		if n < 0 {
			return fmt.Errorf("extent of axis %d: got %d, want at least 0: %w", i, n, ErrLayout)
		}
		high, low := bits.Mul64(count, uint64(max(n, 1)))
		if high > 0 || low > math.MaxInt64 {
			return fmt.Errorf("an array of %s %v has more than 2^63-1 bytes: %w", l.DType, l.Shape, ErrLayout)
		}
		count = low
	}
	return nil
}

// UnmarshalBinary decodes a layout. It checks every field, but not whether the
// elements are inside a buffer: [Layout.Array] does that. The error wraps ErrLayout;
// the layout is then unchanged.
func (l *Layout) UnmarshalBinary(b []byte) error {
	if l == nil {
		return fmt.Errorf("ndarray.Layout.UnmarshalBinary: nil layout: %w", ErrLayout)
	}
	read, err := parseLayout(b)
	if err != nil {
		return fmt.Errorf("ndarray.Layout.UnmarshalBinary: %w", err)
	}
	*l = read
	return nil
}

func parseLayout(b []byte) (l Layout, err error) {
	if len(b) < layoutHeaderSize {
		return l, fmt.Errorf("got %d bytes, want at least %d: %w", len(b), layoutHeaderSize, ErrLayout)
	}
	axes, name := int(b[1]), order.Uint32(b[4:])
	if b[0] != layoutVersion || b[2] != 0 || b[3] != 0 {
		return l, fmt.Errorf("version %d, reserved bytes %x: want version %d: %w", b[0], b[2:4], layoutVersion, ErrLayout)
	}
	if want := layoutHeaderSize + 16*int64(axes) + int64(name); int64(len(b)) != want {
		return l, fmt.Errorf("%d axes and a type of %d bytes: got %d bytes, want %d: %w", axes, name, len(b), want, ErrLayout)
	}
	numbers := func(b []byte) []int64 {
		read := make([]int64, axes)
		for i := range read {
			read[i] = int64(order.Uint64(b[8*i:]))
		}
		return read
	}
	l.Offset = int64(order.Uint64(b[8:]))
	l.Shape = numbers(b[layoutHeaderSize:])
	l.Strides = numbers(b[layoutHeaderSize+8*axes:])
	text := b[layoutHeaderSize+16*axes:]
	if !utf8.Valid(text) {
		return Layout{}, fmt.Errorf("type %.100q: want UTF-8: %w", text, ErrLayout)
	}
	t, byteOrder, err := dtype.ParseDType(string(text))
	if err != nil {
		return Layout{}, fmt.Errorf("%w: %w", ErrLayout, err)
	}
	if byteOrder != dtype.HostOrder && byteOrder != dtype.NoOrder {
		return Layout{}, fmt.Errorf("type %.100q: byte order: got %c, want %c: %w", text, byteOrder, dtype.HostOrder, ErrLayout)
	}
	l.DType = t
	if err := l.check(); err != nil {
		return Layout{}, err
	}
	return l, nil
}
