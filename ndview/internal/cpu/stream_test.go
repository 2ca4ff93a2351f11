package cpu

import (
	"bytes"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

func TestStreamCopiesFromAndToAnywhere(t *testing.T) {
	src := make([]byte, 1000)
	for i := range src {
		src[i] = byte(i + 1)
	}
	for at := range 70 {
		for n := range 300 {
			dst := make([]byte, 400)
			want := bytes.Clone(dst)
			copy(want[at:], src[at/3:at/3+n])
			Stream(unsafe.Pointer(&dst[at]), unsafe.Pointer(&src[at/3]), int64(n))
			StreamEnd()
			require.Equal(t, want, dst, "%d bytes to %d", n, at)
		}
	}
}

func TestLargeCastsAreThoseOfTheirParts(t *testing.T) {
	n := int(streamed)/4 + 1001
	src := make([]uint32, n)
	for i := range src {
		src[i] = uint32(i * 2654435761)
	}
	got, want := make([]float32, n), make([]float32, n)
	Cast(unsafe.Pointer(&got[0]), unsafe.Pointer(&src[0]), int64(n), Float32, Uint32)
	for lo := 0; lo < n; lo += 997 {
		k := min(n-lo, 997)
		Cast(unsafe.Pointer(&want[lo]), unsafe.Pointer(&src[lo]), int64(k), Float32, Uint32)
	}
	require.True(t, slices.Equal(want, got))
}
