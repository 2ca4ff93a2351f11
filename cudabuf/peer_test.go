package cudabuf_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"os"
	"os/exec"
	"path"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// peerVariable makes a run of the test binary serve as another process. It is "cuda" or
// the number of simulated devices.
const peerVariable = "QUIVER_TEST_PEER"

func TestMain(m *testing.M) {
	if kind := os.Getenv(peerVariable); kind != "" {
		servePeer(kind)
		return
	}
	os.Exit(m.Run())
}

// peer is a client of another process, which the test controls.
type peer struct {
	t      testing.TB
	client *rpc.Client
}

// startPeer starts a process with devices like the driver's. The process inherits the files
// as descriptors from 3 on. At the end of the test it is closed and checked for leaks.
func startPeer(t *testing.T, d *cudabuf.Driver, files ...*os.File) *peer {
	t.Helper()
	kind := "cuda"
	if path.Base(t.Name()) != kind {
		kind = strconv.Itoa(d.Count())
	}
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", peerVariable+"="+kind)
	command.Stderr, command.ExtraFiles = os.Stderr, files
	stdin, err := command.StdinPipe()
	require.NoError(t, err)
	stdout, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	p := &peer{t, rpc.NewClient(pipes{stdout, stdin})}
	t.Cleanup(func() {
		if err := p.client.Call("Peer.Close", 0, nil); !errors.Is(err, rpc.ErrShutdown) {
			assert.NoError(t, err, "the other process leaks")
		}
		_ = p.client.Close()
		_ = command.Wait()
	})
	return p
}

// peerCall calls a method of Peer.
func peerCall[R any](p *peer, method string, argument any) (R, error) {
	p.t.Helper()
	var reply R
	return reply, p.client.Call("Peer."+method, argument, &reply)
}

// ask is peerCall for a call that must not fail.
func ask[R any](p *peer, method string, argument any) R {
	p.t.Helper()
	reply, err := peerCall[R](p, method, argument)
	require.NoError(p.t, err, method)
	return reply
}

func (p *peer) read(buffer int) []byte { return ask[[]byte](p, "Read", buffer) }
func (p *peer) release(buffer int)     { ask[int](p, "Release", buffer) }

type pipes struct {
	io.Reader
	io.WriteCloser
}

func servePeer(kind string) {
	p := &Peer{calls: map[string]int{}, buffers: map[int]*cudabuf.Buffer{}}
	var err error
	if kind == "cuda" {
		p.d, err = cudabuf.Open()
	} else {
		var devices int
		devices, err = strconv.Atoi(kind)
		p.d = cudatest.New(cudatest.Config{Devices: devices, Fail: p.count})
	}
	server := rpc.NewServer()
	if err == nil {
		err = server.Register(p)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
	server.ServeConn(pipes{os.Stdin, os.Stdout})
}

// Peer is the service of the other process. Buffers are identified by numbers.
type Peer struct {
	d *cudabuf.Driver

	mu      sync.Mutex
	calls   map[string]int
	buffers map[int]*cudabuf.Buffer

	pool   *cudabuf.PeerPool
	event  *cudabuf.Event
	stream *cudabuf.Stream
	copied *cudabuf.Buffer
	gate   chan struct{}
}

func (p *Peer) count(call string, n int) cudabuf.Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls[call] = n
	return 0
}

// Calls returns how often a call of the simulated driver was made.
func (p *Peer) Calls(call string, n *int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	*n = p.calls[call]
	return nil
}

func (p *Peer) keep(b *cudabuf.Buffer, id *int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*id = len(p.buffers)
	p.buffers[*id] = b
}

func (p *Peer) buffer(id int) *cudabuf.Buffer {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.buffers[id]
}

func (p *Peer) Read(id int, data *[]byte) (err error) {
	*data, err = p.buffer(id).Bytes()
	return err
}

// Address returns a string, since gob does not encode a uintptr of a handle.
func (p *Peer) Address(id int, address *string) error {
	*address = fmt.Sprintf("%#x", p.buffer(id).Address())
	return nil
}

