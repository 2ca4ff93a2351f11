package dissociated

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ipc/internal/unixsocket"
)

const (
	// The tags of this package's servers.
	wantData Tag = 1
	freeData Tag = 2
	// maxIdentifier is the maximum length of a stream's identifier.
	maxIdentifier = 4 << 10
	// handshakeTimeout bounds the time until a client has sent its identifier on
	// both connections.
	handshakeTimeout = 10 * time.Second
)

// Server sends streams to the clients that request them.
type Server struct {
	// Metadata and Data are the listeners for the two kinds of messages; see
	// Listen. Data is nil if both use one connection. Serve closes them.
	Metadata, Data net.Listener
	// Open returns the batches of the stream with the given identifier; the
	// server releases the reader. ipc.Catalog.Reader is such a function. An error
	// ends the client's connections, since the protocol has no error message. The
	// server pairs a client's two connections by their identifier, and by the
	// client's process if the kernel reports it. Clients of one process that send
	// the same identifier at the same time must therefore want the same batches.
	Open func(ctx context.Context, identifier []byte) (array.RecordReader, error)
	// Window, if not nil, makes the server send bodies as locations; see
	// SendOptions. Clients must then be on the same machine.
	Window *Window
	// AllowUIDs lists the user ids that may connect through Unix domain sockets;
	// nil means the process's own. On systems other than Linux the credentials of
	// a peer are unknown, and only the modes of the socket files protect the
	// server.
	AllowUIDs []uint32
	// OnError, if not nil, is called with the error of each stream that failed.
	// It is called from several goroutines.
	OnError func(error)

	pairing pairing
}

// Endpoint returns the parameters that clients need.
func (s *Server) Endpoint() Endpoint {
	e := Endpoint{WantData: wantData}
	if s.Window != nil {
		free := freeData
		e.FreeData, e.RemoteHandle = &free, s.Window.RemoteHandle()
	}
	return e
}

// URIs returns the URIs of the two connections, such as
// unix:/run/a.sock?want_data=1. data is nil if both use one connection.
func (s *Server) URIs() (metadata, data *url.URL) {
	if s.Metadata == nil {
		return nil, nil
	}
	if s.Data != nil {
		data = s.uri(s.Data.Addr())
	}
	return s.uri(s.Metadata.Addr()), data
}

func (s *Server) uri(address net.Addr) *url.URL {
	u := &url.URL{Scheme: address.Network(), Host: address.String()}
	if address.Network() == "unix" {
		u = &url.URL{Scheme: "unix", Path: address.String()}
	}
	s.Endpoint().AddTo(u)
	return u
}

// Serve accepts clients until ctx is done, which ends their streams, or until
// accepting fails. It returns when all sending has stopped. Locations in the
// Window stay in use until clients free them or are gone. It returns nil if ctx
// is done, otherwise the error of accepting.
func (s *Server) Serve(ctx context.Context) error {
	if s.Metadata == nil || s.Open == nil {
		return fmt.Errorf("dissociated.Server.Serve: nil listener or Open: %w", arrow.ErrInvalid)
	}
	s.pairing.waiting = map[string][]*unpairedConn{}
	serving, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	accept := func(from net.Listener, metadata bool) {
		stop := context.AfterFunc(serving, func() { _ = from.Close() })
		defer stop()
		for {
			stream, err := from.Accept()
			if err != nil {
				cancel(errors.Join(err, from.Close()))
				return
			}
			all.Go(func() {
				if err := s.serve(serving, stream, metadata); err != nil && s.OnError != nil {
					s.OnError(err)
				}
			})
		}
	}
	all.Go(func() { accept(s.Metadata, true) })
	if s.Data != nil {
		all.Go(func() { accept(s.Data, false) })
	}
	all.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return context.Cause(serving)
}

// serve handles one connection of a client. The metadata connection sends the
// stream when both connections are there.
func (s *Server) serve(ctx context.Context, stream net.Conn, metadata bool) error {
	conn := NewConn(stream)
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	process, err := s.authorize(stream)
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	_ = stream.SetReadDeadline(time.Now().Add(handshakeTimeout))
	identifier, err := readIdentifier(conn)
	if err == nil {
		err = stream.SetReadDeadline(time.Time{})
	}
	if err != nil {
		return errors.Join(fmt.Errorf("dissociated.Server: no request for a stream: %w", err), conn.Close())
	}
	link := Link{conn, conn}
	if s.Data != nil {
		unpaired := &unpairedConn{conn: conn, stream: stream, metadata: metadata, paired: make(chan struct{})}
		if link, err = s.pairing.pair(ctx, fmt.Sprintf("%d %s", process, identifier), unpaired); err != nil || link == (Link{}) {
			return err
		}
	}
	stop() // Send decides when to close
	if err := s.send(ctx, link, identifier); err != nil {
		return fmt.Errorf("dissociated.Server: stream %q: %w", identifier, err)
	}
	return nil
}

