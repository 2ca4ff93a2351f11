package cpu

import (
	"bytes"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

func TestFillWritesOnlyItsRange(t *testing.T) {
	const guard = 0xa5
	for _, size := range []int{1, 2, 3, 4, 8, 12, 16, 24, 32, 64, 100} {
		pattern := make([]byte, size)
		for i := range pattern {
			pattern[i] = byte(i + 1)
		}
		for _, n := range []int{0, 1, 7, 63, 64, 65, 129, 200, 5000, 40000} {
			for _, at := range []int{0, 1, 8, 30, 63} {
				phase := (n + at) % size
				memory := bytes.Repeat([]byte{guard}, at+n+64)
				want := bytes.Clone(memory)
				for i := range n {
					want[at+i] = pattern[(phase+i)%size]
				}
				Fill(unsafe.Pointer(&memory[at]), int64(n), pattern, int64(phase))
				require.True(t, bytes.Equal(want, memory), "%d bytes of a pattern of %d, at %d", n, size, at)
			}
		}
	}
}

func TestParallelFillKeepsPhase(t *testing.T) {
	n := minStreamed + 5
	memory := make([]byte, n)
	for _, pattern := range [][]byte{{1, 2, 3}, {1, 2, 3, 4, 5, 6, 7, 8}, make([]byte, 8)} {
		Fill(unsafe.Pointer(&memory[0]), n, pattern, 1)
		for i, b := range memory {
			if want := pattern[(i+1)%len(pattern)]; b != want {
				require.Equal(t, want, b, "byte %d", i)
			}
		}
	}
}
