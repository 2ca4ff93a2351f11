package dtype

import (
	"errors"
	"fmt"
	"slices"

	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
	"github.com/quiver-gpu/quiver/ndview/internal/tick"
)

// Errors of this package; test with errors.Is.
var (
	// ErrDType means that an operation does not support elements of a type.
	ErrDType = errors.New("dtype mismatch")
	// ErrRange means that a type cannot represent a value.
	ErrRange = errors.New("value out of range")
)

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
	KindRecord
)

// DType is the type of an array's elements. It is a small value; compare it with ==.
// The zero DType is invalid, and no array has it.
//
// Elements are in the byte order of the host. Functions that parse foreign types
// return their byte order beside the DType.
type DType struct {
	kind   Kind
	size   int32 // bytes per element
	unit   TimeUnit
	step   int32 // units per count, for datetime and timedelta
	record *record
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

// Bytes returns the type of n uninterpreted bytes per element, or the zero DType if n
// < 1.
func Bytes(n int32) DType {
	if n < 1 {
		return DType{}
	}
	return DType{kind: KindBytes, size: n}
}

// Kind returns the family of the type.
func (t DType) Kind() Kind { return t.kind }

// Size returns the number of bytes per element.
func (t DType) Size() int64 { return int64(t.size) }

// String returns NumPy's name of the type: "int32", "datetime64[us]", "bool". Types
// that NumPy lacks have the names of ml_dtypes ("bfloat16"); Bytes is "V" and its
// size. A record is the list of its fields, as [DType.NumPy] returns it.
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
		return "datetime64" + t.unitSuffix()
	case KindTimedelta:
		return "timedelta64" + t.unitSuffix()
	case KindBytes:
		return fmt.Sprintf("V%d", t.size)
	case KindRecord:
		return t.NumPy()
	default:
		return "invalid"
	}
}

// TimeUnit is the unit of a datetime or a timedelta, in NumPy's notation.
type TimeUnit string

// NumPy's units. Generic means an unspecified unit, which adopts that of the other
// operand.
const (
	Year        TimeUnit = "Y"
	Month       TimeUnit = "M"
	Week        TimeUnit = "W"
	Day         TimeUnit = "D"
	Hour        TimeUnit = "h"
	Minute      TimeUnit = "m"
	Second      TimeUnit = "s"
	Millisecond TimeUnit = "ms"
	Microsecond TimeUnit = "us"
	Nanosecond  TimeUnit = "ns"
	Picosecond  TimeUnit = "ps"
	Femtosecond TimeUnit = "fs"
	Attosecond  TimeUnit = "as"
	Generic     TimeUnit = "generic"
)

// timeUnits are indexed by their number in package tick.
var timeUnits = [...]TimeUnit{Year, Month, Week, Day, Hour, Minute, Second, Millisecond, Microsecond,
	Nanosecond, Picosecond, Femtosecond, Attosecond, Generic}

// ParseTimeUnit parses NumPy's notation of a unit. Microseconds may be written with
// either of Unicode's letters mu. It returns ErrDType for other strings.
func ParseTimeUnit(s string) (TimeUnit, error) {
	if s == "\u00b5s" || s == "\u03bcs" {
		return Microsecond, nil
	}
	if !slices.Contains(timeUnits[:], TimeUnit(s)) {
		return "", fmt.Errorf("dtype.ParseTimeUnit: got %q, want one of %v: %w", s, timeUnits, ErrDType)
	}
	return TimeUnit(s), nil
}

// Datetime64 returns NumPy's datetime64: an int64 count of step units since
// 1970-01-01T00:00:00, where the smallest int64 is NaT, "not a time". It returns the
// zero DType for an unknown unit and for a step below 1. The step of the Generic unit
// is always 1.
func Datetime64(unit TimeUnit, step int32) DType { return timeType(KindDatetime, unit, step) }

// Timedelta64 returns NumPy's timedelta64: an int64 count of step units, where the
// smallest int64 is NaT. Unit and step are those of Datetime64.
func Timedelta64(unit TimeUnit, step int32) DType { return timeType(KindTimedelta, unit, step) }

func timeType(kind Kind, unit TimeUnit, step int32) DType {
	if step < 1 || !slices.Contains(timeUnits[:], unit) {
		return DType{}
	}
	if unit == Generic {
		step = 1
	}
	return DType{kind: kind, size: 8, unit: unit, step: step}
}

