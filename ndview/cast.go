package ndview

import (
	"encoding/binary"
	"fmt"

	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview/dtype"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
	"github.com/quiver-gpu/quiver/ndview/internal/launch"
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
	if err := out.write(a); err != nil {
		out.Release()
		return nil, err
	}
	return out, nil
}

// retick writes times of the same shape to a, whose ticks are others. They are
// converted where no gaps are: in a copy, unless both are so. Where one cannot be
// converted the error is ErrRange; what a holds then is undefined.
func (a *NDBuffer) retick(src *NDBuffer) error {
	c, err := tick.NewConversion(src.dtype.Tick(), a.dtype.Tick(), a.dtype.Kind() == KindDatetime)
	if err != nil {
		return a.outOfTicks(src)
	}
	b := nestOf(a, src)
	if n, ok := b.run(); ok && b.aligned() {
		return b.retick(n, &c)
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
	b = nestOf(to, from)
	if err := b.retick(a.Size(), &c); err != nil {
		return err
	}
	return copyLayout(a, to)
}

// convertsAll tells whether there is no time of one type that the unit of another does
// not count.
func convertsAll(from, to DType) bool {
	c, err := tick.NewConversion(from.Tick(), to.Tick(), to.Kind() == KindDatetime)
	return err == nil && c.Exact()
}

func (a *NDBuffer) outOfTicks(src *NDBuffer) error {
	return fmt.Errorf("times of %s as %s: a count is beyond 64 bits: %w", src.dtype, a.dtype, ErrRange)
}

// retick converts n times without gaps.
func (b *both) retick(n int64, c *tick.Conversion) error {
	if to, ok := hostAt(b.dst.buf, b.out); ok {
		from, _ := hostAt(b.src.buf, b.in)
		var bad uint32
		if cpu.Retick(to, from, n, c, &bad); bad != 0 {
			return b.dst.outOfTicks(b.src)
		}
		return nil
	}
	flag, err := Zeros(b.dst.Device(), Uint32)
	if err != nil {
		return err
	}
	defer flag.Release()
	err = launch.Items(b.dst.Device(), retickProgram, "quiver_convert_unit", n, 1,
		launch.In(b.src.buf, b.in), launch.InOut(b.dst.buf, b.out), n, launch.StructOf(c), flag.inOut())
	if err != nil || c.Exact() {
		return err
	}
	bad, err := flag.Bytes()
	if err == nil && binary.NativeEndian.Uint32(bad) != 0 {
		err = b.dst.outOfTicks(b.src)
	}
	return err
}

var retickProgram = launch.Program("elementwise/convert_unit", map[string]cudabuf.HostKernel{"quiver_convert_unit": func(l *cudabuf.HostLaunch) {
	n, c := l.Int64(2), launch.Parameters[tick.Conversion](l, 3)
	launch.MustAlign(l, 0, 8)
	launch.MustAlign(l, 1, 8)
	cpu.Retick(launch.Reached(l, 1, 0, 8*n), launch.Reached(l, 0, 0, 8*n), n, &c, (*uint32)(launch.Reached(l, 4, 0, 4)))
}})
