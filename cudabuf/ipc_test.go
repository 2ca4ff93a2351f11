package cudabuf_test

import (
	"bytes"
	"net/rpc"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// forEachMachine is ForEachDriver with the driver's first device.
func forEachMachine(t *testing.T, test func(t *testing.T, d *cudabuf.Driver, dev *cudabuf.Device)) {
	t.Helper()
	cudatest.ForEachDriver(t, 1, func(t *testing.T, d *cudabuf.Driver) { test(t, d, device(t, d, 0)) })
}

// shared returns a buffer of NewIPCBuffer that holds the bytes. It is released at the end
// of the test, after the peers that the test starts.
func shared(t testing.TB, dev *cudabuf.Device, data []byte) *cudabuf.Buffer {
	t.Helper()
	b, err := dev.NewIPCBuffer(int64(len(data)))
	require.NoError(t, err)
	t.Cleanup(b.Release)
	_, err = b.CopyFromHost(data, 0)
	require.NoError(t, err)
	return b
}

func export(t testing.TB, b *cudabuf.Buffer) cudabuf.MemHandle {
	t.Helper()
	h, err := b.ExportIPC()
	require.NoError(t, err)
	return h
}

// sliceBuffer returns a slice that is released at the end of the test.
func sliceBuffer(t testing.TB, b *cudabuf.Buffer, offset, length int64) *cudabuf.Buffer {
	t.Helper()
	part, err := b.SliceClamped(offset, length)
	require.NoError(t, err)
	t.Cleanup(part.Release)
	return part
}

func TestPeerReadsAndWritesSameMemory(t *testing.T) {
	forEachMachine(t, func(t *testing.T, d *cudabuf.Driver, dev *cudabuf.Device) {
		for _, n := range []int{1, 1000, 3<<20 + 5} {
			b := shared(t, dev, pattern(n))
			p := startPeer(t, d)
			theirs := ask[int](p, "Open", export(t, b))
			assertBytes(t, pattern(n), p.read(theirs))
			changed := bytes.Repeat([]byte{0x3c}, n)
			ask[int](p, "Write", Write{theirs, changed})
			assertBytes(t, changed, download(t, b))
			require.NoError(t, b.Fill(9))
			assertBytes(t, bytes.Repeat([]byte{9}, n), p.read(theirs))
			p.release(theirs)
		}
	})
}

func TestOpenIPCOfPeersMemory(t *testing.T) {
	forEachMachine(t, func(t *testing.T, d *cudabuf.Driver, dev *cudabuf.Device) {
		p := startPeer(t, d)
		theirs := ask[int](p, "New", pattern(5000))
		b, err := dev.OpenIPC(ask[cudabuf.MemHandle](p, "Export", theirs))
		require.NoError(t, err)
		assert.Equal(t, int64(5000), b.Len())
		assertBytes(t, pattern(5000), download(t, b))
		_, err = b.CopyFromHost([]byte("here"), 4996)
		require.NoError(t, err)
		assert.Equal(t, "here", string(p.read(theirs)[4996:]))
		b.Release()
		p.release(theirs)
	})
}

func TestMemHandleKeepsSliceOffset(t *testing.T) {
	forEachMachine(t, func(t *testing.T, d *cudabuf.Driver, dev *cudabuf.Device) {
		b := shared(t, dev, pattern(4096))
		part := sliceBuffer(t, sliceBuffer(t, b, 1000, 3000), 24, 100)
		h := export(t, part)
		assert.Equal(t, int64(1024), h.Offset)
		assert.Equal(t, int64(100), h.Length)
		assert.Equal(t, export(t, b).Handle, h.Handle, "the handle itself has no offset")

		p := startPeer(t, d)
		theirs := ask[int](p, "Open", h)
		assertBytes(t, pattern(4096)[1024:1124], p.read(theirs))
		ask[int](p, "Write", Write{theirs, bytes.Repeat([]byte{1}, 100)})
		want := pattern(4096)
		copy(want[1024:], bytes.Repeat([]byte{1}, 100))
		assertBytes(t, want, download(t, b))
		p.release(theirs)
	})
}

func TestAllocationIsOpenedOnce(t *testing.T) {
	forEachMachine(t, func(t *testing.T, d *cudabuf.Driver, dev *cudabuf.Device) {
		b := shared(t, dev, pattern(100))
		p := startPeer(t, d)
		first, second := ask[int](p, "Open", export(t, b)), ask[int](p, "Open", export(t, b))
		whole := ask[string](p, "Address", first)
		assert.Equal(t, whole, ask[string](p, "Address", second))
		part := ask[int](p, "Open", export(t, sliceBuffer(t, b, 10, 10)))
		p.release(first)
		p.release(second)
		assertBytes(t, pattern(100)[10:20], p.read(part))
		if onSimulated(t) {
			assert.Equal(t, 1, ask[int](p, "Calls", "cuIpcOpenMemHandle"))
			assert.Zero(t, ask[int](p, "Calls", "cuIpcCloseMemHandle"))
		}
		p.release(part)
		if onSimulated(t) {
			assert.Equal(t, 1, ask[int](p, "Calls", "cuIpcCloseMemHandle"))
		}
		again := ask[int](p, "Open", export(t, b))
		assertBytes(t, pattern(100), p.read(again))
		p.release(again)
	})
}

func TestOpenIPCIsSafeForGoroutines(t *testing.T) {
	forEachMachine(t, func(t *testing.T, d *cudabuf.Driver, dev *cudabuf.Device) {
		b := shared(t, dev, pattern(100))
		p := startPeer(t, d)
		ask[int](p, "OpenOften", export(t, b))
		opens, closes := ask[int](p, "Calls", "cuIpcOpenMemHandle"), ask[int](p, "Calls", "cuIpcCloseMemHandle")
		assert.Equal(t, opens, closes)
		assertBytes(t, pattern(100), download(t, b))
	})
}

func TestExporterCannotOpenItsOwnHandle(t *testing.T) {
	forEachMachine(t, func(t *testing.T, _ *cudabuf.Driver, dev *cudabuf.Device) {
		_, err := dev.OpenIPC(export(t, shared(t, dev, pattern(10))))
		var call *cudabuf.Error
		require.ErrorAs(t, err, &call)
		assert.Equal(t, cudabuf.Result(201), call.Code)
		assert.ErrorContains(t, err, "CUDA returns this error in the process that exported the handle")
	})
}

func TestOpenIPCRefusesInvalidHandles(t *testing.T) {
	forEachMachine(t, func(t *testing.T, d *cudabuf.Driver, dev *cudabuf.Device) {
		p := startPeer(t, d)
		good := export(t, shared(t, dev, pattern(100)))
		_, err := peerCall[int](p, "Open", cudabuf.MemHandle{Region: good.Region})
		assert.ErrorContains(t, err, "cuIpcOpenMemHandle")

		long := good
		long.AllocationSize, long.Length = 0, good.AllocationSize+1
		_, err = peerCall[int](p, "Open", long)
		assert.ErrorContains(t, err, "out of range", "the actual size of the allocation counts")
		if onSimulated(t) {
			assert.Equal(t, ask[int](p, "Calls", "cuIpcOpenMemHandle")-1, ask[int](p, "Calls", "cuIpcCloseMemHandle"))
		}

		for _, r := range []cudabuf.Region{{Offset: -1}, {Length: -1}, {Offset: 1, Length: 1<<63 - 1}, {AllocationSize: 10, Offset: 5, Length: 6}} {
			_, err := dev.OpenIPC(cudabuf.MemHandle{Handle: good.Handle, Region: r})
			assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange, "%+v", r)
		}
		other := good
		other.Device[3] ^= 1
		_, err = dev.OpenIPC(other)
		assert.ErrorIs(t, err, arrowbuf.ErrDevice)
		assert.ErrorContains(t, err, other.Device.String())
		assert.ErrorContains(t, err, dev.UUID().String())
	})
}

