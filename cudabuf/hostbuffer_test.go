package cudabuf_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// hostBuffers are the ways to create a HostBuffer of n bytes.
var hostBuffers = map[string]func(dev *cudabuf.Device, n int) (*cudabuf.HostBuffer, error){
	"pooled": func(dev *cudabuf.Device, n int) (*cudabuf.HostBuffer, error) {
		return dev.NewHostBuffer(int64(n), cudabuf.HostOptions{})
	},
	"write-combined": func(dev *cudabuf.Device, n int) (*cudabuf.HostBuffer, error) {
		return dev.NewHostBuffer(int64(n), cudabuf.HostOptions{WriteCombined: true})
	},
	"mapped": func(dev *cudabuf.Device, n int) (*cudabuf.HostBuffer, error) {
		return dev.NewHostBuffer(int64(n), cudabuf.HostOptions{Mapped: true})
	},
	"registered": func(dev *cudabuf.Device, n int) (*cudabuf.HostBuffer, error) {
		return dev.RegisterHost(make([]byte, n), cudabuf.RegisterOptions{Mapped: true})
	},
}

func forEachHostBuffer(t *testing.T, test func(t *testing.T, dev *cudabuf.Device, open func(n int) *cudabuf.HostBuffer)) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		for name, open := range hostBuffers {
			t.Run(name, func(t *testing.T) {
				test(t, dev, func(n int) *cudabuf.HostBuffer {
					t.Helper()
					h, err := open(dev, n)
					require.NoError(t, err)
					return h
				})
				assert.Zero(t, dev.HostAllocator().(*cudabuf.PinnedAllocator).Stats().InUse)
				_, hosted := dev.HostRanges()
				assert.Zero(t, hosted)
			})
		}
		require.NoError(t, dev.Trim())
		pinned, _ := dev.HostRanges()
		assert.Zero(t, pinned)
	})
}

// pinnedBuffer returns a buffer that is released at the end of the test.
func pinnedBuffer(t testing.TB, dev *cudabuf.Device, n int64) *cudabuf.HostBuffer {
	t.Helper()
	h, err := dev.NewHostBuffer(n, cudabuf.HostOptions{})
	require.NoError(t, err)
	t.Cleanup(h.Release)
	return h
}

func TestHostBufferBytesAreProgramMemory(t *testing.T) {
	forEachHostBuffer(t, func(t *testing.T, dev *cudabuf.Device, open func(int) *cudabuf.HostBuffer) {
		for _, n := range []int{1, 100, 4096, 70_000} {
			h, data := open(n), pattern(n)
			require.Len(t, h.HostBytes(), n)
			assert.Equal(t, addressOf(h.HostBytes()), h.Address())
			assert.EqualValues(t, n, h.Len())
			assert.True(t, h.Mutable())
			copy(h.HostBytes(), data)

			there, err := dev.CopyOf(h)
			require.NoError(t, err)
			assertBytes(t, data, download(t, there))
			clear(h.HostBytes())
			copied, err := h.CopyFromDevice(there, 0)
			require.NoError(t, err)
			assert.EqualValues(t, n, copied)
			assertBytes(t, data, h.HostBytes())
			there.Release()
			h.Release()
			assert.Nil(t, h.HostBytes(), "released memory")
		}
	})
}

func TestHostIsADevice(t *testing.T) {
	cudatest.ForEachDriver(t, 2, func(t *testing.T, d *cudabuf.Driver) {
		dev := device(t, d, 1)
		host := dev.Host()
		assert.Equal(t, arrowbuf.DeviceCUDAHost, host.Type())
		assert.EqualValues(t, 1, host.ID())
		assert.Equal(t, "cuda_host:1", host.String())
		assert.Same(t, dev.HostAllocator(), host.HostAllocator())
		assert.NoError(t, host.Synchronize())
		assert.True(t, dev.Host() == host, "each call returns an equal device")
		assert.False(t, device(t, d, 0).Host() == host)
		b := upload(t, host, pattern(10))
		defer b.Release()
		assert.True(t, b.Device() == host)
		assert.IsType(t, &cudabuf.HostBuffer{}, b)
		_, err := host.Alloc(-1)
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
	})
}

