package ndview

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/quiver-gpu/quiver/internal/launch"
	"github.com/quiver-gpu/quiver/ndview/dtype"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
	"github.com/quiver-gpu/quiver/ndview/internal/tick"
)

// AsType copies the elements to a new array of any type on the same device. Order
// applies to the copy: K keeps the order in which the elements of a lie. It returns
// ErrDType if the rule does not allow the cast. No rule allows casts of records and
// [Bytes] to any other type, or between bfloat16 and times.
//
// Results are NumPy's. Numbers are rounded once, to nearest, ties to even; values
// beyond the range of a float become infinite. A NaN stays a NaN with unspecified
// bits. Integers keep their low bits, floats lose their fraction, complex numbers
// their imaginary part; every value but 0 is true.
//
// If an integer type cannot hold a float without its fraction, an infinity or a NaN,
// every device returns the result of x86-64. For 8 and 16 bits that is 0 beyond an
// int32, otherwise the low bits. For int32 and int64 it is the smallest value. For
// uint32 it is the low bits of the int64, and for uint64 those of the int64 or, from
// 2^63 on, of the value minus 2^63.
//
// Times are counts of their unit. Between units they are rounded down and NaT stays
// NaT; a time that the other unit cannot represent is ErrRange. To and from numbers
// the count is cast; between datetime64 and timedelta64 it stays the same.
func (a *NDBuffer) AsType(to DType, order Order, casting Casting) (*NDBuffer, error) {
	return a.call("AsType", func() (*NDBuffer, error) { return a.asType(to, order, casting) })
}

func (a *NDBuffer) asType(to DType, order Order, casting Casting) (*NDBuffer, error) {
	if err := order.check(); err != nil {
		return nil, err
	}
	if !CanCast(a.dtype, to, casting) {
		return nil, fmt.Errorf("rule %v does not allow a cast from %s to %s: %w", casting, a.dtype, to, ErrDType)
	}
	if err := dtype.CheckCast(a.dtype, to); err != nil {
		return nil, err
	}
	if err := a.TryRetain(); err != nil {
		return nil, err
	}
	defer a.Release()
	out, err := a.emptyLike(to, order)
	if err != nil {
		return nil, err
	}
	if err := out.writeCast(a); err != nil {
		out.Release()
		return nil, err
	}
	return out, nil
}

// writeCast writes the elements of src, cast to the dtype of a. The caller ensures
// that src is castable, broadcasts to a and does not overlap it, that one device can
// access both, and that both are retained.
func (a *NDBuffer) writeCast(src *NDBuffer) error {
	switch {
	case a.Size() == 0:
		return nil
	case castKeepsBits(src.dtype, a.dtype):
		return a.copyBroadcast(over(src.buf, a.dtype, src.offset, src.shape, src.strides))
	case src.Size() < a.Size(): // cast each element once
		c, err := src.emptyLike(a.dtype, OrderK)
		if err != nil {
			return err
		}
		defer c.Release()
		if err := c.writeCast(src); err != nil {
			return err
		}
		return a.copyBroadcast(c)
	case len(src.shape) != len(a.shape):
		skip := len(src.shape) - len(a.shape) // axes of extent 1
		shape, strides := slices.Clone(a.shape), make([]int64, len(a.shape))
		for i := max(-skip, 0); i < len(strides); i++ {
			strides[i] = src.strides[skip+i]
		}
		src = over(src.buf, src.dtype, src.offset, shape, strides)
	}
	if src.dtype.Kind() == a.dtype.Kind() && src.dtype.IsTime() {
		return a.convertUnit(src)
	}
	return a.castSameShape(src)
}

// castSameShape casts the elements of an array of the same shape. If the layouts
// differ in their fastest axis, the elements are first copied to a layout that fits,
// as the narrower type: copies between layouts work on tiles, casts on rows.
func (a *NDBuffer) castSameShape(src *NDBuffer) error {
	b := newStridedPair(a, src)
	switch {
	case b.sharesFastestAxis() || a.Size() < 1<<12:
		return b.cast()
	case a.dtype.Size() >= src.dtype.Size():
		c, err := a.emptyLike(src.dtype, OrderK)
		if err != nil {
			return err
		}
		defer c.Release()
		if err := copyLayout(c, src); err != nil {
			return err
		}
		b = newStridedPair(a, c)
		return b.cast()
	default:
		c, err := src.emptyLike(a.dtype, OrderK)
		if err != nil {
			return err
		}
		defer c.Release()
		b = newStridedPair(c, src)
		if err := b.cast(); err != nil {
			return err
		}
		return copyLayout(a, c)
	}
}

// castKeepsBits reports whether a cast does not change the bits of elements.
func castKeepsBits(from, to DType) bool {
	isCount := func(t DType) bool { return t.Kind() == KindInt || t.Kind() == KindUint || t.IsTime() }
	return from == to || from.Size() == to.Size() && isCount(from) && isCount(to) && !(from.Kind() == to.Kind() && from.IsTime())
}

// stridedPair is a loop nest over two arrays of one shape, with common axes collapsed.
type stridedPair struct {
	layout.Nest
	dst, src *NDBuffer
	out, in  int64 // bytes from the start of dst's and src's buffer to the first element
}

func newStridedPair(dst, src *NDBuffer) stridedPair {
	n := layout.Collapse(dst.shape, dst.strides, src.strides)
	return stridedPair{n, dst, src, dst.offset + n.Offsets[0], src.offset + n.Offsets[1]}
}

// contiguousLength returns the number of elements; ok reports whether both sides are
// one contiguous run.
func (b *stridedPair) contiguousLength() (n int64, ok bool) {
	switch len(b.Shape) {
	case 0:
		return 1, true
	case 1:
		return b.Shape[0], b.Strides[0][0] == b.dst.dtype.Size() && b.Strides[1][0] == b.src.dtype.Size()
	}
	return 0, false
}

