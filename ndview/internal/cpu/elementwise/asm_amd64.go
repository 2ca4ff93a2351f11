//go:build !noasm

package elementwise

import (
	"math"
	"unsafe"

	"golang.org/x/sys/cpu"
)

// bitsToBytes[b] is the eight bits of b as eight bytes of 0 or 1, lowest first. The
// assembly reads it.
//
//nolint:unused // used by the assembly
var bitsToBytes = func() (table [256]uint64) {
	for b := range table {
		for bit := range 8 {
			table[b] |= uint64(b>>bit&1) << (8 * bit)
		}
	}
	return table
}()

// addAssembly replaces Go loops by AVX2 loops. Elements that do not fill a block are
// left to the Go loops.
func addAssembly(l *[ops][Types]Loop) {
	if !cpu.X86.HasAVX2 {
		return
	}
	for i, t := range [...][2]Type{{Int8, Uint8}, {Int16, Uint16}, {Int32, Uint32}, {Int64, Uint64}} {
		signed, unsigned := t[0], t[1]
		sign := [...]uint64{0x8080808080808080, 0x8000800080008000, 0x8000000080000000, 1 << 63}[i]
		equal, less := [...]comparison{eq8, eq16, eq32, eq64}[i], [...]comparison{lt8, lt16, lt32, lt64}[i]
		for _, t := range t {
			setBinary(l, Add, t, [...]arithmetic{add8, add16, add32, add64}[i])
			setBinary(l, Subtract, t, [...]arithmetic{sub8, sub16, sub32, sub64}[i])
			if i < 3 { // Go multiplies 64 bits as fast: AVX2 has no instruction for it
				setBinary(l, Multiply, t, [...]arithmetic{mul8, mul16, mul32}[i])
			}
			setBinary(l, And, t, and64)
			setBinary(l, Or, t, or64)
			setBinary(l, Xor, t, xor64)
			flip := sign
			if t == signed {
				flip = 0
			}
			setComparison(l, Equal, t, equal, 0, false)
			setComparison(l, NotEqual, t, equal, 0, true)
			setComparison(l, Less, t, less, flip, false)
			setComparison(l, GreaterEqual, t, less, flip, true)
		}
		if i < 3 {
			for _, op := range []Op{Maximum, Fmax} {
				setBinary(l, op, signed, [...]arithmetic{max8, max16, max32}[i])
				setBinary(l, op, unsigned, [...]arithmetic{maxu8, maxu16, maxu32}[i])
			}
			for _, op := range []Op{Minimum, Fmin} {
				setBinary(l, op, signed, [...]arithmetic{min8, min16, min32}[i])
				setBinary(l, op, unsigned, [...]arithmetic{minu8, minu16, minu32}[i])
			}
		}
	}
	for i, t := range [...]Type{Float32, Float64} {
		setBinary(l, Add, t, [...]arithmetic{addf32, addf64}[i])
		setBinary(l, Subtract, t, [...]arithmetic{subf32, subf64}[i])
		setBinary(l, Multiply, t, [...]arithmetic{mulf32, mulf64}[i])
		setBinary(l, Divide, t, [...]arithmetic{divf32, divf64}[i])
		setComparison(l, Equal, t, [...]comparison{eqf32, eqf64}[i], 0, false)
		setComparison(l, NotEqual, t, [...]comparison{eqf32, eqf64}[i], 0, true)
		setComparison(l, Less, t, [...]comparison{ltf32, ltf64}[i], 0, false)
		setComparison(l, LessEqual, t, [...]comparison{lef32, lef64}[i], 0, false)
		setSwapped(l, Greater, Less, t)
		setSwapped(l, GreaterEqual, LessEqual, t)
	}
	for _, t := range []Type{Int8, Uint8, Int16, Uint16, Int32, Uint32, Int64, Uint64} {
		setSwapped(l, Greater, Less, t)
		setSwapped(l, LessEqual, GreaterEqual, t)
	}
	for i, types := range [...][]Type{{Uint8}, {Uint16}, {Uint32, Float32}, {Uint64, Float64, Complex64}} {
		for _, t := range types {
			setWhere(l, t, [...]choice{where8, where16, where32, where64}[i])
		}
	}
	addAssemblyFunctions(l)
}

type (
	arithmetic func(out, x, y unsafe.Pointer, n int)
	comparison func(out, x, y unsafe.Pointer, n int, flip, invert uint64)
	choice     func(out, condition, x, y unsafe.Pointer, n int)
)

