//go:build linux

package simulated

import (
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"unsafe"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// peerVariable is set in the peer process of a test, which runs the same test
// binary.
const peerVariable = "QUIVER_SIMULATED_PEER"

func TestMain(m *testing.M) {
	if os.Getenv(peerVariable) != "" {
		if err := servePeer(); err != nil {
			fmt.Fprintln(os.Stderr, "peer:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// request is sent to the peer process, which replies with a response.
type (
	request struct {
		Do      string
		Address uint64
		Data    []byte
		N       int
		Stream  int
	}
	response struct {
		Address uint64
		Data    []byte
		Size    int64
		Done    bool
		Code    driver.Result
		Failure string
	}
)

// peer is another process with two simulated devices. It inherits files as
// descriptors from 3 on.
type peer struct {
	t       *testing.T
	process *exec.Cmd
	in      *gob.Encoder
	out     *gob.Decoder
}

func startPeer(t *testing.T, files ...int) *peer {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), peerVariable+"=1", "GORACE=atexit_sleep_ms=0")
	c.Stderr = os.Stderr
	for _, fd := range files {
		c.ExtraFiles = append(c.ExtraFiles, os.NewFile(uintptr(fd), "shared"))
	}
	stdin, err := c.StdinPipe()
	require.NoError(t, err)
	stdout, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	for _, f := range c.ExtraFiles {
		require.NoError(t, f.Close())
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = c.Wait()
	})
	return &peer{t, c, gob.NewEncoder(stdin), gob.NewDecoder(stdout)}
}

func (p *peer) try(o request) (r response) {
	p.t.Helper()
	require.NoError(p.t, p.in.Encode(o))
	require.NoError(p.t, p.out.Decode(&r))
	return r
}

func (p *peer) ask(o request) response {
	p.t.Helper()
	r := p.try(o)
	require.Empty(p.t, r.Failure, o.Do)
	return r
}

func (p *peer) wantRefusal(want driver.Result, o request) {
	p.t.Helper()
	r := p.try(o)
	assert.Equal(p.t, want, r.Code, "%s: %s", o.Do, r.Failure)
}

func (p *peer) read(address uint64, n int) []byte {
	p.t.Helper()
	return p.ask(request{Do: "read", Address: address, N: n}).Data
}

// kill ends the process like a crash.
func (p *peer) kill() {
	p.t.Helper()
	require.NoError(p.t, p.process.Process.Kill())
	_ = p.process.Wait()
}

func servePeer() error {
	runtime.LockOSThread()
	api, err := Open(Config{Devices: 2, MemoryBytes: 64 << 20})
	if err != nil {
		return err
	}
	if err := api.Init(); err != nil {
		return err
	}
	context, err := api.DevicePrimaryCtxRetain(0)
	if err == nil {
		err = api.CtxSetCurrent(context)
	}
	if err != nil {
		return err
	}
	s, err := api.StreamCreateWithPriority(driver.StreamNonBlocking, 0)
	if err != nil {
		return err
	}
	p := &served{API: api, stream: s}
	in, out := gob.NewDecoder(os.Stdin), gob.NewEncoder(os.Stdout)
	for {
		var o request
		if err := in.Decode(&o); errors.Is(err, io.EOF) {
			return nil // the test is over
		} else if err != nil {
			return err
		}
		r, err := p.handle(o)
		if err != nil {
			r.Failure = err.Error()
			var e *driver.Error
			if errors.As(err, &e) {
				r.Code = e.Code
			}
		}
		if err := out.Encode(r); err != nil {
			return err
		}
	}
}

// served is the state of the peer process.
type served struct {
	driver.API
	stream driver.Stream
	pool   driver.MemPool
	event  driver.Event
	gate   chan struct{}
}

func (p *served) handle(o request) (r response, err error) {
	at := uintptr(o.Address)
	withAddress := func(a uintptr, err error) (response, error) { return response{Address: uint64(a)}, err }
	switch o.Do {
	case "open":
		return withAddress(p.IpcOpenMemHandle(driver.IPCMemHandle(o.Data)))
	case "close":
		return r, p.IpcCloseMemHandle(at)
	case "range":
		base, size, err := p.MemGetAddressRange(at)
		return response{Address: uint64(base), Size: size}, err
	case "read":
		r.Data = make([]byte, o.N)
		return r, p.MemcpyDtoHAsync(r.Data, at, 0)
	case "write":
		if err = p.MemcpyHtoDAsync(at, o.Data, 0); err == nil {
			err = p.StreamSynchronize(0)
		}
		return r, err
	case "export":
		h, err := p.IpcGetMemHandle(at)
		return response{Data: h[:]}, err
	case "alloc":
		return withAddress(p.MemAlloc(int64(o.N)))
	case "free":
		return r, p.MemFree(at)
	case "free async":
		if err = p.MemFreeAsync(at, 0); err == nil {
			err = p.StreamSynchronize(0)
		}
		return r, err
	case "import":
		h, err := p.MemImportFromShareableHandle(o.N)
		if err != nil {
			return r, err
		}
		a, err := p.MemAddressReserve(int64(o.Address))
		if err == nil {
			err = p.MemMap(a, int64(o.Address), h)
		}
		if err == nil {
			err = p.MemSetAccess(a, int64(o.Address), 0)
		}
		return withAddress(a, err)
	case "import pool":
		p.pool, err = p.MemPoolImportFromShareableHandle(o.N)
		return r, err
	case "import pointer":
		return withAddress(p.MemPoolImportPointer(p.pool, driver.PoolPointer(o.Data)))
	case "export pointer":
		_, err := p.MemPoolExportPointer(at)
		return r, err
	case "alloc from pool":
		return withAddress(p.MemAllocFromPoolAsync(1, p.pool, 0))
	case "destroy pool":
		return r, p.MemPoolDestroy(p.pool)
	}
	return p.handleEvent(o)
}

func (p *served) handleEvent(o request) (r response, err error) {
	switch o.Do {
	case "make event":
		if p.event, err = p.EventCreate(driver.EventInterprocess | driver.EventDisableTiming); err != nil {
			return r, err
		}
		h, err := p.IpcGetEventHandle(p.event)
		return response{Data: h[:]}, err
	case "open event":
		p.event, err = p.IpcOpenEventHandle(driver.IPCEventHandle(o.Data))
		return r, err
	case "export event":
		_, err := p.IpcGetEventHandle(p.event)
		return r, err
	case "record after a gate":
		p.gate = make(chan struct{})
		if err = p.LaunchHostFunc(p.stream, func() { <-p.gate }); err == nil {
			err = p.EventRecord(p.event, p.stream)
		}
		return r, err
	case "open gate":
		close(p.gate)
		return r, p.StreamSynchronize(p.stream)
	case "wait for event":
		return r, p.StreamWaitEvent(p.stream, p.event)
	case "done":
		r.Done, err = p.StreamQuery(p.stream)
		return r, err
	case "finish":
		return r, p.StreamSynchronize(p.stream)
	case "query event":
		r.Done, err = p.EventQuery(p.event)
		return r, err
	}
	return r, fmt.Errorf("unknown request %q", o.Do)
}

// openMachine opens simulated devices and makes the primary context of device 0
// current on this thread.
func openMachine(t *testing.T, c Config) (*Driver, []driver.Context) {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	if c.MemoryBytes == 0 {
		c.MemoryBytes = 1 << 20
	}
	c.Devices = max(c.Devices, 1)
	api, err := Open(c)
	require.NoError(t, err)
	require.NoError(t, api.Init())
	var contexts []driver.Context
	for i := range c.Devices {
		context, err := api.DevicePrimaryCtxRetain(driver.Device(i))
		require.NoError(t, err)
		contexts = append(contexts, context)
	}
	require.NoError(t, api.CtxSetCurrent(contexts[0]))
	return api.(*Driver), contexts
}

func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		require.NoError(t, err)
		return v
	}
}

