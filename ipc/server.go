package ipc

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ipc/handle"
	"github.com/quiver-gpu/quiver/ipc/internal/unixsocket"
	"github.com/quiver-gpu/quiver/ipc/internal/wire"
)

// ServerOptions says how to serve. The zero value serves processes of the same
// user.
type ServerOptions struct {
	// Allow are the users that may connect, by number; the process's own where it
	// is nil. The socket's file is of mode 0600: for others to reach it, the
	// caller changes that.
	Allow []uint32
	// Silence ends the leases of a client, and its connection, from which nothing
	// came for so long: it hangs. Clients of this package say so often enough that
	// they live. 0 is no limit; a client that dies is noticed at once anyway.
	Silence time.Duration
	// LeaseLimit ends the connection of a client that holds a batch or buffer for
	// longer, although it lives, and with it all that it holds; it gets
	// ErrLeaseExpired. Batches of a table count from when all of it is sent, those
	// of a stream each from when it is. 0 is no limit.
	LeaseLimit time.Duration
	// IdleLimit bounds the shared memory that is kept for later batches, in
	// bytes: 256 MiB where it is 0, none where it is negative.
	IdleLimit int64

	patience time.Duration // patience where it is 0
}

// Server offers a catalog over a Unix socket. It may be used from any goroutine.
type Server struct {
	catalog  *Catalog
	o        ServerOptions
	self     handle.Process
	instance [16]byte
	listener *net.UnixListener
	ctx      context.Context // ends with the server
	cancel   context.CancelFunc
	work     sync.WaitGroup
	store    store

	mu      sync.Mutex
	conns   map[*conn]struct{}
	forms   map[*form]*item
	streams map[*cudabuf.Device]*cudabuf.Stream
	closed  bool
}

const (
	defaultIdle = 256 << 20
	// patience is how long a peer may take to say HELLO, or to take what it is
	// sent.
	patience = 5 * time.Second
	// unread is how many bytes of control messages may wait for a peer.
	unread = 64 << 20
)

// instances are the servers of this process, by which clients in it find them.
var instances sync.Map // [16]byte -> *Server

// Serve offers a catalog on a Unix socket at a path, until Close. A file of a
// socket that nobody serves is replaced.
func Serve(path string, catalog *Catalog, o ServerOptions) (*Server, error) {
	if catalog == nil {
		return nil, fmt.Errorf("serving shared columns at %s: there is no catalog: %w", path, arrow.ErrInvalid)
	}
	self, err := handle.Self()
	if err != nil {
		return nil, err
	}
	if o.Allow == nil {
		o.Allow = []uint32{uint32(os.Getuid())}
	}
	if o.IdleLimit == 0 {
		o.IdleLimit = defaultIdle
	}
	if o.patience == 0 {
		o.patience = patience
	}
	listener, err := unixsocket.Listen(path)
	if err != nil {
		return nil, fmt.Errorf("serving shared columns at %s: %w", path, err)
	}
	s := &Server{
		catalog: catalog, o: o, self: self, listener: listener,
		store: store{idleLimit: o.IdleLimit, blocks: map[uint64]*block{}, open: map[place]*block{}, pools: map[*cudabuf.SharedPool]*exportedPool{}},
		conns: map[*conn]struct{}{}, forms: map[*form]*item{}, streams: map[*cudabuf.Device]*cudabuf.Stream{},
	}
	_, _ = rand.Read(s.instance[:]) // never fails
	s.ctx, s.cancel = context.WithCancel(context.Background())
	instances.Store(s.instance, s)
	s.work.Go(s.accept)
	if o.LeaseLimit > 0 {
		s.work.Go(s.expire)
	}
	return s, nil
}

// Path is where the server listens.
func (s *Server) Path() string { return s.listener.Addr().String() }

func (s *Server) accept() {
	for {
		unix, err := s.listener.AcceptUnix()
		if err != nil {
			if s.ctx.Err() != nil {
				return
			}
			time.Sleep(10 * time.Millisecond) // no descriptor is free, say
			continue
		}
		c := newConn(s, unix)
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			c.out.Abort(ErrClosed)
			return
		}
		s.conns[c] = struct{}{}
		s.work.Go(c.serve)
		s.mu.Unlock()
	}
}

// clients are the connections that there are.
func (s *Server) clients() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.conns))
}

// allowed tells whether a user may connect.
func (s *Server) allowed(uid uint32) bool { return slices.Contains(s.o.Allow, uid) }