func TestExportRefusesOtherMemory(t *testing.T) {
	forEachMachine(t, func(t *testing.T, d *cudabuf.Driver, dev *cudabuf.Device) {
		pooled, handle := newBuffer(t, dev, 1000), shared(t, dev, pattern(1000))
		byFD, err := dev.NewFDBuffer(1000)
		require.NoError(t, err)
		t.Cleanup(byFD.Release)
		pool, err := dev.NewSharedPool()
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, pool.Close()) })
		file, err := pool.ExportFD()
		require.NoError(t, err)
		require.NoError(t, file.Close())
		inPool, err := pool.NewBuffer(1000, nil)
		require.NoError(t, err)
		t.Cleanup(inPool.Release)
		p := startPeer(t, d)
		theirs := ask[int](p, "New", pattern(1000))
		opened, err := dev.OpenIPC(ask[cudabuf.MemHandle](p, "Export", theirs))
		require.NoError(t, err)

		methods := []func(b *cudabuf.Buffer) error{
			func(b *cudabuf.Buffer) error { _, err := b.ExportIPC(); return err },
			func(b *cudabuf.Buffer) error {
				file, _, err := b.ExportFD()
				_ = file.Close()
				return err
			},
			func(b *cudabuf.Buffer) error { _, err := b.ExportPool(); return err },
			func(b *cudabuf.Buffer) error { _, err := b.ExportIPCWhole(); return err },
		}
		for name, tt := range map[string]struct {
			buffer  *cudabuf.Buffer
			methods [4]bool
		}{
			"of the device's pool":    {pooled, [4]bool{false, false, false, true}},
			"of NewIPCBuffer":         {handle, [4]bool{true, false, false, true}},
			"of NewFDBuffer":          {byFD, [4]bool{false, true, false, false}},
			"of a SharedPool":         {inPool, [4]bool{false, false, true, false}},
			"of another process":      {opened, [4]bool{}},
			"a slice of another's":    {sliceBuffer(t, opened, 3, 4), [4]bool{}},
			"a slice of the pool's":   {sliceBuffer(t, pooled, 3, 4), [4]bool{false, false, false, true}},
			"a slice of NewIPCBuffer": {sliceBuffer(t, handle, 3, 4), [4]bool{true, false, false, true}},
		} {
			for i, may := range tt.methods {
				err := methods[i](tt.buffer)
				if may {
					assert.NoError(t, err, "%s, method %d", name, i)
				} else {
					assert.ErrorIs(t, err, cudabuf.ErrNotShareable, "%s, method %d", name, i)
				}
			}
		}
		ours := ask[int](p, "Open", export(t, handle))
		_, err = peerCall[int](p, "ExportAgain", ours)
		assert.ErrorContains(t, err, "only the process that allocated the memory can export it")
		p.release(ours)
		opened.Release()
		p.release(theirs)
	})
}

