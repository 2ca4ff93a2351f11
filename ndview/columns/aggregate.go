package columns

import (
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/arrow/scalar"

	"github.com/quiver-gpu/quiver/ndview"
)

// AggregateOption is an option of [Sum], [Mean], [Min] and [Max].
type AggregateOption func(*aggregateOptions)

type aggregateOptions struct {
	minCount int64
	nullsWin bool
}

// MinCount makes a result null if fewer than n elements are not null. The default is 1.
func MinCount(n int64) AggregateOption {
	return func(o *aggregateOptions) { o.minCount = n }
}

// NullsWin makes a result null if an element is null. Otherwise nulls are skipped.
func NullsWin() AggregateOption {
	return func(o *aggregateOptions) { o.nullsWin = true }
}

// Sum returns the sum of a column, which is any operand of an [Expr]. Sums of signed
// integers are int64, of unsigned integers and bools uint64, and wrap around. Sums of
// floats are float64, with the accuracy of ndview.Sum. Sums of durations are durations.
// The result is null if all elements are null or none exists, see [MinCount].
// Other types return arrow.ErrNotImplemented, other errors are those of [Expr.Eval].
//
// The sum, and how many elements are not null, are copied to the host.
func Sum(x any, options ...AggregateOption) (scalar.Scalar, error) {
	return aggregate("Sum", x, options, func(w *workspace, v masked) (scalar.Scalar, error) {
		t, compute := sumType(v.dtype)
		if t == nil {
			return nil, v.unsupported()
		}
		return w.reduce(ndview.Sum, v, 0, t, compute)
	})
}

// Mean returns the mean of a column of numbers or bools as a float64. See [Sum].
func Mean(x any, options ...AggregateOption) (scalar.Scalar, error) {
	return aggregate("Mean", x, options, func(w *workspace, v masked) (scalar.Scalar, error) {
		if !isNumber(v.dtype) && v.dtype.ID() != arrow.BOOL {
			return nil, v.unsupported()
		}
		sum, err := w.reduce(ndview.Sum, v, 0, arrow.PrimitiveTypes.Float64, ndview.Float64)
		if err != nil {
			return nil, err
		}
		return scalar.NewFloat64Scalar(sum.(*scalar.Float64).Value / float64(v.count)), nil
	})
}

// Min returns the smallest element of a column of numbers, bools or times, in its type.
// NaNs are skipped, but the minimum of NaNs alone is NaN. The result is null if no
// element is valid, also with MinCount(0). See [Sum].
func Min(x any, options ...AggregateOption) (scalar.Scalar, error) {
	return extreme("Min", ndview.Min, x, options)
}

// Max is [Min] for the greatest element.
func Max(x any, options ...AggregateOption) (scalar.Scalar, error) {
	return extreme("Max", ndview.Max, x, options)
}

// CountMode says which elements [Count] counts.
type CountMode int

// The modes of Count.
const (
	CountValid CountMode = iota // elements that are not null
	CountNull                   // elements that are null
	CountAll                    // all elements
)

// Count returns the number of elements of a column, which is any operand of an [Expr]
// of a type that [IsValid] takes. The number is copied to the host.
func Count(x any, mode CountMode) (int64, error) {
	if mode < CountValid || mode > CountAll {
		return 0, fmt.Errorf("columns.Count: mode %d, want CountValid, CountNull or CountAll: %w", mode, arrow.ErrInvalid)
	}
	return evaluate(x, "Count", func(w *workspace, v value) (int64, error) {
		if v.isLiteral() || mode == CountAll {
			return columnLength([]value{v})
		}
		valid, err := w.validityOf(v)
		if err != nil {
			return 0, err
		}
		_, count, err := w.countBits(valid, v.n)
		if mode == CountNull {
			count = v.n - count
		}
		return count, err
	})
}

// masked is a column to reduce.
type masked struct {
	value
	numbers *ndview.NDBuffer
	mask    *ndview.NDBuffer // true for valid elements; nil if all are
	count   int64            // of valid elements
}

func (v masked) unsupported() error {
	return fmt.Errorf("operand is %s: %w", v.label, arrow.ErrNotImplemented)
}

func aggregate(name string, x any, options []AggregateOption, reduce func(w *workspace, v masked) (scalar.Scalar, error)) (scalar.Scalar, error) {
	o := aggregateOptions{minCount: 1}
	for _, set := range options {
		if set == nil {
			return nil, fmt.Errorf("columns.%s: option: %w", name, errNil)
		}
		set(&o)
	}
	return evaluate(x, name, func(w *workspace, v value) (scalar.Scalar, error) {
		m, err := w.maskedOf(v)
		if err != nil {
			return nil, err
		}
		result, err := reduce(w, m)
		if err == nil && (m.count < o.minCount || o.nullsWin && m.count < m.n) {
			result = scalar.MakeNullScalar(result.DataType())
		}
		return result, err
	})
}

// maskedOf returns a column of numbers, times or bools as numbers and a mask.
func (w *workspace) maskedOf(v value) (m masked, err error) {
	m = masked{value: v}
	if v.isLiteral() {
		return m, fmt.Errorf("operand is %s, want a column: %w", v.label, arrow.ErrInvalid)
	}
	as, ok := numberType(v.dtype)
	switch {
	case v.dtype.ID() == arrow.BOOL:
		as = ndview.Bool
	case !ok, arrow.IsDecimal(v.dtype.ID()): // arrow-go has no scalars of small decimals
		return m, m.unsupported()
	}
	if m.value, err = w.load(v, as); err != nil {
		return m, err
	}
	if m.numbers = m.elements; as == ndview.Bool {
		if m.numbers, err = w.unpackBits(bitmap{m.elements, 0, m.n}, false); err != nil {
			return m, err
		}
	}
	m.mask, m.count, err = w.countBits(m.valid, m.n)
	return m, err
}

