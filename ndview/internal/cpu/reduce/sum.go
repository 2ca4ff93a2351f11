package reduce

import (
	"sync"
	"unsafe"

	"github.com/quiver-gpu/quiver/ndview/internal/cpu/elementwise"
	"github.com/quiver-gpu/quiver/ndview/internal/half"
)

type (
	integer interface {
		int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
	}
	float interface{ float32 | float64 }
	// 16-bit floats.
	float16  uint16
	bfloat16 uint16
)

// sumInteger sums integers in 64 bits, with wraparound.
func sumInteger[T integer]() *Reducer {
	return kernel[T, int64]{
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
		across: func(acc []int64, x grid[T], _ int64, _ *Finish) {
			r := int64(0)
			for ; r+4 <= x.rows; r += 4 {
				a, b, c, d := x.row(r)[:len(acc)], x.row(r + 1)[:len(acc)], x.row(r + 2)[:len(acc)], x.row(r + 3)[:len(acc)]
				for i := range acc {
					acc[i] += int64(a[i]) + int64(b[i]) + int64(c[i]) + int64(d[i])
				}
			}
			for ; r < x.rows; r++ {
				for i, v := range x.row(r)[:len(acc)] {
					acc[i] += int64(v)
				}
			}
		},
		merge: each(func(acc, other *int64) { *acc += *other }),
		store: func(acc []int64, out results, f *Finish) {
			if f.What == Mean {
				means := make([]float64, len(acc))
				for i, v := range acc {
					means[i] = integerAs[T](v) / float64(f.Total)
				}
				storeFloats(means, out, f.To)
				return
			}
			storeIntegers[T](acc, out, f.To)
		},
	}.reducer()
}

// integerAs converts a sum of elements of type T to float64.
func integerAs[T integer](v int64) float64 {
	if ^T(0) > 0 {
		return float64(uint64(v))
	}
	return float64(v)
}

func storeIntegers[T integer](acc []int64, out results, to int32) {
	switch to {
	case int32(elementwise.Bool):
		storeEach(out, acc, func(v int64) bool { return v != 0 })
	case int32(elementwise.Int8), int32(elementwise.Uint8):
		storeEach(out, acc, func(v int64) int8 { return int8(v) })
	case int32(elementwise.Int16), int32(elementwise.Uint16):
		storeEach(out, acc, func(v int64) int16 { return int16(v) })
	case int32(elementwise.Int32), int32(elementwise.Uint32):
		storeEach(out, acc, func(v int64) int32 { return int32(v) })
	case int32(elementwise.Int64), int32(elementwise.Uint64):
		storeEach(out, acc, func(v int64) int64 { return v })
	default:
		floats := make([]float64, len(acc))
		for i, v := range acc {
			floats[i] = integerAs[T](v)
		}
		storeFloats(floats, out, to)
	}
}

func storeFloats(acc []float64, out results, to int32) {
	switch to {
	case int32(elementwise.Float16):
		storeEach(out, acc, half.Float64ToFloat16)
	case int32(elementwise.BFloat16):
		storeEach(out, acc, half.Float64ToBFloat16)
	case int32(elementwise.Float32):
		done := 0
		if to, ok := dense[float32](out, len(acc)); ok {
			done = narrowVectors(to, acc)
		}
		for i, v := range acc[done:] {
			*(*float32)(out.pointer(done + i)) = float32(v)
		}
	case int32(elementwise.Float64):
		if to, ok := dense[float64](out, len(acc)); ok {
			copy(to, acc)
			return
		}
		storeEach(out, acc, func(v float64) float64 { return v })
	case int32(elementwise.Complex64):
		storeEach(out, acc, func(v float64) complex64 { return complex64(complex(v, 0)) })
	default:
		storeEach(out, acc, func(v float64) complex128 { return complex(v, 0) })
	}
}

func storeComplexes(acc []complex128, out results, to int32) {
	if to == int32(elementwise.Complex64) {
		storeEach(out, acc, func(v complex128) complex64 { return complex64(v) })
	} else {
		storeEach(out, acc, func(v complex128) complex128 { return v })
	}
}

// divideMeans divides sums if f asks for means.
func divideMeans(sums []float64, f *Finish) []float64 {
	if f.What == Mean {
		for i := range sums {
			sums[i] /= float64(f.Total)
		}
	}
	return sums
}

// sumNarrow sums narrow floats in float64, so that the result is rounded once.
func sumNarrow[T float32 | float16 | bfloat16](sum func(x []T) float64, add func(acc []float64, x grid[T])) *Reducer {
	return kernel[T, float64]{
		along:  func(acc *float64, x []T, _ int64, _ *Finish) { *acc += sum(x) },
		across: func(acc []float64, x grid[T], _ int64, _ *Finish) { add(acc, x) },
		merge:  each(func(acc, other *float64) { *acc += *other }),
		store:  func(acc []float64, out results, f *Finish) { storeFloats(divideMeans(acc, f), out, f.To) },
	}.reducer()
}

