package ndview

import (
	"fmt"
	"math"
	"reflect"
)

type scalarOperand struct {
	kind  Kind
	weak  bool
	dtype DType
	i     int64
	u     uint64
	f     float64
	c     complex128
}

func (s scalarOperand) String() string { return fmt.Sprint("scalar ", s.dtype) }

func scalarOf(v any) (scalarOperand, error) {
	r := reflect.ValueOf(v)
	switch v := v.(type) {
	case bool:
		s := scalarOperand{kind: KindBool, dtype: Bool}
		if v {
			s.i, s.u, s.f, s.c = 1, 1, 1, 1
		}
		return s, nil
	case int:
		return scalarOperand{kind: KindInt, weak: true, dtype: Int64, i: int64(v), u: uint64(v), f: float64(v), c: complex(float64(v), 0)}, nil
	case float64:
		return scalarOperand{kind: KindFloat, weak: true, dtype: Float64, f: v, c: complex(v, 0)}, nil
	case complex128:
		return scalarOperand{kind: KindComplex, weak: true, dtype: Complex128, c: v}, nil
	case int8, int16, int32, int64:
		n := r.Int()
		return scalarOperand{kind: KindInt, dtype: DType{kind: KindInt, size: int32(r.Type().Size())}, i: n, u: uint64(n), f: float64(n), c: complex(float64(n), 0)}, nil
	case uint8, uint16, uint32, uint64:
		n := r.Uint()
		return scalarOperand{kind: KindUint, dtype: DType{kind: KindUint, size: int32(r.Type().Size())}, i: int64(n), u: n, f: float64(n), c: complex(float64(n), 0)}, nil
	case float32:
		return scalarOperand{kind: KindFloat, dtype: Float32, f: float64(v), c: complex(float64(v), 0)}, nil
	case complex64:
		return scalarOperand{kind: KindComplex, dtype: Complex64, c: complex128(v)}, nil
	}
	return scalarOperand{}, fmt.Errorf("%T is no operand: %w", v, ErrDType)
}

func rank(k Kind) int {
	switch k {
	case KindBool:
		return 0
	case KindInt, KindUint:
		return 1
	case KindFloat, KindBFloat:
		return 2
	}
	return 3
}

func (s scalarOperand) DType(with DType) (DType, error) {
	if !s.weak || with.size == 0 {
		return s.dtype, nil
	}
	if rank(s.kind) <= rank(with.kind) {
		return with, nil
	}
	if s.kind == KindComplex && (with == Float16 || with == Float32 || with == BFloat16) {
		return Complex64, nil
	}
	return s.dtype, nil
}

func (s scalarOperand) beyond(t DType) int {
	if s.kind != KindInt || !t.integer() || !s.weak {
		return 0
	}
	if t.kind == KindUint {
		if s.i < 0 {
			return -1
		}
		if t.size < 8 && s.i >= 1<<(8*t.size) {
			return 1
		}
		return 0
	}
	if t.size < 8 && s.i >= 1<<(8*t.size-1) {
		return 1
	}
	if t.size < 8 && s.i < -1<<(8*t.size-1) {
		return -1
	}
	return 0
}

func (s scalarOperand) bits(t DType) (b [2]uint64, err error) {
	switch t.kind {
	case KindBool, KindInt, KindUint:
		if s.beyond(t) != 0 {
			return b, fmt.Errorf("%d is out of range of %s", s.i, t)
		}
		b[0] = s.u & (math.MaxUint64 >> (64 - 8*t.size))
	case KindFloat:
		switch t.size {
		case 4:
			b[0] = uint64(math.Float32bits(float32(s.f)))
		case 8:
			b[0] = math.Float64bits(s.f)
		default:
			return b, ErrDType
		}
	case KindComplex:
		if t.size == 8 {
			b[0] = uint64(math.Float32bits(float32(real(s.c)))) | uint64(math.Float32bits(float32(imag(s.c))))<<32
		} else {
			b[0], b[1] = math.Float64bits(real(s.c)), math.Float64bits(imag(s.c))
		}
	default:
		return b, ErrDType
	}
	return b, nil
}

func promoteTypes(types ...DType) (DType, error) {
	t := types[0]
	for _, o := range types[1:] {
		t = promote2(t, o)
	}
	return t, nil
}

func promote2(a, b DType) DType {
	if rank(a.kind) > rank(b.kind) {
		a, b = b, a
	}
	switch {
	case a == b || a.kind == KindBool:
		return b
	case a.kind == b.kind && a.kind != KindComplex:
		if a.size > b.size {
			return a
		}
		return b
	case rank(a.kind) == 1 && rank(b.kind) == 1:
		if a.kind == KindUint {
			a, b = b, a
		}
		if a.size > b.size {
			return a
		}
		if b.size == 8 {
			return Float64
		}
		return DType{kind: KindInt, size: 2 * b.size}
	case rank(b.kind) == 2:
		if rank(a.kind) == 2 {
			return Float32
		}
		if a.size >= 4 {
			return Float64
		}
		if a.size == 2 && b.size == 2 {
			return Float32
		}
		return b
	}
	if a.kind != KindComplex && a.size >= 4 && a != Float32 || a == Complex128 {
		return Complex128
	}
	return b
}
