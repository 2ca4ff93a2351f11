package elementwise

import (
	"math"
	"unsafe"

	"golang.org/x/sys/cpu"
)

// spread[b] is the eight bits of b as eight bytes of 0 or 1, lowest first, for
// the assembly.
//
//nolint:unused // the linter does not read assembly
var spread = func() (table [256]uint64) {
	for b := range table {
		for bit := range 8 {
			table[b] |= uint64(b>>bit&1) << (8 * bit)
		}
	}
	return table
}()

// addVectors puts the loops of AVX2 before those of Go, which do what they leave.
func addVectors(l *[ops][Types]Loop) {
	if !cpu.X86.HasAVX2 {
		return
	}
	for i, t := range [...][2]Type{{Int8, Uint8}, {Int16, Uint16}, {Int32, Uint32}, {Int64, Uint64}} {
		signed, unsigned := t[0], t[1]
		sign := [...]uint64{0x8080808080808080, 0x8000800080008000, 0x8000000080000000, 1 << 63}[i]
		equal, less := [...]comparison{eq8, eq16, eq32, eq64}[i], [...]comparison{lt8, lt16, lt32, lt64}[i]
		for _, t := range t {
			inVectors(l, Add, t, [...]arithmetic{add8, add16, add32, add64}[i])
			inVectors(l, Subtract, t, [...]arithmetic{sub8, sub16, sub32, sub64}[i])
			inVectors(l, Multiply, t, [...]arithmetic{mul8, mul16, mul32, mul64}[i])
			inVectors(l, And, t, and64)
			inVectors(l, Or, t, or64)
			inVectors(l, Xor, t, xor64)
			flip := sign
			if t == signed {
				flip = 0
			}
			compareInVectors(l, Equal, t, equal, 0, false)
			compareInVectors(l, NotEqual, t, equal, 0, true)
			compareInVectors(l, Less, t, less, flip, false)
			compareInVectors(l, GreaterEqual, t, less, flip, true)
		}
		if i < 3 {
			for _, op := range []Op{Maximum, Fmax} {
				inVectors(l, op, signed, [...]arithmetic{max8, max16, max32}[i])
				inVectors(l, op, unsigned, [...]arithmetic{maxu8, maxu16, maxu32}[i])
			}
			for _, op := range []Op{Minimum, Fmin} {
				inVectors(l, op, signed, [...]arithmetic{min8, min16, min32}[i])
				inVectors(l, op, unsigned, [...]arithmetic{minu8, minu16, minu32}[i])
			}
		}
	}
	for i, t := range [...]Type{Float32, Float64} {
		inVectors(l, Add, t, [...]arithmetic{addf32, addf64}[i])
		inVectors(l, Subtract, t, [...]arithmetic{subf32, subf64}[i])
		inVectors(l, Multiply, t, [...]arithmetic{mulf32, mulf64}[i])
		inVectors(l, Divide, t, [...]arithmetic{divf32, divf64}[i])
		compareInVectors(l, Equal, t, [...]comparison{eqf32, eqf64}[i], 0, false)
		compareInVectors(l, NotEqual, t, [...]comparison{eqf32, eqf64}[i], 0, true)
		compareInVectors(l, Less, t, [...]comparison{ltf32, ltf64}[i], 0, false)
		compareInVectors(l, LessEqual, t, [...]comparison{lef32, lef64}[i], 0, false)
		turned(l, Greater, Less, t)
		turned(l, GreaterEqual, LessEqual, t)
	}
	for _, t := range []Type{Int8, Uint8, Int16, Uint16, Int32, Uint32, Int64, Uint64} {
		turned(l, Greater, Less, t)
		turned(l, LessEqual, GreaterEqual, t)
	}
	for i, types := range [...][]Type{{Uint8}, {Uint16}, {Uint32, Float32}, {Uint64, Float64, Complex64}} {
		for _, t := range types {
			whereInVectors(l, t, [...]choice{where8, where16, where32, where64}[i])
		}
	}
	addFunctions(l)
}

type (
	arithmetic func(out, x, y unsafe.Pointer, n int)
	comparison func(out, x, y unsafe.Pointer, n int, flip, invert uint64)
	choice     func(out, condition, x, y unsafe.Pointer, n int)
)

// inVectors does whole blocks of 64 bytes by f.
func inVectors(l *[ops][Types]Loop, op Op, t Type, f arithmetic) {
	rest, size := l[op][t], int(t.Size())
	l[op][t] = func(at *[4]unsafe.Pointer, n int) {
		if blocks := n * size / 64; blocks > 0 {
			f(at[0], at[1], at[2], blocks)
			done := blocks * 64
			if n -= done / size; n == 0 {
				return
			}
			at = &[4]unsafe.Pointer{unsafe.Add(at[0], done), unsafe.Add(at[1], done), unsafe.Add(at[2], done)}
		}
		rest(at, n)
	}
}

// compareInVectors does whole blocks of 32 elements by f.
func compareInVectors(l *[ops][Types]Loop, op Op, t Type, f comparison, flip uint64, not bool) {
	rest, size := l[op][t], int(t.Size())
	var invert uint64
	if not {
		invert = 1<<64 - 1
	}
	l[op][t] = func(at *[4]unsafe.Pointer, n int) {
		if blocks := n / 32; blocks > 0 {
			f(at[0], at[1], at[2], blocks, flip, invert)
			done := blocks * 32
			if n -= done; n == 0 {
				return
			}
			at = &[4]unsafe.Pointer{unsafe.Add(at[0], done), unsafe.Add(at[1], done*size), unsafe.Add(at[2], done*size)}
		}
		rest(at, n)
	}
}

