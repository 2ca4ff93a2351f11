package ndview_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strconv"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// These tests use arrays of more than 2^32 elements: on a GPU if the environment asks
// for one, and on the CPU if QUIVER_TEST_HUGE allows that many GiB of host memory.

// hugeExtent exceeds 32 bits, is a product, and is no multiple of a vector:
// 2^32 + 262,147.
const (
	hugeRows, hugeColumns = 65_537, 65_539
	hugeExtent            = hugeRows * hugeColumns
)

// onHuge runs a test on devices with at least gib GiB of memory.
func onHuge(t *testing.T, gib int64, test func(t *testing.T, dev arrowbuf.Device)) {
	t.Helper()
	t.Run("cpu", func(t *testing.T) {
		needHost(t, gib)
		test(t, arrowbuf.CPU())
	})
	onHugeCUDA(t, gib, func(t *testing.T, dev *cudabuf.Device) { test(t, dev) })
}

// needHost skips a test that needs more host memory than the environment allows.
func needHost(t *testing.T, gib int64) {
	t.Helper()
	if most, _ := strconv.ParseInt(os.Getenv("QUIVER_TEST_HUGE"), 10, 64); most < gib {
		t.Skipf("needs %d GiB of host memory: set QUIVER_TEST_HUGE=%d", gib, gib)
	}
	before := debug.SetMemoryLimit(gib << 30) // collect released memory in time
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
}

// onHugeCUDA runs a test on CUDA devices with at least gib GiB of memory.
func onHugeCUDA(t *testing.T, gib int64, test func(t *testing.T, dev *cudabuf.Device)) {
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

// period is the length of a pattern in bytes. All element sizes divide it, and it
// divides no power of 2, so that elements whose indices agree in their low bits
// differ.
const period = 16 * 1048573

// pattern returns one period of random bytes.
func pattern() []byte {
	block := make([]byte, period)
	_, _ = rand.NewChaCha8([32]byte{4}).Read(block)
	return block
}

// periodic returns an array of n bytes that repeats a block.
func periodic(t *testing.T, dev arrowbuf.Device, block []byte, n int64) *ndview.NDBuffer {
	t.Helper()
	made, err := ndview.Empty(dev, ndview.Uint8, n)
	a := ndtest.Own(t, made, err)
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

// requirePeriodic checks that the bytes of a contiguous array repeat a block. It
// compares the first period on the host, and the others with the period before them on
// the device.
func requirePeriodic(t *testing.T, block []byte, a *ndview.NDBuffer) {
	t.Helper()
	require.True(t, a.IsContiguous())
	n := a.NBytes()
	period := min(int64(len(block)), n)
	first, before, after := ndtest.At(t, a.Buffer(), ndview.Uint8, a.Offset(), period),
		ndtest.At(t, a.Buffer(), ndview.Uint8, a.Offset(), n-period), ndtest.At(t, a.Buffer(), ndview.Uint8, a.Offset()+period, n-period)
	ndtest.RequireBytes(t, block[:period], ndtest.Elements(t, first))
	same, err := before.Equal(after)
	require.NoError(t, err)
	if !same {
		differ, err := ndview.NotEqual.Of(before, after)
		where, err2 := ndview.ArgMax.Of(ndtest.Own(t, differ, err), ndview.ReduceOptions{})
		require.Failf(t, "bytes differ", "at %d of %d", ndtest.HostOf[int64](t, ndtest.Own(t, where, err2))[0]+period, n)
	}
}

// mapped returns n bytes computed from their index.
func mapped(n int, f func(i int) byte) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = f(i)
	}
	return out
}

// rotated returns a block that begins with byte by of the given one.
func rotated(block []byte, by int64) []byte {
	n := int64(len(block))
	by = (by%n + n) % n
	return append(bytes.Clone(block[by:]), block[:by]...)
}

// reversed returns a block in reverse.
func reversed(block []byte) []byte {
	return mapped(len(block), func(i int) byte { return block[len(block)-1-i] })
}

// truth returns 1 for true and 0 for false.
func truth(is bool) byte {
	if is {
		return 1
	}
	return 0
}

// TestHostCopiesReachBeyond32Bits copies a huge array to a device and back, and parts
// of it.
func TestHostCopiesReachBeyond32Bits(t *testing.T) {
	block := pattern()
	onHuge(t, 9, func(t *testing.T, dev arrowbuf.Device) {
		data := bytes.Repeat(block, hugeExtent/period+1)[:hugeExtent]
		a := ndtest.FromHost(t, dev, ndview.Uint8, data, hugeRows, hugeColumns)
		requirePeriodic(t, block, a)
		clear(data)
		require.NoError(t, a.CopyToHost(data))
		for at := 0; at < hugeExtent; at += period {
			require.True(t, bytes.Equal(block[:min(period, hugeExtent-at)], data[at:min(at+period, hugeExtent)]), "from byte %d", at)
		}
		flat, err := a.Ravel(ndview.OrderC)
		ndtest.Own(t, flat, err)
		for _, from := range []int64{1<<31 - 50, 1<<32 - 50, hugeExtent - 100} {
			part := index(t, flat, ndview.Span(from, from+100))
			want := rotated(block, from)[:100]
			got, err := part.Bytes()
			require.NoError(t, err)
			assert.Equal(t, want, got)
			back, err := ndview.ToHost[uint8](index(t, part, ndview.SpanStep(ndview.Open, ndview.Open, -3)))
			require.NoError(t, err)
			for i, v := range back {
				assert.Equal(t, want[99-3*i], v)
			}
		}
		column, err := ndview.ToHost[uint8](index(t, a, ndview.All, ndview.At(7)))
		require.NoError(t, err)
		for i, v := range column {
			require.Equal(t, block[(i*hugeColumns+7)%period], v, "row %d", i)
		}
		last, err := index(t, a, ndview.At(-1), ndview.At(-1)).Item()
		require.NoError(t, err)
		assert.EqualValues(t, block[(hugeExtent-1)%period], last.Value())

		require.NoError(t, a.Zero())
		for i, v := range []byte{1, 2, 3, 4, 5, 6} {
			row, column := int64(i/3), int64(i%3)
			require.NoError(t, a.Set(v, ndview.At(-1-row), ndview.At(-1-column)))
		}
		assert.Equal(t, "[[0 0 0 ... 0 0 0]\n [0 0 0 ... 0 0 0]\n [0 0 0 ... 0 0 0]\n ...\n [0 0 0 ... 0 0 0]\n [0 0 0 ... 6 5 4]\n [0 0 0 ... 3 2 1]]", a.String())
		assert.Equal(t, "[0 0 0 ... 3 2 1]", flat.String())
	})
}

