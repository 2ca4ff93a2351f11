package dtype

import (
	"fmt"
	"math"
	"reflect"
	"time"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow/float16"

	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
	"github.com/quiver-gpu/quiver/ndview/internal/tick"
)

// Scalar is one value of a type. It is a small value; == compares the bits.
//
// A scalar is strong or weak. A strong scalar has its own type, as an array has: int32
// with elements of int8 makes int32. A weak scalar, from a plain Go number, has only a
// kind: bool, integer, float or complex. It takes the type of the other operand as far
// as its kind allows (NumPy's NEP 50): a weak 2 with int8 is an int8, and a weak 2.5
// with float16 a float16.
type Scalar struct {
	dtype DType // of a weak one Bool, Int64, Uint64 (of 2^63 and more), Float64 or Complex128
	weak  bool
	raw   string // dtype.Size() bytes, in the byte order of the host
}

// ScalarOf returns the scalar of a Go value. Values of bool, int, uint, float64 and
// complex128, the default types of Go's constants, are weak. Values of int8, uint64,
// float32, complex64 and the like, and of defined types, are strong. A Scalar is
// returned unchanged. Arrow's float16.Num is a float16, a [BFloat16Num] a bfloat16. A time.Duration is a timedelta64[ns], and a time.Time a
// datetime64[ns], or ErrRange outside the years 1678 to 2262. ScalarOf returns
// ErrDType for other types.
func ScalarOf(v any) (Scalar, error) {
	switch v := v.(type) {
	case Scalar:
		if v.dtype.kind == 0 {
			return Scalar{}, fmt.Errorf("dtype.ScalarOf: zero Scalar: %w", ErrDType)
		}
		return v, nil
	case bool:
		return makeScalar(Bool, true, v), nil
	case int:
		return makeScalar(Int64, true, int64(v)), nil
	case uint:
		if uint64(v) < 1<<63 {
			return makeScalar(Int64, true, int64(v)), nil
		}
		return makeScalar(Uint64, true, uint64(v)), nil
	case float64:
		return makeScalar(Float64, true, v), nil
	case complex128:
		return makeScalar(Complex128, true, v), nil
	case float16.Num:
		return makeScalar(Float16, false, v), nil
	case BFloat16Num:
		return makeScalar(BFloat16, false, v), nil
	case time.Duration:
		return makeScalar(Timedelta64(Nanosecond, 1), false, int64(v)), nil
	case time.Time:
		ns := v.UnixNano()
		if !time.Unix(0, ns).Equal(v) {
			return Scalar{}, fmt.Errorf("dtype.ScalarOf: %s as datetime64[ns]: %w", v, ErrRange)
		}
		return makeScalar(Datetime64(Nanosecond, 1), false, ns), nil
	}
	return strongScalar(v)
}

// strongScalar converts by the kind of a Go type, so that it accepts defined types.
func strongScalar(v any) (Scalar, error) {
	r := reflect.ValueOf(v)
	switch r.Kind() {
	case reflect.Bool:
		return makeScalar(Bool, false, r.Bool()), nil
	case reflect.Int8:
		return makeScalar(Int8, false, int8(r.Int())), nil
	case reflect.Int16:
		return makeScalar(Int16, false, int16(r.Int())), nil
	case reflect.Int32:
		return makeScalar(Int32, false, int32(r.Int())), nil
	case reflect.Int, reflect.Int64:
		return makeScalar(Int64, false, r.Int()), nil
	case reflect.Uint8:
		return makeScalar(Uint8, false, uint8(r.Uint())), nil
	case reflect.Uint16:
		return makeScalar(Uint16, false, uint16(r.Uint())), nil
	case reflect.Uint32:
		return makeScalar(Uint32, false, uint32(r.Uint())), nil
	case reflect.Uint, reflect.Uint64:
		return makeScalar(Uint64, false, r.Uint()), nil
	case reflect.Float32:
		return makeScalar(Float32, false, float32(r.Float())), nil
	case reflect.Float64:
		return makeScalar(Float64, false, r.Float()), nil
	case reflect.Complex64:
		return makeScalar(Complex64, false, complex64(r.Complex())), nil
	case reflect.Complex128:
		return makeScalar(Complex128, false, r.Complex()), nil
	default:
		return Scalar{}, fmt.Errorf("dtype.ScalarOf: Go type %T: %w", v, ErrDType)
	}
}

