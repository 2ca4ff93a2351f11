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

// ServerOptions configures a server. The zero value serves processes of the same
// user.
type ServerOptions struct {
	// AllowUIDs lists the user ids that may connect; nil means the server's own.
	// The socket file has mode 0600: for other users the caller must change it.
	AllowUIDs []uint32
	// KeepAliveTimeout ends the connection and the leases of a client that sends
	// nothing for this long. Clients of this package send PING often enough. 0
	// means no limit. The death of a client is noticed at once in any case.
	KeepAliveTimeout time.Duration
	// MaxLeaseTime ends the connection of a client that holds a lease for longer,
	// and with it all of the client's leases; the client gets ErrLeaseExpired.
	// The time of a table's leases starts when the whole table is sent, that of a
	// stream's lease when its batch is sent. 0 means no limit.
	MaxLeaseTime time.Duration
	// MaxIdleBytes bounds the unused shared memory that is kept for later
	// batches. 0 means 256 MiB; a negative value keeps none.
	MaxIdleBytes int64

	peerTimeout time.Duration // 0 means defaultPeerTimeout
}

// Server serves a catalog on a Unix socket. Its methods may be called from any
// goroutine.
type Server struct {
	catalog    *Catalog
	options    ServerOptions
	self       handle.Process
	instance   [16]byte
	listener   *net.UnixListener
	ctx        context.Context // done when the server closes
	cancel     context.CancelFunc
	goroutines sync.WaitGroup
	blocks     blockRegistry

	mu          sync.Mutex
	conns       map[*serverConn]struct{}
	exports     map[*export]*object
	copyStreams map[*cudabuf.Device]*cudabuf.Stream
	closed      bool
}

const (
	defaultMaxIdleBytes = 256 << 20
	// defaultPeerTimeout bounds the time until a peer sends HELLO, and the time
	// of a write to a peer.
	defaultPeerTimeout = 5 * time.Second
	// maxUnsentBytes bounds the control messages that wait for a peer to read
	// them.
	maxUnsentBytes = 64 << 20
)

// instances maps the instance of each server of this process to the server.
// Clients in the same process look their server up here.
var instances sync.Map // [16]byte -> *Server

// Serve serves a catalog on a Unix socket at path until Close. It replaces a
// socket file if no process listens on it. The error wraps arrow.ErrInvalid if
// the catalog is nil.
func Serve(path string, catalog *Catalog, o ServerOptions) (*Server, error) {
	if catalog == nil {
		return nil, fmt.Errorf("ipc.Serve: socket %s: nil catalog: %w", path, arrow.ErrInvalid)
	}
	self, err := handle.Self()
	if err != nil {
		return nil, err
	}
	if o.AllowUIDs == nil {
		o.AllowUIDs = []uint32{uint32(os.Getuid())}
	}
	if o.MaxIdleBytes == 0 {
		o.MaxIdleBytes = defaultMaxIdleBytes
	}
	if o.peerTimeout == 0 {
		o.peerTimeout = defaultPeerTimeout
	}
	listener, err := unixsocket.Listen(path)
	if err != nil {
		return nil, fmt.Errorf("ipc.Serve: socket %s: %w", path, err)
	}
	s := &Server{
		catalog: catalog, options: o, self: self, listener: listener,
		blocks: blockRegistry{maxIdleBytes: o.MaxIdleBytes, byID: map[uint64]*block{}, partial: map[blockKey]*block{}, pools: map[*cudabuf.SharedPool]*exportedPool{}},
		conns:  map[*serverConn]struct{}{}, exports: map[*export]*object{}, copyStreams: map[*cudabuf.Device]*cudabuf.Stream{},
	}
	_, _ = rand.Read(s.instance[:]) // never fails
	s.ctx, s.cancel = context.WithCancel(context.Background())
	instances.Store(s.instance, s)
	s.goroutines.Go(s.accept)
	if o.MaxLeaseTime > 0 {
		s.goroutines.Go(s.enforceLeaseTime)
	}
	return s, nil
}

