package reduce

import (
	"math"
	"unsafe"

	"github.com/quiver-gpu/quiver/ndview/internal/cpu/elementwise"
	"github.com/quiver-gpu/quiver/ndview/internal/half"
)

type (
	integer interface {
		int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
	}
	float interface{ float32 | float64 }
	// Elements of 16 bits that Go lacks.
	float16  uint16
	bfloat16 uint16
)

// sumInteger adds integers up in 64 bits, where they wrap.
func sumInteger[T integer]() *Reducer {
	return operation[T, int64]{
		along: func(acc *int64, x []T, _ int64, _ *Finish) {
			var a, b, c, d int64
			for ; len(x) >= 4; x = x[4:] {
				a += int64(x[0])
				b += int64(x[1])
				c += int64(x[2])
				d += int64(x[3])
			}
			for _, v := range x {
				a += int64(v)
			}
			*acc += a + b + c + d
		},
		across: func(acc []int64, x []T, _ int64, _ *Finish) {
			for i, v := range x[:len(acc)] {
				acc[i] += int64(v)
			}
		},
		merge: func(acc, other *int64) { *acc += *other },
		store: func(acc *int64, out unsafe.Pointer, f *Finish) {
			if f.What == Mean {
				storeFloat(integerAs[T](*acc)/float64(f.Total), out, f.To)
				return
			}
			storeInteger[T](*acc, out, f.To)
		},
	}.reducer()
}

// integerAs is a sum of elements of type T, as a float64.
func integerAs[T integer](v int64) float64 {
	if ^T(0) > 0 {
		return float64(uint64(v))
	}
	return float64(v)
}

func storeInteger[T integer](v int64, out unsafe.Pointer, to int32) {
	switch to {
	case int32(elementwise.Bool):
		*(*bool)(out) = v != 0
	case int32(elementwise.Int8), int32(elementwise.Uint8):
		*(*int8)(out) = int8(v)
	case int32(elementwise.Int16), int32(elementwise.Uint16):
		*(*int16)(out) = int16(v)
	case int32(elementwise.Int32), int32(elementwise.Uint32):
		*(*int32)(out) = int32(v)
	case int32(elementwise.Int64), int32(elementwise.Uint64):
		*(*int64)(out) = v
	default:
		storeFloat(integerAs[T](v), out, to)
	}
}

func storeFloat(v float64, out unsafe.Pointer, to int32) {
	switch to {
	case int32(elementwise.Float16):
		*(*uint16)(out) = half.Float64ToFloat16(v)
	case int32(elementwise.BFloat16):
		*(*uint16)(out) = half.Float64ToBFloat16(v)
	case int32(elementwise.Float32):
		*(*float32)(out) = float32(v)
	case int32(elementwise.Float64):
		*(*float64)(out) = v
	default:
		storeComplex(complex(v, 0), out, to)
	}
}

func storeComplex(v complex128, out unsafe.Pointer, to int32) {
	if to == int32(elementwise.Complex64) {
		*(*complex64)(out) = complex64(v)
	} else {
		*(*complex128)(out) = v
	}
}

func meanOf(sum float64, f *Finish) float64 {
	if f.What == Mean {
		return sum / float64(f.Total)
	}
	return sum
}

// sumFloat32 adds up in float64, so that the result is rounded once.
func sumFloat32() *Reducer {
	return operation[float32, float64]{
		along: func(acc *float64, x []float32, _ int64, _ *Finish) { *acc += addFloat32s(x) },
		across: func(acc []float64, x []float32, _ int64, _ *Finish) {
			for i, v := range x[:len(acc)] {
				acc[i] += float64(v)
			}
		},
		merge: func(acc, other *float64) { *acc += *other },
		store: func(acc *float64, out unsafe.Pointer, f *Finish) { storeFloat(meanOf(*acc, f), out, f.To) },
	}.reducer()
}

func addFloat32s(x []float32) float64 {
	var s [8]float64
	for ; len(x) >= 8; x = x[8:] {
		s[0] += float64(x[0])
		s[1] += float64(x[1])
		s[2] += float64(x[2])
		s[3] += float64(x[3])
		s[4] += float64(x[4])
		s[5] += float64(x[5])
		s[6] += float64(x[6])
		s[7] += float64(x[7])
	}
	for i, v := range x {
		s[i] += float64(v)
	}
	return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]))
}

