package ndview

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/quiver-gpu/quiver/ndview/internal/half"
	"github.com/quiver-gpu/quiver/ndview/internal/tick"
)

// Bytes is the value as one element of a type, in the order of the host.
//
// A weak scalar is assigned, as NumPy assigns a Python number: an integer type
// takes integers that it holds, and floats whose whole part it holds, else the
// error is ErrRange; a float type takes the nearest value, which may be
// infinite; a time takes integers, as its count, but a datetime64 without a unit
// none. A complex number becomes a truth value or stays complex. Other pairs are
// ErrDType.
//
// A strong scalar is cast, as NumPy's unsafe cast does it: integers keep their
// low bits, floats lose their fraction, complex numbers their imaginary part;
// of a float that the integer type does not hold the result is the processor's.
// Times are converted between units, and ErrRange where the other unit cannot
// count them; between datetime64, timedelta64 and integers the count stays. Bytes
// are cut, or padded with zeros. Records are only what they are, and bfloat16 is
// no time: ErrDType.
func (s Scalar) Bytes(dtype DType) ([]byte, error) {
	raw, err := s.bytes(dtype)
	if err != nil {
		return nil, fmt.Errorf("%s %s as %s: %w", s.dtype, s, dtype, err)
	}
	return raw, nil
}

func (s Scalar) bytes(to DType) ([]byte, error) {
	from := s.dtype
	switch {
	case from == to && from.kind != 0:
		return []byte(s.raw), nil
	case s.weak:
		if err := s.checkAssign(to); err != nil {
			return nil, err
		}
	case from.kind == 0, from.kind == KindRecord, from.kind == KindBytes && to.kind != KindBytes,
		from == BFloat16 && to.IsTime(), from.IsTime() && to == BFloat16:
		return nil, ErrDType
	case to.kind == KindBytes:
		raw := make([]byte, to.size)
		copy(raw, s.raw)
		return raw, nil
	case from.IsTime() && to.kind == from.kind:
		count, err := tick.Convert(int64(s.number().bits), from.tick(), to.tick(), to.kind == KindDatetime)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", err, ErrRange)
		}
		return binary.NativeEndian.AppendUint64(nil, uint64(count)), nil
	}
	if !to.isNumeric() && !to.IsTime() {
		return nil, ErrDType
	}
	return s.number().as(to), nil
}

// checkAssign tells whether a type takes a weak scalar.
func (s Scalar) checkAssign(to DType) error {
	kind := s.dtype.kind
	switch {
	case to.kind == KindBool:
		return nil
	case to.IsTime():
		if kind == KindFloat || kind == KindComplex || to.kind == KindDatetime && to.unit == Generic {
			return ErrDType
		}
		return s.checkRange(Int64)
	case !to.isNumeric(), kind == KindComplex && to.kind != KindComplex:
		return ErrDType
	case to.isInteger():
		return s.checkRange(to)
	default:
		return nil
	}
}

// checkRange looks whether an integer type holds the value, without a fraction.
func (s Scalar) checkRange(to DType) error {
	bits := to.size*8 - 1
	low, high := -math.Ldexp(1, int(bits)), math.Ldexp(1, int(bits)) // high is one too many
	if to.kind == KindUint {
		low, high = 0, math.Ldexp(1, int(bits)+1)
	}
	n := s.number()
	var fits bool
	switch s.dtype.kind {
	case KindFloat:
		x := math.Trunc(real(n.float))
		fits = x >= low && x < high
	case KindUint: // above every int64
		fits = to == Uint64
	default:
		v := int64(n.bits)
		fits = (v >= 0 || to.kind == KindInt) && (to.size == 8 || float64(v) >= low && float64(v) < high)
	}
	if !fits {
		return ErrRange
	}
	return nil
}

// number is a value taken out of its bytes: an integer, sign-extended, in bits
// if it is one, and else in float.
type number struct {
	kind  Kind
	bits  uint64
	float complex128
}

