package dtype

import (
	"fmt"
	"slices"

	"github.com/quiver-gpu/quiver/ndview/internal/tick"
)

// Promote returns NumPy 2's common type of several: the smallest to which each casts
// safely, except that integers of 64 bits cast to float64. The order of the arguments
// does not matter: int8, uint8 and float16 have the type float16, because each pair
// with float16 has it. Where NumPy's result depends on the order, as for bfloat16,
// int16 and float32, no common type exists.
//
// bfloat16 promotes as in ml_dtypes: with bool and 8-bit integers to bfloat16, with
// float32 and wider types to these, and with other types not at all. Times promote to
// the coarsest unit that represents all. Bytes promote with the same type only.
// Records of the same field names promote field by field to a packed record; equal
// records stay as they are. Promote returns ErrDType if no common type exists, or
// without arguments.
func Promote(types ...DType) (DType, error) {
	if len(types) == 0 {
		return DType{}, fmt.Errorf("dtype.Promote: no types: %w", ErrDType)
	}
	leading := types[0]
	for _, t := range types {
		if promotionRank(t) > promotionRank(leading) {
			leading = t
		}
	}
	if leading.kind == 0 {
		return DType{}, fmt.Errorf("dtype.Promote: dtype %s: %w", leading, ErrDType)
	}
	common := leading
	for _, t := range types {
		if t == leading {
			continue
		}
		with, err := promote(leading, t)
		if err == nil && common != leading {
			with, err = promote(common, with)
		}
		if err != nil {
			return DType{}, err
		}
		common = with
	}
	return common, nil
}

// promotionRank orders types as NumPy does to choose the one that is promoted with
// each of the others first.
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

// promote returns the common type of two types.
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
	return DType{}, fmt.Errorf("dtype.Promote: %s and %s have no common type: %w", a, b, ErrDType)
}

// isTimeCount reports whether NumPy takes a number as the count of a timedelta.
func isTimeCount(t DType) bool {
	return t.kind == KindBool || t.kind == KindInt || t.kind == KindUint && t.size < 8
}

// Single returns the type of single precision: float32 for float64, complex64 for
// complex128, and every other type unchanged. With [ResultType] it is pygpu's
// get_common_dtype without doubles.
func (t DType) Single() DType {
	switch t {
	case Float64:
		return Float32
	case Complex128:
		return Complex64
	}
	return t
}

// IsNumeric reports whether t is bool or a number, not a time.
func (t DType) IsNumeric() bool {
	switch t.kind {
	case KindBool, KindInt, KindUint, KindFloat, KindBFloat, KindComplex:
		return true
	default:
		return false
	}
}

// IsInteger reports whether t is a signed or unsigned integer.
func (t DType) IsInteger() bool { return t.kind == KindInt || t.kind == KindUint }

// promoteNumeric returns the common type of two numeric types, or the zero DType.
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

// floatSize returns the size of the smallest float that represents a real type, except
// for the last bits of integers above 2^53.
func floatSize(t DType) int32 {
	if t.IsInteger() {
		return min(2*t.size, 8)
	}
	return t.size
}

// promoteRecords promotes the fields of two records pairwise.
func promoteRecords(a, b DType) (DType, error) {
	fields := a.Fields()
	for i, f := range b.record.fields {
		if len(b.record.fields) != len(fields) || f.Name != fields[i].Name || !slices.Equal(f.Shape, fields[i].Shape) {
			return DType{}, fmt.Errorf("dtype.Promote: fields of %s and %s differ: %w", a, b, ErrDType)
		}
		var err error
		if fields[i].DType, err = Promote(fields[i].DType, f.DType); err != nil {
			return DType{}, fmt.Errorf("field %q: %w", f.Name, err)
		}
	}
	return Packed(fields...)
}

// Casting is a rule that allows casts. Each rule allows those of the rules before it.
type Casting uint8

// NumPy's rules of casting.
const (
	CastNo       Casting = iota // the same type
	CastEquiv                   // the same values in another layout
	CastSafe                    // every value is kept, except integers of 64 bits in float64
	CastSameKind                // within a kind, as float64 to float32
	CastUnsafe                  // every possible conversion
)

var castingNames = [...]string{"no", "equiv", "safe", "same_kind", "unsafe"}

// String returns NumPy's name: "no", "equiv", "safe", "same_kind" or "unsafe".
func (c Casting) String() string {
	if int(c) >= len(castingNames) {
		return fmt.Sprintf("Casting(%d)", uint8(c))
	}
	return castingNames[c]
}

// CanCast reports whether NumPy 2's rule allows the cast. For bfloat16 the rules are
// those that ml_dtypes registers with NumPy; they allow complex numbers to bfloat16 as
// the same kind. Unknown rules allow nothing.
func CanCast(from, to DType, rule Casting) bool {
	needs, ok := strictestRule(from, to)
	return ok && needs <= rule && rule <= CastUnsafe
}

// strictestRule returns the strictest rule that allows a cast, and false if none does.
func strictestRule(from, to DType) (Casting, bool) {
	switch {
	case from.kind == 0 || to.kind == 0:
		return 0, false
	case from == to:
		return CastNo, true
	case from.kind == KindRecord && to.kind == KindRecord:
		return castRecords(from, to)
	case from.kind == KindRecord: // a record of one field counts as that field
		return CastUnsafe, len(from.record.fields) == 1
	case to.kind == KindRecord: // the value is cast to every field
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

// castNumbers returns the strictest rule for a cast between numeric types.
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

// castTimes returns the strictest rule for a cast between units of two datetimes or
// two timedeltas.
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

// sameDuration reports whether NumPy casts a finer unit to a coarser one without
// change: 1000 ms to a second, but not a second to 1000 ms.
func sameDuration(a, b tick.Tick) bool {
	return b.Unit >= tick.Second && a.Unit > b.Unit && a.Unit <= b.Unit+3 && a.Unit != tick.Generic &&
		tick.Divides(a, b, true) && tick.Divides(b, a, true)
}

// castRecords compares fields in order, with any names.
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
			worst = max(worst, CastSafe) // one element is repeated over a subarray
		}
	}
	return worst, true
}