// IsTime reports whether the type is a datetime or a timedelta.
func (t DType) IsTime() bool { return t.kind == KindDatetime || t.kind == KindTimedelta }

// Unit returns the unit of a datetime or timedelta, otherwise "".
func (t DType) Unit() TimeUnit { return t.unit }

// Step returns the number of units per count of a datetime or timedelta, otherwise 0.
func (t DType) Step() int32 { return t.step }

// unitSuffix returns the unit of a time in NumPy's brackets: "[us]", "[25s]", or ""
// for the Generic unit.
func (t DType) unitSuffix() string {
	switch {
	case t.unit == Generic:
		return ""
	case t.step == 1:
		return fmt.Sprintf("[%s]", t.unit)
	default:
		return fmt.Sprintf("[%d%s]", t.step, t.unit)
	}
}

// Tick returns the unit and step of a time as unit conversions need them.
func (t DType) Tick() tick.Tick {
	return tick.Tick{Unit: tick.Unit(slices.Index(timeUnits[:], t.unit)), Step: int64(t.step)}
}

// commonTime returns the coarsest time of a kind that represents the units of both
// types. For datetimes, years and months combine with days by the calendar; timedeltas
// cannot combine them.
func commonTime(kind Kind, a, b DType) (DType, error) {
	common, err := tick.Common(a.Tick(), b.Tick(), kind == KindTimedelta)
	if err != nil {
		return DType{}, fmt.Errorf("dtype.Promote: %s and %s have no common unit: %w: %w", a, b, err, ErrDType)
	}
	return timeType(kind, timeUnits[common.Unit], int32(common.Step)), nil
}

// Code returns the type code that kernels use for elements of t, and whether one
// exists. Bytes, records and times of 1, 2, 4, 8 or 16 bytes have the code of an
// unsigned integer or complex number of their size. Kernels that only move elements
// treat them as bits.
func (t DType) Code() (cpu.Type, bool) {
	switch t.kind {
	case KindBool:
		return cpu.Bool, true
	case KindInt:
		return [...]cpu.Type{1: cpu.Int8, 2: cpu.Int16, 4: cpu.Int32, 8: cpu.Int64}[t.size], true
	case KindUint:
		return [...]cpu.Type{1: cpu.Uint8, 2: cpu.Uint16, 4: cpu.Uint32, 8: cpu.Uint64}[t.size], true
	case KindFloat:
		return [...]cpu.Type{2: cpu.Float16, 4: cpu.Float32, 8: cpu.Float64}[t.size], true
	case KindBFloat:
		return cpu.BFloat16, true
	case KindComplex:
		return [...]cpu.Type{8: cpu.Complex64, 16: cpu.Complex128}[t.size], true
	}
	switch t.size {
	case 1:
		return cpu.Uint8, true
	case 2:
		return cpu.Uint16, true
	case 4:
		return cpu.Uint32, true
	case 8:
		return cpu.Uint64, true
	case 16:
		return cpu.Complex128, true
	}
	return 0, false
}

// NumberCode returns the code of a bool or number, and false for other types.
func (t DType) NumberCode() (cpu.Type, bool) {
	code, ok := t.Code()
	return code, ok && t.IsNumeric()
}

// CastCode returns the code that casts use: that of a bool or number, and for a
// time that of the int64 that counts it. Records and bytes have none.
func (t DType) CastCode() (cpu.Type, bool) {
	if t.IsTime() {
		return cpu.Int64, true
	}
	return t.NumberCode()
}

// IsFloat reports whether t is a real floating-point type.
func (t DType) IsFloat() bool { return t.kind == KindFloat || t.kind == KindBFloat }

// CheckCast returns ErrDType if elements of one type cannot be written as the
// other.
func CheckCast(from, to DType) error {
	_, isNumber := from.CastCode()
	_, ok := to.CastCode()
	if from == to && from.kind != 0 || isNumber && ok && !(from == BFloat16 && to.IsTime()) && !(from.IsTime() && to == BFloat16) {
		return nil
	}
	return fmt.Errorf("dtype.CheckCast: writing %s as %s: %w", from, to, ErrDType)
}