func makeScalar[T Element](dtype DType, weak bool, v T) Scalar {
	return Scalar{dtype, weak, string(rawBytes([]T{v}))}
}

// NewScalar returns a strong scalar of a type. The value is one that ScalarOf accepts,
// which is converted as by [Scalar.Bytes]. It may also be a []byte with the dtype.Size()
// bytes of the element in the host's byte order. Records and bytes accept only the latter.
func NewScalar(dtype DType, v any) (Scalar, error) {
	raw, ok := v.([]byte)
	if !ok {
		s, err := ScalarOf(v)
		if err != nil {
			return Scalar{}, err
		}
		if raw, err = s.Bytes(dtype); err != nil {
			return Scalar{}, err
		}
	}
	if dtype.kind == 0 || int64(len(raw)) != dtype.Size() {
		return Scalar{}, fmt.Errorf("dtype.NewScalar: %d bytes for %s, want %d: %w", len(raw), dtype, dtype.Size(), ErrDType)
	}
	return Scalar{dtype, false, string(raw)}, nil
}

// Raw returns the bytes of the value as an element of its own type, in the
// host's byte order.
func (s Scalar) Raw() string { return s.raw }

// Strong returns the same value as a strong scalar of its own type.
func (s Scalar) Strong() Scalar { return Scalar{dtype: s.dtype, raw: s.raw} }

// IsWeak reports whether the scalar takes the type of the other operand.
func (s Scalar) IsWeak() bool { return s.weak }

// Natural returns the scalar's own type. For a weak scalar it is Bool, Int64 (Uint64
// from 2^63 on), Float64 or Complex128.
func (s Scalar) Natural() DType { return s.dtype }

// Value returns the value as the widest Go type of its kind: bool, int64, uint64,
// float64 or complex128. A time is the int64 of its count; bytes and records are a
// []byte.
func (s Scalar) Value() any {
	switch s.dtype.kind {
	case KindBool:
		return s.raw[0] != 0
	case KindUint:
		return valueOf[uint64](s.cast(Uint64))
	case KindInt, KindDatetime, KindTimedelta:
		return valueOf[int64](s.cast(Int64))
	case KindFloat, KindBFloat:
		return valueOf[float64](s.cast(Float64))
	case KindComplex:
		return valueOf[complex128](s.cast(Complex128))
	default:
		return []byte(s.raw)
	}
}

// String returns the value in the form of [DType.Format].
func (s Scalar) String() string {
	if s.dtype.kind == 0 {
		return "invalid"
	}
	return s.dtype.Format([]byte(s.raw))
}

// DType returns NumPy's type of a result of the scalar and elements of another type.
// For a strong scalar it is [Promote]. A weak scalar keeps the other type unless its
// kind is higher. A weak integer with bool makes int64, and a weak float with bool or
// integers float64. A weak complex number makes a complex type of the same precision. An integer outside the type's range is an error of Bytes, not of DType.
// DType returns ErrDType if no common type exists.
func (s Scalar) DType(with DType) (DType, error) {
	if !s.weak {
		return Promote(s.dtype, with)
	}
	switch whole := s.dtype.IsInteger(); {
	case with.kind == KindTimedelta && (whole || s.dtype.kind == KindBool):
		return with, nil
	case !with.IsNumeric():
		return DType{}, fmt.Errorf("dtype.ResultType: weak %s and %s have no common type: %w", s.dtype, with, ErrDType)
	case numericRank(with) >= numericRank(s.dtype), whole && with.kind != KindBool:
		return with, nil
	case s.dtype.kind == KindComplex && with == BFloat16:
		return Complex64, nil
	case s.dtype.kind == KindComplex && with.kind == KindFloat:
		return Promote(Complex64, with)
	case whole:
		return Int64, nil
	default:
		return s.dtype, nil
	}
}

