package blas

import (
	"errors"
	"fmt"
	"math"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// Float8 is a format of floats of 8 bits (OCP's FP8). Arrays of them have the dtype uint8.
type Float8 byte

const (
	// E4M3 has 4 bits of exponent and 3 of mantissa, no infinities, and a maximum of 448.
	E4M3 Float8 = iota
	// E5M2 has 5 bits of exponent and 2 of mantissa, infinities, and a maximum of 57344.
	E5M2
)

// String returns "E4M3" or "E5M2".
func (f Float8) String() string {
	switch f {
	case E4M3:
		return "E4M3"
	case E5M2:
		return "E5M2"
	}
	return fmt.Sprintf("Float8(%d)", byte(f))
}

// Float32 returns the value of the bits of a format. It is exact.
func (f Float8) Float32(bits byte) float32 {
	exponentBits, mantissaBits, bias := 4, 3, 7
	if f == E5M2 {
		exponentBits, mantissaBits, bias = 5, 2, 15
	}
	exponent, mantissa := int(bits>>mantissaBits)&(1<<exponentBits-1), int(bits)&(1<<mantissaBits-1)
	var v float64
	switch last := 1<<exponentBits - 1; {
	case f == E4M3 && bits&0x7f == 0x7f, f == E5M2 && exponent == last && mantissa != 0:
		v = math.NaN()
	case f == E5M2 && exponent == last:
		v = math.Inf(1)
	case exponent == 0:
		v = math.Ldexp(float64(mantissa), 1-bias-mantissaBits)
	default:
		v = math.Ldexp(float64(mantissa+1<<mantissaBits), exponent-bias-mantissaBits)
	}
	if bits&0x80 != 0 {
		v = -v
	}
	return float32(v)
}

// Float8Options are the options of [MatMulFloat8].
type Float8Options struct {
	// A and B are the formats of the operands. At most one may be E5M2.
	A, B Float8
	// Scale is the factor of the product: that of A times that of B. 0 means 1.
	Scale float32
	// DType is the type of the result: float32, float16 or bfloat16. The zero DType
	// means float32.
	DType ndview.DType
	// Stream is that of [Options].
	Stream *cudabuf.Stream
}

// MatMulFloat8 returns the product of two matrices of 8-bit floats, which are arrays of
// uint8 of two axes. Sums are at least as precise as those of a GPU's tensor cores. The
// result is in C order; the caller owns its one reference.
//
// On a GPU it is computed by cublasLt, which needs compute capability 8.9 or newer;
// otherwise the error wraps errors.ErrUnsupported. Operands that cublasLt does not take
// are copied: b should be in Fortran order, a in C order, with sizes of multiples of 16.
func MatMulFloat8(a, b *ndview.NDBuffer, o Float8Options) (_ *ndview.NDBuffer, err error) {
	defer nameError("MatMulFloat8", &err)
	release, err := retain(a, b)
	if err != nil {
		return nil, err
	}
	defer release()
	if o.DType == (ndview.DType{}) {
		o.DType = ndview.Float32
	}
	if o.Scale == 0 {
		o.Scale = 1
	}
	if err := checkFloat8(a, b, &o); err != nil {
		return nil, err
	}
	var out *ndview.NDBuffer
	cuda, ok := arrowbuf.As[*cudabuf.Device](a.Device())
	if ok && !cuda.RunsHostKernels() {
		out, err = multiplyFloat8(cuda, a, b, &o)
	} else {
		out, err = multiplyDecoded(a, b, &o)
	}
	if err != nil {
		return nil, err
	}
	if s := ndview.ScopeOf(a, b); s != nil && out.Scope() == nil {
		return s.Add(out, nil)
	}
	return out, nil
}

func checkFloat8(a, b *ndview.NDBuffer, o *Float8Options) error {
	switch {
	case a.NDim() != 2 || b.NDim() != 2:
		return fmt.Errorf("got arrays of %d and %d axes, want 2: %w", a.NDim(), b.NDim(), ndview.ErrShape)
	case a.DType() != ndview.Uint8 || b.DType() != ndview.Uint8:
		return fmt.Errorf("got arrays of %s and %s, want the bits as uint8: %w", a.DType(), b.DType(), ndview.ErrDType)
	case a.Shape()[1] != b.Shape()[0]:
		return fmt.Errorf("matrices of %d x %d and %d x %d: the inner sizes differ: %w", a.Shape()[0], a.Shape()[1], b.Shape()[0], b.Shape()[1], ndview.ErrShape)
	case a.Device() != b.Device():
		return fmt.Errorf("operands on different devices: got %v and %v: %w", a.Device(), b.Device(), arrowbuf.ErrDevice)
	case o.A > E5M2 || o.B > E5M2 || o.A == E5M2 && o.B == E5M2:
		return fmt.Errorf("formats %v and %v: want E4M3, or E5M2 for one of them: %w", o.A, o.B, ErrOption)
	case o.DType != ndview.Float32 && o.DType != ndview.Float16 && o.DType != ndview.BFloat16:
		return fmt.Errorf("result of %s: want float32, float16 or bfloat16: %w", o.DType, ndview.ErrDType)
	case o.Stream.Capturing():
		return fmt.Errorf("operands are prepared: %w", errCapture)
	}
	return nil
}

// multiplyDecoded computes in float32, on the CPU and on a simulated device.
func multiplyDecoded(a, b *ndview.NDBuffer, o *Float8Options) (*ndview.NDBuffer, error) {
	left, err := decoded(a, o.A)
	if err != nil {
		return nil, err
	}
	defer left.Release()
	right, err := decoded(b, o.B)
	if err != nil {
		return nil, err
	}
	defer right.Release()
	product, err := multiply(gemmShapes, left, right, Options{Alpha: o.Scale, Stream: o.Stream})
	if err != nil || o.DType == ndview.Float32 {
		return product, err
	}
	defer product.Release()
	return product.AsType(o.DType, ndview.OrderC, ndview.CastUnsafe)
}

// decoded returns the values of 8-bit floats.
func decoded(a *ndview.NDBuffer, f Float8) (*ndview.NDBuffer, error) {
	var values [256]float32
	for i := range values {
		values[i] = f.Float32(byte(i))
	}
	table, err := ndview.FromHost(a.Device(), ndview.Float32, values[:], 256)
	if err != nil {
		return nil, err
	}
	defer table.Release()
	return ndview.Take(table, a, 0, ndview.ModeRaise)
}

// padded returns a copy of a matrix with zeros up to multiples of 16 rows and columns, or
// the matrix itself. If transposed is set, the result is the transpose, in C order.
func padded(a *ndview.NDBuffer, transposed bool) (*ndview.NDBuffer, error) {
	if transposed {
		var err error
		if a, err = a.SwapAxes(0, 1); err != nil {
			return nil, err
		}
	} else {
		a.Retain()
	}
	rows, columns := a.Shape()[0], a.Shape()[1]
	wide, long := roundUp(columns), roundUp(rows)
	if rows == long && columns == wide && a.IsContiguous() && (int64(a.Buffer().Address())+a.Offset())%16 == 0 {
		return a, nil
	}
	defer a.Release()
	made, err := ndview.Zeros(a.Device(), ndview.Uint8, long, wide)
	if err != nil {
		return nil, err
	}
	part, err := made.Index(ndview.Span(0, rows), ndview.Span(0, columns))
	if err == nil {
		err = part.CopyFrom(a)
		part.Release()
	}
	if err != nil {
		made.Release()
		return nil, err
	}
	return made, nil
}

func roundUp(n int64) int64 { return (n + 15) / 16 * 16 }

// multiplyFloat8 computes the product by cublasLt.
func multiplyFloat8(dev *cudabuf.Device, a, b *ndview.NDBuffer, o *Float8Options) (*ndview.NDBuffer, error) {
	if major, minor := dev.ComputeCapability(); major*10+minor < 89 {
		return nil, fmt.Errorf("%s has compute capability %d.%d, want 8.9 or newer for 8-bit floats: %w", dev.Name(), major, minor, errors.ErrUnsupported)
	}
	m, n, k := a.Shape()[0], b.Shape()[1], a.Shape()[1]
	if m == 0 || n == 0 || k == 0 {
		return ndview.Zeros(a.Device(), o.DType, m, n)
	}
	left, err := padded(a, false)
	if err != nil {
		return nil, err
	}
	defer left.Release()
	right, err := padded(b, true)
	if err != nil {
		return nil, err
	}
	defer right.Release()
	out, err := ndview.Empty(a.Device(), o.DType, roundUp(m), roundUp(n))
	if err != nil {
		return nil, err
	}
	defer out.Release()
	stream := o.Stream
	if stream == nil {
		if stream, err = dev.DefaultStream(); err != nil {
			return nil, err
		}
	}
	if stream.Device() != dev {
		return nil, fmt.Errorf("a stream of %v for arrays on %v: %w", stream.Device(), dev, arrowbuf.ErrDevice)
	}
	if err := multiplyPadded(dev, stream, left, right, out, o); err != nil {
		return nil, err
	}
	if roundUp(m) == m && roundUp(n) == n {
		out.Retain()
		return out, nil
	}
	part, err := out.Index(ndview.Span(0, m), ndview.Span(0, n))
	if err != nil {
		return nil, err
	}
	defer part.Release()
	return part.Copy(ndview.OrderC)
}
