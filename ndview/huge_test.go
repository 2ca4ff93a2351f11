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
			if free, _, err := dev.MemInfo(); err != nil || free < gib<<30 {
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
	_, _ = rand.NewChaCha8([32]byte{4}).Read(block)
	return block
}

// periodic is an array of n bytes with a block over and over.
func periodic(t *testing.T, dev arrowbuf.Device, block []byte, n int64) *ndview.NDBuffer {
	t.Helper()
	made, err := ndview.Empty(dev, ndview.Uint8, n)
	a := own(t, made, err)
	done, err := a.Buffer().CopyFromHost(block[:min(int64(len(block)), n)], 0)
	for ; err == nil && done < n; done *= 2 {
		var before arrowbuf.Buffer
		if before, err = a.Buffer().Slice(0, min(done, n-done)); err == nil {
			_, err = a.Buffer().CopyFromDevice(before, done)
			before.Release()
		}
	}
	require.NoError(t, err)
	return a
}

// requirePeriodic checks that the bytes of an array without gaps are a block over and
// over: the first on the host, and on the device that all others are as those before.
func requirePeriodic(t *testing.T, block []byte, a *ndview.NDBuffer) {
	t.Helper()
	require.True(t, a.IsContiguous())
	n := a.NBytes()
	period := min(int64(len(block)), n)
	first, before, behind := at(t, a.Buffer(), ndview.Uint8, a.Offset(), period),
		at(t, a.Buffer(), ndview.Uint8, a.Offset(), n-period), at(t, a.Buffer(), ndview.Uint8, a.Offset()+period, n-period)
	requireBytes(t, block[:period], elements(t, first))
	same, err := before.Equal(behind)
	require.NoError(t, err)
	if !same {
		differ, err := ndview.NotEqual.Of(before, behind)
		where, err2 := ndview.ArgMax.Of(own(t, differ, err), ndview.ReduceOptions{})
		require.Failf(t, "bytes differ", "at %d of %d", hostOf[int64](t, own(t, where, err2))[0]+period, n)
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