func TestRecordBatchCopiesThroughPinnedMemory(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		schema := arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true}, {Name: "s", Type: arrow.BinaryTypes.String}}, nil)
		batch, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema,
			bytes.NewReader([]byte(`[{"n": 7, "s": "here"}, {"n": null, "s": "and"}, {"n": -1, "s": "there"}]`)))
		require.NoError(t, err)
		defer batch.Release()
		pinned, err := arrowbuf.CopyTo(batch, dev.Host())
		require.NoError(t, err)
		defer pinned.Release()
		for _, column := range pinned.Columns() {
			assert.True(t, arrowbuf.DeviceOf(column) == dev.Host())
		}
		values := pinned.Column(0).Data().Buffers()[1]
		assert.True(t, arrowbuf.OnHost(values))
		assert.EqualValues(t, 7, values.Bytes()[0], "the program reads the values in place")
		there, err := arrowbuf.CopyTo(pinned, dev)
		require.NoError(t, err)
		defer there.Release()
		back, err := arrowbuf.CopyTo(there, arrowbuf.CPU())
		require.NoError(t, err)
		defer back.Release()
		assert.True(t, array.RecordEqual(batch, back))
	})
}

func TestHostBufferImplementsBuffer(t *testing.T) {
	forEachHostBuffer(t, func(t *testing.T, dev *cudabuf.Device, open func(int) *cudabuf.HostBuffer) {
		data := pattern(1000)
		h := open(1000)
		_, err := h.CopyFromHost(data, 0)
		require.NoError(t, err)
		assert.NoError(t, iotest.TestReader(io.NewSectionReader(h, 0, h.Len()), data))
		n, err := h.WriteAt([]byte("quiver"), 500)
		require.NoError(t, err)
		assert.Equal(t, 6, n)
		copy(data[500:], "quiver")
		_, err = h.WriteAt(make([]byte, 7), 994)
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
		_, err = h.CopyToHost(make([]byte, 2), 999)
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
		_, err = h.ReadAt(nil, -1)
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
		_, err = h.Slice(999, 2)
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)

		part, err := h.Slice(100, 600)
		require.NoError(t, err)
		inner, err := part.Slice(50, 500)
		require.NoError(t, err)
		assert.Equal(t, h.Address()+150, inner.Address())
		shown, ok := arrowbuf.HostBytes(inner)
		require.True(t, ok)
		assert.Equal(t, 500, cap(shown), "the capacity ends with the slice")
		h.Release()
		part.Release()
		assertBytes(t, data[150:650], download(t, inner))

		same, other := upload(t, dev, data[150:650]), upload(t, arrowbuf.CPU(), data[150:650])
		changed := upload(t, dev.Host(), data[151:651])
		for _, b := range []arrowbuf.Buffer{same, other, inner} {
			for _, pair := range [][2]arrowbuf.Buffer{{inner, b}, {b, inner}} {
				equal, err := pair[0].Equal(pair[1])
				require.NoError(t, err)
				assert.True(t, equal, "%v and %v", pair[0].Device(), pair[1].Device())
			}
			equal, err := b.Equal(changed)
			require.NoError(t, err)
			assert.False(t, equal)
		}
		for _, b := range []arrowbuf.Buffer{same, other, changed} {
			b.Release()
		}

		arrow := inner.Arrow()
		inner.Release()
		assert.True(t, arrowbuf.OnHost(arrow))
		assertBytes(t, data[150:650], arrow.Bytes())
		found, ok := arrowbuf.FromArrow(arrow)
		require.True(t, ok)
		assert.IsType(t, &cudabuf.HostBuffer{}, found)
		found.Release()
		_, err = cudabuf.FromArrow(arrow)
		assert.ErrorIs(t, err, arrowbuf.ErrDevice)
		arrow.Release()
	})
}

