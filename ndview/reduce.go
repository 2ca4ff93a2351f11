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
	case !MayShareMemory(out, a) && out.addressBits()%uint64(out.dtype.Size()) == 0:
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
	if r.kind != reduceProd || !isIntegerOrBool(a.dtype) || !want.IsFloat() && want.Kind() != KindComplex {
		return a, nil
	}
	defer a.Release()
	if want.Kind() == KindComplex {
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

type reduction int

const (
	reduceSum reduction = iota
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

func (r reduction) String() string {
	return [...]string{"sum", "prod", "mean", "min", "max", "argmin", "argmax", "any", "all", "count_nonzero"}[r]
}

// choosesType tells whether the caller may choose the type of the results.
func (r Reduction) choosesType() bool { return r.kind <= reduceMean }

// reduceOp is what a reduction is for one type of elements: kernels, their
// twins, and what to tell them.
type reduceOp struct {
	out           DType
	name          string // of kernels and loops: "sum_f32"
	finish        string // of the kernel that merges accumulators
	accumulator   int64  // bytes
	tell          reduce.Finish
	neutral       [2]uint64 // an element that changes no result
	needsElements bool
	numbered      bool // steps must be counted: in C order,
	inMemory      bool // or as they lie in memory
	plain         bool // kernels write results of out themselves
}

// resolve finds the operation for elements of a type, of which so many make a
// result. want is the type of the results, or the zero DType.
func (r Reduction) resolve(dtype, want DType, steps int64) (*reduceOp, error) {
	op := &reduceOp{tell: reduce.Finish{Total: steps}}
	ok := false
	switch r.kind {
	case reduceSum, reduceMean:
		ok = op.sum(r.kind == reduceMean, dtype, want, steps)
	case reduceProd:
		ok = op.product(dtype, want)
	case reduceMin, reduceMax:
		op.needsElements = true
		ok = op.greatest("max_", r.kind == reduceMin, dtype)
		op.out = dtype
		op.numbered = dtype.Kind() == KindComplex
		op.inMemory = op.numbered
	case reduceArgMin, reduceArgMax:
		op.needsElements, op.numbered = true, true
		ok = op.greatest("argmax_", r.kind == reduceArgMin, dtype)
		op.out = Int64
	case reduceAny:
		ok = op.count(reduce.Any, Bool, dtype)
	case reduceAll:
		ok = op.count(reduce.All, Bool, dtype)
	case reduceCount:
		ok = op.count(reduce.Itself, Int64, dtype)
	}
	switch {
	case !ok && want != DType{}:
		return nil, fmt.Errorf("%s of %s as %s: %w", r, dtype, want, ErrDType)
	case !ok:
		return nil, fmt.Errorf("%s of %s: %w", r, dtype, ErrDType)
	case want != DType{} && want != op.out:
		return nil, fmt.Errorf("%s of %s as %s, not %s: %w", r, dtype, want, op.out, ErrDType)
	}
	op.accumulator = max(op.accumulator, reduce.Reducers[op.name].Size)
	if op.finish == "" {
		op.finish = op.name
	}
	return op, nil
}

// letter is how kernels name a type of numbers: "f32".
func kernelTypeName(t DType) string {
	letters := map[Kind]string{KindBool: "u", KindInt: "i", KindUint: "u", KindFloat: "f", KindBFloat: "bf", KindComplex: "c",
		KindDatetime: "i", KindTimedelta: "i"}
	return fmt.Sprintf("%s%d", letters[t.Kind()], 8*t.Size())
}

// isCount tells whether elements add up as integers do.
func isIntegerOrBool(t DType) bool { return t.IsInteger() || t.Kind() == KindBool }

// widest is what integers add up to.
func widestInteger(t DType) DType {
	if t.Kind() == KindUint {
		return Uint64
	}
	return Int64
}

// sum sets the operation up for sums and means, and tells whether there is one.
func (op *reduceOp) sum(mean bool, dtype, want DType, steps int64) bool {
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
		return isIntegerOrBool(dtype) && !mean && op.count(reduce.Any, Bool, dtype)
	}
	if mean {
		op.tell.What = reduce.Mean
	}
	if dtype.Kind() == KindTimedelta {
		op.name, op.accumulator, op.plain = "sum_ticks", 16, true
		return op.out == dtype
	}
	to, ok := op.out.NumberCode()
	if !ok {
		return false
	}
	op.tell.To = int32(to)
	op.plain = op.out == natural
	op.name = "sum_" + kernelTypeName(dtype)
	switch {
	case isIntegerOrBool(dtype) && !isIntegerOrBool(op.out) && (dtype.Size() == 8 || dtype.Size() == 4 && (mean && steps > math.MaxInt32 || !mean)):
		op.name, op.finish, op.accumulator = "mean_"+kernelTypeName(dtype), "sum_f64", 16
		op.plain = op.out == Float64
		return true
	case isIntegerOrBool(dtype):
		op.finish, op.accumulator = "sum_"+kernelTypeName(widestInteger(dtype)), 8
		op.plain = op.plain && !mean
		if dtype == Uint64 {
			op.name = "sum_i64" // which wraps alike
		}
		return !mean || !isIntegerOrBool(op.out)
	case dtype.IsFloat():
		op.accumulator = 8
		op.finish = "sum_f32"
		if dtype == Float64 {
			op.accumulator, op.finish = 16, "sum_f64"
		}
		return op.out.IsFloat() || op.out.Kind() == KindComplex
	case dtype.Kind() == KindComplex:
		op.accumulator = 2 * dtype.Size()
		return op.out.Kind() == KindComplex
	}
	return false
}

func (op *reduceOp) product(dtype, want DType) bool {
	natural := dtype
	if isIntegerOrBool(dtype) {
		natural = widestInteger(dtype)
	}
	op.out = natural
	if want != (DType{}) {
		op.out = want
	}
	if op.out == Bool {
		return isIntegerOrBool(dtype) && op.count(reduce.All, Bool, dtype)
	}
	to, ok := op.out.NumberCode()
	if !ok {
		return false
	}
	op.tell.To = int32(to)
	op.name, op.plain, op.accumulator = "prod_"+kernelTypeName(dtype), op.out == natural, 8
	switch {
	case isIntegerOrBool(dtype):
		op.neutral[0] = 1
		op.finish = "prod_" + kernelTypeName(widestInteger(dtype))
		if dtype == Uint64 {
			op.name = "prod_i64"
		}
		return isIntegerOrBool(op.out)
	case dtype.IsFloat():
		op.neutral[0] = oneOf(dtype)
		op.finish = "prod_f64"
		return op.out.IsFloat() || op.out.Kind() == KindComplex
	case dtype.Kind() == KindComplex:
		op.neutral[0] = oneOf(dtype)
		op.finish, op.accumulator = "prod_c128", 16
		return op.out.Kind() == KindComplex
	}
	return false
}

// oneOf is the first 8 bytes of a 1.
func oneOf(dtype DType) uint64 {
	switch dtype {
	case Float16:
		return 0x3c00
	case BFloat16:
		return 0x3f80
	case Float32, Complex64:
		return uint64(math.Float32bits(1))
	default:
		return math.Float64bits(1)
	}
}

// greatest sets the operation up for maxima, or for minima, which are maxima of
// what is turned around.
func (op *reduceOp) greatest(prefix string, least bool, dtype DType) bool {
	const top = 1 << 63
	op.plain = true
	bits := 8 * dtype.Size()
	switch {
	case dtype.IsFloat() || dtype.Kind() == KindComplex:
		op.name = prefix + kernelTypeName(dtype)
		infinity := map[DType]uint64{Float16: 0xfc00, BFloat16: 0xff80, Float32: 0xff800000, Float64: 0xfff0000000000000,
			Complex64: 0xff800000ff800000, Complex128: 0xfff0000000000000}[dtype]
		if least {
			op.tell.Flip = top
			infinity &^= map[DType]uint64{Float16: 0x8000, BFloat16: 0x8000, Float32: 1 << 31, Float64: top,
				Complex64: 1<<63 | 1<<31, Complex128: top}[dtype]
		}
		op.neutral = [2]uint64{infinity, infinity}
	case isIntegerOrBool(dtype):
		op.name = fmt.Sprintf("%s%d", prefix, bits)
		if dtype.Kind() != KindInt {
			op.tell.Flip = 1 << (bits - 1)
		}
		if least {
			op.tell.Flip ^= 1<<bits - 1
		}
	case dtype.Kind() == KindDatetime || dtype.Kind() == KindTimedelta:
		// NaT is the least: one less, it is the greatest. Turned around it is that
		// already.
		op.name = prefix + "64"
		op.tell.Bias = math.MaxUint64
		if least {
			op.tell.Flip, op.tell.Bias = math.MaxUint64, 0
		}
	default:
		return false
	}
	if op.neutral == ([2]uint64{}) {
		op.neutral[0] = (1<<(bits-1) - op.tell.Bias) ^ op.tell.Flip
	}
	switch {
	case strings.HasPrefix(prefix, "arg"), dtype.Kind() == KindComplex: // a place, and what is there
		op.accumulator = 16
		if dtype == Complex128 {
			op.accumulator = 32
		}
	case bits < 32:
		op.accumulator = 4
	default:
		op.accumulator = dtype.Size()
	}
	return true
}

func (op *reduceOp) count(what int32, out, dtype DType) bool {
	op.out, op.plain = out, true
	op.name, op.finish, op.accumulator = fmt.Sprintf("count_%d", 8*dtype.Size()), "count", 8
	op.tell.What = what
	switch {
	case dtype.Kind() == KindBytes || dtype.Kind() == KindRecord:
		return false
	case dtype == Complex64:
		op.tell.Flip = 0x7fffffff7fffffff
	case dtype.IsFloat() || dtype == Complex128:
		op.tell.Flip = 1<<(min(8*dtype.Size(), 64)-1) - 1
	default:
		op.tell.Flip = math.MaxUint64
	}
	return true
}