func wantCode(t *testing.T, want driver.Result, err error) {
	t.Helper()
	var e *driver.Error
	if assert.ErrorAs(t, err, &e) {
		assert.Equal(t, want, e.Code, "%v", err)
	}
}

func pinned(t *testing.T, d *Driver, n int) []byte {
	t.Helper()
	address := must[uintptr](t)(d.MemHostAlloc(int64(n), driver.HostAllocPortable))
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), n)
}

func newEvent(t *testing.T, d *Driver, flags uint32) driver.Event {
	t.Helper()
	return must[driver.Event](t)(d.EventCreate(flags))
}

// newExported returns an allocation filled with one value, and its handle.
func newExported(t *testing.T, d *Driver, n int64, value byte) (address uintptr, handle []byte) {
	t.Helper()
	a := must[uintptr](t)(d.MemAlloc(n))
	require.NoError(t, d.MemsetD8Async(a, value, n, 0))
	require.NoError(t, d.StreamSynchronize(0))
	h := must[driver.IPCMemHandle](t)(d.IpcGetMemHandle(a))
	return a, h[:]
}

func download(t *testing.T, d *Driver, address uintptr, n int) []byte {
	t.Helper()
	got := make([]byte, n)
	require.NoError(t, d.MemcpyDtoHAsync(got, address, 0))
	return got
}

// newStreamOf creates a stream of the current context with flags.
func newStreamOf(t *testing.T, d *Driver, flags uint32) driver.Stream {
	t.Helper()
	return must[driver.Stream](t)(d.StreamCreateWithPriority(flags, 0))
}

// blockStream makes a stream wait until open is called.
func blockStream(t *testing.T, d *Driver, s driver.Stream) (open func()) {
	t.Helper()
	gate := make(chan struct{})
	require.NoError(t, d.LaunchHostFunc(s, func() { <-gate }))
	return func() { close(gate) }
}

// wantResult is wantCode for calls that may succeed.
func wantResult(t *testing.T, want driver.Result, err error) {
	t.Helper()
	if want == driver.Success {
		assert.NoError(t, err)
	} else {
		wantCode(t, want, err)
	}
}

// loadKernel loads a module with one host kernel.
func loadKernel(t *testing.T, d *Driver, name string, kernel driver.HostKernel) driver.Function {
	t.Helper()
	m := must[driver.Module](t)(d.ModuleLoadData([]byte("image"), map[string]driver.HostKernel{name: kernel}))
	return must[driver.Function](t)(d.ModuleGetFunction(m, name))
}

func newStreams(t *testing.T, d *Driver, n int) (all []driver.Stream) {
	t.Helper()
	for range n {
		all = append(all, must[driver.Stream](t)(d.StreamCreateWithPriority(driver.StreamNonBlocking, 0)))
	}
	return all
}

// gateStream makes a stream wait until open is called.
func gateStream(t *testing.T, d *Driver, s driver.Stream) (open func()) {
	t.Helper()
	gate := make(chan struct{})
	require.NoError(t, d.streams[s].submit("", func() error { <-gate; return nil }))
	return func() { close(gate) }
}

func inUse(t *testing.T, d *Driver) int64 {
	t.Helper()
	free, total, err := d.MemGetInfo()
	require.NoError(t, err)
	return total - free
}

func newMapping(t *testing.T, d *Driver, p driver.Physical, n int64) uintptr {
	t.Helper()
	a := must[uintptr](t)(d.MemAddressReserve(n))
	require.NoError(t, d.MemMap(a, n, p))
	require.NoError(t, d.MemSetAccess(a, n, 0))
	return a
}