func TestExportIPCWholeExportsPooledMemory(t *testing.T) {
	forEachMachine(t, func(t *testing.T, d *cudabuf.Driver, dev *cudabuf.Device) {
		newBuffer(t, dev, 100) // may precede it in the allocation
		b := newBuffer(t, dev, 1000)
		_, err := b.CopyFromHost(pattern(1000), 0)
		require.NoError(t, err)
		h, err := sliceBuffer(t, b, 50, 200).ExportIPCWhole()
		require.NoError(t, err)
		assert.GreaterOrEqual(t, h.Offset, int64(50))
		p := startPeer(t, d)
		theirs := ask[int](p, "Open", h)
		assertBytes(t, pattern(1000)[50:250], p.read(theirs))
		p.release(theirs)
	})
}

func TestSharedMemoryFillsWholeBlocks(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		for _, n := range []int{1, 2 << 20, 2<<20 + 1} {
			h := export(t, shared(t, dev, pattern(n)))
			assert.Zero(t, h.AllocationSize%(2<<20), "%d bytes", n)
			assert.Zero(t, h.Offset)
			assert.Equal(t, int64(n), h.Length)
			assert.Equal(t, dev.UUID(), h.Device)
		}
		for name, make := range map[string]func(int64) (*cudabuf.Buffer, error){"handle": dev.NewIPCBuffer, "file": dev.NewFDBuffer} {
			_, err := make(-1)
			assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange, name)
			for _, n := range []int64{1<<63 - 1, 1 << 50} {
				_, err = make(n)
				assert.ErrorIs(t, err, arrowbuf.ErrOutOfMemory, "%s of %d", name, n)
			}
		}
	})
}

