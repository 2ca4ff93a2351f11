package cpu

import (
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

func TestBytesTurnAroundInVectorsAsOneByOne(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int64{2, 4, 8} {
		for n := range int64(101) {
			src := make([]byte, n*size+1)
			for i := range src {
				src[i] = byte(random.Uint32())
			}
			want := slices.Clone(src)
			for i := range n {
				slices.Reverse(want[i*size : (i+1)*size])
			}
			dst := make([]byte, len(src))
			dst[n*size] = src[n*size]
			SwapBytes(unsafe.Pointer(&dst[0]), unsafe.Pointer(&src[0]), n*size, size)
			require.Equal(t, want, dst, "%d numbers of %d bytes", n, size)
			SwapBytes(unsafe.Pointer(&src[0]), unsafe.Pointer(&src[0]), n*size, size)
			require.Equal(t, want, src, "%d numbers of %d bytes in place", n, size)
		}
	}
}
