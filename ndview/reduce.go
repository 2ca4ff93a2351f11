package ndview

import (
	"fmt"
	"slices"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// Reduction makes one element of many. Results and their types are NumPy's:
//
//   - Sum and Prod of bools and signed integers are int64, of unsigned ones
//     uint64, and wrap; of floats and complex numbers they have the type of the
//     elements. Sum adds timedeltas too.
//   - Mean of bools and integers is float64, else it has the type of the elements:
//     floats, complex numbers, timedeltas, whose mean is cut off.
//   - Min and Max take any type but Bytes and records. A NaN or NaT among the
//     elements is the result; of several complex ones, and of complex numbers that
//     only signs of zeros set apart, it is the first, as the axes lie in memory. Of
//     other zeros of both signs it is the greater, +0, or the smaller, -0.
//   - ArgMin and ArgMax are where the first of the smallest or greatest is, or of
//     NaN or NaT, as int64: its index in the reduced axes in C order.
//   - AnyTrue and AllTrue are bool, CountNonzero is int64. All but zero is true:
//     NaN and NaT too.
//
// Sums and products of float16, bfloat16, float32 and complex64 are computed in
// float64 and rounded once. Those of float64 and complex128 are sums of up to 8
// neighbours, rounded three times, which are added without loss and rounded: the
// error is at most 4 Σ|x| * 2^-53, for up to 2^40 elements, where NumPy's pairwise
// sums allow more with each doubling of their number. Products of n float64 are
// rounded n times. The same array gives the same result again on the same kind
// of device.
//
// Reductions of no elements are 0, 1, NaN for a mean, NaT for one of timedeltas,
// false of AnyTrue and true of AllTrue; Min, Max, ArgMin and ArgMax have none, so
// they are ErrShape.
type Reduction struct{ kind reduction }

// The reductions.
var (
	Sum          = Reduction{reduceSum}
	Prod         = Reduction{reduceProd}
	Mean         = Reduction{reduceMean}
	Min          = Reduction{reduceMin}
	Max          = Reduction{reduceMax}
	ArgMin       = Reduction{reduceArgMin}
	ArgMax       = Reduction{reduceArgMax}
	AnyTrue      = Reduction{reduceAny}
	AllTrue      = Reduction{reduceAll}
	CountNonzero = Reduction{reduceCount}
)

// ReduceOptions are those of a reduction.
type ReduceOptions struct {
	// Axes are the axes to reduce; negative ones count from the last. Nil means
	// all, an empty slice none: then each element is reduced alone.
	Axes []int
	// KeepDims keeps the reduced axes, with an extent of 1.
	KeepDims bool
	// DType is the type of the results of Sum, Prod and Mean, and of what they
	// compute with at least; the zero DType means the one named there. Sums and
	// products of integers may have any type, a product as float at the cost of a
	// copy; those of floats, and all means, may be floats and complex numbers, those
	// of complex numbers complex numbers.
	DType DType
}

// String is NumPy's name of the reduction.
func (r Reduction) String() string { return r.kind.String() }

// Of reduces an array to a new one in C order, on the same device. Axes that
// are not there or named twice are ErrShape; a type that has no such reduction is
// ErrDType. An array of which more than 16 axes are kept or reduced and cannot be
// joined is copied.
func (r Reduction) Of(a *NDBuffer, o ReduceOptions) (*NDBuffer, error) {
	a, err := r.operand(a, o.DType)
	if err != nil {
		return nil, err
	}
	defer a.Release()
	w, err := r.plan(a, o)
	if err != nil {
		return nil, err
	}
	out, err := Empty(a.Device(), w.op.out, w.shape...)
	if err != nil {
		return nil, err
	}
	if err := w.run(out, a); err != nil {
		out.Release()
		return nil, err
	}
	return out, nil
}

// Into is Of into an array of the shape and type of the result, on the device of
// a, which may share memory with a. Where no DType is asked for, Sum, Prod and
// Mean compute for that of out.
func (r Reduction) Into(out, a *NDBuffer, o ReduceOptions) error {
	release, err := holdToWrite(out, a)
	if err != nil {
		return err
	}
	defer release()
	if o.DType == (DType{}) && r.choosesType() {
		o.DType = out.dtype
	}
	if a, err = r.operand(a, o.DType); err != nil {
		return err
	}
	defer a.Release()
	w, err := r.plan(a, o)
	switch {
	case err != nil:
		return err
	case out.dtype != w.op.out:
		return fmt.Errorf("%s of %s into %s, not %s: %w", r, a.dtype, out.dtype, w.op.out, ErrDType)
	case !slices.Equal(out.shape, w.shape):
		return fmt.Errorf("%s of %v over axes %v into %v, not %v: %w", r, a.shape, o.Axes, out.shape, w.shape, ErrShape)
	case out.Device() != a.Device():
		return fmt.Errorf("%s of an array on %s into one on %s: %w", r, a.Device(), out.Device(), arrowbuf.ErrDevice)
	case !MayShareMemory(out, a) && out.places()%uint64(out.dtype.Size()) == 0:
		return w.run(out, a)
	}
	apart, err := Empty(a.Device(), out.dtype, out.shape...)
	if err != nil {
		return err
	}
	defer apart.Release()
	if err := w.run(apart, a); err != nil {
		return err
	}
	return copyLayout(out, apart)
}

// operand is the array that is reduced, with a reference for the caller: a itself,
// or where a product of integers is to be a float or a complex number, which no
// kernel makes of them, a copy in float64 or complex128.
func (r Reduction) operand(a *NDBuffer, want DType) (*NDBuffer, error) {
	if err := a.hold(); err != nil {
		return nil, err
	}
	if r.kind != reduceProd || !a.dtype.isCount() || !want.isFloat() && want.kind != KindComplex {
		return a, nil
	}
	defer a.Release()
	if want.kind == KindComplex {
		return a.AsType(Complex128, OrderK, CastUnsafe)
	}
	return a.AsType(Float64, OrderK, CastUnsafe)
}

// reducing is a reduction of arrays of one type and layout.
type reducing struct {
	op             *reduceOp
	by             Reduction
	want           DType   // of the results, if the caller says so
	shape          []int64 // of the results
	kept, keptIn   []int64 // extents and strides of the kept axes
	keptAt         []int   // where they are in the results
	reduced        []bool  // which axes are
	steps, stepsIn []int64 // extents and strides of the reduced ones
}

func (r Reduction) plan(a *NDBuffer, o ReduceOptions) (*reducing, error) {
	w := &reducing{by: r, want: o.DType, shape: []int64{}}
	reduced := make([]bool, len(a.shape))
	for i := range reduced {
		reduced[i] = o.Axes == nil
	}
	if o.Axes != nil {
		var err error
		if reduced, err = layout.Axes(o.Axes, len(a.shape)); err != nil {
			return nil, fmt.Errorf("%s: %w", r, err)
		}
	}
	for i, d := range a.shape {
		if !reduced[i] {
			w.kept, w.keptIn = append(w.kept, d), append(w.keptIn, a.strides[i])
			w.keptAt = append(w.keptAt, len(w.shape))
			w.shape = append(w.shape, d)
			continue
		}
		w.steps, w.stepsIn = append(w.steps, d), append(w.stepsIn, a.strides[i])
		if o.KeepDims {
			w.shape = append(w.shape, 1)
		}
	}
	w.reduced = reduced
	var err error
	if w.op, err = r.resolve(a.dtype, o.DType, product(w.steps)); err != nil {
		return nil, err
	}
	if product(w.steps) == 0 && w.op.needsElements {
		return nil, fmt.Errorf("%s of no elements, over axes %v of %v: %w", r, o.Axes, a.shape, ErrShape)
	}
	return w, nil
}
