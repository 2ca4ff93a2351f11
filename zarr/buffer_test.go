package zarr_test

import (
	"bytes"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// otherThan returns a device that is not dev.
func otherThan(t *testing.T, dev arrowbuf.Device) arrowbuf.Device {
	t.Helper()
	if dev != arrowbuf.CPU() {
		return arrowbuf.CPU()
	}
	return cudatest.NewDevice(t)
}

// countCopiesToHost returns a simulated device and the number of its copies to the host
// since the last call.
func countCopiesToHost(t *testing.T) (*cudabuf.Device, func() int64) {
	t.Helper()
	var copies atomic.Int64
	d := cudatest.Start(t, cudatest.Config{Fail: func(call string, _ int) cudabuf.Result {
		if call == "cuMemcpyDtoHAsync" {
			copies.Add(1)
		}
		return 0
	}})
	dev, err := d.Device(0)
	require.NoError(t, err)
	return dev, func() int64 { return copies.Swap(0) }
}

func TestBuffersOfADeviceAreComparedThere(t *testing.T) {
	dev, copies := countCopiesToHost(t)
	data := make([]byte, 64<<20) // would be several copies
	x, y := bufferFrom(t, dev, data...), bufferFrom(t, dev, data...)
	copies()
	equal, err := x.Equal(y)
	require.NoError(t, err)
	assert.True(t, equal)
	assert.EqualValues(t, 1, copies(), "the result")
}

func TestBufferBytesAreACopy(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		b := bufferFrom(t, dev, 1, 2, 3)
		got, err := b.Bytes()
		require.NoError(t, err)
		got[0] = 9
		assert.Equal(t, []byte{1, 2, 3}, contents(t, b))
	})
}

// own releases r at the end of the test.
func own[R interface{ Release() }](t *testing.T, r R, err error) R {
	t.Helper()
	require.NoError(t, err)
	t.Cleanup(r.Release)
	return r
}

func bufferFrom(t *testing.T, dev arrowbuf.Device, data ...byte) *zarr.Buffer {
	t.Helper()
	b, err := zarr.BufferFromBytes(dev, data)
	return own(t, b, err)
}

// contents returns all bytes of a Buffer.
func contents(t *testing.T, b *zarr.Buffer) []byte {
	t.Helper()
	data, err := b.Bytes()
	require.NoError(t, err)
	return data
}

func TestBufferSliceFollowsPythonBounds(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		b := bufferFrom(t, dev, 0, 1, 2, 3, 4)
		for _, tt := range []struct {
			start, stop int64
			want        []byte
		}{
			{0, 5, []byte{0, 1, 2, 3, 4}},
			{1, 3, []byte{1, 2}},
			{-2, 5, []byte{3, 4}},
			{-9, -3, []byte{0, 1}},
			{3, math.MaxInt64, []byte{3, 4}},
			{math.MinInt64 + 1, math.MaxInt64, []byte{0, 1, 2, 3, 4}},
			{1, math.MinInt64 + 1, []byte{}},
			{ndview.Open, -1, []byte{0, 1, 2, 3}},
			{-1, ndview.Open, []byte{4}},
			{ndview.Open, ndview.Open, []byte{0, 1, 2, 3, 4}},
			{3, 1, []byte{}},
			{-1, 0, []byte{}},
			{7, 9, []byte{}},
			{5, 5, []byte{}},
			{0, -9, []byte{}},
		} {
			part, err := b.Slice(tt.start, tt.stop)
			own(t, part, err)
			assert.Equal(t, tt.want, contents(t, part), "[%d:%d]", tt.start, tt.stop)
			assert.Equal(t, int64(len(tt.want)), part.Len())
			assert.Equal(t, dev, part.Device())
		}
	})
}

func TestBufferSlicesShareMemoryAndOutliveTheWhole(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		b, err := zarr.BufferFromBytes(dev, []byte{0, 1, 2, 3})
		require.NoError(t, err)
		part, err := b.Slice(1, 3)
		own(t, part, err)
		require.NoError(t, b.SetRange(0, 4, bufferFrom(t, dev, 9, 8, 7, 6)))
		assert.Equal(t, []byte{8, 7}, contents(t, part))
		b.Release()
		assert.Equal(t, []byte{8, 7}, contents(t, part))
	})
}