// Write is the argument of Peer.Write: the new contents of a buffer.
type Write struct {
	Buffer int
	Data   []byte
}

func (p *Peer) Write(w Write, _ *int) error {
	_, err := p.buffer(w.Buffer).CopyFromHost(w.Data, 0)
	return err
}

func (p *Peer) Release(id int, _ *int) error {
	p.buffer(id).Release()
	return nil
}

// New allocates a buffer for ExportIPC on device 0.
func (p *Peer) New(data []byte, id *int) error {
	dev, err := p.d.Device(0)
	if err != nil {
		return err
	}
	b, err := dev.NewIPCBuffer(int64(len(data)))
	if err != nil {
		return err
	}
	p.keep(b, id)
	_, err = b.CopyFromHost(data, 0)
	return err
}

func (p *Peer) Export(id int, h *cudabuf.MemHandle) (err error) {
	*h, err = p.buffer(id).ExportIPC()
	return err
}

// ExportAgain exports a buffer that was opened here.
func (p *Peer) ExportAgain(id int, _ *int) error {
	if _, err := p.buffer(id).ExportIPCWhole(); err != nil {
		return err
	}
	return nil
}

// OnDevice is a handle and the ordinal of the device to open it on.
type OnDevice struct {
	Ordinal int
	Handle  cudabuf.MemHandle
}

func (p *Peer) OpenOn(o OnDevice, id *int) error {
	dev, err := p.d.Device(o.Ordinal)
	if err != nil {
		return err
	}
	b, err := dev.OpenIPC(o.Handle)
	if err == nil {
		p.keep(b, id)
	}
	return err
}

func (p *Peer) Open(h cudabuf.MemHandle, id *int) error { return p.OpenOn(OnDevice{0, h}, id) }

// OpenOften opens and releases a handle 200 times in each of 8 goroutines.
func (p *Peer) OpenOften(h cudabuf.MemHandle, _ *int) error {
	dev, err := p.d.Device(0)
	if err != nil {
		return err
	}
	var wait sync.WaitGroup
	failures := make(chan error, 8)
	for range cap(failures) {
		wait.Go(func() {
			for range 200 {
				b, err := dev.OpenIPC(h)
				if err == nil {
					_, err = b.ReadAt(make([]byte, 1), 0)
					b.Release()
				}
				if err != nil {
					failures <- err
					return
				}
			}
		})
	}
	wait.Wait()
	close(failures)
	return <-failures
}

// File is an inherited descriptor and the region of its memory.
type File struct {
	Ordinal, FD int
	Region      cudabuf.Region
}

func (p *Peer) OpenFD(f File, id *int) error {
	dev, err := p.d.Device(f.Ordinal)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(f.FD), "memory")
	defer file.Close()
	b, err := dev.OpenFD(file, f.Region)
	if err == nil {
		p.keep(b, id)
	}
	return err
}

func (p *Peer) OpenPool(f File, _ *int) error {
	dev, err := p.d.Device(f.Ordinal)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(f.FD), "pool")
	defer file.Close()
	p.pool, err = dev.OpenPoolFD(file)
	return err
}

func (p *Peer) OpenPooled(h cudabuf.PoolHandle, id *int) error {
	b, err := p.pool.Open(h)
	if err == nil {
		p.keep(b, id)
	}
	return err
}

// PooledTwice is a pool's descriptor, and a handle of the pool with its contents.
type PooledTwice struct {
	FD     int
	Handle cudabuf.PoolHandle
	Data   []byte
}

