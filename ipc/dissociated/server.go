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

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ipc/internal/unixsocket"
)

const (
	// wantData and freeData are the tags of this package's servers.
	wantData Tag = 1
	freeData Tag = 2
	// maxIdentifier is the longest identifier of a stream.
	maxIdentifier = 4 << 10
	// introduction is how long a client may take to say what it wants, on both
	// connections.
	introduction = 10 * time.Second
)

// Server sends streams to clients that ask for them.
type Server struct {
	// Metadata and Data are where clients connect for the two kinds of messages:
	// see Listen. Data is nil where both go by one connection. Serve closes them.
	Metadata, Data net.Listener
	// Open returns the batches of the stream that an identifier names, which the
	// server releases, as ipc.Catalog.Reader does of a name. An error ends the client's connections: the protocol has
	// no other way to say no. A client with two connections is known by the
	// identifier that it sends on both, and by its process where the kernel
	// tells that: clients of one process that send the same at the same time must
	// want the same batches.
	Open func(ctx context.Context, identifier []byte) (array.RecordReader, error)
	// Window has bodies go as locations, see SendOptions. Clients must be on the
	// same machine.
	Window *Window
	// Allow are the users that may connect by Unix domain sockets, by number; the
	// process's own where it is nil. Where the system does not tell who connects,
	// others than Linux, the modes of the sockets' files decide alone.
	Allow []uint32
	// Failed, where it is not nil, is told of streams that did not end well. It
	// is called from many goroutines.
	Failed func(error)

	pairs pairs
}

// Endpoint is what clients must know.
func (s *Server) Endpoint() Endpoint {
	e := Endpoint{WantData: wantData}
	if s.Window != nil {
		free := freeData
		e.FreeData, e.RemoteHandle = &free, s.Window.RemoteHandle()
	}
	return e
}

// URIs are where the two streams are to be had, as in unix:/run/a.sock?want_data=1;
// data is nil where both go by one connection.
func (s *Server) URIs() (metadata, data *url.URL) {
	if s.Data != nil {
		data = s.uri(s.Data.Addr())
	}
	return s.uri(s.Metadata.Addr()), data
}

func (s *Server) uri(at net.Addr) *url.URL {
	u := &url.URL{Scheme: at.Network(), Host: at.String()}
	if at.Network() == "unix" {
		u = &url.URL{Scheme: "unix", Path: at.String()}
	}
	s.Endpoint().AddTo(u)
	return u
}

// Serve takes clients until the context ends, which ends their streams too, or
// until accepting fails, and returns when nothing is sent any more. What clients
// hold of the Window stays in use until they free it or are gone. The error is that
// of accepting, nil where the context ended.
func (s *Server) Serve(ctx context.Context) error {
	s.pairs.waiting = map[string][]*half{}
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
				if err := s.serve(serving, stream, metadata); err != nil && s.Failed != nil {
					s.Failed(err)
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

// serve is one connection of a client. That for metadata sends the stream when
// the other one is there.
func (s *Server) serve(ctx context.Context, stream net.Conn, metadata bool) error {
	conn := NewConn(stream)
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	process, err := s.admit(stream)
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	_ = stream.SetReadDeadline(time.Now().Add(introduction))
	identifier, err := wanted(conn)
	if err == nil {
		err = stream.SetReadDeadline(time.Time{})
	}
	if err != nil {
		return errors.Join(fmt.Errorf("a client does not ask for a stream: %w", err), conn.Close())
	}
	link := Link{conn, conn}
	if s.Data != nil {
		one := &half{conn: conn, stream: stream, metadata: metadata, paired: make(chan struct{})}
		if link, err = s.pairs.join(ctx, fmt.Sprintf("%d %s", process, identifier), one); err != nil || link == (Link{}) {
			return err
		}
	}
	stop() // Send knows better when to close
	if err := s.send(ctx, link, identifier); err != nil {
		return fmt.Errorf("stream %q: %w", identifier, err)
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

// wanted waits for the message that asks for a stream.
func wanted(conn Conn) ([]byte, error) {
	m, err := conn.Receive(func(tag *Tag, n int64) (arrowbuf.Buffer, error) {
		if tag == nil || *tag != wantData {
			return nil, fmt.Errorf("%w: the first message must have the tag want_data, %d", ErrProtocol, wantData)
		}
		return hostPlace(n, maxIdentifier)
	})
	if err != nil {
		return nil, err
	}
	identifier, _ := arrowbuf.HostBytes(m.Body)
	return identifier, nil
}

// pairs brings together the two connections of a client.
type pairs struct {
	mu      sync.Mutex
	waiting map[string][]*half // by what both have
}

// half is a connection that waits for the client's other one.
type half struct {
	conn     Conn
	stream   net.Conn
	metadata bool
	paired   chan struct{}
}

// gone tells whether the client left while it waited. Else its place would be
// taken by the next one's.
func (h *half) gone() bool {
	socket, ok := h.stream.(syscall.Conn)
	return ok && unixsocket.Closed(socket)
}

// join answers the link when both connections are there, to the later one; to the
// earlier one none. A connection whose other does not come is closed.
func (p *pairs) join(ctx context.Context, key string, one *half) (Link, error) {
	if other := p.other(key, one); other != nil {
		defer close(other.paired)
		if one.metadata {
			return Link{Metadata: one.conn, Data: other.conn}, nil
		}
		return Link{Metadata: other.conn, Data: one.conn}, nil
	}
	var err error
	select {
	case <-one.paired:
		return Link{}, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-time.After(introduction):
		err = fmt.Errorf("%w: the client has one connection only", ErrPeerGone)
	}
	if !p.drop(key, one) {
		return Link{}, nil // paired after all
	}
	return Link{}, errors.Join(err, one.conn.Close())
}

// other takes the connection that waits for one, or has one wait.
func (p *pairs) other(key string, one *half) *half {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, other := range p.waiting[key] {
		if other.metadata != one.metadata && !other.gone() {
			p.remove(key, i)
			return other
		}
	}
	p.waiting[key] = append(p.waiting[key], one)
	return nil
}

// drop tells whether a connection was still waiting.
func (p *pairs) drop(key string, one *half) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, other := range p.waiting[key] {
		if other == one {
			p.remove(key, i)
			return true
		}
	}
	return false
}

func (p *pairs) remove(key string, i int) {
	all := p.waiting[key]
	if p.waiting[key] = append(all[:i:i], all[i+1:]...); len(all) == 1 {
		delete(p.waiting, key)
	}
}

// Listen makes a Unix domain socket at a path, which only this user reaches. A
// file of a socket that nobody serves is replaced. It needs Linux.
func Listen(path string) (net.Listener, error) {
	l, err := unixsocket.Listen(path)
	if err != nil {
		return nil, fmt.Errorf("listening at %s: %w", path, err)
	}
	return l, nil
}

// admit returns an error unless the user of a connection may ask for streams, and
// the id of its process. Who that is, the kernel says of Unix domain sockets alone:
// of others the id is 0.
func (s *Server) admit(stream net.Conn) (process int32, err error) {
	socket, ok := stream.(*net.UnixConn)
	if !ok {
		return 0, nil
	}
	process, uid, err := unixsocket.Credentials(socket)
	if errors.Is(err, errors.ErrUnsupported) {
		return 0, nil // the socket's file has a mode
	}
	if err != nil {
		return 0, err
	}
	allow := s.Allow
	if allow == nil {
		allow = []uint32{uint32(os.Getuid())}
	}
	if !slices.Contains(allow, uid) {
		return 0, fmt.Errorf("user %d: %w", uid, ErrRefused)
	}
	return process, nil
}
