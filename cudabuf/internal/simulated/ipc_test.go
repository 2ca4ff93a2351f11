//go:build linux

package simulated

import (
	"bytes"
	"testing"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestIPCMemHandleSharesAllocation(t *testing.T) {
	d, _ := openMachine(t, Config{})
	newExported(t, d, 600, 1) // so that the next allocation does not start on a page
	a, h := newExported(t, d, 1000, 2)
	inside := must[driver.IPCMemHandle](t)(d.IpcGetMemHandle(a + 999))
	assert.Equal(t, h, inside[:], "a handle names the allocation")
	p := startPeer(t)
	theirs := p.ask(request{Do: "open", Data: h}).Address
	assert.Equal(t, theirs, p.ask(request{Do: "open", Data: h}).Address)
	assert.Equal(t, bytes.Repeat([]byte{2}, 1000), p.read(theirs, 1000))
	p.wantRefusal(driver.InvalidValue, request{Do: "read", Address: theirs, N: 1001})
	p.wantRefusal(driver.InvalidValue, request{Do: "read", Address: theirs - 1, N: 1})
	whole := p.ask(request{Do: "range", Address: theirs + 10})
	assert.Equal(t, theirs, whole.Address)
	assert.EqualValues(t, 1000, whole.Size)
	p.ask(request{Do: "write", Address: theirs + 999, Data: []byte{7}})
	assert.Equal(t, []byte{2, 7}, download(t, d, a+998, 2))

	p.wantRefusal(driver.InvalidValue, request{Do: "export", Address: theirs})
	p.wantRefusal(driver.InvalidValue, request{Do: "free", Address: theirs})
	p.wantRefusal(driver.InvalidValue, request{Do: "close", Address: theirs + 1})
	p.ask(request{Do: "close", Address: theirs})
	p.read(theirs, 1)
	p.ask(request{Do: "close", Address: theirs})
	p.wantRefusal(driver.InvalidValue, request{Do: "read", Address: theirs, N: 1})
	p.wantRefusal(driver.InvalidValue, request{Do: "close", Address: theirs})
}

func TestIPCMemHandleIsInvalidAfterFree(t *testing.T) {
	d, _ := openMachine(t, Config{})
	a, h := newExported(t, d, 1000, 2)
	p := startPeer(t)
	require.NoError(t, d.MemFree(a))
	p.wantRefusal(driver.InvalidValue, request{Do: "open", Data: h})
	again, second := newExported(t, d, 1000, 3)
	assert.Equal(t, a, again)
	assert.NotEqual(t, h, second)
	p.wantRefusal(driver.InvalidValue, request{Do: "open", Data: h})
	assert.Equal(t, []byte{3}, p.read(p.ask(request{Do: "open", Data: second}).Address, 1))
}

func TestOpenedMemoryOutlivesExporter(t *testing.T) {
	d, _ := openMachine(t, Config{})
	p := startPeer(t)
	theirs := p.ask(request{Do: "alloc", N: 100}).Address
	p.ask(request{Do: "write", Address: theirs, Data: []byte("here")})
	var h driver.IPCMemHandle
	copy(h[:], p.ask(request{Do: "export", Address: theirs}).Data)
	a := must[uintptr](t)(d.IpcOpenMemHandle(h))
	assert.Zero(t, must[uint64](t)(d.PointerGetAttribute(driver.PointerIsLegacyIPC, a)))
	assert.Zero(t, inUse(t, d), "the exporter counts it")
	p.kill()
	assert.Equal(t, []byte("here"), download(t, d, a, 4))
	require.NoError(t, d.IpcCloseMemHandle(a))
	_, err := d.IpcOpenMemHandle(h)
	wantCode(t, driver.InvalidValue, err)
}

func TestIPCMemHandleRejectsOtherMemory(t *testing.T) {
	d, _ := openMachine(t, Config{MemoryBytes: 8 * page})
	pool := must[driver.MemPool](t)(d.MemPoolCreate(0, true))
	for name, a := range map[string]uintptr{
		"pooled":     must[uintptr](t)(d.MemAllocFromPoolAsync(10, pool, 0)),
		"virtual":    newMapping(t, d, must[driver.Physical](t)(d.MemCreate(page, 0, true)), page),
		"the host's": addressOf(pinned(t, d, 10)),
		"nothing":    0,
	} {
		_, err := d.IpcGetMemHandle(a)
		wantCode(t, driver.InvalidValue, err)
		assert.Error(t, err, name)
	}
	_, h := newExported(t, d, 10, 1)
	_, err := d.IpcOpenMemHandle(driver.IPCMemHandle(h))
	wantCode(t, driver.InvalidContext, err)
	_, err = d.IpcOpenMemHandle(driver.IPCMemHandle{})
	wantCode(t, driver.InvalidValue, err)
}

func TestDescriptorSharesPhysicalMemory(t *testing.T) {
	d, _ := openMachine(t, Config{MemoryBytes: 8 * page})
	h := must[driver.Physical](t)(d.MemCreate(2*page, 0, true))
	a := newMapping(t, d, h, 2*page)
	require.NoError(t, d.MemsetD8Async(a, 8, 2*page, 0))
	require.NoError(t, d.StreamSynchronize(0))
	p := startPeer(t, must[int](t)(d.MemExportToShareableHandle(h)))
	p.wantRefusal(driver.InvalidValue, request{Do: "import", N: 3, Address: 4 * page})
	theirs := p.ask(request{Do: "import", N: 3, Address: 2 * page}).Address
	assert.Equal(t, []byte{8}, p.read(theirs+2*page-1, 1))
	p.ask(request{Do: "write", Address: theirs, Data: []byte{1}})
	assert.Equal(t, []byte{1, 8}, download(t, d, a, 2))
	require.NoError(t, d.MemUnmap(a, 2*page))
	require.NoError(t, d.MemRelease(h))
	assert.Equal(t, []byte{1, 8}, p.read(theirs, 2))
}

func TestSharedPoolAndPointers(t *testing.T) {
	d, _ := openMachine(t, Config{})
	pool := must[driver.MemPool](t)(d.MemPoolCreate(0, true))
	p := startPeer(t, must[int](t)(d.MemPoolExportToShareableHandle(pool)))
	p.ask(request{Do: "import pool", N: 3})
	for range 2 { // memory allocated after the import, then reused memory
		a := must[uintptr](t)(d.MemAllocFromPoolAsync(5000, pool, 0))
		require.NoError(t, d.MemsetD8Async(a, 4, 5000, 0))
		require.NoError(t, d.StreamSynchronize(0))
		pointer := must[driver.PoolPointer](t)(d.MemPoolExportPointer(a))
		theirs := p.ask(request{Do: "import pointer", Data: pointer[:]}).Address
		assert.Equal(t, bytes.Repeat([]byte{4}, 5000), p.read(theirs, 5000))
		assert.Equal(t, theirs, p.ask(request{Do: "import pointer", Data: pointer[:]}).Address)
		assert.EqualValues(t, 5000, p.ask(request{Do: "range", Address: theirs}).Size)
		p.ask(request{Do: "write", Address: theirs, Data: []byte{5}})
		assert.Equal(t, []byte{5, 4}, download(t, d, a, 2))
		p.wantRefusal(driver.InvalidValue, request{Do: "read", Address: theirs, N: 5001})
		p.wantRefusal(driver.InvalidValue, request{Do: "export pointer", Address: theirs})
		p.ask(request{Do: "free async", Address: theirs})
		p.wantRefusal(driver.InvalidValue, request{Do: "read", Address: theirs, N: 1})
		assert.Equal(t, []byte{5, 4}, download(t, d, a, 2), "the importer's free is its own")
		require.NoError(t, d.MemFreeAsync(a, 0))
	}
	p.wantRefusal(driver.InvalidValue, request{Do: "alloc from pool"})
	p.ask(request{Do: "destroy pool"})
}

func TestPoolPointersAreValidated(t *testing.T) {
	d, _ := openMachine(t, Config{})
	pool, other := must[driver.MemPool](t)(d.MemPoolCreate(0, true)), must[driver.MemPool](t)(d.MemPoolCreate(0, true))
	private := must[driver.MemPool](t)(d.MemPoolCreate(0, false))
	_, err := d.MemPoolExportToShareableHandle(private)
	wantCode(t, driver.InvalidValue, err)
	_, err = d.MemPoolExportPointer(must[uintptr](t)(d.MemAllocFromPoolAsync(10, private, 0)))
	wantCode(t, driver.InvalidValue, err)
	a := must[uintptr](t)(d.MemAllocFromPoolAsync(1024, pool, 0))
	_, err = d.MemPoolExportPointer(a + 512)
	wantCode(t, driver.InvalidValue, err)
	pointer := must[driver.PoolPointer](t)(d.MemPoolExportPointer(a))
	_, err = d.MemPoolImportPointer(pool, pointer)
	wantCode(t, driver.InvalidValue, err) // the pool was not imported
	foreign := must[driver.PoolPointer](t)(d.MemPoolExportPointer(must[uintptr](t)(d.MemAllocFromPoolAsync(10, other, 0))))
	imported := must[driver.MemPool](t)(d.MemPoolImportFromShareableHandle(must[int](t)(d.MemPoolExportToShareableHandle(pool))))
	overlapping := pointer
	overlapping[16+1] = 2 // at 512
	must[uintptr](t)(d.MemPoolImportPointer(imported, pointer))
	for name, bad := range map[string]driver.PoolPointer{"zero": {}, "another pool's": foreign, "overlapping": overlapping} {
		_, err := d.MemPoolImportPointer(imported, bad)
		wantCode(t, driver.InvalidValue, err)
		assert.Error(t, err, name)
	}
}

func TestProcessesWaitForSharedEvents(t *testing.T) {
	d, _ := openMachine(t, Config{})
	p := startPeer(t)
	h := driver.IPCEventHandle(p.ask(request{Do: "make event"}).Data)
	e := must[driver.Event](t)(d.IpcOpenEventHandle(h))
	assert.True(t, must[bool](t)(d.EventQuery(e)), "never recorded")
	p.ask(request{Do: "record after a gate"})
	assert.False(t, must[bool](t)(d.EventQuery(e)))
	s := newStreams(t, d, 2)
	require.NoError(t, d.StreamWaitEvent(s[0], e))
	assert.False(t, must[bool](t)(d.StreamQuery(s[0])))
	p.ask(request{Do: "open gate"})
	require.NoError(t, d.StreamSynchronize(s[0]))
	assert.True(t, must[bool](t)(d.EventQuery(e)))

	// The other direction: this process records an event of the peer.
	open := gateStream(t, d, s[1])
	require.NoError(t, d.EventRecord(e, s[1]))
	assert.False(t, p.ask(request{Do: "query event"}).Done)
	p.ask(request{Do: "wait for event"})
	assert.False(t, p.ask(request{Do: "done"}).Done)
	open()
	p.ask(request{Do: "finish"})
	require.NoError(t, d.EventDestroy(e))
}

func TestWaitForEventEndsWithRecordingProcess(t *testing.T) {
	d, _ := openMachine(t, Config{})
	p := startPeer(t)
	e := must[driver.Event](t)(d.IpcOpenEventHandle(driver.IPCEventHandle(p.ask(request{Do: "make event"}).Data)))
	p.ask(request{Do: "record after a gate"})
	require.NoError(t, d.StreamWaitEvent(0, e))
	p.kill()
	require.NoError(t, d.StreamSynchronize(0))
}

func TestIPCEventHandlesAreValidated(t *testing.T) {
	d, _ := openMachine(t, Config{})
	s := newStreams(t, d, 1)[0]
	e := must[driver.Event](t)(d.EventCreate(driver.EventDisableTiming))
	_, err := d.IpcGetEventHandle(e)
	wantCode(t, driver.InvalidHandle, err)
	e = must[driver.Event](t)(d.EventCreate(driver.EventDisableTiming | driver.EventInterprocess))
	open := gateStream(t, d, s)
	require.NoError(t, d.EventRecord(e, s))
	h := must[driver.IPCEventHandle](t)(d.IpcGetEventHandle(e))
	assert.Equal(t, h, must[driver.IPCEventHandle](t)(d.IpcGetEventHandle(e)))
	_, err = d.IpcOpenEventHandle(h)
	wantCode(t, driver.InvalidContext, err)
	_, err = d.IpcOpenEventHandle(driver.IPCEventHandle{})
	wantCode(t, driver.InvalidValue, err)
	p := startPeer(t)
	p.ask(request{Do: "open event", Data: h[:]})
	assert.False(t, p.ask(request{Do: "query event"}).Done, "recorded before it was exported")
	p.wantRefusal(driver.InvalidHandle, request{Do: "export event"})
	p.ask(request{Do: "wait for event"})
	open()
	p.ask(request{Do: "finish"})
	h[12] ^= 1
	p.wantRefusal(driver.InvalidValue, request{Do: "open event", Data: h[:]})
}

func FuzzHandles(f *testing.F) {
	f.Add(bytes.Repeat([]byte{0xff}, 64))
	own := memHandle{pid: 1, fd: 3, lease: 4, size: 1}.encode()
	f.Add(own[:])
	f.Add(append([]byte(poolMagic), make([]byte, 60)...))
	f.Add(append([]byte(eventMagic), make([]byte, 60)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) != 64 {
			return
		}
		d, _ := openMachine(t, Config{})
		_, err := d.IpcOpenMemHandle(driver.IPCMemHandle(b))
		assert.Error(t, err)
		_, err = d.IpcOpenEventHandle(driver.IPCEventHandle(b))
		assert.Error(t, err)
		pool := must[driver.MemPool](t)(d.MemPoolCreate(0, true))
		imported := must[driver.MemPool](t)(d.MemPoolImportFromShareableHandle(must[int](t)(d.MemPoolExportToShareableHandle(pool))))
		if a, err := d.MemPoolImportPointer(imported, driver.PoolPointer(b)); err == nil {
			_, size, err := d.MemGetAddressRange(a)
			require.NoError(t, err)
			require.NoError(t, d.MemsetD8Async(a, 1, size, 0))
		}
		require.NoError(t, d.StreamSynchronize(0))
		require.NoError(t, d.DevicePrimaryCtxRelease(0))
		_ = d.Close() // imported pointers may be left
	})
}