// sumHalf is sumFloat32 for elements of 16 bits.
func sumHalf[T float16 | bfloat16](widen func(uint16) float32) *Reducer {
	return operation[T, float64]{
		along: func(acc *float64, x []T, _ int64, _ *Finish) {
			var a, b float64
			for ; len(x) >= 2; x = x[2:] {
				a += float64(widen(uint16(x[0])))
				b += float64(widen(uint16(x[1])))
			}
			for _, v := range x {
				a += float64(widen(uint16(v)))
			}
			*acc += a + b
		},
		across: func(acc []float64, x []T, _ int64, _ *Finish) {
			for i, v := range x[:len(acc)] {
				acc[i] += float64(widen(uint16(v)))
			}
		},
		merge: func(acc, other *float64) { *acc += *other },
		store: func(acc *float64, out unsafe.Pointer, f *Finish) { storeFloat(meanOf(*acc, f), out, f.To) },
	}.reducer()
}

// exact is a sum and what its additions lost.
type exact struct{ sum, rest float64 }

func (e *exact) add(x float64) {
	s := e.sum + x
	ofX := s - e.sum
	e.rest += (e.sum - (s - ofX)) + (x - ofX)
	e.sum = s
}

func (e *exact) merge(other *exact) {
	e.add(other.sum)
	e.rest += other.rest
}

// value is the sum; one that is infinite or overflowed has no rest.
func (e *exact) value() float64 {
	if math.IsInf(e.sum, 0) || e.sum != e.sum {
		return e.sum
	}
	return e.sum + e.rest
}

// addAll adds numbers in eights, whose sum is rounded thrice, and what that sum
// is added to loses nothing.
func addAll[T integer | float](e *exact, x []T) {
	for ; len(x) >= 8; x = x[8:] {
		a := (float64(x[0]) + float64(x[1])) + (float64(x[2]) + float64(x[3]))
		b := (float64(x[4]) + float64(x[5])) + (float64(x[6]) + float64(x[7]))
		e.add(a + b)
	}
	for _, v := range x {
		e.add(float64(v))
	}
}

// sumFloat64 adds numbers up as float64, and keeps what is lost.
func sumFloat64[T integer | float64]() *Reducer {
	return operation[T, exact]{
		along: func(acc *exact, x []T, _ int64, _ *Finish) { addAll(acc, x) },
		across: func(acc []exact, x []T, _ int64, _ *Finish) {
			for i, v := range x[:len(acc)] {
				acc[i].add(float64(v))
			}
		},
		merge: func(acc, other *exact) { acc.merge(other) },
		store: func(acc *exact, out unsafe.Pointer, f *Finish) { storeFloat(meanOf(acc.value(), f), out, f.To) },
	}.reducer()
}

// twofold is a sum of complex numbers.
type twofold struct{ re, im exact }

func sumComplex[T complex64 | complex128]() *Reducer {
	add := func(acc *twofold, v complex128) {
		acc.re.add(real(v))
		acc.im.add(imag(v))
	}
	return operation[T, twofold]{
		along: func(acc *twofold, x []T, _ int64, _ *Finish) {
			for _, v := range x {
				add(acc, complex128(v))
			}
		},
		across: func(acc []twofold, x []T, _ int64, _ *Finish) {
			for i, v := range x {
				add(&acc[i], complex128(v))
			}
		},
		merge: func(acc, other *twofold) {
			acc.re.merge(&other.re)
			acc.im.merge(&other.im)
		},
		store: func(acc *twofold, out unsafe.Pointer, f *Finish) {
			storeComplex(complex(meanOf(acc.re.value(), f), meanOf(acc.im.value(), f)), out, f.To)
		},
	}.reducer()
}

const nat = math.MinInt64

// ticks is a sum of timedeltas; one NaT makes it NaT.
type ticks struct{ sum, nats int64 }

func (t *ticks) add(x int64) {
	t.sum += x
	if x == nat {
		t.nats = 1
	}
}

func sumTicks() *Reducer {
	return operation[int64, ticks]{
		along: func(acc *ticks, x []int64, _ int64, _ *Finish) {
			for _, v := range x {
				acc.add(v)
			}
		},
		across: func(acc []ticks, x []int64, _ int64, _ *Finish) {
			for i, v := range x {
				acc[i].add(v)
			}
		},
		merge: func(acc, other *ticks) { acc.sum, acc.nats = acc.sum+other.sum, acc.nats|other.nats },
		store: func(acc *ticks, out unsafe.Pointer, f *Finish) {
			switch v := (*int64)(out); {
			case acc.nats != 0 || acc.sum == nat:
				*v = nat
			case f.What != Mean:
				*v = acc.sum
			case f.Total == 0:
				*v = nat
			default:
				*v = acc.sum / f.Total
			}
		},
	}.reducer()
}
