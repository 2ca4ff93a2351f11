package ndview

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu/reduce"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// Reduction makes one element of many. Results and their types are NumPy's:
//
//   - Sum and Prod of bools and signed integers are int64, of unsigned integers
//     uint64, and wrap around. Of floats and complex numbers they have the type of
//     the elements. Sum also adds timedeltas.
//   - Mean of bools and integers is float64. Otherwise it has the type of the
//     elements: floats, complex numbers or timedeltas, whose mean is truncated.
//   - Min and Max take any type but Bytes and records. A NaN or NaT among the
//     elements is the result. Of several complex NaNs, and of complex numbers that
//     differ only in the signs of zeros, the result is the first in memory order.
//     Of other zeros of both signs Max is +0 and Min is -0.
//   - ArgMin and ArgMax are the int64 index, in the reduced axes in C order, of the
//     first smallest or greatest element, or of the first NaN or NaT.
//   - AnyTrue and AllTrue are bool, CountNonzero is int64. Every element but zero is
//     true, also NaN and NaT.
//
// Sums and products of float16, bfloat16, float32 and complex64 are computed in
// float64 and rounded once. A sum of float64 or complex128 adds up to 8 neighbours
// with three roundings, adds these sums without loss, and rounds once. Its error is
// at most 4 Σ|x| * 2^-53 for up to 2^40 elements. The error of NumPy's pairwise sums
// grows with each doubling of the number of elements. Products of n float64 are
// rounded n times. The same array gives the same result each time on the same kind
// of device.
//
// Reductions of no elements are 0, 1, NaN for a mean, NaT for a mean of timedeltas,
// false for AnyTrue and true for AllTrue. Min, Max, ArgMin and ArgMax of no elements
// return an error wrapping ErrShape.
type Reduction struct{ kind reductionKind }

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

// ReduceOptions are the options of a reduction.
type ReduceOptions struct {
	// Axes are the axes to reduce; negative ones count from the last. Nil means
	// all. An empty slice means none: each element is reduced alone.
	Axes []int
	// KeepDims keeps the reduced axes, with an extent of 1.
	KeepDims bool
	// DType is the type of the results of Sum, Prod and Mean, which are computed in
	// at least that type. The zero DType means the type that Reduction documents.
	// Sums and products of integers may have any type; a product as a float costs a
	// copy. Those of floats, and all means, may be floats and complex numbers, those
	// of complex numbers complex numbers.
	DType DType
}

type reductionKind int

const (
	reduceSum reductionKind = iota
	reduceProd
	reduceMean
	reduceMin
	reduceMax
	reduceArgMin
	reduceArgMax
	reduceAny
	reduceAll
	reduceCount
)

// String returns NumPy's name of the reduction.
func (r Reduction) String() string {
	return [...]string{"sum", "prod", "mean", "min", "max", "argmin", "argmax", "any", "all", "count_nonzero"}[r.kind]
}

// goName returns the name of the reduction's variable, for errors.
func (r Reduction) goName() string {
	return [...]string{"Sum", "Prod", "Mean", "Min", "Max", "ArgMin", "ArgMax", "AnyTrue", "AllTrue", "CountNonzero"}[r.kind]
}

// Of returns a new array in C order on the device of a. Invalid or repeated axes return
// an error wrapping ErrShape, a type that has no such reduction one wrapping ErrDType.
// An array is copied if more than 16 of its axes are kept, or reduced, after adjacent
// ones were merged.
func (r Reduction) Of(a *NDBuffer, o ReduceOptions) (*NDBuffer, error) {
	return a.call(r.goName(), func() (*NDBuffer, error) { return r.of(a, o) })
}

func (r Reduction) of(a *NDBuffer, o ReduceOptions) (*NDBuffer, error) {
	a, err := r.operand(a, o.DType)
	if err != nil {
		return nil, err
	}
	defer a.Release()
	p, err := r.plan(a, o)
	if err != nil {
		return nil, err
	}
	out, err := Empty(a.Device(), p.op.out, p.axes.shape...)
	if err != nil {
		return nil, err
	}
	if err := p.run(out, a); err != nil {
		out.Release()
		return nil, err
	}
	return out, nil
}

