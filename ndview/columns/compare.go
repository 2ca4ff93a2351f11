package columns

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/ndview"
)

// Equal returns a bool column: whether the elements of two columns are equal. A NaN
// equals nothing.
//
// Numbers of any types compare; integers compare exactly, also int64 with uint64, and
// an integer with a float as floats of the common type of [Add]. Bools compare, and
// dates with dates of the same type, and times of day, timestamps or durations of any
// units. Decimals of up to 128 bits compare with decimals of the same type. Either both
// timestamps have a time zone or none has. Other types return arrow.ErrNotImplemented.
func Equal(x, y any) Expr { return comparison("Equal", ndview.Equal, x, y) }

// NotEqual is [Equal] for x != y. A NaN differs from everything.
func NotEqual(x, y any) Expr { return comparison("NotEqual", ndview.NotEqual, x, y) }

// Less is [Equal] for x < y.
func Less(x, y any) Expr { return comparison("Less", ndview.Less, x, y) }

// LessEqual is [Equal] for x <= y.
func LessEqual(x, y any) Expr { return comparison("LessEqual", ndview.LessEqual, x, y) }

// Greater is [Equal] for x > y.
func Greater(x, y any) Expr { return comparison("Greater", ndview.Greater, x, y) }

// GreaterEqual is [Equal] for x >= y.
func GreaterEqual(x, y any) Expr { return comparison("GreaterEqual", ndview.GreaterEqual, x, y) }

func comparison(name string, op ndview.Binary, x, y any) Expr {
	return call(name, func(w *workspace, in []value) (value, error) {
		n, err := columnLength(in)
		if err != nil {
			return value{}, err
		}
		if err := typeLiterals(in); err != nil {
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
		bools, err := w.compare(op, in[0], in[1])
		if err != nil {
			return value{}, err
		}
		out, err := w.packBools(bools)
		return value{dtype: arrow.FixedWidthTypes.Boolean, n: n, elements: out, valid: valid}, err
	}, x, y)
}

// compare returns bools for all elements, also those that are null.
func (w *workspace) compare(op ndview.Binary, x, y value) (*ndview.NDBuffer, error) {
	unsupported := fmt.Errorf("operands are %s and %s: %w", x.label, y.label, arrow.ErrNotImplemented)
	if x.dtype == nil || y.dtype == nil {
		return nil, unsupported
	}
	xt, yt := timeOf(x.dtype), timeOf(y.dtype)
	switch {
	case isNumber(x.dtype) && isNumber(y.dtype):
		return w.compareNumbers(op, x, y)
	case x.dtype.ID() == arrow.BOOL && y.dtype.ID() == arrow.BOOL:
		a, err := w.bools(x)
		if err != nil {
			return nil, err
		}
		b, err := w.bools(y)
		if err != nil {
			return nil, err
		}
		return w.ownArray(op.Of(a, b))
	case xt.kind != 0 && xt.kind == yt.kind && (xt.kind != arrow.DATE32 || x.dtype.ID() == y.dtype.ID()):
		if err := xt.checkZone(yt); err != nil {
			return nil, err
		}
		unit := max(xt.unit, yt.unit)
		return w.compareIntegers(op, x, y, xt.factor(unit), yt.factor(unit))
	case arrow.TypeEqual(x.dtype, y.dtype) && (x.dtype.ID() == arrow.DECIMAL32 || x.dtype.ID() == arrow.DECIMAL64):
		return w.compareIntegers(op, x, y, 1, 1)
	case arrow.TypeEqual(x.dtype, y.dtype) && x.dtype.ID() == arrow.DECIMAL128:
		return w.compareWide(op, x, y)
	}
	return nil, unsupported
}

func (w *workspace) compareIntegers(op ndview.Binary, x, y value, xFactor, yFactor int64) (*ndview.NDBuffer, error) {
	a, err := w.number(x, ndview.Int64, xFactor)
	if err != nil {
		return nil, err
	}
	b, err := w.number(y, ndview.Int64, yFactor)
	if err != nil {
		return nil, err
	}
	return w.ownArray(op.Of(a, b))
}

// compareNumbers leaves integers in their types, which kernels compare exactly.
func (w *workspace) compareNumbers(op ndview.Binary, x, y value) (*ndview.NDBuffer, error) {
	common := commonNumber(x.dtype, y.dtype)
	var in [2]any
	for i, v := range []value{x, y} {
		as, _ := numberType(v.dtype)
		if arrow.IsFloating(common.ID()) {
			as, _ = numberType(common)
		}
		if v.weak != nil && as.IsInteger() {
			in[i] = v.weak // it may be beyond the type
			continue
		}
		var err error
		if in[i], err = w.number(v, as, 1); err != nil {
			return nil, err
		}
	}
	return w.ownArray(op.Of(in[0], in[1]))
}

// bools returns the elements of a column of bools as bytes, or the scalar of a literal.
func (w *workspace) bools(v value) (any, error) {
	if v.weak != nil {
		return v.weak, nil
	}
	if v.isLiteral() {
		return v.literal[0] != 0, nil
	}
	v, err := w.load(v, ndview.Bool)
	if err != nil {
		return nil, err
	}
	return w.unpackBits(bitmap{v.elements, 0, v.n}, false)
}

// compareWide compares integers of 128 bits by their halves: the low ones decide where
// the high ones are equal.
func (w *workspace) compareWide(op ndview.Binary, x, y value) (*ndview.NDBuffer, error) {
	var high, low [2]*ndview.NDBuffer
	for i, v := range []value{x, y} {
		elements, err := w.fixed(v)
		if err != nil {
			return nil, err
		}
		half := func(t ndview.DType, at int64) (*ndview.NDBuffer, error) {
			return w.ownArray(ndview.FromBuffer(elements.Buffer(), t, elements.Offset()+at, elements.Shape(), elements.Strides()))
		}
		if low[i], err = half(ndview.Uint64, 0); err != nil {
			return nil, err
		}
		if high[i], err = half(ndview.Int64, 8); err != nil {
			return nil, err
		}
	}
	same, err := w.ownArray(ndview.Equal.Of(high[0], high[1]))
	if err != nil {
		return nil, err
	}
	byLow, err := w.ownArray(op.Of(low[0], low[1]))
	if err != nil {
		return nil, err
	}
	byHigh, err := w.ownArray(op.Of(high[0], high[1]))
	if err != nil {
		return nil, err
	}
	return w.ownArray(ndview.Where(same, byLow, byHigh))
}

// fixed returns the elements of a column of a fixed width, or one element of a literal.
func (w *workspace) fixed(v value) (*ndview.NDBuffer, error) {
	width, ok := widthOf(v.dtype)
	if !ok {
		return nil, fmt.Errorf("%s: %w", v.label, arrow.ErrNotImplemented)
	}
	if v.isLiteral() {
		return w.ownArray(ndview.FromBytes(w.dev, dtypeOf(width), v.literal, 1))
	}
	v, err := w.load(v, dtypeOf(width))
	return v.elements, err
}
