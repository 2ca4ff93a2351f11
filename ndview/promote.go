package ndview

import (
	"fmt"
	"slices"
)

// Promote is the type that NumPy 2 gives to what is computed from elements of
// several types: the smallest to which each casts safely, with exceptions for
// integers of 64 bits and float64. In any order the answer is the same: int8,
// uint8 and float16 make float16, since each does with float16. (NumPy has no
// type, or one, of bfloat16, int16 and float32 as the order goes; here there is
// none.)
//
// bfloat16 is promoted as ml_dtypes does it: with bool and integers of 8 bits it
// stays, with float32 and wider it gives way, with others there is none. Times
// become the coarsest unit that counts all. Bytes promote with their equals;
// records field by field, if these have the same names in the same order, to a
// packed one, unless they are the same. Types that have no common one, and no
// types at all, are ErrDType.
func Promote(types ...DType) (DType, error) {
	if len(types) == 0 {
		return DType{}, fmt.Errorf("the common type of no types: %w", ErrDType)
	}
	most := types[0]
	for _, t := range types {
		if knowledge(t) > knowledge(most) {
			most = t
		}
	}
	if most.kind == 0 {
		return DType{}, fmt.Errorf("dtype %s: %w", most, ErrDType)
	}
	common := most
	for _, t := range types {
		if t == most {
			continue
		}
		with, err := promote(most, t)
		if err == nil && common != most {
			with, err = promote(common, with)
		}
		if err != nil {
			return DType{}, err
		}
		common = with
	}
	return common, nil
}

// knowledge orders types as NumPy does to find the one of several that is asked
// about all others.
func knowledge(t DType) int {
	switch t.kind {
	case KindBFloat:
		return 5
	case KindDatetime:
		return 4
	case KindTimedelta:
		return 3
	case KindFloat, KindComplex:
		if t == Float16 {
			return 2
		}
		return 1
	default:
		return 0
	}
}

func promote(a, b DType) (DType, error) {
	switch {
	case a == b:
		return a, nil
	case a.kind == KindDatetime && b.IsTime(), b.kind == KindDatetime && a.IsTime():
		return commonTime(KindDatetime, a, b)
	case a.kind == KindTimedelta && b.kind == KindTimedelta:
		return commonTime(KindTimedelta, a, b)
	case a.kind == KindTimedelta && countsTime(b):
		return a, nil
	case b.kind == KindTimedelta && countsTime(a):
		return b, nil
	case a.kind == KindRecord && b.kind == KindRecord:
		return promoteRecords(a, b)
	case a.isNumeric() && b.isNumeric():
		if t := promoteNumeric(a, b); t.kind != 0 {
			return t, nil
		}
	}
	return DType{}, fmt.Errorf("%s and %s have no common type: %w", a, b, ErrDType)
}

// countsTime tells whether a number is taken for a count of a timedelta's ticks.
func countsTime(t DType) bool {
	return t.kind == KindBool || t.kind == KindInt || t.kind == KindUint && t.size < 8
}

func (t DType) isNumeric() bool {
	switch t.kind {
	case KindBool, KindInt, KindUint, KindFloat, KindBFloat, KindComplex:
		return true
	default:
		return false
	}
}

func (t DType) isInteger() bool { return t.kind == KindInt || t.kind == KindUint }

// promoteNumeric is the zero DType where there is no answer.
func promoteNumeric(a, b DType) DType {
	if category(a) > category(b) || a.kind == KindBFloat {
		a, b = b, a
	}
	switch {
	case a.kind == KindBool:
		return b
	case b.kind == KindBFloat:
		if a.isInteger() && a.size == 1 {
			return b
		}
		if a.kind == KindComplex || a == Float32 || a == Float64 {
			return a
		}
		return DType{}
	case a.kind == b.kind:
		return DType{kind: a.kind, size: max(a.size, b.size)}
	case a.kind == KindUint && b.kind == KindInt:
		switch {
		case a.size < b.size:
			return b
		case a.size < 8:
			return DType{kind: KindInt, size: 2 * a.size}
		default:
			return Float64
		}
	case b.kind == KindFloat:
		return DType{kind: KindFloat, size: max(b.size, floatSize(a))}
	default:
		return DType{kind: KindComplex, size: max(b.size, 2*floatSize(a))}
	}
}

// category orders the numeric kinds.
func category(t DType) int {
	switch t.kind {
	case KindBool:
		return 0
	case KindUint:
		return 1
	case KindInt:
		return 2
	case KindFloat, KindBFloat:
		return 3
	default:
		return 4
	}
}

// floatSize is the size of the smallest float that holds a real number's
// values, but for the last bits of integers above 2^53.
func floatSize(t DType) int32 {
	if t.isInteger() {
		return min(2*t.size, 8)
	}
	return t.size
}

func promoteRecords(a, b DType) (DType, error) {
	fields := a.Fields()
	for i, f := range b.record.fields {
		if len(b.record.fields) != len(fields) || f.Name != fields[i].Name || !slices.Equal(f.Shape, fields[i].Shape) {
			return DType{}, fmt.Errorf("fields of %s and %s differ: %w", a, b, ErrDType)
		}
		var err error
		if fields[i].DType, err = Promote(fields[i].DType, f.DType); err != nil {
			return DType{}, fmt.Errorf("field %q: %w", f.Name, err)
		}
	}
	return Packed(fields...)
}
