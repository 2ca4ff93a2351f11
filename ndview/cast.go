package ndview

import "fmt"

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
func (a *NDBuffer) AsType(dtype DType, order Order, casting Casting) (*NDBuffer, error) {
	if err := order.check(); err != nil {
		return nil, err
	}
	if !CanCast(a.dtype, dtype, casting) {
		return nil, fmt.Errorf("%s is not cast to %s by the rule %v: %w", a.dtype, dtype, casting, ErrDType)
	}
	if err := castable(a.dtype, dtype); err != nil {
		return nil, err
	}
	if err := a.hold(); err != nil {
		return nil, err
	}
	defer a.Release()
	out, err := a.emptyLike(dtype, order)
	if err != nil {
		return nil, err
	}
	if err := out.write(a); err != nil {
		out.Release()
		return nil, err
	}
	return out, nil
}