// Into is [Reduction.Of] into an array of the result's shape and type on the device of
// a, with which it may share memory. Without a DType in the options, Sum, Prod and Mean
// compute the type of out.
func (r Reduction) Into(out, a *NDBuffer, o ReduceOptions) (err error) {
	defer nameError(r.goName(), &err)
	release, err := retainToWrite(out, a)
	if err != nil {
		return err
	}
	defer release()
	if o.DType == (DType{}) && r.kind <= reduceMean {
		o.DType = out.dtype
	}
	if a, err = r.operand(a, o.DType); err != nil {
		return err
	}
	defer a.Release()
	p, err := r.plan(a, o)
	switch {
	case err != nil:
		return err
	case out.dtype != p.op.out:
		return fmt.Errorf("%s of %s: got a result array of %s, want %s: %w", r, a.dtype, out.dtype, p.op.out, ErrDType)
	case !slices.Equal(out.shape, p.axes.shape):
		return fmt.Errorf("%s of %v over axes %v: got a result array of %v, want %v: %w", r, a.shape, o.Axes, out.shape, p.axes.shape, ErrShape)
	case out.Device() != a.Device():
		return fmt.Errorf("%s of an array on %s into one on %s: %w", r, a.Device(), out.Device(), arrowbuf.ErrDevice)
	case !MayShareMemory(out, a) && out.addressBits()%uint64(out.dtype.Size()) == 0:
		return p.run(out, a)
	}
	separate, err := Empty(a.Device(), out.dtype, out.shape...)
	if err != nil {
		return err
	}
	defer separate.Release()
	if err := p.run(separate, a); err != nil {
		return err
	}
	return copyLayout(out, separate)
}

// operand returns the array to reduce, which the caller must release. It is a itself,
// unless the result is a product of integers as a float or complex number. No kernel
// computes that, so the operand is then a copy in float64 or complex128.
func (r Reduction) operand(a *NDBuffer, want DType) (*NDBuffer, error) {
	if err := a.TryRetain(); err != nil {
		return nil, err
	}
	if r.kind != reduceProd || !isIntegerOrBool(a.dtype) || !want.IsFloat() && want.Kind() != KindComplex {
		return a, nil
	}
	defer a.Release()
	if want.Kind() == KindComplex {
		return a.asType(Complex128, OrderK, CastUnsafe)
	}
	return a.asType(Float64, OrderK, CastUnsafe)
}

// reductionPlan is a reduction resolved for the type, shape and strides of an array.
type reductionPlan struct {
	op   reduceOp
	axes reductionAxes
}

// plan resolves a reduction. It computes nothing.
func (r Reduction) plan(a *NDBuffer, o ReduceOptions) (p reductionPlan, err error) {
	isReduced := make([]bool, len(a.shape))
	if o.Axes == nil {
		for i := range isReduced {
			isReduced[i] = true
		}
	} else if isReduced, err = layout.MarkAxes(o.Axes, len(a.shape)); err != nil {
		return p, fmt.Errorf("%s: %w", r, err)
	}
	p.axes = splitAxes(a, isReduced, o.KeepDims)
	n := product(p.axes.reduced)
	if p.op, err = r.resolve(a.dtype, o.DType, n); err != nil {
		return p, err
	}
	if n == 0 && p.op.needsElements {
		return p, fmt.Errorf("%s of no elements, over axes %v of %v: %w", r, o.Axes, a.shape, ErrShape)
	}
	return p, nil
}

// reductionAxes are the axes of an array, split into kept and reduced ones.
type reductionAxes struct {
	isReduced []bool // per axis
	keepDims  bool
	shape     []int64 // of the result

	kept, keptStrides       []int64 // extents and strides of the kept axes
	keptOut                 []int   // the axis of the result that each is
	reduced, reducedStrides []int64 // extents and strides of the reduced axes
}

func splitAxes(a *NDBuffer, isReduced []bool, keepDims bool) reductionAxes {
	s := reductionAxes{isReduced: isReduced, keepDims: keepDims, shape: []int64{}}
	for i, d := range a.shape {
		if !isReduced[i] {
			s.kept, s.keptStrides = append(s.kept, d), append(s.keptStrides, a.strides[i])
			s.keptOut = append(s.keptOut, len(s.shape))
			s.shape = append(s.shape, d)
			continue
		}
		s.reduced, s.reducedStrides = append(s.reduced, d), append(s.reducedStrides, a.strides[i])
		if keepDims {
			s.shape = append(s.shape, 1)
		}
	}
	return s
}

// reduceOp is a reduction of one type of elements: its kernels and their parameters.
type reduceOp struct {
	out           DType         // of the results
	name          string        // of kernels and loops: "sum_f32"
	finish        string        // of the kernel that merges accumulators
	accumulator   int64         // bytes
	parameters    reduce.Finish // of the kernels
	neutral       [2]uint64     // an element that changes no result
	needsElements bool          // no elements are an error
	isOrdered     bool          // the result depends on the order of elements: C order,
	inMemoryOrder bool          // or memory order
	writesOut     bool          // kernels write results of type out themselves
}

