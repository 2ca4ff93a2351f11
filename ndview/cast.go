package ndview

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/quiver-gpu/quiver/ndview/dtype"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
	"github.com/quiver-gpu/quiver/ndview/internal/launch"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
	"github.com/quiver-gpu/quiver/ndview/internal/tick"
)

// AsType copies the elements to a new array of another type, or of the same, on
// the same device. The order is that of the copy: K is the order in which the
// elements of a lie. A cast that the rule does not allow is ErrDType; so are
// those of records and [Bytes] to any type but themselves, and between bfloat16
// and times, by any rule.
//
// Values are NumPy's. Numbers are rounded once, to the nearest, ties to even;
// where a float of few bits ends comes an infinity. A NaN stays one, of any bits.
// Integers are cut to their low bits, floats lose their fraction, complex numbers
// their imaginary part; all but 0 is true. A float that an integer does not hold
// (after its fraction is lost), an infinity or a NaN gives on every device what it
// gives on x86-64: 0 for integers of 8 and 16 bits if it is beyond an int32, else
// its low bits; the smallest int32 or int64; for uint32 the low bits of the int64;
// for uint64 those too, or of what it is beyond 2^63. Times count in ticks: between
// units they are rounded towards the past, NaT stays NaT, and what the other unit
// cannot count is ErrRange; to and from numbers the count is cast, and between
// datetime64 and timedelta64 it stays.
func (a *NDBuffer) AsType(to DType, order Order, casting Casting) (*NDBuffer, error) {
	if err := order.check(); err != nil {
		return nil, err
	}
	if !CanCast(a.dtype, to, casting) {
		return nil, fmt.Errorf("%s is not cast to %s by the rule %v: %w", a.dtype, to, casting, ErrDType)
	}
	if err := dtype.CheckCast(a.dtype, to); err != nil {
		return nil, err
	}
	if err := a.hold(); err != nil {
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

// convertUnit writes times of the same shape to a, whose ticks are others. They are
// converted where no gaps are: in a copy, unless both are so. Where one cannot be
// converted the error is ErrRange; what a holds then is undefined.
func (a *NDBuffer) convertUnit(src *NDBuffer) error {
	c, err := tick.NewConversion(src.dtype.Tick(), a.dtype.Tick(), a.dtype.Kind() == KindDatetime)
	if err != nil {
		return a.unitRangeError(src)
	}
	b := newStridedPair(a, src)
	if n, ok := b.contiguousLength(); ok && b.isAligned() {
		return b.convertUnit(n, &c)
	}
	from, err := src.Copy(OrderC)
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

// convertsExactly tells whether there is no time of one type that the unit of another does
// not count.
func convertsExactly(from, to DType) bool {
	c, err := tick.NewConversion(from.Tick(), to.Tick(), to.Kind() == KindDatetime)
	return err == nil && c.Exact()
}

func (a *NDBuffer) unitRangeError(src *NDBuffer) error {
	return fmt.Errorf("times of %s as %s: a count is beyond 64 bits: %w", src.dtype, a.dtype, ErrRange)
}

// convertUnit converts n times without gaps.
func (b *stridedPair) convertUnit(n int64, c *tick.Conversion) error {
	if to, ok := hostAt(b.dst.buf, b.out); ok {
		from, _ := hostAt(b.src.buf, b.in)
		var bad uint32
		if cpu.Retick(to, from, n, c, &bad); bad != 0 {
			return b.dst.unitRangeError(b.src)
		}
		return nil
	}
	flag, err := Zeros(b.dst.Device(), Uint32)
	if err != nil {
		return err
	}
	defer flag.Release()
	err = launch.Items(b.dst.Device(), convertUnitProgram, "quiver_retick", n, 1,
		launch.In(b.src.buf, b.in), launch.InOut(b.dst.buf, b.out), n, launch.StructOf(c), flag.inOut())
	if err != nil || c.Exact() {
		return err
	}
	bad, err := flag.Bytes()
	if err == nil && binary.NativeEndian.Uint32(bad) != 0 {
		err = b.dst.unitRangeError(b.src)
	}
	return err
}

// castKeepsBits tells whether elements of one type become another as they are.
func castKeepsBits(from, to DType) bool {
	count := func(t DType) bool { return t.Kind() == KindInt || t.Kind() == KindUint || t.IsTime() }
	return from == to || from.Size() == to.Size() && count(from) && count(to) && !(from.Kind() == to.Kind() && from.IsTime())
}

// writeCast writes the elements of src, which broadcasts to a, as the type that a
// has, which is castable. One device reaches both; they are held, and do not
// overlap.
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

// castSameShape writes the elements of an array of the same shape as another type. In
// layouts that have little in common they are copied to one that has, as the
// narrower type: copies between layouts go tile by tile, casts row by row.
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

// stridedPair is the nest of loops over two arrays, and where their elements begin.
type stridedPair struct {
	layout.Nest
	dst, src *NDBuffer
	out, in  int64 // bytes from the start of the buffers
}

func newStridedPair(dst, src *NDBuffer) stridedPair {
	n := layout.Collapse(dst.shape, dst.strides, src.strides)
	return stridedPair{n, dst, src, dst.offset + n.Offsets[0], src.offset + n.Offsets[1]}
}

// contiguousLength is the number of elements where neither side has gaps.
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

// sharesFastestAxis tells whether the fastest axis of one side is the other's.
func (b *stridedPair) sharesFastestAxis() bool {
	from := b.Strides[1]
	for _, s := range from {
		if last := from[len(from)-1]; max(s, -s) < max(last, -last) {
			return false
		}
	}
	return true
}

// isAligned tells whether kernels may take elements whole.
func (b *stridedPair) isAligned() bool {
	out, in := uint64(b.dst.buf.Address())+uint64(b.out), uint64(b.src.buf.Address())+uint64(b.in)
	for i := range b.Shape {
		out |= uint64(b.Strides[0][i])
		in |= uint64(b.Strides[1][i])
	}
	return out%uint64(b.dst.dtype.Size()) == 0 && in%uint64(b.src.dtype.Size()) == 0
}

// vectorHead is how many of n elements of gapless arrays lie before the first from which on
// both sides begin at whole vectors, which are 16 bytes of the wider elements.
func (b *stridedPair) vectorHead(n int64) (head int64, ok bool) {
	out, in := int64(b.dst.buf.Address())+b.out, int64(b.src.buf.Address())+b.in
	wide, narrow, wideSize, narrowSize := out, in, b.dst.dtype.Size(), b.src.dtype.Size()
	if narrowSize > wideSize {
		wide, narrow, wideSize, narrowSize = narrow, wide, narrowSize, wideSize
	}
	head = -wide & 15 / wideSize
	return head, head <= n && (wide+head*wideSize)%16 == 0 && (narrow+head*narrowSize)%(16/wideSize*narrowSize) == 0
}

// cast writes the elements of one side to the other, of which there are some.
func (b *stridedPair) cast() error {
	from, _ := b.src.dtype.CastCode()
	to, _ := b.dst.dtype.CastCode()
	n, gapless := b.contiguousLength()
	dst, onHost := hostAt(b.dst.buf, b.out)
	if gapless && onHost {
		src, _ := hostAt(b.src.buf, b.in)
		cpu.Cast(dst, src, n, to, from)
		return nil
	}
	if gapless {
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
		cpu.CastWalk(dst, src, walk, to, from)
		return nil
	}
	return b.launchStridedCast(walk, to, from)
}
