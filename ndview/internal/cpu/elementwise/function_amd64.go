package elementwise

import (
	"math"
	"unsafe"

	"golang.org/x/sys/cpu"
)

// The loops of function_amd64.s, and what they multiply with.

const largestAngle = 1 << 16 // of which the quarters are exact

// exponential and wave are constants, eight times each.
//
//nolint:unused // the linter does not read assembly
var (
	exponential = eightTimes(
		0x1.715476p+0,                // 1/ln2
		0x1.62e43p-1, -0x1.05c61p-29, // ln2, in two parts
		0x1.fffffcp-2, 0x1.55549p-3, 0x1.5558f4p-5, 0x1.123a6cp-7, 0x1.6a2352p-10, // (e^r-1-r) / r^2
		1,
		-105, 89, // beyond which the result is 0 or infinite
	)
	wave = eightTimes(
		largestAngle,
		0x1.45f306p-1,                                   // 2/pi
		0x1.921fb6p+0, -0x1.777a5cp-25, -0x1.ee59dap-50, // pi/2, in three parts
		-0x1.555546p-3, 0x1.110756p-7, -0x1.994b4p-13, // (sin(r)/r-1) / r^2
		0x1.55554ap-5, -0x1.6c0c82p-10, 0x1.99ff4p-16, // (cos(r)-1+r^2/2) / r^4
		1, 0.5,
	)
)

//nolint:unused // as those
func eightTimes(values ...float32) (table [16][8]float32) {
	for i, v := range values {
		for k := range table[i] {
			table[i][k] = v
		}
	}
	return table
}

// addFunctions puts loops of AVX2 before those of Go, which do what they leave.
func addFunctions(l *[ops][Types]Loop) {
	for i, t := range []Type{Int8, Int16, Int32, Int64} {
		negate := [...]function{neg8, neg16, neg32, neg64}[i]
		oneInVectors(l, Negative, t, negate)
		oneInVectors(l, Negative, t+1, negate)
	}
	for i, t := range []Type{Float32, Float64} {
		oneInVectors(l, Negative, t, [...]function{negf32, negf64}[i])
		oneInVectors(l, Negative, Complex64+Type(i), [...]function{negf32, negf64}[i])
		oneInVectors(l, Absolute, t, [...]function{absf32, absf64}[i])
		oneInVectors(l, Sqrt, t, [...]function{sqrtf32, sqrtf64}[i])
		oneInVectors(l, Rint, t, [...]function{rintf32, rintf64}[i])
		oneInVectors(l, Floor, t, [...]function{floorf32, floorf64}[i])
		oneInVectors(l, Ceil, t, [...]function{ceilf32, ceilf64}[i])
		oneInVectors(l, Trunc, t, [...]function{truncf32, truncf64}[i])
		inVectors(l, Add, Complex64+Type(i), [...]arithmetic{addf32, addf64}[i])
		inVectors(l, Subtract, Complex64+Type(i), [...]arithmetic{subf32, subf64}[i])
		inVectors(l, Multiply, Complex64+Type(i), [...]arithmetic{mulc64, mulc128}[i])
	}
	if cpu.X86.HasFMA {
		partlyInVectors(l, Exp, expf32, float32(math.Inf(1)))
		partlyInVectors(l, Sin, sinf32, largestAngle)
		partlyInVectors(l, Cos, cosf32, largestAngle)
	}
}

type (
	function        func(out, x unsafe.Pointer, n int)
	partialFunction func(out, x unsafe.Pointer, n int) (done int)
)

// oneInVectors does whole blocks of 64 bytes by f.
func oneInVectors(l *[ops][Types]Loop, op Op, t Type, f function) {
	rest, size := l[op][t], int(t.Size())
	l[op][t] = func(at *[4]unsafe.Pointer, n int) {
		done := 0
		if blocks := n * size / 64; blocks > 0 {
			f(at[0], at[1], blocks)
			done = blocks * 64 / size
		}
		if done < n {
			rest(&[4]unsafe.Pointer{unsafe.Add(at[0], done*size), unsafe.Add(at[1], done*size)}, n-done)
		}
	}
}

