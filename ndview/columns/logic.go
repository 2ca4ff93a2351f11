package columns

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/ndview"
)

// And returns whether both bools are true, and null if one of them is null.
func And(x, y any) Expr {
	return logic("And", x, y, func(w *workspace, x, y truth) (t truth, err error) {
		if t.set, err = w.both(x.set, y.set); err == nil {
			t.valid, err = w.both(x.valid, y.valid)
		}
		return t, err
	})
}

// Or returns whether at least one of two bools is true, and null if one of them is null.
func Or(x, y any) Expr {
	return logic("Or", x, y, func(w *workspace, x, y truth) (t truth, err error) {
		if t.set, err = w.either(x.set, y.set); err == nil {
			t.valid, err = w.both(x.valid, y.valid)
		}
		return t, err
	})
}

// Xor returns whether exactly one of two bools is true, and null if one of them is null.
func Xor(x, y any) Expr {
	return logic("Xor", x, y, func(w *workspace, x, y truth) (t truth, err error) {
		if t.set, err = w.ownArray(ndview.BitwiseXor.Of(x.set, y.set)); err == nil {
			t.valid, err = w.both(x.valid, y.valid)
		}
		return t, err
	})
}

// AndKleene is [And] by Kleene's logic: false and null is false.
func AndKleene(x, y any) Expr {
	return logic("AndKleene", x, y, func(w *workspace, x, y truth) (t truth, err error) {
		if t.set, err = w.both(x.set, y.set); err != nil || x.valid == nil && y.valid == nil {
			return t, err
		}
		notX, err := w.inverted(x.set)
		if err != nil {
			return t, err
		}
		notY, err := w.inverted(y.set)
		if err != nil {
			return t, err
		}
		t.valid, err = w.kleeneValidity(x, y, notX, notY)
		return t, err
	})
}

// OrKleene is [Or] by Kleene's logic: true or null is true.
func OrKleene(x, y any) Expr {
	return logic("OrKleene", x, y, func(w *workspace, x, y truth) (t truth, err error) {
		if t.set, err = w.either(x.set, y.set); err != nil || x.valid == nil && y.valid == nil {
			return t, err
		}
		t.valid, err = w.kleeneValidity(x, y, x.set, y.set)
		return t, err
	})
}

// kleeneValidity returns where both operands are valid, or one is valid and decides.
func (w *workspace) kleeneValidity(x, y truth, xDecides, yDecides bits) (bits, error) {
	valid, err := w.both(x.valid, y.valid)
	if err != nil {
		return nil, err
	}
	byX, err := w.both(x.valid, xDecides)
	if err != nil {
		return nil, err
	}
	if valid, err = w.either(valid, byX); err != nil {
		return nil, err
	}
	byY, err := w.both(y.valid, yDecides)
	if err != nil {
		return nil, err
	}
	return w.either(valid, byY)
}

// Not returns the opposite of each bool.
func Not(x any) Expr {
	return call("Not", func(w *workspace, in []value) (value, error) {
		n, err := columnLength(in)
		if err != nil {
			return value{}, err
		}
		t, err := w.truthOf(in[0], n)
		if err != nil {
			return value{}, err
		}
		t.set, err = w.inverted(t.set)
		return t.value(n), err
	}, x)
}

// truth is bools as bitmaps. The bits in valid are those of elements that are not null;
// it is nil if none is.
type truth struct{ set, valid bits }

func (t truth) value(n int64) value {
	return value{dtype: arrow.FixedWidthTypes.Boolean, n: n, elements: t.set, valid: t.valid}
}

// logic returns the expression of a function of two columns of bools.
func logic(name string, x, y any, function func(w *workspace, x, y truth) (truth, error)) Expr {
	return call(name, func(w *workspace, in []value) (value, error) {
		n, err := columnLength(in)
		if err != nil {
			return value{}, err
		}
		a, err := w.truthOf(in[0], n)
		if err != nil {
			return value{}, err
		}
		b, err := w.truthOf(in[1], n)
		if err != nil {
			return value{}, err
		}
		out, err := function(w, a, b)
		return out.value(n), err
	}, x, y)
}

// truthOf returns an operand as n bools. It returns arrow.ErrNotImplemented for another
// type.
func (w *workspace) truthOf(v value, n int64) (t truth, err error) {
	weak, isBool := v.weak.(bool)
	if !isBool && (v.dtype == nil || v.dtype.ID() != arrow.BOOL) {
		return t, fmt.Errorf("operand is %s, want bool: %w", v.label, arrow.ErrNotImplemented)
	}
	if v.isLiteral() {
		if v.null {
			t.valid, err = w.constantBits(n, false)
		}
		if err == nil {
			t.set, err = w.constantBits(n, weak || v.weak == nil && v.literal[0] != 0)
		}
		return t, err
	}
	v, err = w.load(v, ndview.Bool)
	return truth{v.elements, v.valid}, err
}

// IsValid returns whether each element is not null. It takes every type but unions and
// run_end_encoded, whose nulls are in their children, and is never null itself.
func IsValid(x any) Expr {
	return call("IsValid", func(w *workspace, in []value) (value, error) { return w.isValid(in, true) }, x)
}

// IsNull is the opposite of [IsValid]. A NaN is not null.
func IsNull(x any) Expr {
	return call("IsNull", func(w *workspace, in []value) (value, error) { return w.isValid(in, false) }, x)
}

func (w *workspace) isValid(in []value, want bool) (value, error) {
	n, err := columnLength(in)
	if err != nil {
		return value{}, err
	}
	valid, err := w.validityOf(in[0])
	switch {
	case err != nil:
		return value{}, err
	case valid == nil:
		valid, err = w.constantBits(n, want)
	case !want:
		valid, err = w.inverted(valid)
	}
	return truth{set: valid}.value(n), err
}

