package ndview

import (
	"fmt"
	"slices"

	"github.com/quiver-gpu/quiver/ndview/internal/tick"
)

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
	needs, ok := castLevel(from, to)
	return ok && needs <= rule && rule <= CastUnsafe
}

// castLevel is the strictest rule that allows a cast; false if there is none.
func castLevel(from, to DType) (Casting, bool) {
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
	case from.isNumeric() && to.isNumeric():
		return castNumbers(from, to), true
	case from.IsTime() && to.kind == from.kind:
		return castTimes(from, to), true
	case from.kind == KindBFloat && to.IsTime(), from.IsTime() && to.kind == KindBFloat:
		return 0, false
	case to.kind == KindTimedelta && countsTime(from):
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
	case category(from) <= category(to), from.kind == KindComplex && to == BFloat16:
		return CastSameKind
	default:
		return CastUnsafe
	}
}

// castTimes compares the units of two datetimes or two timedeltas.
func castTimes(from, to DType) Casting {
	a, b := from.tick(), to.tick()
	strict := from.kind == KindTimedelta
	switch {
	case sameLength(a, b):
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

// sameLength tells whether NumPy takes a finer tick for a coarser one as it is:
// 1000 ms for a second, but not, the other way round, a second for 1000 ms.
func sameLength(a, b tick.Tick) bool {
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
		level, ok := castLevel(a[i].DType, b[i].DType)
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