func TestEmptyHostBufferMakesNoDriverCall(t *testing.T) {
	dev, calls := countAllCalls(t)
	before := calls()
	for _, open := range hostBuffers {
		h, err := open(dev, 0)
		require.NoError(t, err)
		assert.Zero(t, h.Address())
		assert.Empty(t, h.HostBytes())
		address, err := h.DeviceAddress()
		assert.NoError(t, err)
		assert.Zero(t, address)
		b, err := dev.CopyOf(h)
		require.NoError(t, err)
		_, err = h.CopyFromDevice(b, 0)
		assert.NoError(t, err)
		equal, err := h.Equal(b)
		assert.NoError(t, err)
		assert.True(t, equal)
		b.Release()
		h.Release()
	}
	assert.Equal(t, before, calls())
	_, err := dev.NewHostBuffer(-1, cudabuf.HostOptions{})
	assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
}

func TestReleasedHostBufferReturnsErrReleased(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		b, s := newBuffer(t, dev, 4), stream(t, dev)
		for _, n := range []int64{0, 4} {
			h, err := dev.NewHostBuffer(n, cudabuf.HostOptions{})
			require.NoError(t, err)
			h.Retain()
			h.Release()
			h.Release()
			for name, use := range map[string]func() error{
				"CopyToHost":          func() error { _, err := h.CopyToHost(nil, 0); return err },
				"CopyFromHost":        func() error { _, err := h.CopyFromHost(nil, 0); return err },
				"CopyFromDevice":      func() error { _, err := h.CopyFromDevice(upload(t, arrowbuf.CPU(), nil), 0); return err },
				"CopyFromDeviceAsync": func() error { _, err := h.CopyFromDeviceAsync(newBuffer(t, dev, 0), 0, s); return err },
				"as a source":         func() error { _, err := b.CopyFromDevice(h, 0); return err },
				"as an async source":  func() error { _, err := b.CopyFromDeviceAsync(h, 0, s); return err },
				"Slice":               func() error { _, err := h.Slice(0, 0); return err },
				"Equal":               func() error { _, err := h.Equal(b); return err },
				"Equal to it":         func() error { _, err := b.Equal(h); return err },
				"ReadAt":              func() error { _, err := h.ReadAt(make([]byte, 1), 0); return err },
				"WriteAt":             func() error { _, err := h.WriteAt(nil, 0); return err },
				"Wait":                h.Wait,
				"DeviceAddress":       func() error { _, err := h.DeviceAddress(); return err },
			} {
				assert.ErrorIs(t, use(), arrowbuf.ErrReleased, name)
			}
			assert.Panics(t, h.Release)
			assert.Panics(t, h.Retain)
		}
	})
}

func TestRegisterHostKeepsAddress(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		data := pattern(3 << 20)
		_, err := dev.DeviceAddress(addressOf(data))
		assert.ErrorIs(t, err, arrowbuf.ErrDevice, "ordinary memory")
		h, err := dev.RegisterHost(data, cudabuf.RegisterOptions{Mapped: true})
		require.NoError(t, err)
		assert.Equal(t, addressOf(data), h.Address())
		_, err = dev.DeviceAddress(addressOf(data))
		assert.NoError(t, err)
		_, err = dev.RegisterHost(data[:1<<20], cudabuf.RegisterOptions{})
		assert.Error(t, err, "twice")

		b := newBuffer(t, dev, h.Len())
		_, err = b.CopyFromDevice(h, 0)
		require.NoError(t, err)
		assertBytes(t, data, download(t, b))
		require.NoError(t, b.Fill(3))
		_, err = h.CopyFromDevice(b, 0)
		require.NoError(t, err)
		assertBytes(t, bytes.Repeat([]byte{3}, len(data)), data)
		h.Release()
		_, err = dev.DeviceAddress(addressOf(data))
		assert.ErrorIs(t, err, arrowbuf.ErrDevice, "ordinary again")
	})
}

