package cpu

// Type is the type of an element as computations know it. Kernels have the same
// codes.
type Type uint32

// The types of elements.
const (
	Bool Type = iota
	Int8
	Uint8
	Int16
	Uint16
	Int32
	Uint32
	Int64
	Uint64
	Float16
	BFloat16
	Float32
	Float64
	Complex64
	Complex128
	Types // how many there are
)

// Size is the number of bytes of an element.
func (t Type) Size() int64 { return sizes[t] }

var sizes = [Types]int64{1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8, 8, 16}

// IsInteger tells whether the type is an integer; a Bool is none.
func (t Type) IsInteger() bool { return Int8 <= t && t <= Uint64 }

// Half tells whether the type is a float of 16 bits.
func (t Type) Half() bool { return t == Float16 || t == BFloat16 }

// Bits is a type that stands for those whose elements are the same bits.
func (t Type) Bits() Type {
	switch t {
	case Bool, Int8:
		return Uint8
	case Int16, Int32, Int64:
		return t + 1
	}
	return t
}
