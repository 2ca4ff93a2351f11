//go:build linux

package ipc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ipc"
	"github.com/quiver-gpu/quiver/ipc/handle"
)

// ways are those in which a machine's memory is shared.
func (m machine) ways() []handle.Mechanism {
	if m.dev == nil {
		return []handle.Mechanism{handle.Memory}
	}
	return append([]handle.Mechanism{handle.CUDAPool}, onGPU...)
}

// TestAClientDiesAtEachStep: at each message of an exchange the client is killed,
// before the message is passed on. The server gets everything back, and serves the
// next.
func TestAClientDiesAtEachStep(t *testing.T) {
	forEachMachine(t, func(t *testing.T, m machine) {
		for _, way := range m.ways() {
			t.Run(way.String(), func(t *testing.T) { clientDies(t, m, way) })
		}
	})
}

func clientDies(t *testing.T, m machine, way handle.Mechanism) {
	m = m.by(t, way)
	catalog, s := serve(t, ipc.ServerOptions{MaxIdleBytes: -1})
	stream, err := catalog.NewStream("stream", schema, ipc.StreamOptions{Options: m.options()})
	require.NoError(t, err)
	start := m.used(t)
	for step := 1; ; step++ {
		p := startPeer(t, m)
		require.NoError(t, put(catalog, m.place(), "table", 2, m.options()...))
		written := make(chan error, 1)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		go func() { written <- feed(ctx, m, catalog, stream) }()
		died := clientScript(p, s, catalog, Dial{Path: s.Path(), Mechanisms: only(way), DieAt: step})
		cancel()
		if err := <-written; err != nil {
			assert.ErrorIs(t, err, context.Canceled, "step %d", step)
		}
		if died != nil {
			p.wait()
		} else {
			p.close()
		}
		_ = catalog.Withdraw("table") // or the script has
		settles(t, fmt.Sprintf("all is given back after step %d", step), func() bool {
			stat := s.Stat()
			return len(stat.Clients) == 0 && len(stat.Blocks) == 0 && m.asMuch(t, start)
		})
		if died == nil {
			assert.Greater(t, step, 15, "the exchange has steps")
			return
		}
	}
}

// asMuch tells whether as much memory is in use as before, give or take, on a GPU,
// what contexts take that come and go.
func (m machine) asMuch(t *testing.T, before int64) bool {
	slack := 0.0
	if m.kind == "cuda" {
		slack = 64 << 20
	}
	return math.Abs(float64(m.used(t)-before)) <= slack
}

// feed writes two batches when somebody subscribes.
func feed(ctx context.Context, m machine, catalog *ipc.Catalog, stream *ipc.Stream) error {
	if err := stream.WaitSubscribers(ctx, 1); err != nil {
		return err
	}
	for range 2 {
		if err := writeNext(ctx, m, catalog, stream); err != nil {
			return err
		}
	}
	return nil
}

// writeNext writes the batch that is a stream's next.
func writeNext(ctx context.Context, m machine, catalog *ipc.Catalog, stream *ipc.Stream) error {
	for _, e := range catalog.List() {
		if e.Kind != ipc.KindStream {
			continue
		}
		b, err := placed(m.place(), e.Name, uint64(e.Batches))
		if err != nil {
			return err
		}
		defer b.Release()
		return stream.Write(ctx, b)
	}
	return ipc.ErrNotFound
}

// clientScript is an exchange with each kind of message. It answers why it ended
// before its end.
func clientScript(p *peer, s *ipc.Server, catalog *ipc.Catalog, d Dial) error {
	if err := p.call("Dial", d, nil); err != nil {
		return err
	}
	for _, step := range []struct {
		method   string
		argument any
	}{{"Get", "table"}, {"Check", "table"}, {"Release", "table"}, {"Get", "table"}, {"Follow", Follow{Name: "stream", Window: 1, Most: 2}}} {
		if err := p.call(step.method, step.argument, nil); err != nil {
			return err
		}
	}
	if err := catalog.Withdraw("table"); err != nil {
		return err
	}
	if err := p.call("Release", "table", nil); err != nil { // then FORGET comes
		return err
	}
	for end := time.Now().Add(5 * time.Second); len(s.Stat().Blocks) > 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		if len(s.Stat().Clients) == 0 {
			return errors.New("it died")
		}
	}
	return p.call("Held", 0, nil)
}

// TestAServerDiesAtEachStep: at each message the server is killed. The client's
// calls answer so, at once, and what it holds has its bytes until it lets go.
func TestAServerDiesAtEachStep(t *testing.T) {
	forEachMachine(t, func(t *testing.T, m machine) {
		for _, way := range m.ways() {
			t.Run(way.String(), func(t *testing.T) {
				for step := 1; serverDies(t, m, way, step); step++ {
					require.Less(t, step, 1000)
				}
			})
		}
	})
}