func TestRegisterHostOfMappedFile(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		data := pattern(2 << 20)
		path := filepath.Join(t.TempDir(), "data")
		require.NoError(t, os.WriteFile(path, data, 0o600))
		file, err := os.Open(path)
		require.NoError(t, err)
		defer file.Close()
		mapped, err := unix.Mmap(int(file.Fd()), 0, len(data), unix.PROT_READ, unix.MAP_SHARED)
		require.NoError(t, err)
		defer func() { assert.NoError(t, unix.Munmap(mapped)) }()

		h, err := dev.RegisterHost(mapped, cudabuf.RegisterOptions{ReadOnly: true})
		require.NoError(t, err)
		defer h.Release()
		b, err := dev.CopyOf(h)
		require.NoError(t, err)
		defer b.Release()
		assertBytes(t, data, download(t, b))

		assert.False(t, h.Mutable())
		part, err := h.Slice(0, 10)
		require.NoError(t, err)
		defer part.Release()
		for _, h := range []*cudabuf.HostBuffer{h, part.(*cudabuf.HostBuffer)} {
			_, err = h.CopyFromHost([]byte{1}, 0)
			assert.ErrorIs(t, err, cudabuf.ErrReadOnly)
			_, err = h.CopyFromDevice(part, 0)
			assert.ErrorIs(t, err, cudabuf.ErrReadOnly)
			_, err = h.CopyFromDeviceAsync(newBuffer(t, dev, 1), 0, stream(t, dev))
			assert.ErrorIs(t, err, cudabuf.ErrReadOnly)
		}
	})
}

func TestKernelAccessesMappedMemory(t *testing.T) {
	forEachHostBuffer(t, func(t *testing.T, dev *cudabuf.Device, open func(int) *cudabuf.HostBuffer) {
		h := open(64)
		defer h.Release()
		if _, err := h.DeviceAddress(); err != nil {
			assert.ErrorIs(t, err, arrowbuf.ErrDevice)
			t.Skip("this memory is not mapped here")
		}
		k, s := kernel(t, dev, "add_int32"), stream(t, dev)
		copy(h.HostBytes(), int32s(1, 2, 3, 4))
		one, warp := cudabuf.Dim3{X: 1}, cudabuf.Dim3{X: 32}
		require.NoError(t, k.LaunchAsync(s, one, warp, 0, h, int64(4), int32(10)))
		require.NoError(t, h.Wait())
		assert.Equal(t, int32s(11, 12, 13, 14), h.HostBytes()[:16])
		part, err := h.Slice(8, 8)
		require.NoError(t, err)
		defer part.Release()
		require.NoError(t, k.Launch(one, warp, 0, part, int64(1), int32(100)))
		assert.Equal(t, int32s(11, 12, 113, 14), h.HostBytes()[:16])
	})
}

// A HostBuffer waits for the same hazards as a Buffer; see TestStreamsWaitOnlyForHazards.
func TestHostBufferOrdersStreams(t *testing.T) {
	dev, calls := recordCalls(t)
	a, b, h := newBuffer(t, dev, 64), newBuffer(t, dev, 64), pinnedBuffer(t, dev, 64)
	s, u, k := stream(t, dev), stream(t, dev), kernel(t, dev, "add_int32")
	steps := []struct {
		name string
		do   func() (int64, error)
		want string
	}{
		{"a write", func() (int64, error) { return h.CopyFromDeviceAsync(a, 0, s) }, "d2h"},
		{"a read of another stream", func() (int64, error) { return b.CopyFromDeviceAsync(h, 0, u) }, "record wait h2d"},
		{"a write after it", func() (int64, error) { return h.CopyFromDeviceAsync(a, 0, s) }, "record wait d2h"},
		{"a read of its bytes", func() (int64, error) { return b.CopyFromHostAsync(h.HostBytes()[7:9], 0, u) }, "record wait h2d"},
		{"a write to its bytes", func() (int64, error) { return a.CopyToHostAsync(h.HostBytes()[:3], 0, s) }, "record wait d2h"},
		{"no stream", func() (int64, error) { return b.CopyFromDevice(h, 0) }, "record wait record wait h2d synchronize"},
		{"the program", func() (int64, error) { return h.CopyFromHost([]byte{1}, 0) }, "synchronize"},
		{"a kernel", func() (int64, error) {
			return 0, k.LaunchAsync(u, cudabuf.Dim3{X: 1}, cudabuf.Dim3{X: 32}, 0, h, int64(1), int32(1))
		}, "record wait"},
		{"a read of another stream than the kernel's", func() (int64, error) { return b.CopyFromDeviceAsync(h, 0, s) }, "record wait h2d"},
	}
	calls()
	for _, step := range steps {
		_, err := step.do()
		require.NoError(t, err)
		assert.Equal(t, step.want, calls(), step.name)
	}
}