func TestBufferSetRangeCopiesOrRepeatsBytes(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		b := bufferFrom(t, dev, make([]byte, 8)...)
		for _, from := range []arrowbuf.Device{dev, otherThan(t, dev)} {
			require.NoError(t, b.SetRange(0, 8, bufferFrom(t, from, 0)), "one byte is repeated")
			require.NoError(t, b.SetRange(1, 4, bufferFrom(t, from, 1, 2, 3)))
			require.NoError(t, b.SetRange(-3, 99, bufferFrom(t, from, 7)))
			require.NoError(t, b.SetRange(6, 2, bufferFrom(t, from)), "empty range")
			require.NoError(t, b.SetRange(6, 2, bufferFrom(t, from, 5)), "empty range, one byte")
			assert.Equal(t, []byte{0, 1, 2, 3, 0, 7, 7, 7}, contents(t, b))

			err := b.SetRange(0, 2, bufferFrom(t, from, 1, 2, 3))
			assert.ErrorIs(t, err, ndview.ErrShape)
			assert.ErrorContains(t, err, "3 bytes for the 2 of [0, 2)")
			assert.ErrorIs(t, b.SetRange(0, 1, bufferFrom(t, from)), ndview.ErrShape)
			assert.Equal(t, []byte{0, 1, 2, 3, 0, 7, 7, 7}, contents(t, b), "failed calls must not write")
		}
	})
}

func TestBufferSetRangeAllowsOverlap(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, forth := range []bool{true, false} {
			data := make([]byte, 1000)
			for i := range data {
				data[i] = byte(i * 7)
			}
			b := bufferFrom(t, dev, append([]byte{}, data...)...)
			from, to := int64(0), int64(3)
			if !forth {
				from, to = to, from
			}
			part, err := b.Slice(from, from+997)
			own(t, part, err)
			require.NoError(t, b.SetRange(to, to+997, part))
			copy(data[to:to+997], append([]byte{}, data[from:from+997]...))
			assert.Equal(t, data, contents(t, b))
		}
	})
}

func TestBufferCombineCopiesToNewBuffer(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := bufferFrom(t, dev, 1, 2)
		all, err := a.Combine(bufferFrom(t, dev), bufferFrom(t, otherThan(t, dev), 3), bufferFrom(t, dev, 4, 5))
		own(t, all, err)
		assert.Equal(t, []byte{1, 2, 3, 4, 5}, contents(t, all))
		assert.Equal(t, dev, all.Device())

		same, err := a.Combine()
		own(t, same, err)
		require.NoError(t, same.SetRange(0, 2, bufferFrom(t, dev, 9)))
		assert.Equal(t, []byte{1, 2}, contents(t, a), "without others it is a copy")
	})
}

func TestBufferEqualComparesBytesAcrossDevices(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := bufferFrom(t, dev, 1, 2, 3)
		for _, other := range []arrowbuf.Device{dev, otherThan(t, dev)} {
			for want, data := range map[string][]byte{"same": {1, 2, 3}, "value": {1, 2, 4}, "shorter": {1, 2}, "longer": {1, 2, 3, 0}, "none": {}} {
				b := bufferFrom(t, other, data...)
				equal, err := a.Equal(b)
				require.NoError(t, err)
				assert.Equal(t, want == "same", equal, want)
				equal, err = b.Equal(a)
				require.NoError(t, err)
				assert.Equal(t, want == "same", equal, want)
			}
		}
	})
}

func TestEmptyBuffers(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		none := bufferFrom(t, dev)
		assert.Zero(t, none.Len())
		assert.Empty(t, contents(t, none))
		made, err := zarr.PrototypeOn(dev).Buffer(0)
		own(t, made, err)
		equal, err := none.Equal(made)
		require.NoError(t, err)
		assert.True(t, equal)
		part, err := none.Slice(-1, 1)
		own(t, part, err)
		assert.Zero(t, part.Len())
		array, err := none.Array()
		own(t, array, err)
		assert.Equal(t, []int64{0}, array.Shape())
	})
}

func TestBufferFromBytesOnCPUDoesNotCopy(t *testing.T) {
	data := []byte{1, 2, 3}
	b := bufferFrom(t, arrowbuf.CPU(), data...)
	require.NoError(t, b.SetRange(0, 1, bufferFrom(t, arrowbuf.CPU(), 9)))
	assert.Equal(t, byte(9), data[0])
	host, ok := b.HostBytes()
	require.True(t, ok)
	assert.Equal(t, &data[0], &host[0])

	_, ok = bufferFrom(t, cudatest.NewDevice(t), data...).HostBytes()
	assert.False(t, ok)
}

