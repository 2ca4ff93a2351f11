package ndview

import "fmt"

// Kind is the family of an element type.
type Kind uint8

// The kinds of elements.
const (
	KindBool Kind = iota + 1
	KindInt
	KindUint
	KindFloat
	KindBFloat
	KindComplex
	KindDatetime
	KindTimedelta
	KindBytes
)

// TimeUnit is the unit of a datetime or a timedelta, in NumPy's letters.
type TimeUnit string

// The units that Arrow's date, time, timestamp and duration types have.
const (
	Day         TimeUnit = "D"
	Second      TimeUnit = "s"
	Millisecond TimeUnit = "ms"
	Microsecond TimeUnit = "us"
	Nanosecond  TimeUnit = "ns"
)

// DType is the type of an array's elements. It is a small value: compare with
// ==. Elements are in the byte order of the host (little-endian on every
// platform that CUDA runs on).
type DType struct {
	kind Kind
	size int32 // bytes an element
	unit TimeUnit
	step int32 // units a tick, for datetime and timedelta
}

// The dtypes without parameters.
var (
	Bool       = DType{kind: KindBool, size: 1}
	Int8       = DType{kind: KindInt, size: 1}
	Int16      = DType{kind: KindInt, size: 2}
	Int32      = DType{kind: KindInt, size: 4}
	Int64      = DType{kind: KindInt, size: 8}
	Uint8      = DType{kind: KindUint, size: 1}
	Uint16     = DType{kind: KindUint, size: 2}
	Uint32     = DType{kind: KindUint, size: 4}
	Uint64     = DType{kind: KindUint, size: 8}
	Float16    = DType{kind: KindFloat, size: 2}
	Float32    = DType{kind: KindFloat, size: 4}
	Float64    = DType{kind: KindFloat, size: 8}
	BFloat16   = DType{kind: KindBFloat, size: 2}
	Complex64  = DType{kind: KindComplex, size: 8}
	Complex128 = DType{kind: KindComplex, size: 16}
)

// Datetime64 is NumPy's datetime64: an int64 count of ticks of step units
// since 1970-01-01T00:00:00; the smallest int64 is NaT, "not a time".
func Datetime64(unit TimeUnit, step int32) DType {
	return DType{kind: KindDatetime, size: 8, unit: unit, step: step}
}

// Timedelta64 is NumPy's timedelta64: an int64 count of ticks of step units;
// the smallest int64 is NaT.
func Timedelta64(unit TimeUnit, step int32) DType {
	return DType{kind: KindTimedelta, size: 8, unit: unit, step: step}
}

// Bytes is n uninterpreted bytes an element, n >= 1.
func Bytes(n int32) DType { return DType{kind: KindBytes, size: n} }

// Kind is the family of the type.
func (t DType) Kind() Kind { return t.kind }

// Size is the number of bytes an element takes.
func (t DType) Size() int64 { return int64(t.size) }

// Unit is the unit of a datetime or timedelta, else "".
func (t DType) Unit() TimeUnit { return t.unit }

// Step is the number of units a tick of a datetime or timedelta stands for,
// else 0.
func (t DType) Step() int32 { return t.step }

// String is NumPy's name of the type: "int32", "datetime64[us]", "bool". Types
// that NumPy lacks have the names of ml_dtypes ("bfloat16"); Bytes is "V" and
// its size.
func (t DType) String() string {
	bits := t.size * 8
	switch t.kind {
	case KindBool:
		return "bool"
	case KindInt:
		return fmt.Sprintf("int%d", bits)
	case KindUint:
		return fmt.Sprintf("uint%d", bits)
	case KindFloat:
		return fmt.Sprintf("float%d", bits)
	case KindBFloat:
		return fmt.Sprintf("bfloat%d", bits)
	case KindComplex:
		return fmt.Sprintf("complex%d", bits)
	case KindDatetime:
		return "datetime64[" + t.tick() + "]"
	case KindTimedelta:
		return "timedelta64[" + t.tick() + "]"
	case KindBytes:
		return fmt.Sprintf("V%d", t.size)
	default:
		return "invalid"
	}
}

func (t DType) tick() string {
	if t.step == 1 {
		return string(t.unit)
	}
	return fmt.Sprintf("%d%s", t.step, t.unit)
}
