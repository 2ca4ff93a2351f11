package shuffle_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/quiver-gpu/quiver/compress/shuffle"
	"github.com/stretchr/testify/require"
)

func random(n int) []byte {
	r := rand.New(rand.NewPCG(uint64(n), 1))
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(r.Uint32())
	}
	return out
}

// lengths returns lengths in bytes around the steps of the loops.
func lengths(size int) []int {
	var out []int
	for _, n := range []int{0, 1, 7, 8, 9, 15, 16, 63, 64, 65, 72, 128, 136, 200} {
		out = append(out, n*size, n*size+size-1)
	}
	return out
}

func TestBytesMatchDefinition(t *testing.T) {
	for size := 1; size <= 17; size++ {
		for _, length := range lengths(size) {
			src := random(length)
			n := length / size
			want := slices.Clone(src)
			for i := range n {
				for b := range size {
					want[b*n+i] = src[i*size+b]
				}
			}
			got, back := make([]byte, length), make([]byte, length)
			require.NoError(t, shuffle.Bytes(got, src, size))
			require.Equal(t, want, got, "size %d, %d bytes", size, length)
			require.NoError(t, shuffle.UnshuffleBytes(back, got, size))
			require.Equal(t, src, back, "size %d, %d bytes", size, length)
			for offset := range 2 { // an aligned address, and one that is not
				back = make([]byte, length+100)
				back = back[-uintptr(unsafe.Pointer(&back[0]))%64:][offset:]
				require.NoError(t, shuffle.UnshuffleBytesUncached(back[:length], got, size))
				require.Equal(t, src, back[:length], "size %d, %d bytes", size, length)
				require.Zero(t, back[length])
			}
		}
	}
}

func TestPlanesAreJoinedAsThoseThatFollowEachOther(t *testing.T) {
	for size := 1; size <= 17; size++ {
		for _, n := range []int{0, 1, 31, 32, 33, 100, 256} {
			shuffled := random(n * size)
			want, got := make([]byte, len(shuffled)), make([]byte, len(shuffled))
			require.NoError(t, shuffle.UnshuffleBytes(want, shuffled, size))
			planes := make([][]byte, size)
			for b := range planes {
				planes[b] = slices.Clone(shuffled[b*n : (b+1)*n])
			}
			for _, uncached := range []bool{false, true} {
				clear(got)
				require.NoError(t, shuffle.UnshufflePlanes(got, planes, uncached))
				require.Equal(t, want, got, "size %d, %d elements", size, n)
			}
		}
	}
	require.Error(t, shuffle.UnshufflePlanes(nil, nil, false))
	require.Error(t, shuffle.UnshufflePlanes(make([]byte, 3), [][]byte{{1, 2}, {3}}, false))
	require.Error(t, shuffle.UnshufflePlanes(make([]byte, 5), [][]byte{{1, 2}, {3, 4}}, false))
}

func TestBitsMatchDefinition(t *testing.T) {
	for size := 1; size <= 17; size++ {
		for _, length := range lengths(size) {
			src := random(length)
			n := length / size
			want := slices.Clone(src)
			if n%8 == 0 {
				clear(want[:n*size])
				for e := range n {
					for bit := range 8 * size {
						value := src[e*size+bit/8] >> (bit % 8) & 1
						want[bit*(n/8)+e/8] |= value << (e % 8)
					}
				}
			}
			got, back := make([]byte, length), make([]byte, length)
			require.NoError(t, shuffle.Bits(got, src, size))
			require.Equal(t, want, got, "size %d, %d bytes", size, length)
			require.NoError(t, shuffle.UnshuffleBits(back, got, size))
			require.Equal(t, src, back, "size %d, %d bytes", size, length)
		}
	}
}

func TestInvalidArgumentsAreErrors(t *testing.T) {
	for _, f := range []func(dst, src []byte, size int) error{shuffle.Bytes, shuffle.UnshuffleBytes, shuffle.UnshuffleBytesUncached, shuffle.Bits, shuffle.UnshuffleBits} {
		dst := []byte{1, 2, 3}
		require.Error(t, f(dst, []byte{4, 5, 6}, 0))
		require.Error(t, f(dst, []byte{4, 5, 6}, -1))
		require.Error(t, f(dst, []byte{4, 5}, 1))
		require.Equal(t, []byte{1, 2, 3}, dst)
	}
}

func Example() {
	src := []byte{1, 2, 3, 4, 5, 6} // three numbers of 2 bytes
	dst := make([]byte, len(src))
	fmt.Println(shuffle.Bytes(dst, src, 2), dst)
	// Output: <nil> [1 3 5 2 4 6]
}

func BenchmarkShuffle(b *testing.B) {
	src := random(1 << 20)
	dst := make([]byte, len(src))
	for _, size := range []int{2, 4, 8, 12} {
		for name, f := range map[string]func(dst, src []byte, size int) error{
			"bytes": shuffle.Bytes, "unshuffle bytes": shuffle.UnshuffleBytes, "uncached": shuffle.UnshuffleBytesUncached, "bits": shuffle.Bits, "unshuffle bits": shuffle.UnshuffleBits,
		} {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				b.SetBytes(int64(len(src)))
				for b.Loop() {
					require.NoError(b, f(dst, src, size))
				}
			})
		}
	}
}