// serverDies tells whether the exchange has so many steps that the server died.
func serverDies(t *testing.T, m machine, way handle.Mechanism, step int) bool {
	p := startPeer(t, m)
	path := folder(t)
	p.do("Serve", Serve{path + "/s", way == handle.CUDAPool})
	var decided atomic.Bool // it dies, or it lives
	killed := make(chan struct{})
	between, err := interpose(path+"/s", path+"/between", func(n int) {
		if n == step && decided.CompareAndSwap(false, true) {
			p.kill()
			close(killed)
		}
	})
	require.NoError(t, err)
	begin := time.Now()
	err = serverScript(t, m, p, between, way)
	assert.Less(t, time.Since(begin), 5*time.Second, "step %d", step)
	if decided.CompareAndSwap(false, true) {
		require.NoError(t, err)
		return false
	}
	<-killed
	if err != nil { // it may have died behind the last call
		assert.ErrorIs(t, err, ipc.ErrServerGone, "step %d", step)
	}
	return true
}

// serverScript is an exchange with each kind of message. Its error is that of the
// first call that fails, after everything is released.
func serverScript(t *testing.T, m machine, p *peer, path string, way handle.Mechanism) error {
	ctx := soon(t)
	c, err := ipc.Dial(ctx, path, ipc.DialOptions{Devices: m.gpus(), Mechanisms: only(way)})
	if err != nil {
		return err
	}
	defer func() {
		assert.NoError(t, c.Close())
		assert.Empty(t, c.Leases())
	}()
	if _, err := c.List(ctx); err != nil {
		return err
	}
	table, err := c.Table(ctx, "table")
	if err != nil {
		return err
	}
	defer func() {
		for i, b := range table.Batches {
			if way != handle.CUDAIPC { // CUDA does not say what becomes of that
				assert.NoError(t, check("table", uint64(i), b))
			}
		}
		table.Release()
	}()
	again, err := c.Table(ctx, "table")
	if err != nil {
		return err
	}
	again.Release()
	if _, err := c.Stat(ctx); err != nil {
		return err
	}
	s, err := c.Stream(ctx, "stream", 2)
	if err != nil {
		return err
	}
	defer s.Close()
	go func() { _ = p.call("Write", 3, nil) }()
	for i := uint64(0); ; i++ {
		b, err := s.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		err = check("stream", i, b)
		b.Release()
		if err != nil {
			return err
		}
	}
	return c.Ping(ctx)
}

// TestAServerDiesWhileItWrites: a client that waits for nothing has work behind
// what is never written. It goes on when the server is gone.
func TestAServerDiesWhileItWrites(t *testing.T) {
	forEachGPU(t, func(t *testing.T, m machine) {
		p := startPeer(t, m)
		path := folder(t) + "/s"
		p.do("ServeStuck", path)
		c, err := ipc.Dial(soon(t), path, ipc.DialOptions{Devices: m.gpus(), Async: true})
		require.NoError(t, err)
		b, err := c.Buffer(soon(t), "buffer")
		require.NoError(t, err)
		copied, err := m.dev.NewBuffer(b.Len())
		require.NoError(t, err)
		stream, err := m.dev.NewStream(cudabuf.StreamOptions{})
		require.NoError(t, err)
		_, err = copied.CopyFromDeviceAsync(b, 0, stream)
		require.NoError(t, err)
		time.Sleep(50 * time.Millisecond)
		done, err := stream.Done()
		require.NoError(t, err)
		assert.False(t, done, "it is not written")
		require.NoError(t, c.Err())
		p.kill()
		settles(t, "the work goes on", func() bool {
			done, err := stream.Done()
			return done && err == nil
		})
		assert.ErrorIs(t, c.Err(), ipc.ErrServerGone)
		b.Release()
		copied.Release()
		require.NoError(t, stream.Close())
		require.NoError(t, c.Close())
	})
}

// TestRandomKills kills processes at random times while they share, for
// QUIVER_KILL_ROUNDS rounds; a few where that is not set.
func TestRandomKills(t *testing.T) {
	rounds := 10
	if n, err := strconv.Atoi(os.Getenv("QUIVER_KILL_ROUNDS")); err == nil {
		rounds = n
	}
	forEachMachine(t, func(t *testing.T, m machine) {
		start, files := m.used(t), openFiles(t)
		t.Run("clients", func(t *testing.T) { killClients(t, m, rounds) })
		t.Run("servers", func(t *testing.T) { killServers(t, m, (rounds+3)/4) })
		settles(t, "all memory is given back", func() bool { return m.asMuch(t, start) })
		if m.kind != "cuda" { // CUDA keeps some
			settles(t, "all files are closed", func() bool {
				runtime.GC()                   // the soft device closes those of events when nothing refers to them
				return openFiles(t) <= files+4 // the runtime's own
			})
		}
	})
}