// partlyInVectors does blocks of 8 float32s by f, which does those of numbers up to
// largest in size, and tells how many it could; few does what else there is.
func partlyInVectors(l *[ops][Types]Loop, op Op, f partialFunction, largest float32) {
	const size = 4
	rest := l[op][Float32]
	l[op][Float32] = func(at *[4]unsafe.Pointer, n int) {
		var left *few
		for done := 0; done < n; {
			to, from := unsafe.Add(at[0], done*size), unsafe.Add(at[1], done*size)
			if blocks := (n - done) / lanes; blocks > 0 {
				if blocks = f(to, from, blocks); blocks > 0 {
					done += blocks * lanes
					continue
				}
			}
			if left == nil {
				left = new(few)
			}
			count := min(n-done, lanes)
			left.do(f, rest, largest, unsafe.Slice((*float32)(to), count), unsafe.Slice((*float32)(from), count))
			done += count
		}
	}
}

const lanes = 8 // float32s of a vector

// few are float32s that are no whole block, or of which some are too large: what is
// computed of an element is not to depend on those beside it, or on where it is.
type few struct{ x, small, y, all [lanes]float32 }

func (b *few) do(f partialFunction, rest Loop, largest float32, to, from []float32) {
	b.x = [lanes]float32{}
	copy(b.x[:], from)
	b.small = b.x
	far := false
	for k, v := range b.x {
		if !(v >= -largest && v <= largest) {
			b.small[k], far = 0, true
		}
	}
	f(unsafe.Pointer(&b.y), unsafe.Pointer(&b.small), 1)
	if far {
		rest(&[4]unsafe.Pointer{unsafe.Pointer(&b.all), unsafe.Pointer(&b.x)}, lanes)
	}
	for k := range to {
		if b.x[k] == b.small[k] {
			to[k] = b.y[k]
		} else {
			to[k] = b.all[k]
		}
	}
}

//go:noescape
func neg8(out, x unsafe.Pointer, n int)

//go:noescape
func neg16(out, x unsafe.Pointer, n int)

//go:noescape
func neg32(out, x unsafe.Pointer, n int)

//go:noescape
func neg64(out, x unsafe.Pointer, n int)

//go:noescape
func negf32(out, x unsafe.Pointer, n int)

//go:noescape
func negf64(out, x unsafe.Pointer, n int)

//go:noescape
func absf32(out, x unsafe.Pointer, n int)

//go:noescape
func absf64(out, x unsafe.Pointer, n int)

//go:noescape
func sqrtf32(out, x unsafe.Pointer, n int)

//go:noescape
func sqrtf64(out, x unsafe.Pointer, n int)

//go:noescape
func rintf32(out, x unsafe.Pointer, n int)

//go:noescape
func rintf64(out, x unsafe.Pointer, n int)

//go:noescape
func floorf32(out, x unsafe.Pointer, n int)

//go:noescape
func floorf64(out, x unsafe.Pointer, n int)

//go:noescape
func ceilf32(out, x unsafe.Pointer, n int)

//go:noescape
func ceilf64(out, x unsafe.Pointer, n int)

//go:noescape
func truncf32(out, x unsafe.Pointer, n int)

//go:noescape
func truncf64(out, x unsafe.Pointer, n int)

//go:noescape
func mulc64(out, x, y unsafe.Pointer, n int)

//go:noescape
func mulc128(out, x, y unsafe.Pointer, n int)

//go:noescape
func expf32(out, x unsafe.Pointer, n int) (done int)

//go:noescape
func sinf32(out, x unsafe.Pointer, n int) (done int)

//go:noescape
func cosf32(out, x unsafe.Pointer, n int) (done int)
