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
	"github.com/quiver-gpu/quiver/ipc/internal/ipctest"
)

// mechanisms returns the mechanisms for the machine's memory.
func (m machine) mechanisms() []handle.Mechanism {
	if m.dev == nil {
		return []handle.Mechanism{handle.Memory}
	}
	return append([]handle.Mechanism{handle.CUDAPool}, onGPU...)
}

// At each frame of an exchange the client is killed before the frame is passed
// on. The server must release everything and serve the next client.
func TestServerSurvivesClientDeathAtEachFrame(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	forEachMachine(t, func(t *testing.T, m machine) {
		for _, way := range m.mechanisms() {
			t.Run(way.String(), func(t *testing.T) { killClientAtEachFrame(t, m, way) })
		}
	})
}

func killClientAtEachFrame(t *testing.T, m machine, way handle.Mechanism) {
	m = m.withMechanism(t, way)
	catalog, s := ipctest.Serve(t, ipc.ServerOptions{MaxIdleBytes: -1})
	stream, err := catalog.NewStream("stream", schema, ipc.StreamOptions{Options: m.options()})
	require.NoError(t, err)
	start := m.memoryUsed(t)
	for step := 1; ; step++ {
		p := startPeer(t, m)
		require.NoError(t, publishFixtures(catalog, m.device(), "table", 2, m.options()...))
		written := make(chan error, 1)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		go func() { written <- writeTwo(ctx, m, catalog, stream) }()
		died := clientScript(p, s, catalog, Dial{Path: s.Path(), Mechanisms: onlyMechanism(way), DieAt: step})
		cancel()
		if err := <-written; err != nil {
			assert.ErrorIs(t, err, context.Canceled, "step %d", step)
		}
		if died != nil {
			p.wait()
		} else {
			p.close()
		}
		_ = catalog.Withdraw("table") // the script may have withdrawn it
		eventually(t, fmt.Sprintf("all memory is released after step %d", step), func() bool {
			stat := s.Stat()
			return len(stat.Clients) == 0 && len(stat.Blocks) == 0 && m.memoryRestored(t, start)
		})
		if died == nil {
			assert.Greater(t, step, 15, "the exchange has steps")
			return
		}
	}
}

// memoryRestored reports whether as much memory is in use as before. On a GPU it
// allows for the memory of contexts that come and go.
func (m machine) memoryRestored(t *testing.T, before int64) bool {
	slack := 0.0
	if m.kind == "cuda" {
		slack = 64 << 20
	}
	return math.Abs(float64(m.memoryUsed(t)-before)) <= slack
}

// writeTwo writes two batches when the stream has a subscriber.
func writeTwo(ctx context.Context, m machine, catalog *ipc.Catalog, stream *ipc.Stream) error {
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

// writeNext writes the next batch of the catalog's stream.
func writeNext(ctx context.Context, m machine, catalog *ipc.Catalog, stream *ipc.Stream) error {
	for _, e := range catalog.List() {
		if e.Kind != ipc.KindStream {
			continue
		}
		b, err := fixtureOn(m.device(), e.Name, uint64(e.Batches))
		if err != nil {
			return err
		}
		defer b.Release()
		return stream.Write(ctx, b)
	}
	return ipc.ErrNotFound
}

// clientScript runs an exchange with each kind of frame. It returns the first
// error.
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
			return errors.New("the client died")
		}
	}
	return p.call("Held", 0, nil)
}

// At each frame of an exchange the server is killed. The client's calls must fail
// at once, and its batches must keep their bytes until they are released.
func TestClientSurvivesServerDeathAtEachFrame(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	forEachMachine(t, func(t *testing.T, m machine) {
		for _, way := range m.mechanisms() {
			t.Run(way.String(), func(t *testing.T) {
				for step := 1; killServerAtFrame(t, m, way, step); step++ {
					require.Less(t, step, 1000)
				}
			})
		}
	})
}