// killClients kills readers, several at a time.
func killClients(t *testing.T, m machine, rounds int) {
	if m.dev != nil {
		m = m.by(t, handle.CUDAPool) // of which others get copies
	}
	catalog, s := serve(t, ipc.ServerOptions{MaxIdleBytes: 8 << 20})
	require.NoError(t, put(catalog, m.place(), "table", 3, m.options()...))
	stream, err := catalog.NewStream("stream", schema, ipc.StreamOptions{Options: m.options()})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	var writing sync.WaitGroup
	writing.Go(func() {
		for ctx.Err() == nil {
			if err := writeNext(ctx, m, catalog, stream); err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
				return
			}
			time.Sleep(200 * time.Microsecond)
		}
	})
	defer writing.Wait()
	defer stop()
	var killing sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(rounds))
	workers := 2
	if m.kind == "cuda" {
		workers = 4 // which wait for their processes to start
	}
	for worker := range workers {
		rng := rand.New(rand.NewPCG(uint64(rounds), uint64(worker)))
		ways := append(m.ways(), handle.Memory)
		killing.Go(func() {
			for left.Add(-1) >= 0 {
				p, err := tryPeer(t, m, nil)
				if !assert.NoError(t, err) {
					return
				}
				way := ways[rng.IntN(len(ways))]
				churned := make(chan error, 1)
				go func() { churned <- p.call("Churn", Dial{Path: s.Path(), Mechanisms: only(way)}, nil) }()
				select {
				case err := <-churned:
					t.Errorf("by %v: %v", way, err)
					p.kill()
					return
				case <-time.After(time.Duration(rng.Int64N(int64(m.warmup())))):
				}
				p.kill()
				<-churned
			}
		})
	}
	killing.Wait()
	settles(t, "the dead are noticed", func() bool { return len(s.Stat().Clients) == 0 })
	assert.Zero(t, leasesOf(s))
}

// warmup is how long a process of the machine takes to be in the middle of work,
// and half of that again.
func (m machine) warmup() time.Duration {
	if m.kind == "cuda" {
		return time.Second
	}
	return 60 * time.Millisecond
}

// Churn gets, checks and releases without an end.
func (p *Peer) Churn(d Dial, _ *int) error {
	if err := p.Dial(d, nil); err != nil {
		return err
	}
	for {
		if err := p.Get("table", new([]string)); err != nil {
			return err
		}
		if err := p.Follow(Follow{Name: "stream", Window: 3, Most: 5}, new(int)); err != nil {
			return err
		}
		if err := p.Check("table", nil); err != nil {
			return err
		}
		if err := p.Release("table", nil); err != nil {
			return err
		}
	}
}

// killServers kills writers that a client here reads.
func killServers(t *testing.T, m machine, rounds int) {
	rng := rand.New(rand.NewPCG(uint64(rounds), 7))
	path := folder(t) + "/s"
	for i := range rounds {
		p := startPeer(t, m)
		p.do("Serve", Serve{path, m.dev != nil && i%2 == 1})
		go func() { _ = p.call("WriteOn", 0, nil) }()
		killed := make(chan struct{})
		go func() {
			time.Sleep(time.Duration(rng.Int64N(int64(30 * time.Millisecond))))
			p.kill()
			close(killed)
		}()
		begin := time.Now()
		err := readOn(t, m, path)
		assert.ErrorIs(t, err, ipc.ErrServerGone)
		assert.Less(t, time.Since(begin), 5*time.Second)
		<-killed
	}
}

// WriteOn writes to the stream without an end.
func (p *Peer) WriteOn(_ int, _ *int) error {
	for i := uint64(0); ; i++ {
		b, err := placed(p.place, "stream", i)
		if err != nil {
			return err
		}
		err = p.stream.Write(context.Background(), b)
		b.Release()
		if err != nil {
			return err
		}
	}
}

// readOn reads until the server dies.
func readOn(t *testing.T, m machine, path string) error {
	ctx := soon(t)
	c, err := ipc.Dial(ctx, path, ipc.DialOptions{Devices: m.gpus()})
	if err != nil {
		return err
	}
	defer func() { assert.NoError(t, c.Close()) }()
	s, err := c.Stream(ctx, "stream", 4)
	if err != nil {
		return err
	}
	defer s.Close()
	var i uint64
	for first := true; ; first = false {
		b, err := s.Next(ctx)
		if err != nil {
			return err
		}
		if first {
			i = c.Leases()[0].Sequence
		}
		err = check("stream", i, b)
		b.Release()
		if err != nil {
			return err
		}
		i++
	}
}
