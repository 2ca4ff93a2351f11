//go:build unix

package lz4

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// guarded returns n bytes after which no memory can be accessed.
func guarded(t *testing.T, n int) []byte {
	t.Helper()
	page := unix.Getpagesize()
	size := (n + page - 1) / page * page
	all, err := unix.Mmap(-1, 0, size+page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Munmap(all)) })
	require.NoError(t, unix.Mprotect(all[size:], unix.PROT_NONE))
	return all[size-n : size : size]
}

// Lengths and offsets at the limits of the assembly: 4 bits, a byte, 16 and 32 bytes of copies.
var (
	edgeLiterals = []int{0, 0, 0, 1, 2, 7, 13, 14, 15, 16, 17, 31, 32, 33, 63, 64, 65, 268, 269, 270, 271, 600}
	edgeMatches  = []int{4, 4, 5, 6, 8, 15, 16, 17, 18, 19, 20, 31, 32, 33, 34, 48, 49, 63, 64, 65, 272, 273, 274, 275, 700}
	edgeOffsets  = []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 30, 31, 32, 33, 47, 48, 500, 65535}
)

// edgeBlock returns a block of about n bytes and its decoding.
func edgeBlock(random *rand.Rand, n int) (block, data []byte) {
	pick := func(from []int) int { return from[random.IntN(len(from))] }
	block = make([]byte, 2*n+10_000)
	at := 0
	for len(data) < n {
		literals := make([]byte, pick(edgeLiterals))
		if len(data) == 0 {
			literals = make([]byte, 20)
		}
		for i := range literals {
			literals[i] = byte(random.Uint32())
		}
		data = append(data, literals...)
		offset, length := min(pick(edgeOffsets), len(data)), pick(edgeMatches)
		at = putSequence(block, at, literals, offset, length)
		for range length {
			data = append(data, data[len(data)-offset])
		}
	}
	literals := data[:random.IntN(20)]
	data = append(data, literals...)
	return block[:putSequence(block, at, literals, 0, 0)], data
}

// withoutAssembly runs f without decodeSequences.
func withoutAssembly(f func()) {
	before := fastSequences
	defer func() { fastSequences = before }()
	fastSequences = false
	f()
}

func TestAssemblyDecodesSequencesAsGo(t *testing.T) {
	if !fastSequences {
		t.Skip("the processor lacks AVX")
	}
	random := rand.New(rand.NewPCG(31, 32))
	decoded := 0 // by the assembly alone
	for round := range 300 {
		block, data := edgeBlock(random, 1000+random.IntN(9000))
		src, dst, slow := guarded(t, len(block)), guarded(t, len(data)), make([]byte, len(data))
		copy(src, block)
		n, err := decodeGo(dst, src)
		require.NoError(t, err)
		require.Equal(t, len(data), n)
		require.True(t, bytes.Equal(data, dst), "block %d", round)
		withoutAssembly(func() {
			n, err := decodeGo(slow, src)
			require.NoError(t, err)
			require.True(t, bytes.Equal(data, slow[:n]))
		})
		out, _ := decodeSequences(dst, 0, src, 0)
		decoded += out
		for range 30 {
			copy(src, block)
			for range 1 + random.IntN(3) {
				src[random.IntN(len(src))] = byte(random.Uint32())
			}
			out := dst[:random.IntN(len(dst)+1)]
			if random.IntN(2) == 0 {
				out = dst
			}
			n, err := decodeGo(out, src)
			withoutAssembly(func() {
				other, otherErr := decodeGo(slow[:len(out)], src)
				require.Equal(t, otherErr, err)
				require.Equal(t, other, n)
				require.True(t, bytes.Equal(slow[:n], out[:n]), "block %d", round)
			})
		}
	}
	require.Greater(t, decoded, 300*100)
}

// BenchmarkSequences decodes what decodeSequences is for: shuffled numbers. They are the second
// bytes of floats of a smooth curve with noise, in steps of 1/64. A processor remembers the
// branches of one block, but not those of many.
func BenchmarkSequences(b *testing.B) {
	const size, count = 128 << 10, 16
	random := rand.New(rand.NewPCG(33, 34))
	var blocks [count][]byte
	for k := range blocks {
		plane := make([]byte, size)
		for i := range plane {
			x := 15 + 10*math.Sin(float64(k*size+i)/5000) + random.NormFloat64()
			plane[i] = byte(math.Float32bits(float32(math.Round(64*x)/64)) >> 8)
		}
		blocks[k] = make([]byte, Bound(size))
		n, err := EncodeBlock(blocks[k], plane, 5)
		require.NoError(b, err)
		blocks[k] = blocks[k][:n]
	}
	dst := make([]byte, size)
	run := func(name string, decode func(dst, src []byte)) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(size)
			for k := 0; b.Loop(); k++ {
				decode(dst, blocks[k%count])
			}
		})
	}
	byGo := func(dst, src []byte) {
		if n, err := decodeGo(dst, src); err != nil || n != size {
			b.Fatal(n, err)
		}
	}
	run("assembly", byGo)
	run("go", func(dst, src []byte) { withoutAssembly(func() { byGo(dst, src) }) })
	if lib := library(); lib != nil {
		run("liblz4", func(dst, src []byte) {
			if n, ok := lib.decode(dst, src); !ok || n != size {
				b.Fatal(n)
			}
		})
	}
}