func sumFloat32() *Reducer { return sumNarrow(sumFloats, addFloats) }

func sumFloats(x []float32) float64 {
	s, done := sumVectors(x)
	for _, v := range x[done:] {
		s += float64(v)
	}
	return s
}

// addFloats adds rows of floats to sums.
func addFloats(acc []float64, x grid[float32]) {
	for r := int64(0); r < x.rows; {
		rows, done := addVectors(acc, x, r)
		for last := r + rows; r < last; r++ {
			for i, v := range x.row(r)[done:] {
				acc[done+i] += float64(v)
			}
		}
	}
}

// sumHalf sums 16-bit floats, which widen converts to float32.
func sumHalf[T float16 | bfloat16](widen func(dst []float32, src []uint16)) *Reducer {
	type floats [1024]float32
	blocks := &sync.Pool{New: func() any { return new(floats) }}
	each := func(x []T, do func(first int, part []float32)) {
		block, _ := blocks.Get().(*floats)
		defer blocks.Put(block)
		for first := 0; first < len(x); first += len(block) {
			part := x[first:min(first+len(block), len(x))]
			widen(block[:], unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(part))), len(part)))
			do(first, block[:len(part)])
		}
	}
	return sumNarrow(
		func(x []T) (s float64) {
			each(x, func(_ int, part []float32) { s += sumFloats(part) })
			return s
		},
		func(acc []float64, x grid[T]) {
			for r := range x.rows {
				each(x.row(r), func(first int, part []float32) {
					addFloats(acc[first:], grid[float32]{unsafe.Pointer(unsafe.SliceData(part)), 1, int64(len(part)), 0})
				})
			}
		})
}

const nat = -1 << 63

// timeSum is a sum of timedeltas; one NaT makes it NaT.
type timeSum struct{ sum, nats int64 }

func (t *timeSum) add(x int64) {
	t.sum += x
	if x == nat {
		t.nats = 1
	}
}

func sumTimes() *Reducer {
	return kernel[int64, timeSum]{
		along: func(acc *timeSum, x []int64, _ int64, _ *Finish) {
			for _, v := range x {
				acc.add(v)
			}
		},
		across: eachRow(func(acc []timeSum, x []int64, _ *Finish) {
			for i, v := range x {
				acc[i].add(v)
			}
		}),
		merge: each(func(acc, other *timeSum) { acc.sum, acc.nats = acc.sum+other.sum, acc.nats|other.nats }),
		store: func(acc []timeSum, out results, f *Finish) {
			storeEach(out, acc, func(t timeSum) int64 {
				switch {
				case t.nats != 0 || t.sum == nat || f.What == Mean && f.Total == 0:
					return nat
				case f.What == Mean:
					return t.sum / f.Total
				}
				return t.sum
			})
		},
	}.reducer()
}

// compensated is a sum and the rounding errors of its additions.
type compensated struct{ sum, rest float64 }

func (e *compensated) add(x float64) {
	s := e.sum + x
	ofX := s - e.sum
	e.rest += (e.sum - (s - ofX)) + (x - ofX)
	e.sum = s
}

func (e *compensated) merge(other *compensated) {
	e.add(other.sum)
	e.rest += other.rest
}

// value returns the sum; infinite and overflowed sums ignore the rounding errors.
func (e *compensated) value() float64 {
	if v := e.sum + e.rest; v == v {
		return v
	}
	return e.sum
}

// values replaces sums by their values, in place.
func values(acc []compensated) []float64 {
	v := unsafe.Slice((*float64)(unsafe.Pointer(unsafe.SliceData(acc))), len(acc))
	for i := valuesVectors(acc); i < len(acc); i++ {
		v[i] = acc[i].value()
	}
	return v
}

// addAll adds numbers in groups of eight. The sum of a group is rounded; adding it to
// the total is exact.
func addAll[T integer | float](e *compensated, x []T) {
	for ; len(x) >= 8; x = x[8:] {
		a := (float64(x[0]) + float64(x[1])) + (float64(x[2]) + float64(x[3]))
		b := (float64(x[4]) + float64(x[5])) + (float64(x[6]) + float64(x[7]))
		e.add(a + b)
	}
	for _, v := range x {
		e.add(float64(v))
	}
}