// stream is what a GPU copies on.
func (s *Server) stream(dev *cudabuf.Device) (*cudabuf.Stream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stream := s.streams[dev]; stream != nil {
		return stream, nil
	}
	if s.closed {
		return nil, ErrClosed
	}
	stream, err := dev.NewStream(cudabuf.StreamOptions{})
	if err == nil {
		s.streams[dev] = stream
	}
	return stream, err
}

// keep remembers a form, to let go of it with the server.
func (s *Server) keep(it *item, f *form) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("server at %s: %w", s.Path(), ErrClosed)
	}
	s.forms[f] = it
	return nil
}

// drop forgets a form that has no item any more.
func (s *Server) drop(f *form) {
	s.mu.Lock()
	delete(s.forms, f)
	s.mu.Unlock()
	f.release()
}

// Shutdown withdraws nothing, but takes no new clients, and waits until those
// that there are hold nothing. Then it is Close. When ctx ends first, it closes
// all the same and returns its error.
func (s *Server) Shutdown(ctx context.Context) error {
	_ = s.listener.Close()
	for tick := time.NewTicker(5 * time.Millisecond); ; {
		if s.leases() == 0 {
			tick.Stop()
			return s.Close()
		}
		select {
		case <-ctx.Done():
			tick.Stop()
			return errors.Join(ctx.Err(), s.Close())
		case <-tick.C:
		}
	}
}

func (s *Server) leases() (n int) {
	s.store.do(func() {
		for _, b := range s.store.blocks {
			n += b.leases
		}
	})
	return n
}

// Close ends all connections, and with them all leases, removes the socket's file
// and gives shared memory back. The catalog stays the caller's. What clients hold
// they keep mapped; of memory that CUDA's own handles or pools share, CUDA does not say
// what becomes then: see Shutdown. A second Close does nothing.
func (s *Server) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	err := s.listener.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil // by Shutdown
	}
	for _, c := range s.clients() {
		s.work.Go(func() { c.end(fmt.Errorf("the server is closing: %w", ErrServerGone)) })
	}
	s.work.Wait()
	instances.Delete(s.instance)
	s.mu.Lock()
	forms := s.forms
	s.forms = nil
	s.mu.Unlock()
	for f, it := range forms {
		if it.disown(f) {
			f.release()
		}
	}
	s.store.close()
	for _, stream := range s.streams {
		err = errors.Join(err, stream.Close())
	}
	return err
}

// Stats says what is shared, and who holds what.
type Stats = wire.StatsMessage

// Stat says what is shared, and who holds what.
func (s *Server) Stat() Stats {
	conns := s.clients()
	var stats Stats
	s.store.do(func() {
		for _, c := range conns {
			if c.welcomed {
				stats.Clients = append(stats.Clients, c.stat())
			}
		}
		for _, b := range s.store.blocks {
			stats.Blocks = append(stats.Blocks, wire.BlockStat{
				Block: b.id, Size: b.size, Mechanism: b.mechanism, Device: b.device(),
				Leases: uint32(b.leases), Clients: uint32(len(b.known)),
			})
		}
	})
	slices.SortFunc(stats.Blocks, func(a, b wire.BlockStat) int { return int(a.Block) - int(b.Block) })
	slices.SortFunc(stats.Clients, func(a, b wire.ClientStat) int { return a.Connected.Compare(b.Connected) })
	return stats
}

// expire ends the connections of clients that hold something for longer than the
// server lets them. One may hold it a quarter of that longer.
func (s *Server) expire() {
	tick := time.NewTicker(max(s.o.LeaseLimit/4, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
			for c, err := range s.overdue() {
				s.work.Go(func() { c.end(err) })
			}
		}
	}
}

// overdue are clients that hold something for too long, each once, and what.
func (s *Server) overdue() map[*conn]error {
	found := map[*conn]error{}
	conns := s.clients()
	s.store.do(func() {
		for _, c := range conns {
			for number, l := range c.leases {
				if held := time.Since(l.counted); !l.counted.IsZero() && held > s.o.LeaseLimit && !c.expired {
					c.expired = true
					found[c] = fmt.Errorf("lease %d, batch %d of %q, held for %v, at most %v expected: %w",
						number, l.sequence, l.form.name, held.Round(time.Millisecond), s.o.LeaseLimit, ErrLeaseExpired)
				}
			}
		}
	})
	return found
}