// resolve returns the operation for n elements of a type per result. want is the type of
// the results, or the zero DType.
func (r Reduction) resolve(dtype, want DType, n int64) (op reduceOp, err error) {
	ok := false
	switch r.kind {
	case reduceSum, reduceMean:
		op, ok = sumOp(r.kind == reduceMean, dtype, want, n)
	case reduceProd:
		op, ok = productOp(dtype, want)
	case reduceMin, reduceMax:
		op, ok = maximumOp("max_", r.kind == reduceMin, dtype)
		op.out = dtype
		op.isOrdered = dtype.Kind() == KindComplex
		op.inMemoryOrder = op.isOrdered
	case reduceArgMin, reduceArgMax:
		op, ok = maximumOp("argmax_", r.kind == reduceArgMin, dtype)
		op.out, op.isOrdered = Int64, true
	case reduceAny:
		op, ok = countOp(reduce.Any, Bool, dtype)
	case reduceAll:
		op, ok = countOp(reduce.All, Bool, dtype)
	case reduceCount:
		op, ok = countOp(reduce.Value, Int64, dtype)
	}
	switch {
	case !ok && want != DType{}:
		return op, fmt.Errorf("%s of %s as %s: %w", r, dtype, want, ErrDType)
	case !ok:
		return op, fmt.Errorf("%s of %s: %w", r, dtype, ErrDType)
	case want != DType{} && want != op.out:
		return op, fmt.Errorf("%s of %s as %s: want %s: %w", r, dtype, want, op.out, ErrDType)
	}
	op.parameters.Total = n
	op.accumulator = max(op.accumulator, reduce.Reducers[op.name].Size)
	if op.finish == "" {
		op.finish = op.name
	}
	return op, nil
}

// kernelTypeName returns a type's name in the names of kernels: "f32".
func kernelTypeName(t DType) string {
	letters := map[Kind]string{KindBool: "u", KindInt: "i", KindUint: "u", KindFloat: "f", KindBFloat: "bf", KindComplex: "c",
		KindDatetime: "i", KindTimedelta: "i"}
	return fmt.Sprintf("%s%d", letters[t.Kind()], 8*t.Size())
}

// isIntegerOrBool reports whether sums of a type's elements are integers.
func isIntegerOrBool(t DType) bool { return t.IsInteger() || t.Kind() == KindBool }

// widestInteger returns the type of sums of integers or bools.
func widestInteger(t DType) DType {
	if t.Kind() == KindUint {
		return Uint64
	}
	return Int64
}

// sumOp returns the operation of a sum or mean of n elements per result. ok is false if
// there is no such reduction.
func sumOp(mean bool, dtype, want DType, n int64) (op reduceOp, ok bool) {
	natural := dtype
	if isIntegerOrBool(dtype) {
		natural = widestInteger(dtype)
		if mean {
			natural = Float64
		}
	}
	op.out = natural
	if want != (DType{}) {
		op.out = want
	}
	if op.out == Bool {
		if mean || !isIntegerOrBool(dtype) {
			return op, false
		}
		return countOp(reduce.Any, Bool, dtype)
	}
	if mean {
		op.parameters.What = reduce.Mean
	}
	if dtype.Kind() == KindTimedelta {
		op.name, op.accumulator, op.writesOut = "sum_ticks", 16, true
		return op, op.out == dtype
	}
	to, ok := op.out.NumberCode()
	if !ok {
		return op, false
	}
	op.parameters.To = int32(to)
	op.writesOut = op.out == natural
	op.name = "sum_" + kernelTypeName(dtype)
	switch {
	case isIntegerOrBool(dtype) && !isIntegerOrBool(op.out) && (dtype.Size() == 8 || dtype.Size() == 4 && (!mean || n > math.MaxInt32)):
		// The sum may exceed 64 bits.
		op.name, op.finish, op.accumulator = "mean_"+kernelTypeName(dtype), "sum_f64", 16
		op.writesOut = op.out == Float64
		return op, true
	case isIntegerOrBool(dtype):
		op.finish, op.accumulator = "sum_"+kernelTypeName(widestInteger(dtype)), 8
		op.writesOut = op.writesOut && !mean
		if dtype == Uint64 {
			op.name = "sum_i64" // which wraps around alike
		}
		return op, !mean || !isIntegerOrBool(op.out)
	case dtype.IsFloat():
		op.finish, op.accumulator = "sum_f32", 8
		if dtype == Float64 {
			op.finish, op.accumulator = "sum_f64", 16
		}
		return op, op.out.IsFloat() || op.out.Kind() == KindComplex
	case dtype.Kind() == KindComplex:
		op.accumulator = 2 * dtype.Size()
		return op, op.out.Kind() == KindComplex
	}
	return op, false
}