func TestBufferToCopiesOnlyBetweenDevices(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		b := bufferFrom(t, dev, 1, 2, 3)
		same, err := b.To(dev)
		own(t, same, err)
		assert.Equal(t, b.Memory().Address(), same.Memory().Address())
		moved, err := b.To(otherThan(t, dev))
		own(t, moved, err)
		assert.NotEqual(t, dev, moved.Device())
		require.NoError(t, b.SetRange(0, 3, bufferFrom(t, dev, 0)))
		assert.Equal(t, []byte{0, 0, 0}, contents(t, same))
		assert.Equal(t, []byte{1, 2, 3}, contents(t, moved))
	})
}

func TestBuffersAndByteArraysShareMemory(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := onDevice(t, dev, ndview.Uint8, []byte{0, 1, 2, 3}, []int64{4})
		middle, err := a.Slice(0, 1, 3)
		own(t, middle, err)
		b, err := zarr.BufferFromArray(middle)
		own(t, b, err)
		require.NoError(t, b.SetRange(0, 2, bufferFrom(t, dev, 8, 9)))
		assert.Equal(t, []byte{0, 8, 9, 3}, bytesOf(t, a))

		back, err := b.Array()
		own(t, back, err)
		assert.Equal(t, ndview.Uint8, back.DType())
		assert.Equal(t, []byte{8, 9}, bytesOf(t, back))

		over, err := zarr.BufferFromMemory(a.Buffer())
		own(t, over, err)
		assert.Equal(t, []byte{0, 8, 9, 3}, contents(t, over))
	})
}

func TestBufferFromArrayRequiresContiguousBytes(t *testing.T) {
	dev := arrowbuf.CPU()
	for _, dtype := range []ndview.DType{ndview.Int8, ndview.Bool, ndview.Bytes(1)} {
		_, err := zarr.BufferFromArray(onDevice(t, dev, dtype, make([]byte, 8), []int64{8}))
		assert.ErrorIs(t, err, ndview.ErrDType)
	}
	for _, shape := range [][]int64{{2, 4}, {}} {
		a, err := ndview.Empty(dev, ndview.Uint8, shape...)
		_, err = zarr.BufferFromArray(own(t, a, err))
		assert.ErrorIs(t, err, ndview.ErrShape)
	}
	row := onDevice(t, dev, ndview.Uint8, make([]byte, 8), []int64{8})
	stepped, err := ndview.FromBuffer(row.Buffer(), ndview.Uint8, 0, []int64{4}, []int64{2})
	own(t, stepped, err)
	_, err = zarr.BufferFromArray(stepped)
	assert.ErrorIs(t, err, ndview.ErrShape, "zarr-python accepts this, although its buffers must be contiguous")
}

func TestBuffersOfReadOnlyArraysAreReadOnly(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a := onDevice(t, dev, ndview.Uint8, []byte{1, 2, 3, 4}, []int64{4})
		one := bufferFrom(t, dev, 9)
		fixed, err := a.ReadOnly()
		whole, err := zarr.BufferFromArray(own(t, fixed, err))
		require.NoError(t, err)
		defer whole.Release()
		part, err := whole.Slice(1, 3)
		require.NoError(t, err)
		defer part.Release()
		same, err := part.To(dev)
		require.NoError(t, err)
		defer same.Release()
		for _, b := range []*zarr.Buffer{whole, part, same} {
			assert.ErrorIs(t, b.SetRange(0, ndview.Open, one), ndview.ErrReadOnly)
			array, err := b.Array()
			own(t, array, err)
			assert.False(t, array.Flags().Writeable)
		}
		assert.Equal(t, []byte{1, 2, 3, 4}, bytesOf(t, a))
		moved, err := whole.To(otherThan(t, dev))
		require.NoError(t, err)
		defer moved.Release()
		assert.NoError(t, moved.SetRange(0, ndview.Open, one), "a copy is writeable")
	})
}

