package element

import "github.com/quiver-gpu/quiver/ndview"

// NumberBits returns the number of bits of a number: 1 for a bool, 4 for an int4, 16 for
// a float16. For complex numbers it is that of one part. It is 0 for types that are not
// numbers.
func (t Type) NumberBits() int {
	switch {
	case t.kind() == formInt:
		return t.form.bits
	case t.floatFormat() != nil:
		return t.floatFormat().bits
	case t.form != nil:
		return 0
	}
	switch t.dtype.Kind() {
	case ndview.KindBool:
		return 1
	case ndview.KindInt, ndview.KindUint:
		return int(8 * t.Size())
	default:
		return 0
	}
}

// Float64 returns one element of a real float type. raw has Size bytes. The result is
// exact. It is 0 for other types.
func (t Type) Float64(raw []byte) float64 {
	f := t.floatFormat()
	if f == nil || len(raw) < f.size() {
		return 0
	}
	return f.toFloat64(decodeUnsigned(raw[:f.size()]))
}

// PutFloat64 stores the element of a real float type that is nearest to x, ties to even.
// raw has Size bytes. Numbers beyond the range are stored as [Type.FromNumbers] does. It
// returns false, and stores nothing, for a NaN that the type lacks and for other types.
func (t Type) PutFloat64(raw []byte, x float64) bool {
	f := t.floatFormat()
	if f == nil || len(raw) < f.size() {
		return false
	}
	bits, ok := f.fromFloat64(x)
	if ok {
		copy(raw, encodeLittleEndian(bits, f.size()))
	}
	return ok
}
