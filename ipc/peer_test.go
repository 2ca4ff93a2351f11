//go:build linux

package ipc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ipc"
	"github.com/quiver-gpu/quiver/ipc/handle"
	"github.com/quiver-gpu/quiver/ipc/internal/ipctest"
)

// peerVariable makes the test binary run as another process, on a machine of this
// kind.
const peerVariable = "QUIVER_TEST_PEER"

func TestMain(m *testing.M) {
	if kind := os.Getenv(peerVariable); kind != "" {
		runPeer(kind)
		return
	}
	os.Exit(m.Run())
}

// peer is another process, which the test controls.
type peer struct {
	t       testing.TB
	command *exec.Cmd
	client  *rpc.Client
	end     error // the error of Wait
}

// startPeer starts a process. It must end without a leak when the test does,
// unless the test kills it.
func startPeer(t testing.TB, m machine) *peer {
	t.Helper()
	p, err := tryPeer(t, m, nil)
	require.NoError(t, err)
	return p
}

func tryPeer(t testing.TB, m machine, attributes *syscall.SysProcAttr) (*peer, error) {
	t.Helper()
	command := exec.Command("/proc/self/exe")
	command.Args[0] = os.Args[0]
	command.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", peerVariable+"="+m.kind)
	command.Stderr = os.Stderr
	if command.SysProcAttr = attributes; attributes == nil {
		command.SysProcAttr = &syscall.SysProcAttr{}
	}
	command.SysProcAttr.Pdeathsig = syscall.SIGKILL
	stdin, err := command.StdinPipe()
	require.NoError(t, err)
	stdout, err := command.StdoutPipe()
	require.NoError(t, err)
	if err := command.Start(); err != nil {
		return nil, err
	}
	p := &peer{t: t, command: command, client: rpc.NewClient(pipes{stdout, stdin})}
	t.Cleanup(p.close)
	return p, nil
}

// close ends the process and checks that it does not leak.
func (p *peer) close() {
	if p.command.ProcessState != nil {
		return
	}
	assert.NoError(p.t, p.call("Close", 0, nil), "the other process leaks")
	_ = p.client.Close()
	assert.NoError(p.t, p.command.Wait())
}

// kill ends the process with SIGKILL.
func (p *peer) kill() {
	_ = p.command.Process.Kill()
	p.wait()
}

// wait waits for a process that was killed.
func (p *peer) wait() {
	p.end = p.command.Wait()
	_ = p.client.Close()
	assert.Equal(p.t, syscall.SIGKILL, p.command.ProcessState.Sys().(syscall.WaitStatus).Signal(), "%v", p.end)
}

// call calls a method of Peer. It fails after 10 s.
func (p *peer) call(method string, argument, reply any) error {
	select {
	case done := <-p.client.Go("Peer."+method, argument, reply, make(chan *rpc.Call, 1)).Done:
		return done.Error
	case <-time.After(10 * time.Second):
		return fmt.Errorf("%s hangs", method)
	}
}

// mustCall is a call that must not fail.
func (p *peer) mustCall(method string, argument any) {
	p.t.Helper()
	require.NoError(p.t, p.call(method, argument, nil), method)
}

type pipes struct {
	io.Reader
	io.WriteCloser
}

func runPeer(kind string) {
	p := &Peer{kind: kind, device: arrowbuf.CPU(), batches: map[string][]arrow.RecordBatch{}, buffers: map[string]arrowbuf.Buffer{}}
	var err error
	if p.mount = ipctest.MountProc(); p.mount == nil || kind != "cuda" {
		err = p.openDevice()
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

// Peer holds the state of the other process and its remote methods.
type Peer struct {
	kind   string
	mount  error // the error of mounting /proc in a PID namespace of its own
	device arrowbuf.Device
	gpu    *cudabuf.Device // nil on the CPU

	closeDriver func() error // fails if device memory leaks

	client  *ipc.Client
	batches map[string][]arrow.RecordBatch
	buffers map[string]arrowbuf.Buffer

	catalog *ipc.Catalog
	server  *ipc.Server
	stream  *ipc.Stream
	pool    *cudabuf.SharedPool
}

// Ready returns an error if CUDA cannot start in the process.
func (p *Peer) Ready(_ int, _ *int) error {
	if p.kind == "cuda" {
		return p.mount
	}
	return nil
}

func (p *Peer) openDevice() (err error) {
	p.device, p.gpu, p.closeDriver, err = ipctest.OpenDevice(p.kind)
	return err
}

// gpus returns the GPUs of the process: one, or none.
func (p *Peer) gpus() []arrowbuf.Device { return machine{dev: p.gpu}.gpus() }

// deadline returns a context of 5 s.
func deadline() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 5*time.Second)
}

