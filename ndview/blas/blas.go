package blas

import (
	"errors"
	"fmt"
	"slices"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// Trans says how an operation reads an operand.
type Trans byte

const (
	// NoTrans reads the operand as it is.
	NoTrans Trans = iota
	// Transpose swaps the last two axes.
	Transpose
	// ConjTranspose swaps the last two axes and conjugates complex numbers. It
	// conjugates a vector.
	ConjTranspose
)

// String returns "NoTrans", "Transpose" or "ConjTranspose".
func (t Trans) String() string {
	if int(t) < len(transNames) {
		return transNames[t]
	}
	return fmt.Sprintf("Trans(%d)", byte(t))
}

var transNames = [...]string{"NoTrans", "Transpose", "ConjTranspose"}

// Options are the options of all operations. The zero value multiplies the operands as
// they are.
type Options struct {
	// Alpha is the factor of the product, a number that [ndview.ScalarOf] accepts. nil
	// means 1. If it is 0, the operands are not read.
	Alpha any
	// Beta is the factor of C, or of the array that an Into function writes. nil means 0,
	// for Ger 1. If it is 0, C is not read, so a NaN in it does not spread.
	Beta any
	// C is added to the product, Beta times. It has the dtype and the shape of the
	// result, and is not changed. Into functions add the array that they write instead.
	C *ndview.NDBuffer
	// TransA and TransB say how the operands are read, the first and the second.
	TransA, TransB Trans
	// TF32 allows a GPU to round the operands of float32 and complex64 to 10 bits of
	// mantissa. Other dtypes and devices ignore it.
	TF32 bool
	// Stream runs the product on a GPU; nil means the device's default stream. While it
	// captures a graph, operands and results must have a layout that needs no copy.
	Stream *cudabuf.Stream
}

// ErrOption means that an option does not apply to an operation.
var ErrOption = errors.New("option does not apply")

// errCapture is the error of a copy while a graph is captured. Copies run on the default
// stream, so they would not be part of the graph.
var errCapture = fmt.Errorf("a captured graph does not repeat copies: %w", errors.ErrUnsupported)

// Gemm returns alpha op(A) op(B) + beta C. The last two axes of a and b are the rows and
// the columns of matrices, the axes before them broadcast. All arrays have one dtype and
// device. The result is in C order; the caller owns its one reference.
//
// The dtypes are float16, bfloat16, float32, float64, complex64, complex128, the integers
// and bool. Halves accumulate in float32 and have an alpha and beta of float32. Integers
// wrap around; a bool is the or of ands. The same product on the same GPU with the same
// cuBLAS has the same bits each time.
//
// It returns ndview.ErrShape or ndview.ErrDType for arrays that do not fit each other,
// and an error wrapping [ErrNotFound] on a GPU without cuBLAS.
func Gemm(a, b *ndview.NDBuffer, o Options) (_ *ndview.NDBuffer, err error) {
	defer nameError("Gemm", &err)
	return multiply(gemmShapes, a, b, o)
}

// GemmInto writes alpha op(A) op(B) + beta C to c, see [Gemm]. c may have any strides, and
// may overlap a and b.
func GemmInto(c, a, b *ndview.NDBuffer, o Options) (err error) {
	defer nameError("GemmInto", &err)
	return multiplyInto(gemmShapes, c, a, b, o)
}

// Gemv returns alpha op(A) x + beta y for a matrix a of two axes and a vector x, where
// y is Options.C. TransB must be NoTrans. Otherwise it is [Gemm].
func Gemv(a, x *ndview.NDBuffer, o Options) (_ *ndview.NDBuffer, err error) {
	defer nameError("Gemv", &err)
	return multiply(gemvShapes, a, x, o)
}

// GemvInto writes alpha op(A) x + beta y to y, see [Gemv].
func GemvInto(y, a, x *ndview.NDBuffer, o Options) (err error) {
	defer nameError("GemvInto", &err)
	return multiplyInto(gemvShapes, y, a, x, o)
}

// Ger returns alpha x y' + beta C for two vectors, a matrix with a row per element of x,
// where beta is 1 unless Options.Beta is set. TransB ConjTranspose conjugates y. TransA
// must be NoTrans. Otherwise it is [Gemm].
func Ger(x, y *ndview.NDBuffer, o Options) (_ *ndview.NDBuffer, err error) {
	defer nameError("Ger", &err)
	return multiply(gerShapes, x, y, o)
}

// GerInto adds alpha x y' to beta a, see [Ger].
func GerInto(a, x, y *ndview.NDBuffer, o Options) (err error) {
	defer nameError("GerInto", &err)
	return multiplyInto(gerShapes, a, x, y, o)
}

// Dot returns alpha times the sum of the products of two vectors plus beta C, an array
// without axes. TransA ConjTranspose conjugates x, as NumPy's vdot. TransB must be NoTrans.
// Otherwise it is [Gemm].
func Dot(x, y *ndview.NDBuffer, o Options) (_ *ndview.NDBuffer, err error) {
	defer nameError("Dot", &err)
	return multiply(dotShapes, x, y, o)
}

// DotInto writes the result of [Dot] to z, an array without axes.
func DotInto(z, x, y *ndview.NDBuffer, o Options) (err error) {
	defer nameError("DotInto", &err)
	return multiplyInto(dotShapes, z, x, y, o)
}

// shapes checks the operands and options of an operation. It returns the operands and
// the result as matrices, without the result's memory.
type shapes func(a, b *ndview.NDBuffer, o *Options) (*problem, error)

// problem is an operation as a product of stacks of matrices.
type problem struct {
	dtype  ndview.DType
	number *number
	a, b   matrices
	shape  []int64 // of the result as matrices: leading axes, rows, columns
	o      *Options
	outer  bool // of two vectors

	dropRow, dropColumn bool    // of the result, because an operand is a vector
	result              []int64 // the shape without them
}

func gemmShapes(a, b *ndview.NDBuffer, o *Options) (*problem, error) {
	if a.NDim() < 2 || b.NDim() < 2 {
		return nil, fmt.Errorf("got arrays of %d and %d axes, want at least 2: %w", a.NDim(), b.NDim(), ndview.ErrShape)
	}
	p, err := newProblem(a, b, o)
	if err != nil {
		return nil, err
	}
	p.a, p.b = matricesOf(a, o.TransA), matricesOf(b, o.TransB)
	return p, p.broadcast()
}

func gemvShapes(a, x *ndview.NDBuffer, o *Options) (*problem, error) {
	if a.NDim() != 2 || x.NDim() != 1 {
		return nil, fmt.Errorf("got arrays of %d and %d axes, want a matrix of 2 and a vector of 1: %w", a.NDim(), x.NDim(), ndview.ErrShape)
	}
	if err := mustNotTranspose("TransB", o.TransB); err != nil {
		return nil, err
	}
	p, err := newProblem(a, x, o)
	if err != nil {
		return nil, err
	}
	p.a, p.b, p.dropColumn = matricesOf(a, o.TransA), column(x), true
	return p, p.broadcast()
}

func gerShapes(x, y *ndview.NDBuffer, o *Options) (*problem, error) {
	if err := mustBeVectors(x, y); err != nil {
		return nil, err
	}
	if err := mustNotTranspose("TransA", o.TransA); err != nil {
		return nil, err
	}
	if o.Beta == nil && o.C != nil {
		o.Beta = 1
	}
	p, err := newProblem(x, y, o)
	if err != nil {
		return nil, err
	}
	p.a, p.b, p.outer = column(x), row(y), true
	p.b.conj = o.TransB == ConjTranspose
	return p, p.broadcast()
}

func dotShapes(x, y *ndview.NDBuffer, o *Options) (*problem, error) {
	if err := mustBeVectors(x, y); err != nil {
		return nil, err
	}
	if err := mustNotTranspose("TransB", o.TransB); err != nil {
		return nil, err
	}
	p, err := newProblem(x, y, o)
	if err != nil {
		return nil, err
	}
	p.a, p.b, p.dropRow, p.dropColumn = row(x), column(y), true, true
	p.a.conj = o.TransA == ConjTranspose
	return p, p.broadcast()
}

func mustBeVectors(x, y *ndview.NDBuffer) error {
	if x.NDim() != 1 || y.NDim() != 1 {
		return fmt.Errorf("got arrays of %d and %d axes, want vectors of 1: %w", x.NDim(), y.NDim(), ndview.ErrShape)
	}
	return nil
}

func mustNotTranspose(name string, t Trans) error {
	if t != NoTrans {
		return fmt.Errorf("%s: got %v, want NoTrans: %w", name, t, ErrOption)
	}
	return nil
}

// newProblem checks what all operations have in common.
func newProblem(a, b *ndview.NDBuffer, o *Options) (*problem, error) {
	t := a.DType()
	if b.DType() != t {
		return nil, fmt.Errorf("operands of different dtypes: got %s and %s: %w", t, b.DType(), ndview.ErrDType)
	}
	n, ok := numbers[t]
	if !ok {
		return nil, fmt.Errorf("dtype %s: want a number or bool: %w", t, ndview.ErrDType)
	}
	if a.Device() != b.Device() {
		return nil, fmt.Errorf("operands on different devices: got %v and %v: %w", a.Device(), b.Device(), arrowbuf.ErrDevice)
	}
	if o.TransA > ConjTranspose || o.TransB > ConjTranspose {
		return nil, fmt.Errorf("got TransA %v and TransB %v, want NoTrans, Transpose or ConjTranspose: %w", o.TransA, o.TransB, ErrOption)
	}
	return &problem{dtype: t, number: n, o: o}, nil
}

// broadcast sets the shapes of the result.
func (p *problem) broadcast() error {
	la, lb := p.a.leading(), p.b.leading()
	if k, l := p.a.cols(), p.b.rows(); k != l {
		return fmt.Errorf("matrices of %d x %d and %d x %d: the inner sizes differ: %w", p.a.rows(), k, l, p.b.cols(), ndview.ErrShape)
	}
	n := max(len(la), len(lb))
	p.shape = make([]int64, n, n+2)
	for i := range n {
		da, db := int64(1), int64(1)
		if at := i - n + len(la); at >= 0 {
			da = la[at]
		}
		if at := i - n + len(lb); at >= 0 {
			db = lb[at]
		}
		switch {
		case da == db || db == 1:
			p.shape[i] = da
		case da == 1:
			p.shape[i] = db
		default:
			return fmt.Errorf("leading axes %v and %v do not broadcast: %w", la, lb, ndview.ErrShape)
		}
	}
	p.shape = append(p.shape, p.a.rows(), p.b.cols())
	p.result = slices.Clone(p.shape)
	if p.dropColumn {
		p.result = p.result[:n+1]
	}
	if p.dropRow {
		p.result = slices.Delete(p.result, n, n+1)
	}
	return nil
}

// multiply runs an operation whose result is a new array.
func multiply(check shapes, a, b *ndview.NDBuffer, o Options) (*ndview.NDBuffer, error) {
	release, err := retain(a, b)
	if err != nil {
		return nil, err
	}
	defer release()
	if o.C != nil {
		if err := o.C.TryRetain(); err != nil {
			return nil, fmt.Errorf("C: %w", err)
		}
		defer o.C.Release()
	}
	p, err := check(a, b, &o)
	if err != nil {
		return nil, err
	}
	beta, err := p.beta()
	if err != nil {
		return nil, err
	}
	if o.C == nil && !beta.zero {
		return nil, fmt.Errorf("Beta %v without C: %w", o.Beta, ErrOption)
	}
	if o.C != nil {
		if err := p.checkResult("C", o.C, a.Device()); err != nil {
			return nil, err
		}
	}
	out, err := ndview.Empty(a.Device(), p.dtype, p.result...)
	if err != nil {
		return nil, err
	}
	if !beta.zero {
		if err = p.mayCopy("C"); err == nil {
			err = out.CopyFrom(o.C)
		}
	}
	if err == nil && p.isOuter(beta) {
		err = p.writeOuter(out)
	} else if err == nil {
		err = p.run(out, beta)
	}
	if err != nil {
		out.Release()
		return nil, err
	}
	if s := ndview.ScopeOf(a, b, o.C); s != nil {
		return s.Add(out, nil)
	}
	return out, nil
}

// multiplyInto runs an operation that writes to an array.
func multiplyInto(check shapes, out, a, b *ndview.NDBuffer, o Options) error {
	release, err := retain(out, a, b)
	if err != nil {
		return err
	}
	defer release()
	if o.C != nil {
		return fmt.Errorf("C is set: want nil, since the written array is added: %w", ErrOption)
	}
	o.C = out // Ger's beta is 1
	p, err := check(a, b, &o)
	if err != nil {
		return err
	}
	if err := p.checkResult("the result", out, a.Device()); err != nil {
		return err
	}
	if !out.Flags().Writeable {
		return fmt.Errorf("the result: %w", ndview.ErrReadOnly)
	}
	beta, err := p.beta()
	if err != nil {
		return err
	}
	if p.isOuter(beta) {
		return p.writeOuter(out)
	}
	if p.usable(out) && !overlap(out, a) && !overlap(out, b) {
		return p.run(out, beta)
	}
	if err := p.mayCopy("the result"); err != nil {
		return err
	}
	dense, err := ndview.Empty(out.Device(), p.dtype, p.result...)
	if err != nil {
		return err
	}
	defer dense.Release()
	if !beta.zero {
		if err := dense.CopyFrom(out); err != nil {
			return err
		}
	}
	if err := p.run(dense, beta); err != nil {
		return err
	}
	return out.CopyFrom(dense)
}

// isOuter reports whether the result is a product of two vectors, and nothing else. An
// elementwise product then moves less memory than a product of matrices.
func (p *problem) isOuter(beta scalar) bool {
	return p.outer && beta.zero && p.o.Alpha == nil && p.o.Stream == nil
}

// writeOuter writes the elementwise product of a column and a row.
func (p *problem) writeOuter(out *ndview.NDBuffer) error {
	x, err := ndview.FromBuffer(p.a.buf, p.dtype, p.a.offset, p.a.shape, p.a.strides)
	if err != nil {
		return err
	}
	defer x.Release()
	y, err := ndview.FromBuffer(p.b.buf, p.dtype, p.b.offset, p.b.shape, p.b.strides)
	if err != nil {
		return err
	}
	defer y.Release()
	if p.b.conj && p.number.complex {
		conjugated, err := ndview.Conjugate.Of(y)
		if err != nil {
			return err
		}
		defer conjugated.Release()
		return ndview.Multiply.Into(out, x, conjugated)
	}
	return ndview.Multiply.Into(out, x, y)
}

// overlap reports whether two arrays may have memory in common. Most arrays have buffers
// that do not, which is found fast.
func overlap(a, b *ndview.NDBuffer) bool {
	x, y := a.Buffer(), b.Buffer()
	if uint64(x.Address())+uint64(x.Len()) <= uint64(y.Address()) || uint64(y.Address())+uint64(y.Len()) <= uint64(x.Address()) {
		return false
	}
	return ndview.MayShareMemory(a, b)
}

// checkResult returns an error unless an array has the dtype, shape and device of the
// result.
func (p *problem) checkResult(what string, c *ndview.NDBuffer, dev arrowbuf.Device) error {
	switch {
	case c.DType() != p.dtype:
		return fmt.Errorf("%s has dtype %s, want %s: %w", what, c.DType(), p.dtype, ndview.ErrDType)
	case !slices.Equal(c.Shape(), p.result):
		return fmt.Errorf("%s has shape %v, want %v: %w", what, c.Shape(), p.result, ndview.ErrShape)
	case c.Device() != dev:
		return fmt.Errorf("%s is on %v, the operands on %v: %w", what, c.Device(), dev, arrowbuf.ErrDevice)
	}
	return nil
}

// mayCopy returns an error while a graph is captured.
func (p *problem) mayCopy(what string) error {
	if p.o.Stream.Capturing() {
		return fmt.Errorf("%s must be copied: %w", what, errCapture)
	}
	return nil
}

// retain retains the arrays until release is called.
func retain(arrays ...*ndview.NDBuffer) (release func(), err error) {
	for i, a := range arrays {
		if a == nil {
			err = fmt.Errorf("array %d: %w", i+1, ndview.ErrNil)
		} else {
			err = a.TryRetain()
		}
		if err != nil {
			for _, a := range arrays[:i] {
				a.Release()
			}
			return nil, err
		}
	}
	return func() {
		for _, a := range arrays {
			a.Release()
		}
	}, nil
}

// nameError adds the name of the function to the error that it returns.
func nameError(name string, err *error) {
	if *err != nil {
		*err = fmt.Errorf("blas.%s: %w", name, *err)
	}
}