func (s Scalar) number() number {
	raw, size := []byte(s.raw), len(s.raw)
	n := number{kind: s.dtype.kind}
	switch n.kind {
	case KindFloat, KindBFloat:
		n.float = complex(floatOf(raw, s.dtype.kind), 0)
	case KindComplex:
		n.float = complex(floatOf(raw[:size/2], KindFloat), floatOf(raw[size/2:], KindFloat))
	case KindInt:
		n.bits = uint64(int64(unsignedOf(raw)<<(64-8*size)) >> (64 - 8*size))
	default:
		n.bits = unsignedOf(raw)
	}
	return n
}

func unsignedOf(raw []byte) uint64 {
	switch len(raw) {
	case 1:
		return uint64(raw[0])
	case 2:
		return uint64(binary.NativeEndian.Uint16(raw))
	case 4:
		return uint64(binary.NativeEndian.Uint32(raw))
	default:
		return binary.NativeEndian.Uint64(raw)
	}
}

func floatOf(raw []byte, kind Kind) float64 {
	bits := unsignedOf(raw)
	switch {
	case kind == KindBFloat:
		return float64(half.BFloat16ToFloat32(uint16(bits)))
	case len(raw) == 2:
		return float64(half.Float16ToFloat32(uint16(bits)))
	case len(raw) == 4:
		return float64(math.Float32frombits(uint32(bits)))
	default:
		return math.Float64frombits(bits)
	}
}

func (n number) isFloat() bool {
	return n.kind == KindFloat || n.kind == KindBFloat || n.kind == KindComplex
}

// as casts to a number or a time.
func (n number) as(to DType) []byte {
	switch to.kind {
	case KindBool:
		if n.bits != 0 || n.float != 0 {
			return []byte{1}
		}
		return []byte{0}
	case KindFloat, KindBFloat:
		return n.asFloat(to.kind, to.size, false)
	case KindComplex:
		return append(n.asFloat(KindFloat, to.size/2, false), n.asFloat(KindFloat, to.size/2, true)...)
	default:
		return integer(n.asInteger(to), to.size)
	}
}

func (n number) asInteger(to DType) uint64 {
	if !n.isFloat() {
		return n.bits
	}
	x := real(n.float)
	switch {
	case to.IsTime() && x != x:
		return 1 << 63
	case to == Uint64:
		return uint64(x)
	case to == Uint32, to.size == 8:
		return uint64(int64(x))
	default: // as C does it, through int
		return uint64(int32(x))
	}
}

func (n number) asFloat(kind Kind, size int32, imaginary bool) []byte {
	x := real(n.float)
	if imaginary {
		x = imag(n.float)
	}
	f := float32(x)
	switch {
	case n.isFloat():
	case imaginary:
		x, f = 0, 0
	case n.kind == KindUint:
		x, f = float64(n.bits), float32(n.bits)
	default:
		x, f = float64(int64(n.bits)), float32(int64(n.bits))
	}
	switch {
	case size == 8:
		return binary.NativeEndian.AppendUint64(nil, math.Float64bits(x))
	case size == 4:
		return binary.NativeEndian.AppendUint32(nil, math.Float32bits(f))
	case kind == KindBFloat && n.isFloat():
		return integer(uint64(half.Float64ToBFloat16(x)), 2)
	case kind == KindBFloat:
		return integer(uint64(half.Float32ToBFloat16(f)), 2)
	case n.isFloat():
		return integer(uint64(half.Float64ToFloat16(x)), 2)
	default: // integers go through float32, as in NumPy
		return integer(uint64(half.Float32ToFloat16(f)), 2)
	}
}

// integer is the low bytes of bits, in the order of the host.
func integer(bits uint64, size int32) []byte {
	switch size {
	case 1:
		return []byte{byte(bits)}
	case 2:
		return binary.NativeEndian.AppendUint16(nil, uint16(bits))
	case 4:
		return binary.NativeEndian.AppendUint32(nil, uint32(bits))
	default:
		return binary.NativeEndian.AppendUint64(nil, bits)
	}
}