func TestReleasedHostBufferIsReusedAfterItsCopy(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		const size = 1 << 16
		b, s := newBuffer(t, dev, size), stream(t, dev)
		open := gate(t, s)
		h, err := dev.NewHostBuffer(size, cudabuf.HostOptions{})
		require.NoError(t, err)
		copy(h.HostBytes(), pattern(size))
		_, err = b.CopyFromDeviceAsync(h, 0, s)
		require.NoError(t, err)
		h.Release()
		for range 3 {
			next := pinnedBuffer(t, dev, size)
			clear(next.HostBytes())
		}
		open()
		assertBytes(t, pattern(size), download(t, b))
	})
}

func TestWaitCompletesHostBufferWrites(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		b, h, s := newBuffer(t, dev, 1000), pinnedBuffer(t, dev, 1000), stream(t, dev)
		clear(h.HostBytes())
		open := gate(t, s)
		require.NoError(t, b.FillAsync(9, s))
		_, err := h.CopyFromDeviceAsync(b, 0, s)
		require.NoError(t, err)
		assert.Zero(t, h.HostBytes()[999])
		open()
		require.NoError(t, h.Wait())
		assertBytes(t, bytes.Repeat([]byte{9}, 1000), h.HostBytes())
	})
}

func TestReleaseOfRegisteredMemoryWaitsForCopies(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		const size = 1 << 20
		b, s, data := newBuffer(t, dev, size), stream(t, dev), pattern(size)
		h, err := dev.RegisterHost(data, cudabuf.RegisterOptions{})
		require.NoError(t, err)
		open := gate(t, s)
		_, err = b.CopyFromDeviceAsync(h, 0, s)
		require.NoError(t, err)
		go open()
		h.Release()
		clear(data)
		assertBytes(t, pattern(size), download(t, b))
	})
}

func TestHostBufferReadsWaitForWrites(t *testing.T) {
	dev := device(t, cudatest.Start(t, cudatest.Config{CopyLatency: time.Millisecond}), 0)
	other := cudatest.NewDevice(t)
	const size = 1000
	nines := bytes.Repeat([]byte{9}, size)
	zeros, src, same := upload(t, dev, make([]byte, size)), upload(t, dev, nines), upload(t, dev.Host(), nines)
	for _, b := range []arrowbuf.Buffer{zeros, src, same} {
		defer b.Release()
	}
	there := newBuffer(t, other, size)
	s := stream(t, dev)
	equal := func(a, b arrowbuf.Buffer) error {
		equal, err := a.Equal(b)
		if err == nil && !equal {
			err = errors.New("not equal")
		}
		return err
	}
	for name, read := range map[string]func(h *cudabuf.HostBuffer) error{
		"CopyToHost":          func(h *cudabuf.HostBuffer) error { assert.Equal(t, nines, download(t, h)); return nil },
		"Equal":               func(h *cudabuf.HostBuffer) error { return equal(h, same) },
		"Equal to it":         func(h *cudabuf.HostBuffer) error { return equal(same, h) },
		"Equal on the device": func(h *cudabuf.HostBuffer) error { return equal(src, h) },
		"another driver's copy": func(h *cudabuf.HostBuffer) error {
			_, err := there.CopyFromDevice(h, 0)
			return errors.Join(err, equal(there, src))
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := pinnedBuffer(t, dev, size)
			clear(h.HostBytes())
			for range 10 {
				_, err := h.CopyFromDeviceAsync(zeros.(*cudabuf.Buffer), 0, s)
				require.NoError(t, err)
			}
			_, err := h.CopyFromDeviceAsync(src.(*cudabuf.Buffer), 0, s)
			require.NoError(t, err)
			assert.NoError(t, read(h))
		})
	}
}