func TestIPCMemHandleRequiresPeerAccess(t *testing.T) {
	p := startPeer(t)
	h := driver.IPCMemHandle(p.ask(request{Do: "export", Address: p.ask(request{Do: "alloc", N: 100}).Address}).Data)
	for name, tt := range map[string]struct {
		reaches bool
		want    driver.Result
	}{"peers": {true, driver.Success}, "strangers": {false, peerUnsupported}} {
		t.Run(name, func(t *testing.T) {
			before := openResources(t)
			d, contexts := openMachine(t, Config{Devices: 2, PeerAccess: func(int, int) bool { return tt.reaches }})
			require.NoError(t, d.CtxSetCurrent(contexts[1]))
			_, err := d.IpcOpenMemHandle(h)
			wantResult(t, tt.want, err)
			require.NoError(t, d.CtxSetCurrent(contexts[0]))
			a := must[uintptr](t)(d.IpcOpenMemHandle(h))
			require.NoError(t, d.CtxSetCurrent(contexts[1]))
			_, err = d.IpcOpenMemHandle(h)
			wantResult(t, tt.want, err)
			err = d.MemsetD8Async(a, 1, 100, 0)
			if tt.reaches {
				require.NoError(t, err)
				require.NoError(t, d.IpcCloseMemHandle(a))
				require.NoError(t, d.IpcCloseMemHandle(a))
			} else {
				wantCode(t, driver.InvalidValue, err)
			}
			require.NoError(t, d.IpcCloseMemHandle(a))
			wantCode(t, driver.InvalidValue, d.IpcCloseMemHandle(a))
			for i := range driver.Device(2) {
				require.NoError(t, d.DevicePrimaryCtxRelease(i))
			}
			require.NoError(t, d.Close())
			for what := range openResources(t) {
				assert.Contains(t, before, what)
			}
		})
	}
}
