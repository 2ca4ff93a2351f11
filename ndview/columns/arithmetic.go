package columns

import (
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/ndview"
)

// ErrDivideByZero means an integer divided by zero.
var ErrDivideByZero = errors.New("integer division by zero")

// Add returns the sum of two columns, as Arrow's function add. Integers wrap around.
//
// Numbers of different types are converted to their common type in Arrow: the largest
// float if there is one, otherwise the smallest integer type that represents both, at
// most int64 or uint64. A timestamp or time of day plus a duration is a timestamp or
// time of day, and durations add. Different units are converted to the finest. A column
// of text, bools or nested values returns arrow.ErrNotImplemented, as do decimals and the
// sum of a date and a duration. An int64 or uint64 counts as an int64 beside the other.
func Add(x, y any) Expr { return arithmetic("Add", ndview.Add, x, y) }

// Subtract is [Add] for the difference. The difference of two timestamps, times of day
// or dates is a duration. Either both timestamps have a time zone or none has.
func Subtract(x, y any) Expr { return arithmetic("Subtract", ndview.Subtract, x, y) }

// Multiply is [Add] for the product. A duration times an integer is a duration.
func Multiply(x, y any) Expr { return arithmetic("Multiply", ndview.Multiply, x, y) }

// Divide is [Add] for the quotient. Quotients of integers are truncated. Where both
// elements are valid, evaluation returns [ErrDivideByZero] for an integer divided by
// zero; one byte is copied to the host to find out. The smallest integer divided by -1
// is 0, as in Arrow. A duration divided by an integer is a duration, and by a duration a
// float64.
func Divide(x, y any) Expr { return arithmetic("Divide", ndview.Divide, x, y) }

// Negate returns the negative of each number or duration. Integers wrap around.
func Negate(x any) Expr { return unaryArithmetic("Negate", ndview.Negative, x) }

// Abs returns the absolute value of each number or duration. The smallest integer stays
// as it is.
func Abs(x any) Expr { return unaryArithmetic("Abs", ndview.Absolute, x) }

func unaryArithmetic(name string, op ndview.Unary, x any) Expr {
	return call(name, func(w *workspace, in []value) (value, error) {
		n, err := columnLength(in)
		if err != nil {
			return value{}, err
		}
		t := in[0].dtype
		if !isNumber(t) && t.ID() != arrow.DURATION {
			return value{}, fmt.Errorf("operand is %s: %w", in[0].label, arrow.ErrNotImplemented)
		}
		as, _ := numberType(t)
		v, err := w.load(in[0], as)
		if err != nil {
			return value{}, err
		}
		out, err := w.ownArray(op.Of(v.elements))
		return value{dtype: t, n: n, elements: out, valid: v.valid}, err
	}, x)
}

func arithmetic(name string, op ndview.Binary, x, y any) Expr {
	return call(name, func(w *workspace, in []value) (value, error) {
		n, err := columnLength(in)
		if err != nil {
			return value{}, err
		}
		p, err := planArithmetic(op, in)
		if err != nil {
			return value{}, err
		}
		for i := range in {
			if in[i], err = w.loadValidity(in[i]); err != nil {
				return value{}, err
			}
		}
		valid, err := w.validityOfAll(n, in...)
		if err != nil {
			return value{}, err
		}
		a, err := w.number(in[0], p.compute, p.factors[0])
		if err != nil {
			return value{}, err
		}
		b, err := w.number(in[1], p.compute, p.factors[1])
		if err != nil {
			return value{}, err
		}
		var out *ndview.NDBuffer
		if op == ndview.Divide && p.compute.IsInteger() {
			out, err = w.divideIntegers(a, b, p.compute, n, valid)
		} else {
			out, err = w.ownArray(op.Of(a, b))
		}
		return value{dtype: p.result, n: n, elements: out, valid: valid}, err
	}, x, y)
}