// countBits returns the first n bits of a bitmap as bools, and how many are set. For nil
// these are nil and n.
func (w *workspace) countBits(b bits, n int64) (*ndview.NDBuffer, int64, error) {
	if b == nil {
		return nil, n, nil
	}
	bools, err := w.unpackBits(bitmap{b, 0, n}, false)
	if err != nil || n == 0 {
		return bools, 0, err
	}
	out, err := w.ownArray(ndview.CountNonzero.Of(bools, ndview.ReduceOptions{}))
	if err != nil {
		return nil, 0, err
	}
	count, err := out.Item()
	if err != nil {
		return nil, 0, err
	}
	return bools, count.Value().(int64), nil
}

// reduce reduces a column with another value in place of nulls, which does not change
// the result. compute is the type in which a sum is computed.
func (w *workspace) reduce(op ndview.Reduction, v masked, neutral any, t arrow.DataType, compute ndview.DType) (scalar.Scalar, error) {
	numbers := v.numbers
	var err error
	if v.mask != nil {
		s, err := ndview.NewScalar(numbers.DType(), neutral)
		if err != nil {
			return nil, err
		}
		if numbers, err = w.ownArray(ndview.Where(v.mask, numbers, s)); err != nil {
			return nil, err
		}
	}
	out, err := w.ownArray(op.Of(numbers, ndview.ReduceOptions{DType: compute}))
	if err != nil {
		return nil, err
	}
	raw := make([]byte, out.NBytes())
	if err := out.CopyToHost(raw); err != nil {
		return nil, err
	}
	return scalarOf(t, raw)
}

// scalarOf returns the bytes of an element as a scalar.
func scalarOf(t arrow.DataType, raw []byte) (scalar.Scalar, error) {
	data := array.NewData(t, 1, []*memory.Buffer{nil, memory.NewBufferBytes(raw)}, nil, 0, 0)
	defer data.Release()
	one := array.MakeFromData(data)
	defer one.Release()
	return scalar.GetScalar(one, 0)
}

// sumType returns the type of sums and the type in which they are computed, or nil.
func sumType(t arrow.DataType) (arrow.DataType, ndview.DType) {
	switch id := t.ID(); {
	case arrow.IsUnsignedInteger(id) || id == arrow.BOOL:
		return arrow.PrimitiveTypes.Uint64, ndview.Uint64
	case arrow.IsFloating(id):
		return arrow.PrimitiveTypes.Float64, ndview.Float64
	case arrow.IsInteger(id):
		return arrow.PrimitiveTypes.Int64, ndview.Int64
	case id == arrow.DURATION:
		return t, ndview.Int64
	}
	return nil, ndview.DType{}
}

func extreme(name string, op ndview.Reduction, x any, options []AggregateOption) (scalar.Scalar, error) {
	return aggregate(name, x, options, func(w *workspace, v masked) (scalar.Scalar, error) {
		if v.count == 0 {
			return scalar.MakeNullScalar(v.dtype), nil
		}
		neutral, err := neutralOf(v.numbers.DType(), op == ndview.Min)
		if err != nil {
			return nil, err
		}
		if arrow.IsFloating(v.dtype.ID()) { // NaNs count as nulls here
			numbers, err := w.ownArray(ndview.Equal.Of(v.numbers, v.numbers))
			if err == nil && v.mask != nil {
				err = ndview.BitwiseAnd.Into(numbers, numbers, v.mask)
			}
			if err != nil {
				return nil, err
			}
			v.mask = numbers
			found, err := w.anyTrue(numbers)
			if err == nil && !found {
				neutral, err = ndview.NewScalar(v.numbers.DType(), math.NaN())
			}
			if err != nil {
				return nil, err
			}
		}
		return w.reduce(op, v, neutral, v.dtype, ndview.DType{})
	})
}

// anyTrue reports whether a bool of an array is true, for which it copies a byte to the
// host.
func (w *workspace) anyTrue(bools *ndview.NDBuffer) (bool, error) {
	out, err := w.ownArray(ndview.AnyTrue.Of(bools, ndview.ReduceOptions{}))
	if err != nil {
		return false, err
	}
	var raw [1]byte
	err = out.CopyToHost(raw[:])
	return raw[0] != 0, err
}

// neutralOf returns the greatest value of a type, or the smallest.
func neutralOf(t ndview.DType, greatest bool) (ndview.Scalar, error) {
	sign := -1
	if greatest {
		sign = 1
	}
	bits := 8 * t.Size()
	switch {
	case t.Kind() == ndview.KindBool:
		return ndview.NewScalar(t, greatest)
	case t.Kind() == ndview.KindFloat:
		return ndview.NewScalar(t, math.Inf(sign))
	case t.Kind() == ndview.KindUint && greatest:
		return ndview.NewScalar(t, uint64(math.MaxUint64)>>(64-bits))
	case t.Kind() == ndview.KindUint:
		return ndview.NewScalar(t, 0)
	case greatest:
		return ndview.NewScalar(t, int64(math.MaxInt64)>>(64-bits))
	}
	return ndview.NewScalar(t, int64(math.MinInt64)>>(64-bits))
}
