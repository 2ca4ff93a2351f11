package cpu

import (
	"encoding/binary"
	"math"
	"unsafe"
)

type integer interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

type float interface{ float32 | float64 }

func castsOfInteger[S integer]() (to [Types]cast) {
	to[Bool] = toBool[S]
	to[Int8], to[Uint8] = convert[uint8, S], convert[uint8, S]
	to[Int16], to[Uint16] = convert[uint16, S], convert[uint16, S]
	to[Int32], to[Uint32] = convert[uint32, S], convert[uint32, S]
	to[Int64], to[Uint64] = convert[uint64, S], convert[uint64, S]
	for t := Int8; t <= Uint64; t++ {
		if t.Size() == int64(unsafe.Sizeof(*new(S))) {
			to[t] = sameBits[S]
		}
	}
	to[Float32], to[Float64] = convert[float32, S], convert[float64, S]
	to[Complex64], to[Complex128] = toComplex[float32, S], toComplex[float64, S]
	return to
}

func castsOfFloat[S float]() (to [Types]cast) {
	to[Bool] = toBool[S]
	to[Int8], to[Uint8] = truncate[uint8, S], truncate[uint8, S]
	to[Int16], to[Uint16] = truncate[uint16, S], truncate[uint16, S]
	to[Int32], to[Uint32] = truncate[uint32, S], truncateLong[uint32, S]
	to[Int64], to[Uint64] = truncateLong[uint64, S], truncateUnsigned[S]
	to[Float32], to[Float64] = convert[float32, S], convert[float64, S]
	to[Complex64], to[Complex128] = toComplex[float32, S], toComplex[float64, S]
	return to
}

func castsOfComplex[R float]() (to [Types]cast) {
	to[Bool] = complexToBool[R]
	to[Float32], to[Float64] = realPart[float32, R], realPart[float64, R]
	return to
}

func convert[D, S integer | float](dst, src unsafe.Pointer, n int) {
	d, s := operands[D, S](dst, src, n)
	for i, v := range s {
		d[i] = D(v)
	}
}

func sameBits[S any](dst, src unsafe.Pointer, n int) {
	d, s := operands[S, S](dst, src, n)
	copy(d, s)
}

func toComplex[R float, S integer | float](dst, src unsafe.Pointer, n int) {
	d, s := operands[[2]R, S](dst, src, n)
	for i, v := range s {
		d[i] = [2]R{R(v), 0}
	}
}

func realPart[D, R float](dst, src unsafe.Pointer, n int) {
	d, s := operands[D, [2]R](dst, src, n)
	for i := range s {
		d[i] = D(s[i][0])
	}
}

func toBool[S integer | float](dst, src unsafe.Pointer, n int) {
	d, s := operands[bool, S](dst, src, n)
	for i, v := range s {
		d[i] = v != 0
	}
}

func complexToBool[R float](dst, src unsafe.Pointer, n int) {
	d, s := operands[bool, [2]R](dst, src, n)
	for i := range s {
		d[i] = s[i][0] != 0 || s[i][1] != 0
	}
}

// halvesToBool is for both floats of 16 bits: all but 0 and -0 are true.
func halvesToBool(dst, src unsafe.Pointer, n int) {
	d, s := operands[bool, uint16](dst, src, n)
	for i, v := range s {
		d[i] = v<<1 != 0
	}
}

// bytesToBool does eight bytes at a time: adding 127 to the lower seven bits of
// one that is not 0, or the bit above them, sets that bit.
func bytesToBool(dst, src unsafe.Pointer, n int) {
	d, s := operands[byte, byte](dst, src, n)
	const low = 0x7f7f7f7f7f7f7f7f
	i := 0
	for ; i+8 <= n; i += 8 {
		v := binary.LittleEndian.Uint64(s[i:])
		binary.LittleEndian.PutUint64(d[i:], (v&low+low|v)>>7&(low/0x7f))
	}
	for ; i < n; i++ {
		d[i] = min(s[i], 1)
	}
}

// The range is looked at first: what Go makes of a float beyond it depends on
// the processor. Results are those of x86's instructions on any.

// truncate is for integers up to 32 bits but uint32: what an int32 holds, cut.
func truncate[D uint8 | uint16 | uint32, S float](dst, src unsafe.Pointer, n int) {
	d, s := operands[D, S](dst, src, n)
	for i, v := range s {
		t := int32(math.MinInt32)
		if v > -1<<31-1 && v < 1<<31 {
			t = int32(v)
		}
		d[i] = D(t)
	}
}

// truncateLong is for int64 and uint32: what an int64 holds, cut.
func truncateLong[D uint32 | uint64, S float](dst, src unsafe.Pointer, n int) {
	d, s := operands[D, S](dst, src, n)
	for i, v := range s {
		d[i] = D(long(v))
	}
}

func truncateUnsigned[S float](dst, src unsafe.Pointer, n int) {
	d, s := operands[uint64, S](dst, src, n)
	for i, v := range s {
		if v >= 1<<63 {
			d[i] = uint64(long(v-1<<63)) ^ 1<<63
		} else {
			d[i] = uint64(long(v))
		}
	}
}

func long[S float](v S) int64 {
	if v >= -1<<63 && v < 1<<63 {
		return int64(v)
	}
	return math.MinInt64
}

// oddDoubles converts integers to doubles that lie on the same side of every
// number of fewer bits: where a double cannot hold all bits of a large one, its
// last stands for those that are lost.
func oddDoubles[S int64 | uint64](dst, src unsafe.Pointer, n int) {
	d, s := operands[float64, S](dst, src, n)
	const lost = 1<<11 - 1
	for i, v := range s {
		if v>>53 != 0 && v>>53 != S(0)-1 && v&lost != 0 {
			v = v&^lost | 1<<11
		}
		d[i] = float64(v)
	}
}

// oddSingles is oddDoubles for float32.
func oddSingles[S int32 | uint32](dst, src unsafe.Pointer, n int) {
	d, s := operands[float32, S](dst, src, n)
	const lost = 1<<8 - 1
	for i, v := range s {
		if v>>24 != 0 && v>>24 != S(0)-1 && v&lost != 0 {
			v = v&^lost | 1<<8
		}
		d[i] = float32(v)
	}
}