func TestReleasedBuffersReturnErrReleased(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		b, err := zarr.BufferFromBytes(dev, []byte{1, 2, 3})
		require.NoError(t, err)
		b.Retain()
		b.Release()
		assert.Equal(t, []byte{1, 2, 3}, contents(t, b))
		b.Release()
		_, err = b.Slice(0, 0)
		assert.ErrorIs(t, err, arrowbuf.ErrReleased)
		_, err = b.Array()
		assert.ErrorIs(t, err, arrowbuf.ErrReleased)
		_, err = b.To(otherThan(t, dev))
		assert.ErrorIs(t, err, arrowbuf.ErrReleased)
		_, ok := b.HostBytes()
		assert.False(t, ok)
		for _, size := range []int{0, 3} { // the lengths of b after and before its release
			other := bufferFrom(t, dev, make([]byte, size)...)
			_, err = other.Equal(b)
			assert.ErrorIs(t, err, arrowbuf.ErrReleased)
			_, err = b.Equal(other)
			assert.ErrorIs(t, err, arrowbuf.ErrReleased)
			_, err = other.Combine(b)
			assert.ErrorIs(t, err, arrowbuf.ErrReleased)
			assert.ErrorIs(t, other.SetRange(0, ndview.Open, b), arrowbuf.ErrReleased)
		}
		assert.Panics(t, b.Release)
	})
}

func TestPrototypesOfOneDeviceAreEqual(t *testing.T) {
	dev, other := cudatest.NewDevice(t), cudatest.NewDevice(t)
	assert.Equal(t, zarr.Prototype{}, zarr.PrototypeOn(arrowbuf.CPU()))
	assert.True(t, zarr.PrototypeOn(dev) == zarr.PrototypeOn(dev))
	assert.False(t, zarr.PrototypeOn(dev) == zarr.PrototypeOn(other))
	assert.False(t, zarr.PrototypeOn(dev) == zarr.Prototype{})
	assert.Equal(t, arrowbuf.CPU(), zarr.Prototype{}.Device())
	assert.Equal(t, dev, zarr.PrototypeOn(dev).Device())
	assert.Equal(t, "cpu", zarr.Prototype{}.String())
}

func TestPrototypesAllocateOnTheirDevice(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		p := zarr.PrototypeOn(dev)
		b, err := p.BufferFromBytes([]byte{1, 2})
		own(t, b, err)
		assert.Equal(t, dev, b.Device())
		assert.Equal(t, []byte{1, 2}, contents(t, b))
		b, err = p.Buffer(5)
		own(t, b, err)
		assert.Equal(t, int64(5), b.Len())
		_, err = p.Buffer(-1)
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
		a, err := p.NDBuffer(ndview.Int16, 2, 3)
		own(t, a, err)
		assert.Equal(t, dev, a.Device())
		assert.Equal(t, []int64{2, 3}, a.Shape())
	})
}

func TestBufferFromNilDeviceIsError(t *testing.T) {
	_, err := zarr.BufferFromBytes(nil, []byte{1})
	assert.ErrorIs(t, err, arrowbuf.ErrDevice)
}

// hugeLength is more than 2^32 and odd. period, after which the bytes repeat, divides no
// power of two, so positions that differ in high bits only have different bytes.
const (
	hugeLength = 1<<32 + 262_147
	period     = 16 * 1048573
)

// onHuge runs a test on devices with enough free memory: on the CPU if QUIVER_TEST_HUGE
// allows that many GiB, and on a GPU.
func onHuge(t *testing.T, gib int64, test func(t *testing.T, dev arrowbuf.Device)) {
	t.Helper()
	t.Run("cpu", func(t *testing.T) {
		if most, _ := strconv.ParseInt(os.Getenv("QUIVER_TEST_HUGE"), 10, 64); most < gib {
			t.Skipf("needs %d GiB of host memory: set QUIVER_TEST_HUGE=%d", gib, gib)
		}
		before := debug.SetMemoryLimit(gib << 30) // released memory must be collected in time
		t.Cleanup(func() { debug.SetMemoryLimit(before) })
		test(t, arrowbuf.CPU())
	})
	t.Run("gpu", func(t *testing.T) {
		if !cudatest.OnGPU() {
			t.Skipf("needs %d GiB of a GPU's memory: set %s=cuda", gib, cudatest.Environment)
		}
		cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
			if free, _, err := dev.MemInfo(); err != nil || free < gib<<30 {
				t.Skipf("needs %d GiB of device memory, %d bytes are free (%v)", gib, free, err)
			}
			test(t, dev)
		})
	})
}