// validityOf returns the validity of a column of any type, or nil if no element is null.
func (w *workspace) validityOf(v value) (bits, error) {
	switch storageOf(v.dtype).ID() {
	case arrow.NULL:
		return w.constantBits(v.n, false)
	case arrow.SPARSE_UNION, arrow.DENSE_UNION, arrow.RUN_END_ENCODED:
		return nil, fmt.Errorf("operand is %s: %w", v.label, arrow.ErrNotImplemented)
	}
	v, err := w.loadValidity(v)
	return v.valid, err
}

// FillNull returns x with y, a column or a literal, in place of nulls. Types are those of
// [Where].
func FillNull(x, y any) Expr {
	return call("FillNull", func(w *workspace, in []value) (value, error) {
		if in[0].isLiteral() {
			return value{}, fmt.Errorf("operand is %s, want a column: %w", in[0].label, arrow.ErrInvalid)
		}
		valid, err := w.validityOf(in[0])
		if err == nil && valid == nil {
			valid, err = w.constantBits(in[0].n, true)
		}
		if err != nil {
			return value{}, err
		}
		return w.choose(truth{set: valid}, in, in[0].n)
	}, x, y)
}

// Where returns the elements of x where a condition is true and those of y where it is
// false, as Arrow's function if_else. The result is null where the condition or the
// chosen element is null.
//
// Both columns have the same type: bool, or one with a fixed width of 1, 2, 4, 8 or 16
// bytes, such as numbers, times and decimals. Numbers of different types are converted
// to their common type, see [Add]. Other types return arrow.ErrNotImplemented.
func Where(condition, x, y any) Expr {
	return call("Where", func(w *workspace, in []value) (value, error) {
		n, err := columnLength(in)
		if err != nil {
			return value{}, err
		}
		c, err := w.truthOf(in[0], n)
		if err != nil {
			return value{}, err
		}
		return w.choose(c, in[1:], n)
	}, condition, x, y)
}

// choose returns the elements of the first of a pair of columns where the condition is
// true, and of the second elsewhere.
func (w *workspace) choose(c truth, pair []value, n int64) (value, error) {
	t, err := commonType(pair)
	if err != nil {
		return value{}, err
	}
	validity := make([]bits, 2)
	for i := range pair {
		if pair[i], err = w.loadValidity(pair[i]); err != nil {
			return value{}, err
		}
		if validity[i], err = w.validityOfAll(n, pair[i]); err != nil {
			return value{}, err
		}
	}
	out := value{dtype: t, n: n}
	if out.valid, err = w.chooseBits(c.set, validity[0], validity[1]); err != nil {
		return value{}, err
	}
	if out.valid, err = w.both(out.valid, c.valid); err != nil {
		return value{}, err
	}
	if storageOf(t).ID() == arrow.BOOL {
		a, err := w.truthOf(pair[0], n)
		if err != nil {
			return value{}, err
		}
		b, err := w.truthOf(pair[1], n)
		if err != nil {
			return value{}, err
		}
		out.elements, err = w.chooseBits(c.set, a.set, b.set)
		return out, err
	}
	mask, err := w.unpackBits(bitmap{c.set, 0, n}, false)
	if err != nil {
		return value{}, err
	}
	var elements [2]*ndview.NDBuffer
	for i, v := range pair {
		if elements[i], err = w.asType(v, t); err != nil {
			return value{}, err
		}
	}
	out.elements, err = w.ownArray(ndview.Where(mask, elements[0], elements[1]))
	return out, err
}

// chooseBits returns the bits of x where those of c are set, and of y elsewhere; nil has
// all bits set.
func (w *workspace) chooseBits(c, x, y bits) (bits, error) {
	if x == nil && y == nil {
		return nil, nil
	}
	fromX, err := w.both(c, x)
	if err != nil {
		return nil, err
	}
	notC, err := w.inverted(c)
	if err != nil {
		return nil, err
	}
	fromY, err := w.both(notC, y)
	if err != nil {
		return nil, err
	}
	return w.either(fromX, fromY)
}

// commonType returns the type of columns of which one is chosen.
func commonType(pair []value) (arrow.DataType, error) {
	if err := typeLiterals(pair); err != nil {
		return nil, err
	}
	x, y := pair[0], pair[1]
	_, ok := widthOf(x.dtype)
	switch {
	case isNumber(x.dtype) && isNumber(y.dtype):
		return commonNumber(x.dtype, y.dtype), nil
	case ok && arrow.TypeEqual(x.dtype, y.dtype):
		return x.dtype, nil
	}
	return nil, fmt.Errorf("operands are %s and %s: %w", x.label, y.label, arrow.ErrNotImplemented)
}

// asType returns the elements of a column, or the one of a literal, in a type to which
// commonType converts.
func (w *workspace) asType(v value, t arrow.DataType) (*ndview.NDBuffer, error) {
	as, ok := numberType(t)
	if !isNumber(t) || !ok || v.weak == nil && arrow.TypeEqual(v.dtype, t) {
		return w.fixed(v)
	}
	number, err := w.number(v, as, 1)
	if err != nil {
		return nil, err
	}
	width, _ := widthOf(t)
	if s, isScalar := number.(ndview.Scalar); isScalar {
		return w.ownArray(ndview.FromBytes(w.dev, dtypeOf(width), []byte(s.Raw()), 1))
	}
	return w.ownArray(number.(*ndview.NDBuffer).View(dtypeOf(width)))
}