// Memory that was exported counts as in use, and is freed with the last reference.
func TestExportedMemoryIsFreedWithItsLastRelease(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		for name, make := range map[string]func(int64) (*cudabuf.Buffer, error){"handle": dev.NewIPCBuffer, "file": dev.NewFDBuffer} {
			before := dev.MemoryStats()
			b, err := make(3 << 20)
			require.NoError(t, err, name)
			if name == "handle" {
				_ = export(t, b)
			}
			part, err := b.SliceClamped(1<<20, 100)
			require.NoError(t, err)
			b.Release()
			assert.GreaterOrEqual(t, dev.MemoryStats().Shared-before.Shared, int64(3<<20), "%s: the slice keeps all of it", name)
			part.Release()
			assert.Equal(t, before, dev.MemoryStats(), name)
		}
	})
}

func TestSharingEmptyBufferMakesNoDriverCall(t *testing.T) {
	dev, calls := countAllCalls(t)
	before := calls()
	b, err := dev.NewIPCBuffer(0)
	require.NoError(t, err)
	h := export(t, b)
	opened, err := dev.OpenIPC(h)
	require.NoError(t, err)
	assert.Zero(t, opened.Len())
	opened.Release()
	file, r, err := b.ExportFD()
	require.NoError(t, err)
	opened, err = dev.OpenFD(file, r)
	require.NoError(t, err)
	opened.Release()
	b.Release()
	_, err = b.ExportIPC()
	assert.ErrorIs(t, err, arrowbuf.ErrReleased)
	assert.Equal(t, before, calls())
}

func TestCloseReportsSharedMemoryInUse(t *testing.T) {
	d := cudatest.New(cudatest.Config{})
	b, err := device(t, d, 0).NewIPCBuffer(1)
	require.NoError(t, err)
	assert.ErrorContains(t, d.Close(), "1 shared allocations and pools")
	b.Release()
	assert.NoError(t, d.Close())
}

func TestSharedAllocationTrimsPool(t *testing.T) {
	d := cudatest.Start(t, cudatest.Config{MemoryBytes: 16 << 20})
	dev := device(t, d, 0)
	require.NoError(t, dev.SetIdleLimit(1<<40))
	pooled, err := dev.NewBuffer(12 << 20)
	require.NoError(t, err)
	_, err = dev.NewIPCBuffer(8 << 20)
	require.ErrorIs(t, err, arrowbuf.ErrOutOfMemory)
	pooled.Release()
	for _, make := range []func(int64) (*cudabuf.Buffer, error){dev.NewIPCBuffer, dev.NewFDBuffer} {
		b, err := make(8 << 20)
		require.NoError(t, err, "the pool's idle memory is freed")
		b.Release()
	}
}

func TestMemorySurvivesDeathOfPeer(t *testing.T) {
	forEachMachine(t, func(t *testing.T, d *cudabuf.Driver, dev *cudabuf.Device) {
		b := shared(t, dev, pattern(1000))
		p := startPeer(t, d)
		theirs := ask[int](p, "Open", export(t, b))
		ask[int](p, "Write", Write{theirs, bytes.Repeat([]byte{5}, 1000)})
		_, err := peerCall[int](p, "Die", 0)
		require.Error(t, err)
		_, err = peerCall[int](p, "Read", theirs)
		require.ErrorIs(t, err, rpc.ErrShutdown)
		assertBytes(t, bytes.Repeat([]byte{5}, 1000), download(t, b))

		next := startPeer(t, d)
		theirs = ask[int](next, "Open", export(t, b))
		assertBytes(t, bytes.Repeat([]byte{5}, 1000), next.read(theirs))
		next.release(theirs)
	})
}

