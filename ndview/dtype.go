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
	KindRecord
)

// DType is the type of an array's elements. It is a small value: compare with
// ==. The zero DType is of no type, and every array refuses it.
//
// Elements are in the byte order of the host (little-endian on every platform
// that CUDA runs on). Other orders exist at the borders only: where a foreign
// type is read, its order is an answer beside the DType.
type DType struct {
	kind   Kind
	size   int32 // bytes an element
	unit   TimeUnit
	step   int32 // units a tick, for datetime and timedelta
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

// Bytes is n uninterpreted bytes an element. For n < 1 it is the zero DType.
func Bytes(n int32) DType {
	if n < 1 {
		return DType{}
	}
	return DType{kind: KindBytes, size: n}
}

// Kind is the family of the type.
func (t DType) Kind() Kind { return t.kind }

// Size is the number of bytes an element takes.
func (t DType) Size() int64 { return int64(t.size) }

// String is NumPy's name of the type: "int32", "datetime64[us]", "bool". Types
// that NumPy lacks have the names of ml_dtypes ("bfloat16"); Bytes is "V" and
// its size. A record is its fields, as NumPy writes them.
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
		return "datetime64" + t.metadata()
	case KindTimedelta:
		return "timedelta64" + t.metadata()
	case KindBytes:
		return fmt.Sprintf("V%d", t.size)
	case KindRecord:
		return t.NumPy()
	default:
		return "invalid"
	}
}