// OpenPoolTwice opens a pool twice and a buffer through each. It closes each pool before
// its buffer.
func (p *Peer) OpenPoolTwice(o PooledTwice, _ *int) error {
	dev, err := p.d.Device(0)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(o.FD), "pool")
	defer file.Close()
	var pools [2]*cudabuf.PeerPool
	var buffers [2]*cudabuf.Buffer
	for i := range pools {
		if pools[i], err = dev.OpenPoolFD(file); err != nil {
			return err
		}
		if buffers[i], err = pools[i].Open(o.Handle); err != nil {
			return err
		}
	}
	for i := range pools {
		if err := pools[i].Close(); err != nil {
			return err
		}
		for _, b := range buffers[i:] {
			data, err := b.Bytes()
			if err != nil || !bytes.Equal(data, o.Data) {
				return fmt.Errorf("after pool %d was closed: %v, %w", i, data, err)
			}
		}
		buffers[i].Release()
	}
	again, err := dev.OpenPoolFD(file)
	if err != nil {
		return err
	}
	b, err := again.Open(o.Handle)
	if err != nil {
		return err
	}
	data, err := b.Bytes()
	b.Release()
	if err != nil || !bytes.Equal(data, o.Data) {
		return fmt.Errorf("opened again: %v, %w", data, err)
	}
	return again.Close()
}

func (p *Peer) ClosePool(_ int, _ *int) error { return p.pool.Close() }

// CopyAfter copies a buffer on a stream that first waits for an event.
func (p *Peer) CopyAfter(c CopyAfter, _ *int) error {
	dev, err := p.d.Device(0)
	if err != nil {
		return err
	}
	if p.event, err = dev.OpenIPCEvent(c.Event); err != nil {
		return err
	}
	if p.stream, err = dev.NewStream(cudabuf.StreamOptions{}); err != nil {
		return err
	}
	src := p.buffer(c.Buffer)
	if p.copied, err = dev.NewBuffer(src.Len()); err != nil {
		return err
	}
	if err = p.stream.WaitEvent(p.event); err != nil {
		return err
	}
	_, err = p.copied.CopyFromDeviceAsync(src, 0, p.stream)
	return err
}

// CopyAfter is an event to wait for and a buffer to copy afterwards.
type CopyAfter struct {
	Event  cudabuf.EventHandle
	Buffer int
}

// Copied reports whether the copy of CopyAfter is done.
func (p *Peer) Copied(_ int, done *bool) (err error) {
	*done, err = p.stream.Done()
	return err
}

// FinishCopy waits for the copy of CopyAfter and returns the copied bytes.
func (p *Peer) FinishCopy(_ int, data *[]byte) (err error) {
	if err = p.stream.Close(); err != nil {
		return err
	}
	*data, err = p.copied.Bytes()
	p.copied.Release()
	if err == nil {
		err = p.event.Close()
	}
	return err
}

// FillAfterGate fills a buffer with 7 on a stream that waits for OpenGate. It returns an
// event that is recorded afterwards.
func (p *Peer) FillAfterGate(id int, h *cudabuf.EventHandle) error {
	dev, err := p.d.Device(0)
	if err != nil {
		return err
	}
	if p.event, err = dev.NewEvent(cudabuf.EventOptions{Interprocess: true}); err != nil {
		return err
	}
	if p.stream, err = dev.NewStream(cudabuf.StreamOptions{}); err != nil {
		return err
	}
	p.gate = make(chan struct{})
	if err = p.stream.LaunchHostFunc(func() { <-p.gate }); err != nil {
		return err
	}
	if err = p.buffer(id).FillAsync(7, p.stream); err != nil {
		return err
	}
	if err = p.stream.Record(p.event); err != nil {
		return err
	}
	*h, err = p.event.ExportIPC()
	return err
}

func (p *Peer) OpenGate(_ int, _ *int) error {
	close(p.gate)
	return nil
}

func (p *Peer) EndFill(_ int, _ *int) error {
	if err := p.stream.Close(); err != nil {
		return err
	}
	return p.event.Close()
}

// Die exits without releasing anything, as a crash does.
func (p *Peer) Die(_ int, _ *int) error {
	os.Exit(3)
	return nil
}

// Close closes the driver and reports leaks.
func (p *Peer) Close(_ int, _ *int) error { return p.d.Close() }

// onSimulated reports whether a subtest of forEachMachine uses simulated devices.
func onSimulated(t *testing.T) bool { return strings.Contains(t.Name(), "/simulated") }
