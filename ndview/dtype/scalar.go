package dtype

import (
	"fmt"
	"math"
	"reflect"
	"time"
	"unsafe"

	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
	"github.com/quiver-gpu/quiver/ndview/internal/tick"
)

// Element is a Go type whose values are elements of an array.
type Element interface {
	~bool | ~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64 |
		~float32 | ~float64 | ~complex64 | ~complex128
}

// Scalar is one value of a type, to be computed with or stored. It is a small
// value: compare with ==, which compares bits.
//
// A scalar is strong or weak. A strong one has a type as an array has: an int32
// beside elements of int8 makes int32. A weak one, a plain number of the program
// text, says only whether it is a truth value, an integer, a float or a complex
// number, and takes the type of what it meets as far as its kind allows
// (NumPy's NEP 50): a weak 2 beside int8 is an int8, and a weak 2.5 beside
// float16 a float16.
type Scalar struct {
	dtype DType // of a weak one Bool, Int64, Uint64 (of 2^63 and more), Float64 or Complex128
	weak  bool
	raw   string // dtype.Size() bytes, in the order of the host
}

// ScalarOf is the scalar of a Go value. Values of the types bool, int, uint,
// float64 and complex128, which Go's constants have or are given first, are
// weak; those of int8, uint64, float32, complex64 and their like, of types
// defined by these, and a Scalar, are what they are. A time.Duration is a
// timedelta64[ns]; a time.Time a datetime64[ns], or ErrRange outside of the
// years 1678 to 2262. Any other type is ErrDType.
func ScalarOf(v any) (Scalar, error) {
	switch v := v.(type) {
	case Scalar:
		if v.dtype.kind == 0 {
			return Scalar{}, fmt.Errorf("a Scalar without a value: %w", ErrDType)
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
	case time.Duration:
		return makeScalar(Timedelta64(Nanosecond, 1), false, int64(v)), nil
	case time.Time:
		ns := v.UnixNano()
		if !time.Unix(0, ns).Equal(v) {
			return Scalar{}, fmt.Errorf("%s as datetime64[ns]: %w", v, ErrRange)
		}
		return makeScalar(Datetime64(Nanosecond, 1), false, ns), nil
	}
	return strongScalar(v)
}

// strongScalar goes by the kind of a Go type, so that it takes defined types.
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
		return Scalar{}, fmt.Errorf("a value of Go type %T as a scalar: %w", v, ErrDType)
	}
}

func makeScalar[T Element](dtype DType, weak bool, v T) Scalar {
	return Scalar{dtype, weak, string(rawBytes([]T{v}))}
}

// NewScalar is a strong scalar of a type. The value is whatever ScalarOf takes,
// converted as [Scalar.Bytes] does, or a []byte that holds the element itself:
// exactly dtype.Size() bytes in the order of the host, the only form for records
// and bytes.
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
		return Scalar{}, fmt.Errorf("%d bytes as an element of %s, which takes %d: %w", len(raw), dtype, dtype.Size(), ErrDType)
	}
	return Scalar{dtype, false, string(raw)}, nil
}

// Raw returns the bytes of the value as an element of its own type, in the
// host's byte order.
func (s Scalar) Raw() string { return s.raw }

// Strong returns the same value as a strong scalar of its own type.
func (s Scalar) Strong() Scalar { return Scalar{dtype: s.dtype, raw: s.raw} }

// IsWeak tells whether the scalar takes the type of what it meets.
func (s Scalar) IsWeak() bool { return s.weak }

// Natural is the scalar's own type, which a weak one has where it meets nothing:
// Bool, Int64 (Uint64 from 2^63 on), Float64 or Complex128.
func (s Scalar) Natural() DType { return s.dtype }

// Value is the value in Go: a bool, int64, uint64, float64 or complex128,
// whichever is the widest of its kind; of a time the int64 that it counts; of
// bytes and records a []byte.
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

// DType is the type that NumPy gives to what is computed from the scalar and
// elements of another type. For a strong scalar that is [Promote]; a weak one
// keeps the other type, unless its kind is above that type's: a weak integer
// makes int64 of bool, a weak float makes float64 of bool and of integers, a
// weak complex number makes a complex type that is as exact. A weak integer that
// the type does not hold is an error of Bytes, not of DType. Where the two have
// no common type the error is ErrDType.
func (s Scalar) DType(with DType) (DType, error) {
	if !s.weak {
		return Promote(s.dtype, with)
	}
	switch whole := s.dtype.IsInteger(); {
	case with.kind == KindTimedelta && (whole || s.dtype.kind == KindBool):
		return with, nil
	case !with.IsNumeric():
		return DType{}, fmt.Errorf("%s of Go and %s have no common type: %w", s.dtype, with, ErrDType)
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

// ResultType is the type that NumPy gives to what is computed from all the
// operands: each a DType, an array (anything with a method DType() DType), or a
// value that [ScalarOf] accepts. Operands without a common type are ErrDType.
func ResultType(operands ...any) (DType, error) {
	var strong []DType
	var weak *Scalar // the one of the highest kind
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
		count, err := tick.Convert(valueOf[int64](s.cast(Int64)), from.Tick(), to.Tick(), to.kind == KindDatetime)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", err, ErrRange)
		}
		return rawBytes([]int64{count}), nil
	}
	if err := CheckCast(from, to); err != nil {
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
	from, _ := s.dtype.CastCode()
	code, _ := to.CastCode()
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
	case !to.IsNumeric(), kind == KindComplex && to.kind != KindComplex:
		return ErrDType
	case to.IsInteger():
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

// rawBytes returns the memory of data as bytes, without a copy.
func rawBytes[T Element](data []T) []byte {
	var one T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(data))), len(data)*int(unsafe.Sizeof(one)))
}
