package ndview

import (
	"fmt"
	"math"
	"reflect"

	"github.com/quiver-gpu/quiver/ndview/internal/half"
)

// scalarBytes are the bytes of a Go number as an element of a dtype. A whole
// number that the dtype does not hold is ErrDType, as is a fraction for one of
// whole numbers.
func scalarBytes(t DType, v any) ([]byte, error) {
	refuse := fmt.Errorf("%v (%T) as a scalar of %s: %w", v, v, t, ErrDType)
	r := reflect.ValueOf(v)
	switch {
	case !r.IsValid():
		return nil, refuse
	case r.Kind() == reflect.Bool:
		if t != Bool {
			return nil, refuse
		}
		return bytesOf(r.Bool()), nil
	case r.CanInt():
		return wholeBytes(t, r.Int() < 0, uint64(r.Int()), float64(r.Int()), refuse)
	case r.CanUint():
		return wholeBytes(t, false, r.Uint(), float64(r.Uint()), refuse)
	case r.CanFloat():
		return realBytes(t, r.Float(), refuse)
	case r.CanComplex() && t == Complex64:
		return bytesOf(complex64(r.Complex())), nil
	case r.CanComplex() && t == Complex128:
		return bytesOf(r.Complex()), nil
	default:
		return nil, refuse
	}
}

// wholeBytes takes a number as the 64 bits of an int64 if it is negative, else
// of a uint64.
func wholeBytes(t DType, negative bool, bits uint64, real float64, refuse error) ([]byte, error) {
	switch t.kind {
	case KindInt, KindDatetime, KindTimedelta:
		most := uint64(1)<<(8*t.size-1) - 1
		if !negative && bits > most || negative && ^bits > most {
			return nil, refuse
		}
	case KindUint:
		if negative || t.size < 8 && bits>>(8*t.size) != 0 {
			return nil, refuse
		}
	default:
		return realBytes(t, real, refuse)
	}
	return bytesOf(bits)[:t.size], nil
}

func realBytes(t DType, v float64, refuse error) ([]byte, error) {
	switch t {
	case Float16:
		return bytesOf(half.Float64ToFloat16(v)), nil
	case BFloat16:
		return bytesOf(half.Float64ToBFloat16(v)), nil
	case Float32:
		return bytesOf(math.Float32bits(float32(v))), nil
	case Float64:
		return bytesOf(v), nil
	case Complex64:
		return bytesOf(complex(float32(v), 0)), nil
	case Complex128:
		return bytesOf(complex(v, 0)), nil
	default:
		return nil, refuse
	}
}

// bytesOf are the bytes of a value in memory.
func bytesOf[T any](v T) []byte { return structOf(&v) }