// setBinary makes f compute whole blocks of 64 bytes.
func setBinary(l *[ops][Types]Loop, op Op, t Type, f arithmetic) {
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

// setComparison makes f compute whole blocks of 32 elements.
func setComparison(l *[ops][Types]Loop, op Op, t Type, f comparison, flip uint64, not bool) {
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

// setSwapped makes a comparison from another one with its operands swapped.
func setSwapped(l *[ops][Types]Loop, op, from Op, t Type) {
	f := l[from][t]
	l[op][t] = func(at *[4]unsafe.Pointer, n int) {
		f(&[4]unsafe.Pointer{at[0], at[2], at[1]}, n)
	}
}

func setWhere(l *[ops][Types]Loop, t Type, f choice) {
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

// The loops of asm_amd64.s with two or three operands.

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

// Functions of one operand.

const largestAngle = 1 << 16 // up to which the reduction is accurate

// expConstants and sincosConstants are constants of the assembly, eight times each.
//
//nolint:unused // used by the assembly
var (
	expConstants = repeatEight(
		0x1.715476p+0,                // 1/ln2
		0x1.62e43p-1, -0x1.05c61p-29, // ln2 in two parts
		0x1.fffffcp-2, 0x1.55549p-3, 0x1.5558f4p-5, 0x1.123a6cp-7, 0x1.6a2352p-10, // (e^r-1-r) / r^2
		1,
		-105, 89, // outside, the result is 0 or infinite
	)
	sincosConstants = repeatEight(
		largestAngle,
		0x1.45f306p-1,                                   // 2/pi
		0x1.921fb6p+0, -0x1.777a5cp-25, -0x1.ee59dap-50, // pi/2 in three parts
		-0x1.555546p-3, 0x1.110756p-7, -0x1.994b4p-13, // (sin(r)/r-1) / r^2
		0x1.55554ap-5, -0x1.6c0c82p-10, 0x1.99ff4p-16, // (cos(r)-1+r^2/2) / r^4
		1, 0.5,
	)
)

//nolint:unused // used by the assembly
func repeatEight(values ...float32) (table [16][8]float32) {
	for i, v := range values {
		for k := range table[i] {
			table[i][k] = v
		}
	}
	return table
}

// addAssemblyFunctions replaces the Go loops of functions.
func addAssemblyFunctions(l *[ops][Types]Loop) {
	for i, t := range []Type{Int8, Int16, Int32, Int64} {
		negate := [...]function{neg8, neg16, neg32, neg64}[i]
		setUnary(l, Negative, t, negate)
		setUnary(l, Negative, t+1, negate)
	}
	for i, t := range []Type{Float32, Float64} {
		setUnary(l, Negative, t, [...]function{negf32, negf64}[i])
		setUnary(l, Negative, Complex64+Type(i), [...]function{negf32, negf64}[i])
		setUnary(l, Absolute, t, [...]function{absf32, absf64}[i])
		setUnary(l, Sqrt, t, [...]function{sqrtf32, sqrtf64}[i])
		setUnary(l, Rint, t, [...]function{rintf32, rintf64}[i])
		setUnary(l, Floor, t, [...]function{floorf32, floorf64}[i])
		setUnary(l, Ceil, t, [...]function{ceilf32, ceilf64}[i])
		setUnary(l, Trunc, t, [...]function{truncf32, truncf64}[i])
		setBinary(l, Add, Complex64+Type(i), [...]arithmetic{addf32, addf64}[i])
		setBinary(l, Subtract, Complex64+Type(i), [...]arithmetic{subf32, subf64}[i])
		setBinary(l, Multiply, Complex64+Type(i), [...]arithmetic{mulc64, mulc128}[i])
	}
	if cpu.X86.HasFMA {
		setPartial(l, Exp, expf32, float32(math.Inf(1)))
		setPartial(l, Sin, sinf32, largestAngle)
		setPartial(l, Cos, cosf32, largestAngle)
	}
}

type (
	function        func(out, x unsafe.Pointer, n int)
	partialFunction func(out, x unsafe.Pointer, n int) (done int)
)

// setUnary makes f compute whole blocks of 64 bytes.
func setUnary(l *[ops][Types]Loop, op Op, t Type, f function) {
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

// setPartial makes f compute blocks of 8 float32s whose magnitudes are at most largest.
// f returns how many blocks it computed before the first with a larger number;
// partialBlock computes the others.
func setPartial(l *[ops][Types]Loop, op Op, f partialFunction, largest float32) {
	const size = 4
	rest := l[op][Float32]
	l[op][Float32] = func(at *[4]unsafe.Pointer, n int) {
		var left *partialBlock
		for done := 0; done < n; {
			to, from := unsafe.Add(at[0], done*size), unsafe.Add(at[1], done*size)
			if blocks := (n - done) / vectorLanes; blocks > 0 {
				if blocks = f(to, from, blocks); blocks > 0 {
					done += blocks * vectorLanes
					continue
				}
			}
			if left == nil {
				left = new(partialBlock)
			}
			count := min(n-done, vectorLanes)
			left.run(f, rest, largest, unsafe.Slice((*float32)(to), count), unsafe.Slice((*float32)(from), count))
			done += count
		}
	}
}

const vectorLanes = 8 // float32s per vector

// partialBlock computes fewer than 8 float32s, or 8 some of which are too large. The
// result of an element must not depend on its neighbours or its position.
type partialBlock struct{ x, small, y, all [vectorLanes]float32 }

func (b *partialBlock) run(f partialFunction, rest Loop, largest float32, to, from []float32) {
	b.x = [vectorLanes]float32{}
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
		rest(&[4]unsafe.Pointer{unsafe.Pointer(&b.all), unsafe.Pointer(&b.x)}, vectorLanes)
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
