package elementwise

import "unsafe"

// Loops that take eight bytes of elements at a time, each in its lane of a word.
// Nothing is carried from a lane to the next.

const (
	low8, high8   = 0x7f7f7f7f7f7f7f7f, 0x8080808080808080
	low16, high16 = 0x7fff7fff7fff7fff, 0x8000800080008000
	ones8         = 0x0101010101010101
)

func addPacked(l *[ops][Types]Loop) {
	for _, t := range []Type{Int8, Uint8} {
		l[Add][t] = packed2(add[uint8], func(x, y uint64) uint64 { return (x&low8 + y&low8) ^ (x^y)&high8 })
		l[Subtract][t] = packed2(subtract[uint8], func(x, y uint64) uint64 { return ((x | high8) - y&low8) ^ (x^^y)&high8 })
	}
}

func packed2(rest Loop, f func(x, y uint64) uint64) Loop {
	return func(at *[4]unsafe.Pointer, n int) {
		words := n / 8
		out, x, y := binary[uint64, uint64](at, words)
		for i := range out {
			out[i] = f(x[i], y[i])
		}
		skip := words * 8
		rest(&[4]unsafe.Pointer{unsafe.Add(at[0], skip), unsafe.Add(at[1], skip), unsafe.Add(at[2], skip)}, n-skip)
	}
}