func (b *stridedPair) isContiguous() bool {
	_, ok := b.contiguousLength()
	return ok
}

// sharesFastestAxis reports whether both sides have the same fastest axis.
func (b *stridedPair) sharesFastestAxis() bool {
	from := b.Strides[1]
	for _, s := range from {
		if last := from[len(from)-1]; max(s, -s) < max(last, -last) {
			return false
		}
	}
	return true
}

// isAligned reports whether every element lies at a multiple of its size, which
// kernels need to access elements as single words.
func (b *stridedPair) isAligned() bool {
	out, in := uint64(b.dst.buf.Address())+uint64(b.out), uint64(b.src.buf.Address())+uint64(b.in)
	for i := range b.Shape {
		out |= uint64(b.Strides[0][i])
		in |= uint64(b.Strides[1][i])
	}
	return out%uint64(b.dst.dtype.Size()) == 0 && in%uint64(b.src.dtype.Size()) == 0
}

// vectorHead returns the number of elements before the first one at which both
// contiguous sides begin a vector, and false if that never happens within n elements.
// A vector is 16 bytes of the wider elements.
func (b *stridedPair) vectorHead(n int64) (head int64, ok bool) {
	out, in := int64(b.dst.buf.Address())+b.out, int64(b.src.buf.Address())+b.in
	wide, narrow, wideSize, narrowSize := out, in, b.dst.dtype.Size(), b.src.dtype.Size()
	if narrowSize > wideSize {
		wide, narrow, wideSize, narrowSize = narrow, wide, narrowSize, wideSize
	}
	head = -wide & 15 / wideSize
	return head, head <= n && (wide+head*wideSize)%16 == 0 && (narrow+head*narrowSize)%(16/wideSize*narrowSize) == 0
}

// cast casts the elements, at least one, from one side to the other.
func (b *stridedPair) cast() error {
	from, _ := b.src.dtype.CastCode()
	to, _ := b.dst.dtype.CastCode()
	n, contiguous := b.contiguousLength()
	dst, onHost := hostAt(b.dst.buf, b.out)
	if contiguous && onHost {
		src, _ := hostAt(b.src.buf, b.in)
		cpu.Cast(dst, src, n, to, from)
		return nil
	}
	if contiguous {
		if head, ok := b.vectorHead(n); ok {
			return b.launchCast(n, head, to, from)
		}
	}
	walk, err := cpu.NewWalk(b.Shape, b.Strides[1], nil, b.Strides[0])
	if err != nil {
		return fmt.Errorf("casting to strides %v: %w", b.dst.strides, err)
	}
	if onHost {
		src, _ := hostAt(b.src.buf, b.in)
		cpu.CastStrided(dst, src, walk, to, from)
		return nil
	}
	return b.launchStridedCast(walk, to, from)
}

// convertUnit writes times of src, of the same shape, in the unit of a. The kernel
// needs contiguous elements, so other layouts are copied before and after. If a time
// cannot be represented, it returns ErrRange and the elements of a are undefined.
func (a *NDBuffer) convertUnit(src *NDBuffer) error {
	c, err := tick.NewConversion(src.dtype.Tick(), a.dtype.Tick(), a.dtype.Kind() == KindDatetime)
	if err != nil {
		return a.unitRangeError(src)
	}
	b := newStridedPair(a, src)
	if n, ok := b.contiguousLength(); ok && b.isAligned() {
		return b.convertUnit(n, &c)
	}
	from, err := src.copy(OrderC)
	if err != nil {
		return err
	}
	defer from.Release()
	to, err := Empty(a.Device(), a.dtype, a.shape...)
	if err != nil {
		return err
	}
	defer to.Release()
	b = newStridedPair(to, from)
	if err := b.convertUnit(a.Size(), &c); err != nil {
		return err
	}
	return copyLayout(a, to)
}

// convertUnit converts n contiguous times. On a GPU it waits for the kernel only if a
// time may not be representable.
func (b *stridedPair) convertUnit(n int64, c *tick.Conversion) error {
	if to, ok := hostAt(b.dst.buf, b.out); ok {
		from, _ := hostAt(b.src.buf, b.in)
		var bad uint32
		if cpu.ConvertUnit(to, from, n, c, &bad); bad != 0 {
			return b.dst.unitRangeError(b.src)
		}
		return nil
	}
	flag, err := Zeros(b.dst.Device(), Uint32)
	if err != nil {
		return err
	}
	defer flag.Release()
	err = launch.QueueItems(b.dst.Device(), convertUnitProgram, "quiver_convert_unit", n, 1,
		launch.In(b.src.buf, b.in), launch.InOut(b.dst.buf, b.out), n, launch.StructBytes(c), flag.inOut())
	if err != nil || c.CoversAll() {
		return err
	}
	bad, err := flag.Bytes()
	if err == nil && binary.NativeEndian.Uint32(bad) != 0 {
		err = b.dst.unitRangeError(b.src)
	}
	return err
}

// unitRangeError returns the error of a time of src that the unit of a cannot
// represent.
func (a *NDBuffer) unitRangeError(src *NDBuffer) error {
	return fmt.Errorf("converting %s to %s: a time exceeds 64 bits: %w", src.dtype, a.dtype, ErrRange)
}

// convertsExactly reports whether the unit of to can represent every time of from.
func convertsExactly(from, to DType) bool {
	c, err := tick.NewConversion(from.Tick(), to.Tick(), to.Kind() == KindDatetime)
	return err == nil && c.CoversAll()
}
