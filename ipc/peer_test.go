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
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ipc"
	"github.com/quiver-gpu/quiver/ipc/handle"
)

// peerVariable makes a run of the test binary be another process, on a machine of
// that kind.
const peerVariable = "QUIVER_TEST_PEER"

func TestMain(m *testing.M) {
	if kind := os.Getenv(peerVariable); kind != "" {
		bePeer(kind)
		return
	}
	os.Exit(m.Run())
}

// peer is another process, which does what the test calls for.
type peer struct {
	t       testing.TB
	command *exec.Cmd
	client  *rpc.Client
	end     error // of the process
}

// startPeer starts a process. It must end without a leak when the test does,
// unless the test has killed it.
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

// close ends the process, which must not leak.
func (p *peer) close() {
	if p.command.ProcessState != nil {
		return
	}
	assert.NoError(p.t, p.call("Close", 0, nil), "the other process leaks")
	_ = p.client.Close()
	assert.NoError(p.t, p.command.Wait())
}

// kill ends the process as a crash does.
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

// call calls a method of Peer, for 10 s at most.
func (p *peer) call(method string, argument, reply any) error {
	select {
	case done := <-p.client.Go("Peer."+method, argument, reply, make(chan *rpc.Call, 1)).Done:
		return done.Error
	case <-time.After(10 * time.Second):
		return fmt.Errorf("%s hangs", method)
	}
}

// do is a call that must not fail.
func (p *peer) do(method string, argument any) {
	p.t.Helper()
	require.NoError(p.t, p.call(method, argument, nil), method)
}

type pipes struct {
	io.Reader
	io.WriteCloser
}

func bePeer(kind string) {
	p := &Peer{kind: kind, place: arrowbuf.CPU(), held: map[string][]arrow.RecordBatch{}, buffers: map[string]arrowbuf.Buffer{}}
	var err error
	if p.mount = mountProc(); p.mount == nil || kind != "cuda" {
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

// Peer is what the other process does.
type Peer struct {
	kind   string
	mount  error // why a process of a PID namespace of its own has no /proc of its own
	driver *cudabuf.Driver
	gpus   []*cudabuf.Device
	place  arrowbuf.Device

	client  *ipc.Client
	held    map[string][]arrow.RecordBatch
	buffers map[string]arrowbuf.Buffer

	catalog *ipc.Catalog
	server  *ipc.Server
	stream  *ipc.Stream
	pool    *cudabuf.SharedPool
}

// Ready tells whether there is what CUDA needs.
func (p *Peer) Ready(_ int, _ *int) error {
	if p.kind == "cuda" {
		return p.mount
	}
	return nil
}

func (p *Peer) openDevice() (err error) {
	switch p.kind {
	case "cpu":
		return nil
	case "cuda":
		p.driver, err = cudabuf.Open()
	default:
		p.driver = cudatest.New(cudatest.Config{})
	}
	if err != nil {
		return err
	}
	dev, err := p.driver.Device(0)
	p.gpus, p.place = []*cudabuf.Device{dev}, dev
	return err
}

func within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 5*time.Second)
}

// Dial is where to connect to, and how.
type Dial struct {
	Path       string
	Mechanisms handle.Mechanisms
	WithoutGPU bool
	Async      bool
	User       int // to become first
	DieAt      int // the frame at which the process kills itself, from 1
}

func (p *Peer) Dial(d Dial, _ *int) (err error) {
	ctx, cancel := within()
	defer cancel()
	o := ipc.DialOptions{Devices: p.gpus, Mechanisms: d.Mechanisms, Async: d.Async}
	if d.WithoutGPU {
		o.Devices = nil
	}
	if d.User > 0 {
		if err := syscall.Setuid(d.User); err != nil {
			return err
		}
	}
	if d.DieAt > 0 {
		between, err := interpose(d.Path, filepath.Join(filepath.Dir(d.Path), fmt.Sprint(os.Getpid())), func(n int) {
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

// Hang ends signs of life.
func (p *Peer) Hang(_ int, _ *int) error { return syscall.Kill(os.Getpid(), syscall.SIGSTOP) }

// Get gets a table, checks it, and answers where its batches are.
func (p *Peer) Get(name string, where *[]string) error {
	ctx, cancel := within()
	defer cancel()
	table, err := p.client.Table(ctx, name)
	if err != nil {
		return err
	}
	p.held[name] = append(p.held[name], table.Batches...)
	for i, b := range table.Batches {
		if err := check(name, uint64(i), b); err != nil {
			return err
		}
		*where = append(*where, arrowbuf.DeviceOf(b.Column(0)).String())
	}
	return nil
}

// Check looks at a table that is held again.
func (p *Peer) Check(name string, _ *int) error {
	for i, b := range p.held[name] {
		if err := check(name, uint64(i), b); err != nil {
			return err
		}
	}
	return nil
}

// Release gives a table or a buffer back.
func (p *Peer) Release(name string, _ *int) error {
	for _, b := range p.held[name] {
		b.Release()
	}
	delete(p.held, name)
	if b := p.buffers[name]; b != nil {
		b.Release()
		delete(p.buffers, name)
	}
	return nil
}

// Read gets a buffer and answers its bytes.
func (p *Peer) Read(name string, data *[]byte) error {
	ctx, cancel := within()
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

// Text gets the first batch of a table as JSON.
func (p *Peer) Text(name string, text *string) error {
	ctx, cancel := within()
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

// Follow is a stream to read, with a window.
type Follow struct {
	Name   string
	Window int
	Most   int // batches to take, 0 for all
}

// Follow reads a stream, checks its batches, and answers how many there were.
func (p *Peer) Follow(f Follow, n *int) error {
	ctx, cancel := within()
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
		err = check(f.Name, first+uint64(*n), b)
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

// Serve is where to serve, and whether what lies in a pool.
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
	return put(p.catalog, p.place, "table", 3, options...)
}

// toPool moves to a pool, if so, and answers how what lies there is published.
func (p *Peer) toPool(so bool) (options []ipc.PublishOption, err error) {
	if !so {
		return nil, nil
	}
	if p.pool, err = p.gpus[0].NewSharedPool(); err != nil {
		return nil, err
	}
	p.place = p.pool.AsDevice()
	return []ipc.PublishOption{ipc.ExposeAllocation()}, nil
}

// Write writes batches [0, n) to the stream when somebody subscribes.
func (p *Peer) Write(n int, _ *int) error {
	ctx, cancel := within()
	defer cancel()
	if err := p.stream.WaitSubscribers(ctx, 1); err != nil {
		return err
	}
	for i := range n {
		b, err := placed(p.place, "stream", uint64(i))
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

// ServeStuck serves a buffer that is never written to its end.
func (p *Peer) ServeStuck(path string, _ *int) error {
	b, err := p.gpus[0].NewBuffer(100)
	if err != nil {
		return err
	}
	stream, err := p.gpus[0].NewStream(cudabuf.StreamOptions{})
	if err != nil {
		return err
	}
	if err := stream.Do(func() { select {} }); err != nil {
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

// Close gives everything back but what the test has not released.
func (p *Peer) Close(_ int, _ *int) (err error) {
	if p.server != nil {
		err = p.server.Close()
		p.catalog.Close()
	}
	if p.client != nil {
		if n := len(p.client.Leases()); n > 0 {
			err = errors.Join(err, fmt.Errorf("%d leases are held", n))
		}
		err = errors.Join(err, p.client.Close())
	}
	if p.pool != nil {
		err = errors.Join(err, p.pool.Close())
	}
	if p.driver != nil {
		err = errors.Join(err, p.driver.Close())
	}
	return err
}