// periodic returns an array of n bytes that repeats a block.
func periodic(t *testing.T, dev arrowbuf.Device, block []byte, n int64) *ndview.NDBuffer {
	t.Helper()
	made, err := ndview.Empty(dev, ndview.Uint8, n)
	a := own(t, made, err)
	done, err := a.Buffer().CopyFromHost(block, 0)
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

// requirePeriodic checks that the bytes of an array repeat a block: the first block on
// the host, and on the device that each byte equals the one a period before.
func requirePeriodic(t *testing.T, block []byte, a *ndview.NDBuffer) {
	t.Helper()
	all, err := zarr.BufferFromArray(a)
	own(t, all, err)
	n := int64(len(block))
	require.True(t, bytes.Equal(block, contents(t, slice(t, all, 0, n))), "the first block differs")
	same, err := slice(t, all, 0, all.Len()-n).Equal(slice(t, all, n, ndview.Open))
	require.NoError(t, err)
	require.True(t, same, "a later block differs")
}

func slice(t *testing.T, b *zarr.Buffer, start, stop int64) *zarr.Buffer {
	t.Helper()
	part, err := b.Slice(start, stop)
	return own(t, part, err)
}

func TestBuffersReachBeyond4GiB(t *testing.T) {
	block := make([]byte, period)
	_, _ = rand.NewChaCha8([32]byte{4}).Read(block)
	onHuge(t, 9, func(t *testing.T, dev arrowbuf.Device) {
		all, err := zarr.BufferFromArray(periodic(t, dev, block, hugeLength))
		own(t, all, err)
		require.EqualValues(t, hugeLength, all.Len())
		tail := make([]byte, 100)
		for i := range tail {
			tail[i] = block[(hugeLength-100+i)%period]
		}
		assert.Equal(t, tail, contents(t, slice(t, all, -100, ndview.Open)))

		joined, err := slice(t, all, 0, 1<<32+5).Combine(slice(t, all, 1<<32+5, ndview.Open))
		own(t, joined, err)
		array, err := joined.Array()
		own(t, array, err)
		requirePeriodic(t, block, array)
		requireEqual := func(want bool) {
			t.Helper()
			got, err := all.Equal(joined)
			require.NoError(t, err)
			assert.Equal(t, want, got)
		}
		requireEqual(true)
		other := ^block[1<<32%period]
		one := bufferFrom(t, dev, other)
		require.NoError(t, joined.SetRange(1<<32, 1<<32+1, one))
		requireEqual(false)
		require.NoError(t, joined.SetRange(1<<32-1000, hugeLength, slice(t, all, 1<<32-1000, ndview.Open)))
		requireEqual(true)
		require.NoError(t, joined.SetRange(100, ndview.Open, one))
		rest, err := array.Index(ndview.Span(100, ndview.Open))
		own(t, rest, err)
		requirePeriodic(t, bytes.Repeat([]byte{other}, period), rest)
		start, err := array.Index(ndview.Span(0, 100))
		own(t, start, err)
		assert.Equal(t, block[:100], bytesOf(t, start))
	})
}

func TestBufferReadsAndWritesAtOffsets(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		for _, on := range []arrowbuf.Device{arrowbuf.CPU(), dev} {
			b, err := zarr.BufferFromBytes(on, []byte{1, 2, 3, 4})
			require.NoError(t, err)
			n, err := b.WriteAt([]byte{8, 9}, 1)
			require.NoError(t, err)
			assert.Equal(t, 2, n)
			_, err = b.WriteAt([]byte{8, 9}, 3)
			assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
			_, err = b.WriteAt(nil, -1)
			assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
			all, err := io.ReadAll(io.NewSectionReader(b, 0, 100))
			require.NoError(t, err)
			assert.Equal(t, []byte{1, 8, 9, 4}, all)
			n, err = b.ReadAt(make([]byte, 3), 2)
			assert.Equal(t, 2, n)
			assert.ErrorIs(t, err, io.EOF)
			_, err = b.ReadAt(make([]byte, 1), 9)
			assert.ErrorIs(t, err, io.EOF)
			_, err = b.ReadAt(make([]byte, 1), -1)
			assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
			b.Release()
			_, err = b.ReadAt(nil, 0)
			assert.ErrorIs(t, err, arrowbuf.ErrReleased)
			_, err = b.WriteAt(nil, 0)
			assert.ErrorIs(t, err, arrowbuf.ErrReleased)
		}
	})
}