// number returns an operand in the type that is computed in, times a factor: an array
// or a scalar.
func (w *workspace) number(v value, compute ndview.DType, factor int64) (any, error) {
	if v.isLiteral() {
		if factor == 1 {
			return literalNumber(v, compute)
		}
		s, err := literalNumber(v, ndview.Int64)
		if err != nil {
			return nil, err
		}
		count, _ := s.Value().(int64)
		if count*factor/factor != count {
			return nil, fmt.Errorf("%s times %d: %w", v.label, factor, ndview.ErrRange)
		}
		return ndview.NewScalar(compute, count*factor)
	}
	as, _ := numberType(v.dtype)
	v, err := w.load(v, as)
	if err != nil {
		return nil, err
	}
	if as != compute {
		v.elements, err = w.ownArray(v.elements.AsType(compute, ndview.OrderC, ndview.CastUnsafe))
	}
	if err != nil || factor == 1 {
		return v.elements, err
	}
	times, err := ndview.NewScalar(compute, factor)
	if err != nil {
		return nil, err
	}
	return w.ownArray(ndview.Multiply.Of(v.elements, times))
}

// literalNumber returns a literal as a scalar of a type.
func literalNumber(v value, compute ndview.DType) (ndview.Scalar, error) {
	from := v.weak
	if v.weak == nil {
		t, _ := numberType(v.dtype)
		strong, err := ndview.NewScalar(t, v.literal)
		if err != nil {
			return strong, fmt.Errorf("%s: %w", v.label, err)
		}
		from = strong
	}
	s, err := ndview.NewScalar(compute, from)
	if err != nil {
		return s, fmt.Errorf("%s: %w", v.label, err)
	}
	return s, nil
}

// divideIntegers returns truncated quotients. A kernel for them would save two passes,
// but the quotient of integers is rare.
func (w *workspace) divideIntegers(x, y any, compute ndview.DType, n int64, valid bits) (*ndview.NDBuffer, error) {
	if err := w.checkDivisor(y, n, valid); err != nil {
		return nil, err
	}
	if compute.Kind() == ndview.KindUint {
		return w.ownArray(ndview.FloorDivide.Of(x, y))
	}
	out, err := w.ownArray(ndview.Fmod.Of(x, y)) // has the sign of x
	if err != nil {
		return nil, err
	}
	if err := ndview.Subtract.Into(out, x, out); err != nil {
		return nil, err
	}
	if err := ndview.FloorDivide.Into(out, out, y); err != nil {
		return nil, err
	}
	return out, w.clearOverflow(out, x, y, compute)
}

// clearOverflow sets quotients to 0 that exceed their type: the smallest integer over -1.
func (w *workspace) clearOverflow(out *ndview.NDBuffer, x, y any, compute ndview.DType) error {
	isMinusOne, ok, err := w.equals(y, -1)
	if err != nil || !ok {
		return err
	}
	smallest := int64(-1) << (8*compute.Size() - 1)
	isSmallest, ok, err := w.equals(x, int(smallest))
	switch {
	case err != nil || !ok:
		return err
	case isMinusOne == nil:
		return w.fillZero(out, isSmallest)
	case isSmallest == nil:
		return w.fillZero(out, isMinusOne)
	}
	if err := ndview.BitwiseAnd.Into(isMinusOne, isMinusOne, isSmallest); err != nil {
		return err
	}
	return w.fillZero(out, isMinusOne)
}

// fillZero sets the elements of out to 0 where a mask is true; nil means everywhere.
func (w *workspace) fillZero(out, mask *ndview.NDBuffer) error {
	if mask == nil {
		return out.Zero()
	}
	return out.FillWhere(mask, 0)
}

// equals compares an operand with a number. For an array it returns bools; a scalar has
// none, and ok reports whether it is equal.
func (w *workspace) equals(x any, number int) (mask *ndview.NDBuffer, ok bool, err error) {
	if s, isScalar := x.(ndview.Scalar); isScalar {
		want, err := ndview.NewScalar(s.Natural(), number)
		return nil, s == want, err
	}
	mask, err = w.ownArray(ndview.Equal.Of(x, number))
	return mask, true, err
}

// checkDivisor returns ErrDivideByZero if a divisor is 0 where the quotient is valid.
func (w *workspace) checkDivisor(y any, n int64, valid bits) error {
	zero, ok, err := w.equals(y, 0)
	if err != nil || !ok || n == 0 {
		return err
	}
	if zero == nil && valid == nil {
		return ErrDivideByZero
	}
	if valid != nil {
		mask, err := w.unpackBits(bitmap{valid, 0, n}, false)
		if err != nil {
			return err
		}
		if zero != nil {
			err = ndview.BitwiseAnd.Into(mask, mask, zero)
		}
		if zero = mask; err != nil {
			return err
		}
	}
	found, err := w.anyTrue(zero)
	if err == nil && found {
		err = ErrDivideByZero
	}
	return err
}