// ResultType returns NumPy's type of a result of all the operands. Each operand is a
// DType, an array (any value with a method DType() DType), or a value that [ScalarOf]
// accepts. It returns ErrDType if they have no common type.
func ResultType(operands ...any) (DType, error) {
	var strong []DType
	var weak *Scalar // the weak operand of the highest kind
	for _, o := range operands {
		switch o := o.(type) {
		case DType:
			strong = append(strong, o)
			continue
		case interface{ DType() DType }:
			strong = append(strong, o.DType())
			continue
		}
		s, err := ScalarOf(o)
		switch {
		case err != nil:
			return DType{}, err
		case !s.weak:
			strong = append(strong, s.dtype)
		case weak == nil || numericRank(weak.dtype) < numericRank(s.dtype):
			weak = &s
		}
	}
	if weak == nil {
		return Promote(strong...)
	}
	if len(strong) == 0 {
		return weak.dtype, nil
	}
	common, err := Promote(strong...)
	if err != nil {
		return DType{}, err
	}
	return weak.DType(common)
}

// Bytes returns the value as one element of a type, in the byte order of the host.
//
// A weak scalar is assigned as NumPy assigns a Python number. Integer types accept
// integers in their range, and floats whose integer part is in their range, otherwise
// the error is ErrRange. Float types take the nearest value, which may be infinite.
// Times take integers as their count, except a datetime64 without a unit. A complex
// number converts only to bool and complex types. Other pairs return ErrDType.
//
// A strong scalar is cast as by NumPy's unsafe rule: integers keep their low bits,
// floats lose their fraction, complex numbers their imaginary part. For a float
// outside an integer type's range see ndview's AsType. Times convert between units,
// and return ErrRange if the other unit cannot represent them; between datetime64,
// timedelta64 and integers the count stays the same. Bytes are truncated or padded
// with zeros. Records to other types, and bfloat16 to times, return ErrDType.
func (s Scalar) Bytes(dtype DType) ([]byte, error) {
	raw, err := s.bytes(dtype)
	if err != nil {
		return nil, fmt.Errorf("dtype.Scalar.Bytes: %s %s as %s: %w", s.dtype, s, dtype, err)
	}
	return raw, nil
}

// bytes is Bytes without the context of the error.
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
		count, err := tick.Convert(valueOf[int64](s.cast(Int64)), from.Tick(), to.Tick(), to.kind == KindDatetime)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", err, ErrRange)
		}
		return rawBytes([]int64{count}), nil
	}
	if CheckCast(from, to) != nil {
		return nil, ErrDType
	}
	return s.cast(to), nil
}

// cast returns the element cast to another type, to which it must be castable. Times
// are their counts.
func (s Scalar) cast(to DType) []byte {
	var words [4]uint64 // 16 aligned bytes for each element, the longest has 16
	memory := rawBytes(words[:])
	copy(memory[16:], s.raw)
	from, _ := s.dtype.CastCode()
	code, _ := to.CastCode()
	cpu.CastOne(unsafe.Pointer(&words[0]), unsafe.Pointer(&words[2]), code, from)
	return memory[:to.size:to.size]
}

func valueOf[T Element](raw []byte) T { return *(*T)(unsafe.Pointer(unsafe.SliceData(raw))) }

// checkAssign returns an error if a type does not accept a weak scalar.
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
	case !to.IsNumeric(), kind == KindComplex && to.kind != KindComplex:
		return ErrDType
	case to.IsInteger():
		return s.checkRange(to)
	default:
		return nil
	}
}

// checkRange returns ErrRange if an integer type does not hold a weak scalar without
// its fraction.
func (s Scalar) checkRange(to DType) error {
	bits := int(to.size) * 8
	low, high := -math.Ldexp(1, bits-1), math.Ldexp(1, bits-1) // high is exclusive
	if to.kind == KindUint {
		low, high = 0, math.Ldexp(1, bits)
	}
	fits := true // for false and true
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

// rawBytes returns the memory of data as bytes, without a copy.
func rawBytes[T Element](data []T) []byte {
	var one T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(data))), len(data)*int(unsafe.Sizeof(one)))
}
