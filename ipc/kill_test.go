//go:build linux

package ipc_test

import (
	"context"
	"errors"
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

	"github.com/quiver-gpu/quiver/ipc"
	"github.com/quiver-gpu/quiver/ipc/handle"
)

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
	catalog, s := serve(t, ipc.ServerOptions{IdleLimit: 8 << 20})
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
			i = c.Held()[0].Sequence
		}
		err = check("stream", i, b)
		b.Release()
		if err != nil {
			return err
		}
		i++
	}
}
