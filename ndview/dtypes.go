package ndview

import "github.com/quiver-gpu/quiver/ndview/dtype"

// Types of package dtype, which documents their methods: go doc ndview/dtype.DType.
type (
	// DType is the type of an array's elements, see [dtype.DType] for its methods.
	DType = dtype.DType
	// Kind is the family of an element type, see [dtype.Kind].
	Kind = dtype.Kind
	// TimeUnit is the unit of a datetime or a timedelta, see [dtype.TimeUnit].
	TimeUnit = dtype.TimeUnit
	// Field is a field of a record, see [dtype.Field].
	Field = dtype.Field
	// ByteOrder is the byte order of foreign elements, see [dtype.ByteOrder].
	ByteOrder = dtype.ByteOrder
	// Casting is one of NumPy's casting rules, see [dtype.Casting].
	Casting = dtype.Casting
	// Scalar is one value of a type, see [dtype.Scalar].
	Scalar = dtype.Scalar
)

// Element is a Go type whose values are elements of an array, see [dtype.Element].
type Element = dtype.Element

// Errors of package dtype.
var (
	ErrDType = dtype.ErrDType // an operation does not take elements of this type
	ErrRange = dtype.ErrRange // a type cannot represent a value
)

// The kinds of elements.
const (
	KindBool      = dtype.KindBool
	KindInt       = dtype.KindInt
	KindUint      = dtype.KindUint
	KindFloat     = dtype.KindFloat
	KindBFloat    = dtype.KindBFloat
	KindComplex   = dtype.KindComplex
	KindDatetime  = dtype.KindDatetime
	KindTimedelta = dtype.KindTimedelta
	KindBytes     = dtype.KindBytes
	KindRecord    = dtype.KindRecord
)

// The dtypes without parameters.
var (
	Bool       = dtype.Bool
	Int8       = dtype.Int8
	Int16      = dtype.Int16
	Int32      = dtype.Int32
	Int64      = dtype.Int64
	Uint8      = dtype.Uint8
	Uint16     = dtype.Uint16
	Uint32     = dtype.Uint32
	Uint64     = dtype.Uint64
	Float16    = dtype.Float16
	Float32    = dtype.Float32
	Float64    = dtype.Float64
	BFloat16   = dtype.BFloat16
	Complex64  = dtype.Complex64
	Complex128 = dtype.Complex128
)

// The units of datetimes and timedeltas.
const (
	Year        = dtype.Year
	Month       = dtype.Month
	Week        = dtype.Week
	Day         = dtype.Day
	Hour        = dtype.Hour
	Minute      = dtype.Minute
	Second      = dtype.Second
	Millisecond = dtype.Millisecond
	Microsecond = dtype.Microsecond
	Nanosecond  = dtype.Nanosecond
	Picosecond  = dtype.Picosecond
	Femtosecond = dtype.Femtosecond
	Attosecond  = dtype.Attosecond
	Generic     = dtype.Generic
)

// The casting rules of CanCast and AsType.
const (
	CastNo       = dtype.CastNo
	CastEquiv    = dtype.CastEquiv
	CastSafe     = dtype.CastSafe
	CastSameKind = dtype.CastSameKind
	CastUnsafe   = dtype.CastUnsafe
)

// Bytes is dtype.Bytes: n uninterpreted bytes per element.
func Bytes(n int32) DType { return dtype.Bytes(n) }

// Datetime64 is dtype.Datetime64: a count of step units since 1970.
func Datetime64(unit TimeUnit, step int32) DType { return dtype.Datetime64(unit, step) }

// Timedelta64 is dtype.Timedelta64: a count of step units.
func Timedelta64(unit TimeUnit, step int32) DType { return dtype.Timedelta64(unit, step) }

// ParseDType is dtype.ParseDType: it reads NumPy's names of types.
func ParseDType(s string) (DType, ByteOrder, error) { return dtype.ParseDType(s) }

// ParseZarrName is dtype.ParseZarrName: it reads Zarr's names of types.
func ParseZarrName(name string) (DType, error) { return dtype.ParseZarrName(name) }

// ParseTimeUnit is dtype.ParseTimeUnit: it reads NumPy's letters of a unit.
func ParseTimeUnit(s string) (TimeUnit, error) { return dtype.ParseTimeUnit(s) }

// ScalarOf is dtype.ScalarOf: the scalar of a Go value.
func ScalarOf(v any) (Scalar, error) { return dtype.ScalarOf(v) }

// NewScalar is dtype.NewScalar: a scalar of a given type.
func NewScalar(t DType, v any) (Scalar, error) { return dtype.NewScalar(t, v) }

// Promote is dtype.Promote: NumPy's common type of several.
func Promote(types ...DType) (DType, error) { return dtype.Promote(types...) }

// CanCast is dtype.CanCast: it reports whether a casting rule allows a cast.
func CanCast(from, to DType, rule Casting) bool { return dtype.CanCast(from, to, rule) }

// ResultType is dtype.ResultType: NumPy's type of a result of the operands.
func ResultType(operands ...any) (DType, error) { return dtype.ResultType(operands...) }

// Record is dtype.Record: a structured type of fields at given offsets.
func Record(size int64, fields ...Field) (DType, error) { return dtype.Record(size, fields...) }
