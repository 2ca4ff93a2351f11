package elementwise

import (
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