// TestArrowColumnsReachBeyond32Bits uses a column of more than 2^32 rows with a few
// nulls.
func TestArrowColumnsReachBeyond32Bits(t *testing.T) {
	block := pattern()
	onHuge(t, 10, func(t *testing.T, dev arrowbuf.Device) {
		a := periodic(t, dev, block, hugeExtent)
		missing := []int64{1 << 31, 1<<32 - 1, 1<<32 + 7, hugeExtent - 1}
		bitmap := ndtest.Upload(t, dev, bytes.Repeat([]byte{0xff}, hugeExtent/8+1))
		for _, row := range missing {
			_, err := bitmap.CopyFromHost([]byte{0xff &^ (1 << (row % 8))}, row/8)
			require.NoError(t, err)
		}
		validity, values := bitmap.Arrow(), a.Buffer().Arrow()
		defer validity.Release()
		defer values.Release()

		t.Run("numbers", func(t *testing.T) {
			data := array.NewData(arrow.PrimitiveTypes.Uint8, hugeExtent, []*memory.Buffer{nil, values}, nil, 0, 0)
			defer data.Release()
			column := ndtest.Own(t, arrowbuf.NewArray(data), nil)
			shown := ndtest.View(t)(ndview.FromArrow(column))
			require.Equal(t, []int64{hugeExtent}, shown.Shape())
			assert.Equal(t, a.Buffer().Address(), shown.Buffer().Address())
			tail := ndtest.Own(t, arrowbuf.NewSlice(column, 1<<32-5, hugeExtent), nil)
			requirePeriodic(t, rotated(block, 1<<32-5), ndtest.View(t)(ndview.FromArrow(tail)))

			made, err := ndview.ToArrow(shown, ndview.ArrowOptions{})
			require.NoError(t, err)
			defer made.Release()
			assert.Equal(t, hugeExtent, made.Len())
			assert.Zero(t, made.NullN())
		})
		t.Run("missing ones", func(t *testing.T) {
			data := array.NewData(arrow.PrimitiveTypes.Uint8, hugeExtent, []*memory.Buffer{validity, values}, nil, array.UnknownNullCount, 0)
			defer data.Release()
			column := ndtest.Own(t, arrowbuf.NewArray(data), nil)
			assert.Equal(t, len(missing), column.NullN())
			shown, mask, err := ndview.FromArrowMasked(column)
			ndtest.Own(t, shown, err)
			where, err := ndview.ArgWhere(ndtest.Own(t, mask, nil))
			assert.Equal(t, ndtest.Raw(missing...), ndtest.Elements(t, ndtest.Own(t, where, err)))
			made, err := ndview.ToArrow(shown, ndview.ArrowOptions{Mask: mask})
			require.NoError(t, err)
			defer made.Release()
			assert.Equal(t, len(missing), made.NullN())
			assert.True(t, made.IsNull(1<<32+7))
			assert.False(t, made.IsNull(1<<32+6))
			assert.False(t, made.IsNull(7))
		})
		t.Run("truths", func(t *testing.T) {
			data := array.NewData(arrow.FixedWidthTypes.Boolean, hugeExtent, []*memory.Buffer{nil, validity}, nil, 0, 0)
			defer data.Release()
			shown := ndtest.View(t)(ndview.FromArrow(ndtest.Own(t, arrowbuf.NewArray(data), nil)))
			not, err := ndview.LogicalNot.Of(shown)
			where, err2 := ndview.ArgWhere(ndtest.Own(t, not, err))
			assert.Equal(t, ndtest.Raw(missing...), ndtest.Elements(t, ndtest.Own(t, where, err2)))
			made, err := ndview.ToArrow(shown, ndview.ArrowOptions{})
			require.NoError(t, err)
			defer made.Release()
			bits, err := arrowbuf.BufferOf(made.Data().Buffers()[1])
			ndtest.Own(t, bits, err)
			same, err := ndtest.At(t, bits, ndview.Uint8, 0, hugeExtent/8).Equal(ndtest.At(t, bitmap, ndview.Uint8, 0, hugeExtent/8))
			require.NoError(t, err)
			assert.True(t, same)
		})
	})
}
