//go:build linux

package ipc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
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
	catalog, s := serve(t, ipc.ServerOptions{IdleLimit: -1})
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
		assert.Empty(t, c.Held())
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