func TestAsyncCopyRefusesOtherDrivers(t *testing.T) {
	dev, other := cudatest.NewDevice(t), cudatest.NewDevice(t)
	s, h, b := stream(t, dev), pinnedBuffer(t, dev, 4), newBuffer(t, dev, 4)
	_, err := h.CopyFromDeviceAsync(newBuffer(t, other, 4), 0, s)
	assert.ErrorIs(t, err, arrowbuf.ErrDevice)
	_, err = b.CopyFromDeviceAsync(pinnedBuffer(t, other, 4), 0, s)
	assert.ErrorIs(t, err, arrowbuf.ErrDevice)
	cpu := upload(t, arrowbuf.CPU(), pattern(4))
	defer cpu.Release()
	_, err = b.CopyFromDeviceAsync(cpu, 0, s)
	assert.ErrorIs(t, err, arrowbuf.ErrDevice)
	_, err = b.CopyFromDevice(pinnedBuffer(t, other, 4), 0)
	assert.NoError(t, err, "a copy without a stream is allowed")
}

func TestFailedPinningReturnsError(t *testing.T) {
	full := device(t, cudatest.Start(t, cudatest.Config{Fail: func(call string, _ int) cudabuf.Result {
		if call == "cuMemHostAlloc" || call == "cuMemHostRegister" {
			return 2
		}
		return 0
	}}), 0)
	for _, o := range []cudabuf.HostOptions{{}, {Mapped: true}, {WriteCombined: true}} {
		_, err := full.NewHostBuffer(1<<20, o)
		assert.ErrorIs(t, err, arrowbuf.ErrOutOfMemory)
		assert.ErrorContains(t, err, "pinning 1048576 bytes")
	}
	_, err := newBuffer(t, full, 8<<20).CopyFromHost(make([]byte, 8<<20), 0)
	assert.ErrorIs(t, err, arrowbuf.ErrOutOfMemory)
	assert.ErrorContains(t, err, "allocating staging buffers: pinning")

	dev, fail := failing(t)
	dev.HostAllocator().Free(dev.HostAllocator().Allocate(1 << 20))
	fail("cuMemHostAlloc", 2)
	h, err := dev.NewHostBuffer(1<<20, cudabuf.HostOptions{Mapped: true})
	require.NoError(t, err, "idle memory is freed first")
	h.Release()
	assert.Zero(t, dev.HostAllocator().(*cudabuf.PinnedAllocator).Stats())
	fail("cuMemHostRegister", 712)
	_, err = dev.RegisterHost(make([]byte, 10), cudabuf.RegisterOptions{})
	assert.ErrorContains(t, err, "page-locking 10 bytes: cuda:0: cuMemHostRegister: CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED")
}

func TestCloseReportsPinnedMemoryAndFailedUnregister(t *testing.T) {
	var refuse sync.Map
	d := cudatest.New(cudatest.Config{Fail: func(call string, _ int) cudabuf.Result {
		if _, ok := refuse.LoadAndDelete(call); ok {
			return 1
		}
		return 0
	}})
	dev := device(t, d, 0)
	h, err := dev.NewHostBuffer(5000, cudabuf.HostOptions{Mapped: true})
	require.NoError(t, err)
	r, err := dev.RegisterHost(make([]byte, 300), cudabuf.RegisterOptions{})
	require.NoError(t, err)
	assert.ErrorContains(t, d.Close(), "5300 bytes of pinned memory")
	h.Release()
	refuse.Store("cuMemHostUnregister", true)
	r.Release()
	assert.ErrorContains(t, d.Close(), "cuMemHostUnregister: CUDA_ERROR_INVALID_VALUE")
}