// turned makes a comparison of the one of the operands the other way round.
func turned(l *[ops][Types]Loop, op, from Op, t Type) {
	f := l[from][t]
	l[op][t] = func(at *[4]unsafe.Pointer, n int) {
		f(&[4]unsafe.Pointer{at[0], at[2], at[1]}, n)
	}
}

func whereInVectors(l *[ops][Types]Loop, t Type, f choice) {
	rest, size := l[Where][t], int(t.Size())
	l[Where][t] = func(at *[4]unsafe.Pointer, n int) {
		if blocks := n / 32; blocks > 0 {
			f(at[0], at[1], at[2], at[3], blocks)
			done := blocks * 32
			if n -= done; n == 0 {
				return
			}
			at = &[4]unsafe.Pointer{
				unsafe.Add(at[0], done*size), unsafe.Add(at[1], done),
				unsafe.Add(at[2], done*size), unsafe.Add(at[3], done*size),
			}
		}
		rest(at, n)
	}
}

// The loops of vector_amd64.s.

//go:noescape
func add8(out, x, y unsafe.Pointer, n int)

//go:noescape
func add16(out, x, y unsafe.Pointer, n int)

//go:noescape
func add32(out, x, y unsafe.Pointer, n int)

//go:noescape
func add64(out, x, y unsafe.Pointer, n int)

//go:noescape
func addf32(out, x, y unsafe.Pointer, n int)

//go:noescape
func addf64(out, x, y unsafe.Pointer, n int)

//go:noescape
func sub8(out, x, y unsafe.Pointer, n int)

//go:noescape
func sub16(out, x, y unsafe.Pointer, n int)

//go:noescape
func sub32(out, x, y unsafe.Pointer, n int)

//go:noescape
func sub64(out, x, y unsafe.Pointer, n int)

//go:noescape
func subf32(out, x, y unsafe.Pointer, n int)

//go:noescape
func subf64(out, x, y unsafe.Pointer, n int)

//go:noescape
func mul16(out, x, y unsafe.Pointer, n int)

//go:noescape
func mul32(out, x, y unsafe.Pointer, n int)

//go:noescape
func mulf32(out, x, y unsafe.Pointer, n int)

//go:noescape
func mulf64(out, x, y unsafe.Pointer, n int)

//go:noescape
func divf32(out, x, y unsafe.Pointer, n int)

//go:noescape
func divf64(out, x, y unsafe.Pointer, n int)

//go:noescape
func and64(out, x, y unsafe.Pointer, n int)

//go:noescape
func or64(out, x, y unsafe.Pointer, n int)

//go:noescape
func xor64(out, x, y unsafe.Pointer, n int)

//go:noescape
func max8(out, x, y unsafe.Pointer, n int)

//go:noescape
func max16(out, x, y unsafe.Pointer, n int)

//go:noescape
func max32(out, x, y unsafe.Pointer, n int)

//go:noescape
func maxu8(out, x, y unsafe.Pointer, n int)

//go:noescape
func maxu16(out, x, y unsafe.Pointer, n int)

//go:noescape
func maxu32(out, x, y unsafe.Pointer, n int)

//go:noescape
func min8(out, x, y unsafe.Pointer, n int)

//go:noescape
func min16(out, x, y unsafe.Pointer, n int)

//go:noescape
func min32(out, x, y unsafe.Pointer, n int)

//go:noescape
func minu8(out, x, y unsafe.Pointer, n int)

//go:noescape
func minu16(out, x, y unsafe.Pointer, n int)

//go:noescape
func minu32(out, x, y unsafe.Pointer, n int)

//go:noescape
func mul8(out, x, y unsafe.Pointer, n int)

//go:noescape
func mul64(out, x, y unsafe.Pointer, n int)

//go:noescape
func eq8(out, x, y unsafe.Pointer, n int, flip, invert uint64)

//go:noescape
func lt8(out, x, y unsafe.Pointer, n int, flip, invert uint64)

//go:noescape
func eq16(out, x, y unsafe.Pointer, n int, flip, invert uint64)

//go:noescape
func lt16(out, x, y unsafe.Pointer, n int, flip, invert uint64)

//go:noescape
func eq32(out, x, y unsafe.Pointer, n int, flip, invert uint64)

//go:noescape
func lt32(out, x, y unsafe.Pointer, n int, flip, invert uint64)

//go:noescape
func eq64(out, x, y unsafe.Pointer, n int, flip, invert uint64)

//go:noescape
func lt64(out, x, y unsafe.Pointer, n int, flip, invert uint64)

//go:noescape
func eqf32(out, x, y unsafe.Pointer, n int, flip, invert uint64)

//go:noescape
func ltf32(out, x, y unsafe.Pointer, n int, flip, invert uint64)

//go:noescape
func lef32(out, x, y unsafe.Pointer, n int, flip, invert uint64)

//go:noescape
func eqf64(out, x, y unsafe.Pointer, n int, flip, invert uint64)

//go:noescape
func ltf64(out, x, y unsafe.Pointer, n int, flip, invert uint64)

//go:noescape
func lef64(out, x, y unsafe.Pointer, n int, flip, invert uint64)

//go:noescape
func where8(out, condition, x, y unsafe.Pointer, n int)

//go:noescape
func where16(out, condition, x, y unsafe.Pointer, n int)

//go:noescape
func where32(out, condition, x, y unsafe.Pointer, n int)

//go:noescape
func where64(out, condition, x, y unsafe.Pointer, n int)

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
