package ipc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"sync"
	"time"

	"github.com/quiver-gpu/quiver/ipc/internal/unixsocket"
	"github.com/quiver-gpu/quiver/ipc/internal/wire"
)

// serverConn is the server's side of a connection.
type serverConn struct {
	server      *Server
	in          *wire.Conn
	out         *wire.Queue
	pid         int32
	uid         uint32
	hello       wire.HelloMessage
	connectedAt time.Time

	mu       sync.Mutex
	requests map[uint32]*request

	// The registry's mu guards the fields below.
	welcomed  bool
	closed    bool
	expired   bool
	lastLease uint64
	leases    map[uint64]*lease
}

// request is a client's request in progress.
type request struct {
	cancel context.CancelFunc
	window *sendWindow // nil unless the request is a subscription
}

const maxRequests = 64

func newServerConn(s *Server, unix *net.UnixConn) *serverConn {
	in := wire.NewConn(unix)
	return &serverConn{
		server: s, in: in, out: wire.NewQueue(in, s.options.peerTimeout, maxUnsentBytes), connectedAt: time.Now(),
		requests: map[uint32]*request{}, leases: map[uint64]*lease{},
	}
}

// serve handles a connection until either side ends it, and then releases the
// client's leases.
func (c *serverConn) serve() {
	ctx, cancel := context.WithCancel(c.server.ctx)
	var requests sync.WaitGroup
	err := c.handshake()
	if err == nil {
		err = c.readFrames(ctx, &requests)
	}
	cancel()
	c.close(err)
	requests.Wait()
	c.server.mu.Lock()
	delete(c.server.conns, c)
	c.server.mu.Unlock()
	c.server.blocks.withLock(c.releaseAll)
}

// close closes the connection. It sends err to the client first, unless err is a
// network error or has no error code of its own.
func (c *serverConn) close(err error) {
	var closed net.Error
	if err != nil && !errors.As(err, &closed) {
		m := errorMessage(err)
		if m.Code != wire.CodeFailed {
			c.out.Put(wire.Frame{Type: wire.Error, Payload: m.Append(nil)})
			c.out.Drain()
			return
		}
	}
	c.out.Abort(err)
}

// handshake checks the peer's credentials and HELLO, and sends WELCOME.
func (c *serverConn) handshake() (err error) {
	s := c.server
	if c.pid, c.uid, err = unixsocket.Credentials(c.in.Unix()); err != nil {
		return err
	}
	if !s.allowed(c.uid) {
		return fmt.Errorf("ipc.Server: user %d may not connect to the server at %s: %w", c.uid, s.Path(), ErrRefused)
	}
	if err = c.in.SetReadDeadline(time.Now().Add(s.options.peerTimeout)); err != nil {
		return err
	}
	f, err := c.in.Read()
	if err != nil {
		return err
	}
	f.CloseFile()
	if f.Type != wire.Hello || f.Request != 0 {
		return fmt.Errorf("ipc.Server: got %v of request %d, want HELLO: %w", f.Type, f.Request, ErrFault)
	}
	if err = c.hello.Parse(f.Payload); err != nil {
		return err
	}
	if c.hello.Lowest > wire.Version || c.hello.Highest < wire.Version {
		return fmt.Errorf("ipc.Server: protocol version: the client has %d to %d, the server %d: %w", c.hello.Lowest, c.hello.Highest, wire.Version, ErrVersion)
	}
	if p := c.hello.Process; p.SameNamespace(s.self) && int64(p.PID) != int64(c.pid) {
		return fmt.Errorf("ipc.Server: process id: the client sent %d, the kernel reports %d: %w", p.PID, c.pid, ErrRefused)
	}
	m := wire.WelcomeMessage{Version: wire.Version, Process: s.self, Instance: s.instance, KeepAliveMillis: uint32(s.options.KeepAliveTimeout.Milliseconds())}
	s.blocks.withLock(func() {
		c.welcomed = true
		c.out.Put(wire.Frame{Type: wire.Welcome, Payload: m.Append(nil)})
	})
	return nil
}

// readFrames reads and handles frames until the connection ends.
func (c *serverConn) readFrames(ctx context.Context, requests *sync.WaitGroup) error {
	for {
		var deadline time.Time
		if c.server.options.KeepAliveTimeout > 0 {
			deadline = time.Now().Add(c.server.options.KeepAliveTimeout)
		}
		if err := c.in.SetReadDeadline(deadline); err != nil {
			return err
		}
		f, err := c.in.Read()
		if err != nil {
			return err
		}
		f.CloseFile()
		if err := c.handleFrame(ctx, f, requests); err != nil {
			return fmt.Errorf("%v: %w", f.Type, err)
		}
	}
}

