package elementwise

import (
	"math"
	"unsafe"
)

// Convert copies n elements of one type as another, each so many bytes behind
// the one before.
type Convert func(to unsafe.Pointer, toStep int64, from unsafe.Pointer, fromStep int64, n int)

// converts has those from any type to one that holds its values, or nearly, in
// NumPy's promotion, and from what a loop computes in to what is stored.
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
	fromHalf(&c, Float16, halfToFloat)
	fromHalf(&c, BFloat16, bfloatToFloat)
	c[Bool][Bool] = c[Uint8][Uint8]
	c[Float32][Float16] = narrow(floatToHalf)
	c[Float32][BFloat16] = narrow(floatToBFloat)
	c[Complex64][Complex64] = cast[complex64, complex64](func(v complex64) complex64 { return v })
	c[Complex64][Complex128] = cast[complex64, complex128](func(v complex64) complex128 { return complex128(v) })
	c[Complex128][Complex128] = cast[complex128, complex128](func(v complex128) complex128 { return v })
	return c
}()

func fromReal[S ordinary](c *[Types][Types]Convert, from Type) {
	c[from][Int8] = number[S, int8]
	c[from][Uint8] = number[S, uint8]
	c[from][Int16] = number[S, int16]
	c[from][Uint16] = number[S, uint16]
	c[from][Int32] = number[S, int32]
	c[from][Uint32] = number[S, uint32]
	c[from][Int64] = number[S, int64]
	c[from][Uint64] = number[S, uint64]
	c[from][Float32] = number[S, float32]
	c[from][Float64] = number[S, float64]
	c[from][Complex64] = cast[S, complex64](func(v S) complex64 { return complex(float32(v), 0) })
	c[from][Complex128] = cast[S, complex128](func(v S) complex128 { return complex(float64(v), 0) })
}

func fromHalf(c *[Types][Types]Convert, from Type, widen func(uint16) float32) {
	c[from][Float32] = cast[uint16, float32](widen)
	c[from][Float64] = cast[uint16, float64](func(v uint16) float64 { return float64(widen(v)) })
	c[from][Complex64] = cast[uint16, complex64](func(v uint16) complex64 { return complex(widen(v), 0) })
	c[from][Complex128] = cast[uint16, complex128](func(v uint16) complex128 { return complex(float64(widen(v)), 0) })
}

func narrow(f func(float32) uint16) Convert { return cast[float32, uint16](f) }

func number[S, D ordinary](to unsafe.Pointer, toStep int64, from unsafe.Pointer, fromStep int64, n int) {
	if toStep == int64(unsafe.Sizeof(*(*D)(nil))) {
		for i := range unsafe.Slice((*D)(to), n) {
			*(*D)(unsafe.Add(to, i*int(unsafe.Sizeof(*(*D)(nil))))) = D(*(*S)(from))
			from = unsafe.Add(from, fromStep)
		}
		return
	}
	for range n {
		*(*D)(to) = D(*(*S)(from))
		to, from = unsafe.Add(to, toStep), unsafe.Add(from, fromStep)
	}
}

func cast[S, D any](f func(S) D) Convert {
	return func(to unsafe.Pointer, toStep int64, from unsafe.Pointer, fromStep int64, n int) {
		for range n {
			*(*D)(to) = f(*(*S)(from))
			to, from = unsafe.Add(to, toStep), unsafe.Add(from, fromStep)
		}
	}
}

func halfToFloat(h uint16) float32 {
	// The exponent is rebiased by a product, which also makes denormals right.
	bits := math.Float32bits(math.Float32frombits(uint32(h&0x7fff)<<13) * 0x1p112)
	if h&0x7c00 == 0x7c00 {
		bits |= 0xff << 23
	}
	return math.Float32frombits(bits | uint32(h&0x8000)<<16)
}

func floatToHalf(f float32) uint16 {
	bits := math.Float32bits(f)
	sign := uint16(bits >> 16 & 0x8000)
	switch bits &= 0x7fffffff; {
	case bits > 0xff<<23:
		return sign | 0x7e00 | uint16(bits>>13&0x3ff)
	case bits >= (127+16)<<23:
		return sign | 0x7c00
	case bits < (127-14)<<23:
		// Adding 0.5 puts the last bit of a denormal at that of a float32.
		return sign | uint16(math.Float32bits(math.Float32frombits(bits)+0.5)-126<<23)
	default:
		return sign | uint16((bits-112<<23+0xfff+bits>>13&1)>>13)
	}
}

func bfloatToFloat(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }

func floatToBFloat(f float32) uint16 {
	bits := math.Float32bits(f)
	if f != f {
		return uint16(bits>>16) | 0x40
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}