// ListenAndServe is [Serve] until ctx is done. It returns the error of Serve or of
// Server.Close.
func ListenAndServe(ctx context.Context, path string, catalog *Catalog, o ServerOptions) error {
	server, err := Serve(path, catalog, o)
	if err != nil {
		return err
	}
	<-ctx.Done()
	return server.Close()
}

// Path returns the path of the server's socket.
func (s *Server) Path() string { return s.listener.Addr().String() }

func (s *Server) accept() {
	for {
		unix, err := s.listener.AcceptUnix()
		if err != nil {
			if s.ctx.Err() != nil {
				return
			}
			time.Sleep(10 * time.Millisecond) // perhaps no file descriptor is free
			continue
		}
		c := newServerConn(s, unix)
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			c.out.Abort(ErrClosed)
			return
		}
		s.conns[c] = struct{}{}
		s.goroutines.Go(c.serve)
		s.mu.Unlock()
	}
}

// connections returns the open connections.
func (s *Server) connections() []*serverConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.conns))
}

// allowed reports whether a user may connect.
func (s *Server) allowed(uid uint32) bool { return slices.Contains(s.options.AllowUIDs, uid) }

// copyStream returns the stream on which dev copies into shared memory.
func (s *Server) copyStream(dev *cudabuf.Device) (*cudabuf.Stream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stream := s.copyStreams[dev]; stream != nil {
		return stream, nil
	}
	if s.closed {
		return nil, ErrClosed
	}
	stream, err := dev.NewStream(cudabuf.StreamOptions{})
	if err == nil {
		s.copyStreams[dev] = stream
	}
	return stream, err
}

// registerExport records an export, so that Close releases it.
func (s *Server) registerExport(o *object, ex *export) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("ipc.Server: server at %s: %w", s.Path(), ErrClosed)
	}
	s.exports[ex] = o
	return nil
}

// unregisterExport removes and releases an export whose object is released.
func (s *Server) unregisterExport(ex *export) {
	s.mu.Lock()
	delete(s.exports, ex)
	s.mu.Unlock()
	ex.release()
}

// Close ends all connections and leases, removes the socket file and releases the
// shared memory. The catalog stays open. Clients keep their memory mapped. For
// memory shared by CUDA IPC handles or pools, CUDA does not define what they then
// read; see Shutdown. A second Close does nothing.
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
		err = nil // Shutdown closed the listener
	}
	for _, c := range s.connections() {
		s.goroutines.Go(func() { c.close(fmt.Errorf("ipc.Server: the server is closing: %w", ErrServerGone)) })
	}
	s.goroutines.Wait()
	instances.Delete(s.instance)
	s.mu.Lock()
	forms := s.exports
	s.exports = nil
	s.mu.Unlock()
	for f, o := range forms {
		if o.removeExport(f) {
			f.release()
		}
	}
	s.blocks.close()
	for _, stream := range s.copyStreams {
		err = errors.Join(err, stream.Close())
	}
	return err
}

// Stat returns the clients with their leases, and the shared blocks.
func (s *Server) Stat() Stats { return statsOf(s.statsMessage()) }

func (s *Server) statsMessage() wire.StatsMessage {
	conns := s.connections()
	var stats wire.StatsMessage
	s.blocks.withLock(func() {
		for _, c := range conns {
			if c.welcomed {
				stats.Clients = append(stats.Clients, c.stat())
			}
		}
		for _, b := range s.blocks.byID {
			stats.Blocks = append(stats.Blocks, wire.BlockStat{
				Block: b.id, Size: b.size, Mechanism: b.mechanism, Device: b.device(),
				Leases: uint32(b.leases), Clients: uint32(len(b.clients)),
			})
		}
	})
	slices.SortFunc(stats.Blocks, func(a, b wire.BlockStat) int { return int(a.Block) - int(b.Block) })
	slices.SortFunc(stats.Clients, func(a, b wire.ClientStat) int { return a.Connected.Compare(b.Connected) })
	return stats
}