// handleFrame handles one frame. An error ends the connection.
func (c *serverConn) handleFrame(ctx context.Context, f wire.Frame, requests *sync.WaitGroup) error {
	switch f.Type {
	case wire.Release, wire.Forgotten:
		if f.Request != 0 {
			return fmt.Errorf("got request %d, want 0: %w", f.Request, ErrFault)
		}
		numbers, err := wire.ParseNumbers(f.Payload)
		if err != nil {
			return err
		}
		c.server.blocks.withLock(func() { err = c.handleReleased(f.Type, numbers) })
		return err
	case wire.Credit:
		credit, err := wire.ParseCredit(f.Payload)
		if err != nil {
			return err
		}
		return c.growWindow(f.Request, credit)
	case wire.Cancel:
		if err := f.ExpectEmpty(); err != nil {
			return err
		}
		return c.cancelSubscription(f.Request)
	case wire.List, wire.Stat, wire.Ping:
		if err := errors.Join(f.ExpectEmpty(), c.checkNewRequest(f.Request)); err != nil {
			return err
		}
		c.reply(f)
		return nil
	case wire.Get:
		name, err := wire.ParseName(f.Payload)
		if err != nil {
			return err
		}
		return c.startRequest(ctx, requests, f.Request, &request{}, func(ctx context.Context) error { return c.sendObjects(ctx, f.Request, name) })
	case wire.Subscribe:
		n, name, err := wire.ParseSubscribe(f.Payload)
		if err != nil {
			return err
		}
		if n > math.MaxInt32 {
			return fmt.Errorf("credit: got %d batches, want at most %d: %w", n, math.MaxInt32, ErrFault)
		}
		r := &request{window: newSendWindow(n)}
		return c.startRequest(ctx, requests, f.Request, r, func(ctx context.Context) error { return c.sendStream(ctx, f.Request, r.window, name) })
	case wire.Error:
		return &unreportedError{parseError(f.Payload)}
	default:
		return fmt.Errorf("only servers send this frame: %w", ErrFault)
	}
}

// unreportedError ends a connection without an ERROR frame to the peer.
type unreportedError struct{ error }

// reply replies to LIST, STAT and PING.
func (c *serverConn) reply(f wire.Frame) {
	reply := wire.Frame{Request: f.Request}
	switch f.Type {
	case wire.List:
		reply.Type, reply.Payload = wire.Listing, wire.AppendListing(nil, listing(c.server.catalog.List()))
	case wire.Stat:
		stats := c.server.statsMessage()
		reply.Type, reply.Payload = wire.Stats, stats.Append(nil)
	default:
		reply.Type = wire.Pong
	}
	if len(reply.Payload) > wire.MaxPayload {
		m := wire.ErrorMessage{Code: wire.CodeFailed, Text: fmt.Sprintf("the reply has %d bytes, want at most %d in a frame", len(reply.Payload), wire.MaxPayload)}
		reply.Type, reply.Payload = wire.Error, m.Append(nil)
	}
	c.out.Put(reply)
}

// checkNewRequest returns a fault if a request number is 0 or in use.
func (c *serverConn) checkNewRequest(number uint32) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if number == 0 || c.requests[number] != nil {
		return fmt.Errorf("request %d is 0 or in use: %w", number, ErrFault)
	}
	return nil
}

// startRequest runs handle in a goroutine and sends END or ERROR after it
// returns.
func (c *serverConn) startRequest(parent context.Context, requests *sync.WaitGroup, number uint32, r *request, handle func(context.Context) error) error {
	if err := c.checkNewRequest(number); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(parent)
	r.cancel = cancel
	c.mu.Lock()
	c.requests[number] = r
	n := len(c.requests)
	c.mu.Unlock()
	if n > maxRequests {
		r.cancel()
		return fmt.Errorf("got %d concurrent requests, want at most %d: %w", n, maxRequests, ErrFault)
	}
	requests.Go(func() {
		defer r.cancel()
		err := handle(ctx)
		reply := wire.Frame{Type: wire.End, Request: number}
		if err != nil && ctx.Err() == nil {
			m := errorMessage(err)
			reply.Type, reply.Payload = wire.Error, m.Append(nil)
		}
		c.mu.Lock()
		delete(c.requests, number)
		c.mu.Unlock()
		if parent.Err() == nil { // otherwise the connection is ending
			c.out.Put(reply)
		}
	})
	return nil
}

