package ndtest

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

// Tests of indices beyond 32 bits use arrays of more than 2^32 elements: on a GPU if the
// environment asks for one, and on the CPU if QUIVER_TEST_HUGE allows that many GiB of host
// memory.

// HugeExtent exceeds 32 bits, is a product, and is no multiple of a vector:
// 2^32 + 262,147.
const (
	HugeRows, HugeColumns = 65_537, 65_539
	HugeExtent            = HugeRows * HugeColumns
)

// OnHuge runs a test on devices with at least gib GiB of memory.
func OnHuge(t *testing.T, gib int64, test func(t *testing.T, dev arrowbuf.Device)) {
	t.Helper()
	t.Run("cpu", func(t *testing.T) {
		NeedHostMemory(t, gib)
		test(t, arrowbuf.CPU())
	})
	OnHugeCUDA(t, gib, func(t *testing.T, dev *cudabuf.Device) { test(t, dev) })
}

// NeedHostMemory skips a test that needs more host memory than the environment allows.
func NeedHostMemory(t *testing.T, gib int64) {
	t.Helper()
	if most, _ := strconv.ParseInt(os.Getenv("QUIVER_TEST_HUGE"), 10, 64); most < gib {
		t.Skipf("needs %d GiB of host memory: set QUIVER_TEST_HUGE=%d", gib, gib)
	}
	before := debug.SetMemoryLimit(gib << 30) // collect released memory in time
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
}

// OnHugeCUDA runs a test on CUDA devices with at least gib GiB of memory.
func OnHugeCUDA(t *testing.T, gib int64, test func(t *testing.T, dev *cudabuf.Device)) {
	t.Helper()
	t.Run("gpu", func(t *testing.T) {
		if !cudatest.OnGPU() {
			t.Skipf("needs %d GiB of a GPU's memory: set %s=cuda", gib, cudatest.Environment)
		}
		cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
			if free, _, err := dev.MemInfo(); err != nil || free < gib<<30 {
				t.Skipf("needs %d GiB of device memory, of which %d bytes are free (%v)", gib, free, err)
			}
			test(t, dev)
		})
	})
}

// Period is the length of a pattern in bytes. All element sizes divide it, and it
// divides no power of 2, so that elements whose indices agree in their low bits
// differ.
const Period = 16 * 1048573

// Pattern returns one period of random bytes.
func Pattern() []byte {
	block := make([]byte, Period)
	_, _ = rand.NewChaCha8([32]byte{4}).Read(block)
	return block
}

// Periodic returns an array of n bytes that repeats a block.
func Periodic(t *testing.T, dev arrowbuf.Device, block []byte, n int64) *ndview.NDBuffer {
	t.Helper()
	made, err := ndview.Empty(dev, ndview.Uint8, n)
	a := Own(t, made, err)
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

// RequirePeriodic checks that the bytes of a contiguous array repeat a block. It
// compares the first period on the host, and the others with the period before them on
// the device.
func RequirePeriodic(t *testing.T, block []byte, a *ndview.NDBuffer) {
	t.Helper()
	require.True(t, a.IsContiguous())
	n := a.NBytes()
	period := min(int64(len(block)), n)
	first, before, after := At(t, a.Buffer(), ndview.Uint8, a.Offset(), period),
		At(t, a.Buffer(), ndview.Uint8, a.Offset(), n-period), At(t, a.Buffer(), ndview.Uint8, a.Offset()+period, n-period)
	RequireBytes(t, block[:period], Elements(t, first))
	same, err := before.Equal(after)
	require.NoError(t, err)
	if !same {
		differ, err := ndview.NotEqual.Of(before, after)
		where, err2 := ndview.ArgMax.Of(Own(t, differ, err), ndview.ReduceOptions{})
		require.Failf(t, "bytes differ", "at %d of %d", HostOf[int64](t, Own(t, where, err2))[0]+period, n)
	}
}

// Mapped returns n bytes computed from their index.
func Mapped(n int, f func(i int) byte) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = f(i)
	}
	return out
}

// Rotated returns a block that begins with byte by of the given one.
func Rotated(block []byte, by int64) []byte {
	n := int64(len(block))
	by = (by%n + n) % n
	return append(bytes.Clone(block[by:]), block[:by]...)
}

// Reversed returns a block in reverse.
func Reversed(block []byte) []byte {
	return Mapped(len(block), func(i int) byte { return block[len(block)-1-i] })
}

// Truth returns 1 for true and 0 for false.
func Truth(is bool) byte {
	if is {
		return 1
	}
	return 0
}