// productOp returns the operation of a product. ok is false if there is no such
// reduction.
func productOp(dtype, want DType) (op reduceOp, ok bool) {
	natural := dtype
	if isIntegerOrBool(dtype) {
		natural = widestInteger(dtype)
	}
	op.out = natural
	if want != (DType{}) {
		op.out = want
	}
	if op.out == Bool {
		if !isIntegerOrBool(dtype) {
			return op, false
		}
		return countOp(reduce.All, Bool, dtype)
	}
	to, ok := op.out.NumberCode()
	if !ok {
		return op, false
	}
	op.parameters.To = int32(to)
	op.name, op.writesOut, op.accumulator = "prod_"+kernelTypeName(dtype), op.out == natural, 8
	op.neutral[0] = bitsOfOne(dtype)
	switch {
	case isIntegerOrBool(dtype):
		op.finish = "prod_" + kernelTypeName(widestInteger(dtype))
		if dtype == Uint64 {
			op.name = "prod_i64"
		}
		return op, isIntegerOrBool(op.out)
	case dtype.IsFloat():
		op.finish = "prod_f64"
		return op, op.out.IsFloat() || op.out.Kind() == KindComplex
	case dtype.Kind() == KindComplex:
		op.finish, op.accumulator = "prod_c128", 16
		return op, op.out.Kind() == KindComplex
	}
	return op, false
}

// bitsOfOne returns the first 8 bytes of a 1.
func bitsOfOne(dtype DType) uint64 {
	switch {
	case isIntegerOrBool(dtype):
		return 1
	case dtype == Float16:
		return 0x3c00
	case dtype == BFloat16:
		return 0x3f80
	case dtype == Float32 || dtype == Complex64:
		return uint64(math.Float32bits(1))
	}
	return math.Float64bits(1)
}

// maximumOp returns the operation of a maximum, or of a minimum, which is the maximum of
// reversed keys. prefix is that of the kernels' names.
func maximumOp(prefix string, least bool, dtype DType) (op reduceOp, ok bool) {
	const top = 1 << 63
	op.writesOut, op.needsElements = true, true
	bits := 8 * dtype.Size()
	switch {
	case dtype.IsFloat() || dtype.Kind() == KindComplex:
		op.name = prefix + kernelTypeName(dtype)
		infinity := map[DType]uint64{Float16: 0xfc00, BFloat16: 0xff80, Float32: 0xff800000, Float64: 0xfff0000000000000,
			Complex64: 0xff800000ff800000, Complex128: 0xfff0000000000000}[dtype]
		if least {
			op.parameters.Flip = top
			infinity &^= map[DType]uint64{Float16: 0x8000, BFloat16: 0x8000, Float32: 1 << 31, Float64: top,
				Complex64: 1<<63 | 1<<31, Complex128: top}[dtype]
		}
		op.neutral = [2]uint64{infinity, infinity}
	case isIntegerOrBool(dtype):
		op.name = fmt.Sprintf("%s%d", prefix, bits)
		if dtype.Kind() != KindInt {
			op.parameters.Flip = 1 << (bits - 1)
		}
		if least {
			op.parameters.Flip ^= 1<<bits - 1
		}
	case dtype.Kind() == KindDatetime || dtype.Kind() == KindTimedelta:
		// NaT is the least int64. Less 1 it is the greatest, as it is when reversed.
		op.name = prefix + "64"
		op.parameters.Bias = math.MaxUint64
		if least {
			op.parameters.Flip, op.parameters.Bias = math.MaxUint64, 0
		}
	default:
		return op, false
	}
	if op.neutral == ([2]uint64{}) {
		op.neutral[0] = (1<<(bits-1) - op.parameters.Bias) ^ op.parameters.Flip
	}
	switch {
	case strings.HasPrefix(prefix, "arg"), dtype.Kind() == KindComplex: // an index and the element
		op.accumulator = 16
		if dtype == Complex128 {
			op.accumulator = 32
		}
	case bits < 32:
		op.accumulator = 4
	default:
		op.accumulator = dtype.Size()
	}
	return op, true
}

// countOp returns the operation that counts elements other than zero. what says what the
// kernels make of the count.
func countOp(what int32, out, dtype DType) (op reduceOp, ok bool) {
	op.out, op.writesOut = out, true
	op.name, op.finish, op.accumulator = fmt.Sprintf("count_%d", 8*dtype.Size()), "count", 8
	op.parameters.What = what
	switch {
	case dtype.Kind() == KindBytes || dtype.Kind() == KindRecord:
		return op, false
	case dtype == Complex64:
		op.parameters.Flip = 0x7fffffff7fffffff
	case dtype.IsFloat() || dtype == Complex128:
		op.parameters.Flip = 1<<(min(8*dtype.Size(), 64)-1) - 1
	default:
		op.parameters.Flip = math.MaxUint64
	}
	return op, true
}