// cancelSubscription ends a subscription. It ignores one that has just ended.
func (c *serverConn) cancelSubscription(number uint32) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch r := c.requests[number]; {
	case r == nil:
	case r.window == nil:
		return fmt.Errorf("request %d is not a subscription: %w", number, ErrFault)
	default:
		r.cancel()
	}
	return nil
}

func (c *serverConn) stat() wire.ClientStat {
	s := wire.ClientStat{UID: c.uid, PID: uint32(max(c.pid, 0)), Process: c.hello.Process, Connected: c.connectedAt}
	for number, l := range c.leases {
		s.Leases = append(s.Leases, wire.LeaseStat{Lease: number, Sequence: l.sequence, Bytes: l.export.bytes, Since: l.grantedAt, Name: l.export.name})
	}
	return s
}

// sendObjects sends a table or a buffer.
func (c *serverConn) sendObjects(ctx context.Context, number uint32, name string) error {
	header, objects, err := c.server.catalog.objects(name)
	if err != nil {
		return err
	}
	defer func() {
		for _, o := range objects {
			o.release()
		}
	}()
	if header != nil {
		if err := c.sendSchema(number, header); err != nil {
			return err
		}
	}
	var leases []*lease
	defer func() { c.startLeaseClocks(leases) }()
	for _, o := range objects {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		l, err := c.grantLease(ctx, number, o)
		if err != nil {
			return err
		}
		leases = append(leases, l)
	}
	return nil
}

// sendStream sends batches of a stream while the flow control window allows it.
func (c *serverConn) sendStream(ctx context.Context, number uint32, window *sendWindow, name string) error {
	subscriber, err := c.server.catalog.Subscribe(name)
	if err != nil {
		return err
	}
	defer subscriber.Close()
	if err := c.sendSchema(number, subscriber.stream.header); err != nil {
		return err
	}
	for window.acquire(ctx) {
		o, err := subscriber.dequeue(ctx)
		if err != nil {
			if errors.Is(err, ErrClosed) {
				return nil // end of the stream
			}
			return err
		}
		l, err := c.grantLease(ctx, number, o)
		o.release()
		if err != nil {
			return err
		}
		c.startLeaseClocks([]*lease{l})
	}
	return ctx.Err()
}

// sendSchema sends the schema of a request's batches.
func (c *serverConn) sendSchema(number uint32, header []byte) error {
	if len(header) > wire.MaxPayload {
		return fmt.Errorf("the schema has %d bytes, want at most %d in a frame", len(header), wire.MaxPayload)
	}
	c.out.Put(wire.Frame{Type: wire.Schema, Request: number, Payload: header})
	return nil
}

// sendWindow is the flow control window of a subscription: the number of batches
// that the client still accepts.
type sendWindow struct {
	mu    sync.Mutex
	n     uint64
	added chan struct{}
}

func newSendWindow(n uint32) *sendWindow {
	return &sendWindow{n: uint64(n), added: make(chan struct{}, 1)}
}

// acquire waits until the window is not 0 and reduces it by one. It returns false
// if ctx is done first.
func (w *sendWindow) acquire(ctx context.Context) bool {
	for {
		w.mu.Lock()
		ok := w.n > 0
		if ok {
			w.n--
		}
		w.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-w.added:
		case <-ctx.Done():
			return false
		}
	}
}

// growWindow adds to the window of a subscription. It ignores one that has just
// ended.
func (c *serverConn) growWindow(number uint32, credit uint32) error {
	c.mu.Lock()
	r := c.requests[number]
	c.mu.Unlock()
	if r == nil {
		return nil
	}
	if r.window == nil {
		return fmt.Errorf("request %d is not a subscription: %w", number, ErrFault)
	}
	r.window.mu.Lock()
	r.window.n += uint64(credit)
	n := r.window.n
	r.window.mu.Unlock()
	if n > math.MaxInt32 {
		return fmt.Errorf("credit: got %d batches, want at most %d: %w", n, math.MaxInt32, ErrFault)
	}
	notify(r.window.added)
	return nil
}