// Dial holds the arguments of Peer.Dial.
type Dial struct {
	Path       string
	Mechanisms handle.Mechanisms
	WithoutGPU bool
	Async      bool
	User       int // if not 0, the user to become first
	DieAt      int // if not 0, the frame at which the process kills itself, from 1
}

func (p *Peer) Dial(d Dial, _ *int) (err error) {
	ctx, cancel := deadline()
	defer cancel()
	o := ipc.DialOptions{Devices: p.gpus(), Mechanisms: d.Mechanisms, Async: d.Async}
	if d.WithoutGPU {
		o.Devices = nil
	}
	if d.User > 0 {
		if err := syscall.Setuid(d.User); err != nil {
			return err
		}
	}
	if d.DieAt > 0 {
		between, err := relay(d.Path, filepath.Join(filepath.Dir(d.Path), fmt.Sprint(os.Getpid())), func(n int) {
			if n == d.DieAt {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		})
		if err != nil {
			return err
		}
		d.Path = between
	}
	p.client, err = ipc.Dial(ctx, d.Path, o)
	for _, is := range []error{ipc.ErrRefused, ipc.ErrServerGone} {
		if errors.Is(err, is) {
			return fmt.Errorf("as expected, %w: %w", is, err)
		}
	}
	return err
}

// Suspend stops the process, so that it sends no keep-alives.
func (p *Peer) Suspend(_ int, _ *int) error { return syscall.Kill(os.Getpid(), syscall.SIGSTOP) }

// Get reads a table, checks it, and returns the devices of its batches.
func (p *Peer) Get(name string, where *[]string) error {
	ctx, cancel := deadline()
	defer cancel()
	table, err := p.client.Table(ctx, name)
	if err != nil {
		return err
	}
	p.batches[name] = append(p.batches[name], table.Batches...)
	for i, b := range table.Batches {
		if err := checkFixture(name, uint64(i), b); err != nil {
			return err
		}
		*where = append(*where, arrowbuf.DeviceOf(b.Column(0)).String())
	}
	return nil
}

// Check checks the batches of a table again.
func (p *Peer) Check(name string, _ *int) error {
	for i, b := range p.batches[name] {
		if err := checkFixture(name, uint64(i), b); err != nil {
			return err
		}
	}
	return nil
}

// Release releases a table or a buffer.
func (p *Peer) Release(name string, _ *int) error {
	for _, b := range p.batches[name] {
		b.Release()
	}
	delete(p.batches, name)
	if b := p.buffers[name]; b != nil {
		b.Release()
		delete(p.buffers, name)
	}
	return nil
}

// Read reads a buffer and returns its bytes.
func (p *Peer) Read(name string, data *[]byte) error {
	ctx, cancel := deadline()
	defer cancel()
	b, err := p.client.Buffer(ctx, name)
	if err != nil {
		return err
	}
	p.buffers[name] = b
	*data = make([]byte, b.Len())
	_, err = b.CopyToHost(*data, 0)
	return err
}

// Text returns the first batch of a table as JSON.
func (p *Peer) Text(name string, text *string) error {
	ctx, cancel := deadline()
	defer cancel()
	table, err := p.client.Table(ctx, name)
	if err != nil {
		return err
	}
	defer table.Release()
	b, err := table.Batches[0].MarshalJSON()
	*text = string(b)
	return err
}

// Follow holds the arguments of Peer.Follow.
type Follow struct {
	Name   string
	Window int
	Most   int // the number of batches to read, 0 for all
}

// Follow reads a stream, checks its batches, and returns their number.
func (p *Peer) Follow(f Follow, n *int) error {
	ctx, cancel := deadline()
	defer cancel()
	s, err := p.client.Stream(ctx, f.Name, f.Window)
	if err != nil {
		return err
	}
	defer s.Close()
	for first := uint64(0); *n < f.Most || f.Most == 0; *n++ {
		b, err := s.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if *n == 0 {
			held := p.client.Leases()
			first = held[slices.IndexFunc(held, func(l ipc.LeaseStat) bool { return l.Name == f.Name })].Sequence
		}
		err = checkFixture(f.Name, first+uint64(*n), b)
		b.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *Peer) Held(_ int, n *int) error {
	*n = len(p.client.Leases())
	return nil
}

// Serve holds the arguments of Peer.Serve.
type Serve struct {
	Path   string
	Pooled bool
}

// Serve serves a table "table" of 3 batches and a stream "stream".
func (p *Peer) Serve(s Serve, _ *int) (err error) {
	options, err := p.toPool(s.Pooled)
	if err != nil {
		return err
	}
	p.catalog = ipc.NewCatalog()
	if p.server, err = ipc.Serve(s.Path, p.catalog, ipc.ServerOptions{MaxIdleBytes: -1}); err != nil {
		return err
	}
	if p.stream, err = p.catalog.NewStream("stream", schema, ipc.StreamOptions{Options: options}); err != nil {
		return err
	}
	return publishFixtures(p.catalog, p.device, "table", 3, options...)
}

// toPool allocates from a SharedPool if pooled is true, and returns the options
// to publish that memory with.
func (p *Peer) toPool(pooled bool) (options []ipc.PublishOption, err error) {
	if !pooled {
		return nil, nil
	}
	if p.pool, err = p.gpu.NewSharedPool(); err != nil {
		return nil, err
	}
	p.device = p.pool.AsDevice()
	return []ipc.PublishOption{ipc.ExposeAllocation()}, nil
}

// Write writes batches [0, n) to the stream when it has a subscriber.
func (p *Peer) Write(n int, _ *int) error {
	ctx, cancel := deadline()
	defer cancel()
	if err := p.stream.WaitSubscribers(ctx, 1); err != nil {
		return err
	}
	for i := range n {
		b, err := fixtureOn(p.device, "stream", uint64(i))
		if err != nil {
			return err
		}
		err = p.stream.Write(ctx, b)
		b.Release()
		if err != nil {
			return err
		}
	}
	return p.stream.Close()
}

// ServeStuck serves a buffer with a write that never completes.
func (p *Peer) ServeStuck(path string, _ *int) error {
	b, err := p.gpu.NewBuffer(100)
	if err != nil {
		return err
	}
	stream, err := p.gpu.NewStream(cudabuf.StreamOptions{})
	if err != nil {
		return err
	}
	if err := stream.LaunchHostFunc(func() { select {} }); err != nil {
		return err
	}
	if err := b.FillAsync(1, stream); err != nil {
		return err
	}
	p.catalog = ipc.NewCatalog()
	if err := p.catalog.PublishBuffer("buffer", b); err != nil {
		return err
	}
	p.server, err = ipc.Serve(path, p.catalog, ipc.ServerOptions{})
	return err
}

func (p *Peer) Withdraw(name string, _ *int) error { return p.catalog.Withdraw(name) }

// Close releases everything except the leases that the test has not released.
func (p *Peer) Close(_ int, _ *int) (err error) {
	if p.server != nil {
		err = p.server.Close()
		p.catalog.Close()
	}
	if p.client != nil {
		if n := len(p.client.Leases()); n > 0 {
			err = errors.Join(err, fmt.Errorf("got %d leases, want 0", n))
		}
		err = errors.Join(err, p.client.Close())
	}
	if p.pool != nil {
		err = errors.Join(err, p.pool.Close())
	}
	if p.closeDriver != nil {
		err = errors.Join(err, p.closeDriver())
	}
	return err
}
