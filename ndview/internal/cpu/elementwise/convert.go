package elementwise

import (
	"unsafe"

	"github.com/quiver-gpu/quiver/ndview/internal/half"
)

// Convert copies n elements and converts their type. The steps are bytes between
// elements.
type Convert func(to unsafe.Pointer, toStep int64, from unsafe.Pointer, fromStep int64, n int)

// converts are indexed by source and destination. There is one from each type to every
// type that NumPy promotes it to, and from each type of a loop to the types of results.
var converts = func() (c [Types][Types]Convert) {
	fromReal[uint8](&c, Bool)
	fromReal[int8](&c, Int8)
	fromReal[uint8](&c, Uint8)
	fromReal[int16](&c, Int16)
	fromReal[uint16](&c, Uint16)
	fromReal[int32](&c, Int32)
	fromReal[uint32](&c, Uint32)
	fromReal[int64](&c, Int64)
	fromReal[uint64](&c, Uint64)
	fromReal[float32](&c, Float32)
	fromReal[float64](&c, Float64)
	fromHalf(&c, Float16, half.Float16ToFloat32, half.Float16sToFloat32s)
	fromHalf(&c, BFloat16, half.BFloat16ToFloat32, half.BFloat16sToFloat32s)
	c[Bool][Bool] = c[Uint8][Uint8]
	c[Uint8][Bool] = c[Uint8][Uint8] // 0 and 1, as loops of bools compute in uint8
	c[Float32][Float16] = contiguousOrEach(half.Float32ToFloat16, half.Float32sToFloat16s)
	c[Float32][BFloat16] = contiguousOrEach(half.Float32ToBFloat16, half.Float32sToBFloat16s)
	c[Complex64][Complex64] = convertEach[complex64, complex64](func(v complex64) complex64 { return v })
	c[Complex64][Complex128] = convertEach[complex64, complex128](func(v complex64) complex128 { return complex128(v) })
	c[Complex128][Complex128] = convertEach[complex128, complex128](func(v complex128) complex128 { return v })
	return c
}()

func fromReal[S ordinary](c *[Types][Types]Convert, from Type) {
	c[from][Int8] = convertReal[S, int8]
	c[from][Uint8] = convertReal[S, uint8]
	c[from][Int16] = convertReal[S, int16]
	c[from][Uint16] = convertReal[S, uint16]
	c[from][Int32] = convertReal[S, int32]
	c[from][Uint32] = convertReal[S, uint32]
	c[from][Int64] = convertReal[S, int64]
	c[from][Uint64] = convertReal[S, uint64]
	c[from][Float32] = convertReal[S, float32]
	c[from][Float64] = convertReal[S, float64]
	c[from][Complex64] = convertEach[S, complex64](func(v S) complex64 { return complex(float32(v), 0) })
	c[from][Complex128] = convertEach[S, complex128](func(v S) complex128 { return complex(float64(v), 0) })
}

func fromHalf(c *[Types][Types]Convert, from Type, widen func(uint16) float32, all func([]float32, []uint16)) {
	c[from][Float32] = contiguousOrEach(widen, all)
	c[from][Float64] = convertEach[uint16, float64](func(v uint16) float64 { return float64(widen(v)) })
	c[from][Complex64] = convertEach[uint16, complex64](func(v uint16) complex64 { return complex(widen(v), 0) })
	c[from][Complex128] = convertEach[uint16, complex128](func(v uint16) complex128 { return complex(float64(widen(v)), 0) })
}

// contiguousOrEach converts contiguous elements with all, others with one.
func contiguousOrEach[S, D any](one func(S) D, all func([]D, []S)) Convert {
	rest := convertEach(one)
	return func(to unsafe.Pointer, toStep int64, from unsafe.Pointer, fromStep int64, n int) {
		if toStep == int64(unsafe.Sizeof(*(*D)(nil))) && fromStep == int64(unsafe.Sizeof(*(*S)(nil))) {
			all(unsafe.Slice((*D)(to), n), unsafe.Slice((*S)(from), n))
			return
		}
		rest(to, toStep, from, fromStep, n)
	}
}

func convertReal[S, D ordinary](to unsafe.Pointer, toStep int64, from unsafe.Pointer, fromStep int64, n int) {
	if toStep == int64(unsafe.Sizeof(*(*D)(nil))) {
		for i := range unsafe.Slice((*D)(to), n) {
			*(*D)(unsafe.Add(to, i*int(unsafe.Sizeof(*(*D)(nil))))) = D(*(*S)(unsafe.Add(from, int64(i)*fromStep)))
		}
		return
	}
	for i := range int64(n) {
		*(*D)(unsafe.Add(to, i*toStep)) = D(*(*S)(unsafe.Add(from, i*fromStep)))
	}
}

func convertEach[S, D any](f func(S) D) Convert {
	return func(to unsafe.Pointer, toStep int64, from unsafe.Pointer, fromStep int64, n int) {
		for i := range int64(n) {
			*(*D)(unsafe.Add(to, i*toStep)) = f(*(*S)(unsafe.Add(from, i*fromStep)))
		}
	}
}