// killServerAtFrame reports whether the exchange has enough frames for the server
// to be killed.
func killServerAtFrame(t *testing.T, m machine, way handle.Mechanism, step int) bool {
	p := startPeer(t, m)
	path := ipctest.TempDir(t)
	p.mustCall("Serve", Serve{path + "/s", way == handle.CUDAPool})
	var decided atomic.Bool // whether the server is killed or survives
	killed := make(chan struct{})
	between, err := relay(path+"/s", path+"/between", func(n int) {
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
	if err != nil { // the server may have died after the last call
		assert.ErrorIs(t, err, ipc.ErrServerGone, "step %d", step)
	}
	return true
}

// serverScript runs an exchange with each kind of frame. It releases everything
// and returns the first error.
func serverScript(t *testing.T, m machine, p *peer, path string, way handle.Mechanism) error {
	ctx := shortContext(t)
	c, err := ipc.Dial(ctx, path, ipc.DialOptions{Devices: m.gpus(), Mechanisms: onlyMechanism(way)})
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
			if way != handle.CUDAIPC { // CUDA does not define the contents after the server's death
				assert.NoError(t, checkFixture("table", uint64(i), b))
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
		err = checkFixture("stream", i, b)
		b.Release()
		if err != nil {
			return err
		}
	}
	return c.Ping(ctx)
}

// An Async client has work that waits for a write. If the server is killed, the
// work must continue.
func TestWorkContinuesAfterServerDiesDuringWrite(t *testing.T) {
	forEachGPU(t, func(t *testing.T, m machine) {
		p := startPeer(t, m)
		path := ipctest.TempDir(t) + "/s"
		p.mustCall("ServeStuck", path)
		c, err := ipc.Dial(shortContext(t), path, ipc.DialOptions{Devices: m.gpus(), Async: true})
		require.NoError(t, err)
		b, err := c.Buffer(shortContext(t), "buffer")
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
		assert.False(t, done, "the buffer is not written yet")
		require.NoError(t, c.Err())
		p.kill()
		eventually(t, "the work continues", func() bool {
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

// TestRandomKills kills processes at random times while they share memory, for
// QUIVER_KILL_ROUNDS rounds; 10 if that is not set.
func TestRandomKills(t *testing.T) {
	rounds := 10
	if n, err := strconv.Atoi(os.Getenv("QUIVER_KILL_ROUNDS")); err == nil {
		rounds = n
	}
	forEachMachine(t, func(t *testing.T, m machine) {
		start, files := m.memoryUsed(t), openFiles(t)
		t.Run("clients", func(t *testing.T) { killClients(t, m, rounds) })
		t.Run("servers", func(t *testing.T) { killServers(t, m, (rounds+3)/4) })
		eventually(t, "all memory is released", func() bool { return m.memoryRestored(t, start) })
		if m.kind != "cuda" { // CUDA keeps some open
			eventually(t, "all files are closed", func() bool {
				runtime.GC()                   // the simulated device closes files of events when they are collected
				return openFiles(t) <= files+4 // the runtime opens some
			})
		}
	})
}

// killClients kills readers, several at a time.
func killClients(t *testing.T, m machine, rounds int) {
	if m.dev != nil {
		m = m.withMechanism(t, handle.CUDAPool) // clients without this mechanism get copies
	}
	catalog, s := ipctest.Serve(t, ipc.ServerOptions{MaxIdleBytes: 8 << 20})
	require.NoError(t, publishFixtures(catalog, m.device(), "table", 3, m.options()...))
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
		workers = 4 // most of the time they wait for processes to start
	}
	for worker := range workers {
		rng := rand.New(rand.NewPCG(uint64(rounds), uint64(worker)))
		ways := append(m.mechanisms(), handle.Memory)
		killing.Go(func() {
			for left.Add(-1) >= 0 {
				p, err := tryPeer(t, m, nil)
				if !assert.NoError(t, err) {
					return
				}
				way := ways[rng.IntN(len(ways))]
				churned := make(chan error, 1)
				go func() { churned <- p.call("Churn", Dial{Path: s.Path(), Mechanisms: onlyMechanism(way)}, nil) }()
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
	eventually(t, "the deaths are noticed", func() bool { return len(s.Stat().Clients) == 0 })
	assert.Zero(t, leasesOf(s))
}

// warmup returns 1.5 times the time that a process needs to get to the middle of
// its work.
func (m machine) warmup() time.Duration {
	if m.kind == "cuda" {
		return time.Second
	}
	return 60 * time.Millisecond
}

// Churn reads, checks and releases in an endless loop.
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

// killServers kills writers while a client in this process reads.
func killServers(t *testing.T, m machine, rounds int) {
	rng := rand.New(rand.NewPCG(uint64(rounds), 7))
	path := ipctest.TempDir(t) + "/s"
	for i := range rounds {
		p := startPeer(t, m)
		p.mustCall("Serve", Serve{path, m.dev != nil && i%2 == 1})
		go func() { _ = p.call("WriteForever", 0, nil) }()
		killed := make(chan struct{})
		go func() {
			time.Sleep(time.Duration(rng.Int64N(int64(30 * time.Millisecond))))
			p.kill()
			close(killed)
		}()
		begin := time.Now()
		err := readUntilError(t, m, path)
		assert.ErrorIs(t, err, ipc.ErrServerGone)
		assert.Less(t, time.Since(begin), 5*time.Second)
		<-killed
	}
}

// WriteForever writes to the stream in an endless loop.
func (p *Peer) WriteForever(_ int, _ *int) error {
	for i := uint64(0); ; i++ {
		b, err := fixtureOn(p.device, "stream", i)
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

// readUntilError reads until the server dies.
func readUntilError(t *testing.T, m machine, path string) error {
	ctx := shortContext(t)
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
		err = checkFixture("stream", i, b)
		b.Release()
		if err != nil {
			return err
		}
		i++
	}
}
