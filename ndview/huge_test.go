package ndview_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
)

// Arrays of more than 2^32 elements, in memory of that size: on a GPU where the
// environment asks for one, and on the CPU where QUIVER_TEST_HUGE says how many GiB
// of the host's memory tests may take.

// hugeExtent is what 32 bits do not count and no vector divides, and makes a matrix:
// 2^32 + 262,147.
const (
	hugeRows, hugeColumns = 65_537, 65_539
	hugeExtent            = hugeRows * hugeColumns
)

// onHuge runs a test on devices that have so many GiB.
func onHuge(t *testing.T, gib int64, test func(t *testing.T, dev arrowbuf.Device)) {
	t.Helper()
	t.Run("cpu", func(t *testing.T) {
		needHost(t, gib)
		test(t, arrowbuf.CPU())
	})
	onHugeCUDA(t, gib, func(t *testing.T, dev *cudabuf.Device) { test(t, dev) })
}

// needHost skips a test that wants more of the host's memory than it may take.
func needHost(t *testing.T, gib int64) {
	t.Helper()
	if most, _ := strconv.ParseInt(os.Getenv("QUIVER_TEST_HUGE"), 10, 64); most < gib {
		t.Skipf("it takes %d GiB of the host's memory: set QUIVER_TEST_HUGE=%d", gib, gib)
	}
	before := debug.SetMemoryLimit(gib << 30) // so that what was released is collected in time
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
}

func onHugeCUDA(t *testing.T, gib int64, test func(t *testing.T, dev *cudabuf.Device)) {
	t.Helper()
	t.Run("gpu", func(t *testing.T) {
		if !cudatest.OnGPU() {
			t.Skipf("it takes %d GiB of a GPU's memory: set %s=cuda", gib, cudatest.Environment)
		}
		onCUDA(t, func(t *testing.T, dev *cudabuf.Device) {
			if free, _, err := dev.MemInfo(); err != nil || int64(free) < gib<<30 {
				t.Skipf("it takes %d GiB of the device's memory, of which %d bytes are free (%v)", gib, free, err)
			}
			test(t, dev)
		})
	})
}

// period is that of the bytes of a pattern: all sizes of elements divide it, and
// no power of 2 is a multiple, so that elements which low bits of a place confuse
// differ.
const period = 16 * 1048573

// pattern is one period of random bytes.
func pattern() []byte {
	block := make([]byte, period)
	rand.NewChaCha8([32]byte{4}).Read(block)
	return block
}

// periodic is an array of n bytes with a block over and over.
func periodic(t *testing.T, dev arrowbuf.Device, block []byte, n int64) *ndview.NDBuffer {
	t.Helper()
	made, err := ndview.Empty(dev, ndview.Uint8, n)
	a := own(t, made, err)
	for at := int64(0); at < n; at += int64(len(block)) {
		_, err := a.Buffer().CopyFromHost(block[:min(int64(len(block)), n-at)], at)
		require.NoError(t, err)
	}
	return a
}

// requirePeriodic checks that all bytes of an array without gaps are a block over
// and over.
func requirePeriodic(t *testing.T, want []byte, a *ndview.NDBuffer) {
	t.Helper()
	n := int64(len(want))
	requireChunks(t, a, n, func(at int64, chunk []byte) []byte { return want[:len(chunk)] })
}

// requireChunks checks the bytes of an array without gaps, so many at a time.
func requireChunks(t *testing.T, a *ndview.NDBuffer, size int64, want func(at int64, chunk []byte) []byte) {
	t.Helper()
	require.True(t, a.IsContiguous())
	host, onHost := arrowbuf.HostBytes(a.Buffer())
	var chunk []byte
	for at := int64(0); at < a.NBytes(); at += size {
		n := min(size, a.NBytes()-at)
		if onHost {
			chunk = host[a.Offset()+at:][:n]
		} else {
			chunk = append(chunk[:0], make([]byte, n)...)
			_, err := a.Buffer().CopyToHost(chunk, a.Offset()+at)
			require.NoError(t, err)
		}
		if w := want(at, chunk); !bytes.Equal(w, chunk) {
			for i := range w {
				require.Equal(t, w[i], chunk[i], "byte %d of %d", at+int64(i), a.NBytes())
			}
		}
	}
}

// mapped is a block of what a function makes of each byte's place.
func mapped(n int, f func(i int) byte) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = f(i)
	}
	return out
}

// rotated is a block that begins with byte by.
func rotated(block []byte, by int64) []byte {
	n := int64(len(block))
	by = (by%n + n) % n
	return append(bytes.Clone(block[by:]), block[:by]...)
}

// reversed is a block backwards.
func reversed(block []byte) []byte {
	return mapped(len(block), func(i int) byte { return block[len(block)-1-i] })
}

// byte of a truth.
func truth(is bool) byte {
	if is {
		return 1
	}
	return 0
}