// sumFloat64 sums numbers as float64 with compensation.
func sumFloat64[T integer | float64](along func(acc *compensated, x []T), across func(acc []compensated, x grid[T])) *Reducer {
	return kernel[T, compensated]{
		along:  func(acc *compensated, x []T, _ int64, _ *Finish) { along(acc, x) },
		across: func(acc []compensated, x grid[T], _ int64, _ *Finish) { across(acc, x) },
		merge:  each(func(acc, other *compensated) { acc.merge(other) }),
		store: func(acc []compensated, out results, f *Finish) {
			storeFloats(divideMeans(values(acc), f), out, f.To)
		},
	}.reducer()
}

// addEach adds rows of numbers to sums.
func addEach[T integer | float](acc []compensated, x grid[T]) {
	for r := range x.rows {
		for i, v := range x.row(r)[:len(acc)] {
			acc[i].add(float64(v))
		}
	}
}

// addDoubles is addAll with assembly.
func addDoubles(acc *compensated, x []float64) {
	lanes, done := compensatedVectors(x)
	if done > 0 {
		for i := range lanes {
			acc.merge(&lanes[i])
		}
	}
	addAll(acc, x[done:])
}

// addEachDouble is addEach with assembly.
func addEachDouble(acc []compensated, x grid[float64]) {
	for r := int64(0); r < x.rows; {
		rows, done := addCompensatedVectors(acc, x, r)
		for last := r + rows; r < last; r++ {
			for i, v := range x.row(r)[done:] {
				acc[done+i].add(v)
			}
		}
	}
}

// complexSum is a sum of complex numbers.
type complexSum struct{ re, im compensated }

func (t *complexSum) add(v complex128) {
	t.re.add(real(v))
	t.im.add(imag(v))
}

func sumComplex[T complex64 | complex128]() *Reducer {
	return kernel[T, complexSum]{
		along: func(acc *complexSum, x []T, _ int64, _ *Finish) {
			for _, v := range x {
				acc.add(complex128(v))
			}
		},
		across: eachRow(func(acc []complexSum, x []T, _ *Finish) {
			for i, v := range x {
				acc[i].add(complex128(v))
			}
		}),
		merge: each(func(acc, other *complexSum) {
			acc.re.merge(&other.re)
			acc.im.merge(&other.im)
		}),
		store: func(acc []complexSum, out results, f *Finish) {
			// Real and imaginary parts are separate sums.
			parts := values(unsafe.Slice((*compensated)(unsafe.Pointer(unsafe.SliceData(acc))), 2*len(acc)))
			divideMeans(parts, f)
			sums := unsafe.Slice((*complex128)(unsafe.Pointer(unsafe.SliceData(parts))), len(acc))
			storeComplexes(sums, out, f.To)
		},
	}.reducer()
}

func prodInteger[T integer]() *Reducer {
	return kernel[T, int64]{
		none: 1,
		along: func(acc *int64, x []T, _ int64, _ *Finish) {
			a, b := int64(1), int64(1)
			for ; len(x) >= 2; x = x[2:] {
				a *= int64(x[0])
				b *= int64(x[1])
			}
			for _, v := range x {
				a *= int64(v)
			}
			*acc *= a * b
		},
		across: eachRow(func(acc []int64, x []T, _ *Finish) {
			for i, v := range x[:len(acc)] {
				acc[i] *= int64(v)
			}
		}),
		merge: each(func(acc, other *int64) { *acc *= *other }),
		store: func(acc []int64, out results, f *Finish) { storeIntegers[T](acc, out, f.To) },
	}.reducer()
}

// prodFloat multiplies in float64, so that products of narrower floats are rounded
// once.
func prodFloat[T float | float16 | bfloat16](widen func(T) float64) *Reducer {
	return kernel[T, float64]{
		none: 1,
		along: func(acc *float64, x []T, _ int64, _ *Finish) {
			a, b := 1.0, 1.0
			for ; len(x) >= 2; x = x[2:] {
				a *= widen(x[0])
				b *= widen(x[1])
			}
			for _, v := range x {
				a *= widen(v)
			}
			*acc *= a * b
		},
		across: eachRow(func(acc []float64, x []T, _ *Finish) {
			for i, v := range x[:len(acc)] {
				acc[i] *= widen(v)
			}
		}),
		merge: each(func(acc, other *float64) { *acc *= *other }),
		store: func(acc []float64, out results, f *Finish) { storeFloats(acc, out, f.To) },
	}.reducer()
}

func prodComplex[T complex64 | complex128]() *Reducer {
	return kernel[T, complex128]{
		none: 1,
		along: func(acc *complex128, x []T, _ int64, _ *Finish) {
			for _, v := range x {
				*acc *= complex128(v)
			}
		},
		across: eachRow(func(acc []complex128, x []T, _ *Finish) {
			for i, v := range x {
				acc[i] *= complex128(v)
			}
		}),
		merge: each(func(acc, other *complex128) { *acc *= *other }),
		store: func(acc []complex128, out results, f *Finish) { storeComplexes(acc, out, f.To) },
	}.reducer()
}