func TestOpenIPCRefusesHandleOfAnotherDevice(t *testing.T) {
	cudatest.ForEachDriver(t, 2, func(t *testing.T, d *cudabuf.Driver) {
		p := startPeer(t, d)
		for i, dev := range twoDevices(t, d) {
			data := bytes.Repeat([]byte{byte(i + 1)}, 100)
			h := export(t, shared(t, dev, data))
			_, err := peerCall[int](p, "OpenOn", OnDevice{1 - i, h})
			assert.ErrorContains(t, err, "got GPU-"+dev.UUID().String())
			theirs := ask[int](p, "OpenOn", OnDevice{i, h})
			assertBytes(t, data, p.read(theirs))
			p.release(theirs)
		}
	})
}

func TestPeerWaitsForExportedEvent(t *testing.T) {
	forEachMachine(t, func(t *testing.T, d *cudabuf.Driver, dev *cudabuf.Device) {
		b, s, e := shared(t, dev, pattern(1000)), stream(t, dev), event(t, dev, cudabuf.EventOptions{Interprocess: true})
		p := startPeer(t, d)
		theirs := ask[int](p, "Open", export(t, b))
		gate := make(chan struct{})
		require.NoError(t, s.LaunchHostFunc(func() { <-gate }))
		require.NoError(t, b.FillAsync(8, s))
		require.NoError(t, s.Record(e))
		h, err := e.ExportIPC()
		require.NoError(t, err)
		ask[int](p, "CopyAfter", CopyAfter{h, theirs})
		assert.False(t, ask[bool](p, "Copied", 0), "the copy waits for the event")
		close(gate)
		assertBytes(t, bytes.Repeat([]byte{8}, 1000), ask[[]byte](p, "FinishCopy", 0))
		p.release(theirs)
	})
}

func TestStreamWaitsForPeersEvent(t *testing.T) {
	forEachMachine(t, func(t *testing.T, d *cudabuf.Driver, dev *cudabuf.Device) {
		p := startPeer(t, d)
		theirs := ask[int](p, "New", pattern(1000))
		b, err := dev.OpenIPC(ask[cudabuf.MemHandle](p, "Export", theirs))
		require.NoError(t, err)
		e, err := dev.OpenIPCEvent(ask[cudabuf.EventHandle](p, "FillAfterGate", theirs))
		require.NoError(t, err)
		s, ours := stream(t, dev), newBuffer(t, dev, 1000)
		require.NoError(t, s.WaitEvent(e))
		_, err = ours.CopyFromDeviceAsync(b, 0, s)
		require.NoError(t, err)
		for name, ask := range map[string]func() (bool, error){"event": e.Done, "waiting stream": s.Done} {
			done, err := ask()
			require.NoError(t, err)
			assert.False(t, done, name)
		}
		ask[int](p, "OpenGate", 0)
		require.NoError(t, e.Synchronize())
		assertBytes(t, bytes.Repeat([]byte{7}, 1000), download(t, ours))
		require.NoError(t, e.Close())
		b.Release()
		ask[int](p, "EndFill", 0)
		p.release(theirs)
	})
}

func TestExportIPCRefusesOtherEvents(t *testing.T) {
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		_, err := event(t, dev, cudabuf.EventOptions{}).ExportIPC()
		var call *cudabuf.Error
		require.ErrorAs(t, err, &call)
		assert.Equal(t, "cuIpcGetEventHandle", call.Call)
		e, err := dev.NewEvent(cudabuf.EventOptions{Interprocess: true})
		require.NoError(t, err)
		require.NoError(t, e.Close())
		_, err = e.ExportIPC()
		assert.ErrorIs(t, err, cudabuf.ErrClosed)
		_, err = dev.OpenIPCEvent(cudabuf.EventHandle{})
		assert.Error(t, err)
	})
}
