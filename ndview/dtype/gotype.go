package dtype

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/float16"
)

// Element is a Go type whose values are elements of an array. A float16 is Arrow's
// float16.Num, and a bfloat16 is a [BFloat16Num]: a plain uint16 is an integer.
type Element interface {
	~bool | ~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64 |
		~float32 | ~float64 | ~complex64 | ~complex128 | float16.Num
}

// BFloat16Num is the bits of a bfloat16, as Arrow's float16.Num is those of a float16.
type BFloat16Num uint16

// NewBFloat16 returns the bfloat16 nearest to a float32, ties to even. A NaN stays a
// NaN.
func NewBFloat16(v float32) BFloat16Num {
	bits := math.Float32bits(v)
	if v != v {
		return BFloat16Num(bits>>16 | 1<<6)
	}
	return BFloat16Num((bits + 0x7fff + bits>>16&1) >> 16)
}

// Float32 returns the same value as a float32.
func (b BFloat16Num) Float32() float32 { return math.Float32frombits(uint32(b) << 16) }

// String returns the value in decimal digits.
func (b BFloat16Num) String() string { return BFloat16.Format(rawBytes([]BFloat16Num{b})) }

// The Go types whose kind does not say what their values are.
var (
	typeOfFloat16   = reflect.TypeFor[float16.Num]()
	typeOfTimestamp = reflect.TypeFor[arrow.Timestamp]()
	typeOfDuration  = reflect.TypeFor[arrow.Duration]()

	namedGoTypes = map[reflect.Type]DType{
		typeOfFloat16:                    Float16,
		reflect.TypeFor[BFloat16Num]():   BFloat16,
		reflect.TypeFor[time.Duration](): Timedelta64(Nanosecond, 1),
		reflect.TypeFor[arrow.Date64]():  Datetime64(Millisecond, 1),
	}
	goKinds = map[reflect.Kind]DType{
		reflect.Bool: Bool, reflect.Int8: Int8, reflect.Int16: Int16, reflect.Int32: Int32, reflect.Int64: Int64,
		reflect.Uint8: Uint8, reflect.Uint16: Uint16, reflect.Uint32: Uint32, reflect.Uint64: Uint64,
		reflect.Float32: Float32, reflect.Float64: Float64, reflect.Complex64: Complex64, reflect.Complex128: Complex128,
		reflect.Int:  DType{kind: KindInt, size: strconv.IntSize / 8},
		reflect.Uint: DType{kind: KindUint, size: strconv.IntSize / 8},
	}
)

// OfGoType returns the dtype whose elements have the memory and the meaning of a Go
// type. Defined types have that of their kind, except [BFloat16Num], Arrow's
// float16.Num, time.Duration (timedelta64[ns]) and arrow.Date64 (datetime64[ms]). It
// returns ErrDType for other types, for nil, and for arrow.Timestamp and
// arrow.Duration, which have no unit.
func OfGoType(t reflect.Type) (DType, error) {
	if t == nil {
		return DType{}, fmt.Errorf("dtype.OfGoType: nil type: %w", ErrDType)
	}
	if named, ok := namedGoTypes[t]; ok {
		return named, nil
	}
	if t == typeOfTimestamp || t == typeOfDuration {
		return DType{}, fmt.Errorf("dtype.OfGoType: %s has no unit: name the dtype: %w", t, ErrDType)
	}
	plain, ok := goKinds[t.Kind()]
	if !ok {
		return DType{}, fmt.Errorf("dtype.OfGoType: got Go type %s, want a bool, a number or a time: %w", t, ErrDType)
	}
	return plain, nil
}

// CheckGoType returns ErrDType unless values of a Go type are elements of t: the dtype
// is that of [OfGoType], or the type counts the units of a time. An int64, and a type
// defined as one, counts those of any time, arrow.Timestamp those of a datetime64, and
// arrow.Duration those of a timedelta64. The error names both types. To read elements
// as another type of the same size, view the array as that type.
func CheckGoType(t DType, g reflect.Type) error {
	own, err := OfGoType(g)
	switch {
	case err == nil && own == t:
		return nil
	case g == typeOfTimestamp && t.kind == KindDatetime, g == typeOfDuration && t.kind == KindTimedelta:
		return nil
	case err == nil && own == Int64 && t.IsTime():
		return nil
	case err == nil:
		return fmt.Errorf("dtype.CheckGoType: got Go type %s, which is dtype %s, want dtype %s: %w", g, own, t, ErrDType)
	}
	return fmt.Errorf("dtype.CheckGoType: got Go type %v, want dtype %s: %w", g, t, ErrDType)
}
