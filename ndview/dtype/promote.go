package dtype

import (
	"fmt"
	"slices"

	"github.com/quiver-gpu/quiver/ndview/internal/tick"
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
		if promotionRank(t) > promotionRank(most) {
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

// promotionRank orders types as NumPy does to find the one of several that is asked
// about all others.
func promotionRank(t DType) int {
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
	case a.kind == KindTimedelta && isTimeCount(b):
		return a, nil
	case b.kind == KindTimedelta && isTimeCount(a):
		return b, nil
	case a.kind == KindRecord && b.kind == KindRecord:
		return promoteRecords(a, b)
	case a.IsNumeric() && b.IsNumeric():
		if t := promoteNumeric(a, b); t.kind != 0 {
			return t, nil
		}
	}
	return DType{}, fmt.Errorf("%s and %s have no common type: %w", a, b, ErrDType)
}

// isTimeCount tells whether a number is taken for a count of a timedelta's ticks.
func isTimeCount(t DType) bool {
	return t.kind == KindBool || t.kind == KindInt || t.kind == KindUint && t.size < 8
}

func (t DType) IsNumeric() bool {
	switch t.kind {
	case KindBool, KindInt, KindUint, KindFloat, KindBFloat, KindComplex:
		return true
	default:
		return false
	}
}

func (t DType) IsInteger() bool { return t.kind == KindInt || t.kind == KindUint }

// promoteNumeric is the zero DType where there is no answer.
func promoteNumeric(a, b DType) DType {
	if numericRank(a) > numericRank(b) || a.kind == KindBFloat {
		a, b = b, a
	}
	switch {
	case a.kind == KindBool:
		return b
	case b.kind == KindBFloat:
		if a.IsInteger() && a.size == 1 {
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

// numericRank orders the numeric kinds.
func numericRank(t DType) int {
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
	if t.IsInteger() {
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

// Casting says which casts are allowed: each rule what those before it allow,
// and more.
type Casting uint8

// NumPy's rules of casting.
const (
	CastNo       Casting = iota // none: the same type
	CastEquiv                   // the same values in another layout
	CastSafe                    // every value kept, but for integers in float64
	CastSameKind                // safe ones and those within a kind, as float64 to float32
	CastUnsafe                  // whatever can be converted
)

var castingNames = [...]string{"no", "equiv", "safe", "same_kind", "unsafe"}

// String is NumPy's name: "no", "equiv", "safe", "same_kind" or "unsafe".
func (c Casting) String() string {
	if int(c) >= len(castingNames) {
		return fmt.Sprintf("Casting(%d)", uint8(c))
	}
	return castingNames[c]
}

// CanCast tells whether NumPy 2's rule allows the cast; for bfloat16 it tells
// what ml_dtypes has registered with NumPy, which takes complex numbers to
// bfloat16 for a cast of the same kind. Other values than the rules allow nothing.
func CanCast(from, to DType, rule Casting) bool {
	needs, ok := strictestRule(from, to)
	return ok && needs <= rule && rule <= CastUnsafe
}

// strictestRule is the strictest rule that allows a cast; false if there is none.
func strictestRule(from, to DType) (Casting, bool) {
	switch {
	case from.kind == 0 || to.kind == 0:
		return 0, false
	case from == to:
		return CastNo, true
	case from.kind == KindRecord && to.kind == KindRecord:
		return castRecords(from, to)
	case from.kind == KindRecord: // a record of one field counts as that
		return CastUnsafe, len(from.record.fields) == 1
	case to.kind == KindRecord: // one value for every field
		return CastUnsafe, !slices.ContainsFunc(to.record.fields, func(f Field) bool { return !CanCast(from, f.DType, CastUnsafe) })
	case to.kind == KindBytes:
		switch {
		case from.size <= to.size:
			return CastSafe, true
		case from.kind == KindBytes:
			return CastSameKind, true
		}
		return CastUnsafe, true
	case from.IsNumeric() && to.IsNumeric():
		return castNumbers(from, to), true
	case from.IsTime() && to.kind == from.kind:
		return castTimes(from, to), true
	case from.kind == KindBFloat && to.IsTime(), from.IsTime() && to.kind == KindBFloat:
		return 0, false
	case to.kind == KindTimedelta && isTimeCount(from):
		return CastSafe, true
	case to.kind == KindTimedelta && from == Uint64:
		return CastSameKind, true
	default:
		return CastUnsafe, true
	}
}

func castNumbers(from, to DType) Casting {
	switch {
	case promoteNumeric(from, to) == to:
		return CastSafe
	case from == BFloat16 && to == Float16:
		return CastUnsafe
	case numericRank(from) <= numericRank(to), from.kind == KindComplex && to == BFloat16:
		return CastSameKind
	default:
		return CastUnsafe
	}
}

// castTimes compares the units of two datetimes or two timedeltas.
func castTimes(from, to DType) Casting {
	a, b := from.Tick(), to.Tick()
	strict := from.kind == KindTimedelta
	switch {
	case sameDuration(a, b):
		return CastNo
	case b.Unit == tick.Generic:
		return CastUnsafe
	case a.Unit == tick.Generic:
		return CastSafe
	case strict && (a.Unit <= tick.Month) != (b.Unit <= tick.Month):
		return CastUnsafe
	case a.Unit <= b.Unit && tick.Divides(a, b, strict):
		return CastSafe
	default:
		return CastSameKind
	}
}

// sameDuration tells whether NumPy takes a finer tick for a coarser one as it is:
// 1000 ms for a second, but not, the other way round, a second for 1000 ms.
func sameDuration(a, b tick.Tick) bool {
	return b.Unit >= tick.Second && a.Unit > b.Unit && a.Unit <= b.Unit+3 && a.Unit != tick.Generic &&
		tick.Divides(a, b, true) && tick.Divides(b, a, true)
}

// castRecords compares fields in order, whatever their names.
func castRecords(from, to DType) (Casting, bool) {
	a, b := from.record.fields, to.record.fields
	if len(a) != len(b) {
		return 0, false
	}
	worst := CastNo
	if from.size != to.size {
		worst = CastEquiv
	}
	for i := range a {
		level, ok := strictestRule(a[i].DType, b[i].DType)
		if !ok {
			return 0, false
		}
		worst = max(worst, level)
		if a[i].Offset != b[i].Offset {
			worst = max(worst, CastEquiv)
		}
		if a[i].Name != b[i].Name {
			worst = max(worst, CastSafe)
		}
		if !slices.Equal(a[i].Shape, b[i].Shape) {
			if a[i].Shape != nil {
				return CastUnsafe, true
			}
			worst = max(worst, CastSafe) // one element for all of a subarray
		}
	}
	return worst, true
}