func (s *Server) send(ctx context.Context, link Link, identifier []byte) error {
	batches, err := s.Open(ctx, identifier)
	if err != nil {
		return errors.Join(err, link.Close())
	}
	defer batches.Release()
	return Send(ctx, link, batches, SendOptions{Window: s.Window, FreeData: freeData})
}

// readIdentifier waits for the want_data message and returns its identifier.
func readIdentifier(conn Conn) ([]byte, error) {
	m, err := conn.Receive(func(tag *Tag, n int64) (arrowbuf.Buffer, error) {
		if tag == nil || *tag != wantData {
			return nil, fmt.Errorf("%w: the tag of the first message: want want_data, %d", ErrProtocol, wantData)
		}
		return allocateHostBuffer(n, maxIdentifier)
	})
	if err != nil {
		return nil, err
	}
	identifier, _ := arrowbuf.HostBytes(m.Body)
	return identifier, nil
}

// pairing matches the two connections of each client.
type pairing struct {
	mu      sync.Mutex
	waiting map[string][]*unpairedConn // by identifier and process
}

// unpairedConn is a connection that waits for the client's other one.
type unpairedConn struct {
	conn     Conn
	stream   net.Conn
	metadata bool
	paired   chan struct{}
}

// closedByPeer reports whether the client has closed the connection, so that it
// must not be paired with another client's.
func (h *unpairedConn) closedByPeer() bool {
	socket, ok := h.stream.(syscall.Conn)
	return ok && unixsocket.Closed(socket)
}

// pair waits for the client's other connection. The later connection gets the
// link; the earlier one gets an empty link. A connection is closed if no other
// arrives in time.
func (p *pairing) pair(ctx context.Context, key string, conn *unpairedConn) (Link, error) {
	if other := p.match(key, conn); other != nil {
		defer close(other.paired)
		if conn.metadata {
			return Link{Metadata: conn.conn, Data: other.conn}, nil
		}
		return Link{Metadata: other.conn, Data: conn.conn}, nil
	}
	var err error
	select {
	case <-conn.paired:
		return Link{}, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-time.After(handshakeTimeout):
		err = fmt.Errorf("%w: the client opened only one connection", ErrPeerGone)
	}
	if !p.cancel(key, conn) {
		return Link{}, nil // paired at the last moment
	}
	return Link{}, errors.Join(err, conn.conn.Close())
}

// match removes and returns the waiting connection that belongs to conn. If none
// does, it adds conn to the waiting ones and returns nil.
func (p *pairing) match(key string, conn *unpairedConn) *unpairedConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, other := range p.waiting[key] {
		if other.metadata != conn.metadata && !other.closedByPeer() {
			p.remove(key, i)
			return other
		}
	}
	p.waiting[key] = append(p.waiting[key], conn)
	return nil
}

// cancel removes a waiting connection. It returns false if the connection has
// been paired.
func (p *pairing) cancel(key string, conn *unpairedConn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, other := range p.waiting[key] {
		if other == conn {
			p.remove(key, i)
			return true
		}
	}
	return false
}

func (p *pairing) remove(key string, i int) {
	all := p.waiting[key]
	if p.waiting[key] = append(all[:i:i], all[i+1:]...); len(all) == 1 {
		delete(p.waiting, key)
	}
}

// Listen creates a Unix domain socket at path with mode 0600. It replaces a
// socket file if no process listens on it. It requires Linux.
func Listen(path string) (net.Listener, error) {
	l, err := unixsocket.Listen(path)
	if err != nil {
		return nil, fmt.Errorf("dissociated.Listen: socket %s: %w", path, err)
	}
	return l, nil
}

// authorize checks the user of a Unix domain socket's peer and returns the peer's
// process id. For other connections the id is 0, since the kernel does not know
// the peer.
func (s *Server) authorize(stream net.Conn) (process int32, err error) {
	socket, ok := stream.(*net.UnixConn)
	if !ok {
		return 0, nil
	}
	process, uid, err := unixsocket.Credentials(socket)
	if errors.Is(err, errors.ErrUnsupported) {
		return 0, nil // only the mode of the socket file protects the server
	}
	if err != nil {
		return 0, err
	}
	allow := s.AllowUIDs
	if allow == nil {
		allow = []uint32{uint32(os.Getuid())}
	}
	if !slices.Contains(allow, uid) {
		return 0, fmt.Errorf("dissociated.Server: user %d may not connect: %w", uid, ErrRefused)
	}
	return process, nil
}
