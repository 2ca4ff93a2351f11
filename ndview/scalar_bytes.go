package ndview

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
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
// of a float that the integer type does not hold the result is that of AsType.
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
	case to.kind == KindBytes && from.kind != 0 && from.kind != KindRecord:
		raw := make([]byte, to.size)
		copy(raw, s.raw)
		return raw, nil
	case from.IsTime() && to.kind == from.kind:
		count, err := tick.Convert(valueOf[int64](s.cast(Int64)), from.tick(), to.tick(), to.kind == KindDatetime)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", err, ErrRange)
		}
		return rawBytes([]int64{count}), nil
	}
	if err := castable(from, to); err != nil {
		return nil, err
	}
	return s.cast(to), nil
}

// cast is the element as one of another type, to which it is castable. Times
// are taken for what they count.
func (s Scalar) cast(to DType) []byte {
	var places [4]uint64 // two for each, as long as the longest element and aligned
	memory := rawBytes(places[:])
	copy(memory[16:], s.raw)
	from, _ := s.dtype.element()
	code, _ := to.element()
	cpu.CastOne(unsafe.Pointer(&places[0]), unsafe.Pointer(&places[2]), code, from)
	return memory[:to.size:to.size]
}

func valueOf[T Element](raw []byte) T { return *(*T)(unsafe.Pointer(unsafe.SliceData(raw))) }

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

// checkRange looks whether an integer type holds a weak scalar, less a fraction.
func (s Scalar) checkRange(to DType) error {
	bits := int(to.size) * 8
	low, high := -math.Ldexp(1, bits-1), math.Ldexp(1, bits-1) // high is one too many
	if to.kind == KindUint {
		low, high = 0, math.Ldexp(1, bits)
	}
	fits := true // as false and true do
	switch v := s.Value().(type) {
	case float64:
		fits = math.Trunc(v) >= low && math.Trunc(v) < high
	case uint64: // above every int64
		fits = to == Uint64
	case int64:
		fits = (v >= 0 || to.kind == KindInt) && (to.size == 8 || float64(v) >= low && float64(v) < high)
	}
	if !fits {
		return ErrRange
	}
	return nil
}
