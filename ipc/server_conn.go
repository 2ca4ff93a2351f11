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
type conn struct {
	server *Server
	in     *wire.Conn
	out    *wire.Queue
	pid    int32
	uid    uint32
	peer   wire.HelloMessage
	since  time.Time

	mu       sync.Mutex
	requests map[uint32]*request

	// The registry's mu guards the fields below.
	welcomed bool
	gone     bool
	expired  bool
	issued   uint64
	leases   map[uint64]*lease
}

// lease is a client's right to read an export.
type lease struct {
	form     *form
	sequence uint64
	since    time.Time
	counted  time.Time // start of the time that MaxLeaseTime bounds; zero until all is sent
}

// request is a client's request in progress.
type request struct {
	cancel context.CancelFunc
	credit *credit // nil unless the request is a subscription
}

const maxRequests = 64

func newConn(s *Server, unix *net.UnixConn) *conn {
	in := wire.NewConn(unix)
	return &conn{
		server: s, in: in, out: wire.NewQueue(in, s.o.patience, unread), since: time.Now(),
		requests: map[uint32]*request{}, leases: map[uint64]*lease{},
	}
}

// serve handles a connection until either side ends it, and then releases the
// client's leases.
func (c *conn) serve() {
	ctx, cancel := context.WithCancel(c.server.ctx)
	var work sync.WaitGroup
	err := c.welcome()
	if err == nil {
		err = c.read(ctx, &work)
	}
	cancel()
	c.end(err)
	work.Wait()
	c.server.mu.Lock()
	delete(c.server.conns, c)
	c.server.mu.Unlock()
	c.server.store.do(c.forsake)
}

// close closes the connection. It first sends err to the client if the error is
// the client's doing.
func (c *conn) end(err error) {
	var closed net.Error
	if err != nil && !errors.As(err, &closed) {
		m := tell(err)
		if m.Code != wire.CodeFailed {
			c.out.Put(wire.Frame{Type: wire.Error, Payload: m.Append(nil)})
			c.out.End()
			return
		}
	}
	c.out.Abort(err)
}

// handshake checks the peer's credentials and HELLO, and sends WELCOME.
func (c *conn) welcome() (err error) {
	s := c.server
	if c.pid, c.uid, err = unixsocket.Credentials(c.in.Unix()); err != nil {
		return err
	}
	if !s.allowed(c.uid) {
		return fmt.Errorf("ipc.Server: user %d may not connect to the server at %s: %w", c.uid, s.Path(), ErrRefused)
	}
	if err = c.in.SetReadDeadline(time.Now().Add(s.o.patience)); err != nil {
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
	if err = c.peer.Parse(f.Payload); err != nil {
		return err
	}
	if c.peer.Lowest > wire.Version || c.peer.Highest < wire.Version {
		return fmt.Errorf("ipc.Server: protocol version: the client has %d to %d, the server %d: %w", c.peer.Lowest, c.peer.Highest, wire.Version, ErrVersion)
	}
	if p := c.peer.Process; p.SameNamespace(s.self) && int64(p.PID) != int64(c.pid) {
		return fmt.Errorf("ipc.Server: process id: the client sent %d, the kernel reports %d: %w", p.PID, c.pid, ErrRefused)
	}
	m := wire.WelcomeMessage{Version: wire.Version, Process: s.self, Instance: s.instance, Silence: uint32(s.o.Silence.Milliseconds())}
	s.store.do(func() {
		c.welcomed = true
		c.out.Put(wire.Frame{Type: wire.Welcome, Payload: m.Append(nil)})
	})
	return nil
}

// readFrames reads and handles frames until the connection ends.
func (c *conn) read(ctx context.Context, work *sync.WaitGroup) error {
	for {
		var deadline time.Time
		if c.server.o.Silence > 0 {
			deadline = time.Now().Add(c.server.o.Silence)
		}
		if err := c.in.SetReadDeadline(deadline); err != nil {
			return err
		}
		f, err := c.in.Read()
		if err != nil {
			return err
		}
		f.CloseFile()
		if err := c.take(ctx, f, work); err != nil {
			return fmt.Errorf("%v: %w", f.Type, err)
		}
	}
}

// handleFrame handles one frame. An error ends the connection.
func (c *conn) take(ctx context.Context, f wire.Frame, work *sync.WaitGroup) error {
	switch f.Type {
	case wire.Release, wire.Forgotten:
		if f.Request != 0 {
			return fmt.Errorf("got request %d, want 0: %w", f.Request, ErrFault)
		}
		numbers, err := wire.ParseNumbers(f.Payload)
		if err != nil {
			return err
		}
		c.server.store.do(func() { err = c.giveBack(f.Type, numbers) })
		return err
	case wire.Credit:
		more, err := wire.ParseU32(f.Payload)
		if err != nil {
			return err
		}
		return c.addCredit(f.Request, more)
	case wire.Cancel:
		if err := f.Expect(true); err != nil {
			return err
		}
		return c.cancel(f.Request)
	case wire.List, wire.Stat, wire.Ping:
		if err := errors.Join(f.Expect(true), c.isNew(f.Request)); err != nil {
			return err
		}
		c.answer(f)
		return nil
	case wire.Get:
		name, err := wire.ParseName(f.Payload)
		if err != nil {
			return err
		}
		return c.begin(ctx, work, f.Request, &request{}, func(ctx context.Context) error { return c.get(ctx, f.Request, name) })
	case wire.Subscribe:
		n, name, err := wire.ParseSubscribe(f.Payload)
		if err != nil {
			return err
		}
		if n > math.MaxInt32 {
			return fmt.Errorf("credit: got %d batches, want at most %d: %w", n, math.MaxInt32, ErrFault)
		}
		r := &request{credit: newCredit(n)}
		return c.begin(ctx, work, f.Request, r, func(ctx context.Context) error { return c.subscribe(ctx, f.Request, r.credit, name) })
	case wire.Error:
		return &quiet{parseError(f.Payload)}
	default:
		return fmt.Errorf("only servers send this frame: %w", ErrFault)
	}
}

// unreportedError ends a connection without an ERROR frame to the peer.
type quiet struct{ error }

// reply replies to LIST, STAT and PING.
func (c *conn) answer(f wire.Frame) {
	reply := wire.Frame{Request: f.Request}
	switch f.Type {
	case wire.List:
		reply.Type, reply.Payload = wire.Listing, wire.AppendListing(nil, c.server.catalog.List())
	case wire.Stat:
		stats := c.server.Stat()
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
func (c *conn) isNew(number uint32) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if number == 0 || c.requests[number] != nil {
		return fmt.Errorf("request %d is 0 or in use: %w", number, ErrFault)
	}
	return nil
}

// startRequest runs handle in a goroutine and sends END or ERROR after it
// returns.
func (c *conn) begin(parent context.Context, work *sync.WaitGroup, number uint32, r *request, do func(context.Context) error) error {
	if err := c.isNew(number); err != nil {
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
	work.Go(func() {
		defer r.cancel()
		err := do(ctx)
		reply := wire.Frame{Type: wire.End, Request: number}
		if err != nil && ctx.Err() == nil {
			m := tell(err)
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
func (c *conn) cancel(number uint32) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch r := c.requests[number]; {
	case r == nil:
	case r.credit == nil:
		return fmt.Errorf("request %d is not a subscription: %w", number, ErrFault)
	default:
		r.cancel()
	}
	return nil
}

func (c *conn) stat() wire.ClientStat {
	s := wire.ClientStat{UID: c.uid, PID: uint32(max(c.pid, 0)), Process: c.peer.Process, Connected: c.since}
	for number, l := range c.leases {
		s.Leases = append(s.Leases, wire.LeaseStat{Lease: number, Sequence: l.sequence, Bytes: l.form.bytes, Since: l.since, Name: l.form.name})
	}
	return s
}

// sendObjects sends a table or a buffer.
func (c *conn) get(ctx context.Context, number uint32, name string) error {
	header, items, err := c.server.catalog.items(name)
	if err != nil {
		return err
	}
	defer func() {
		for _, it := range items {
			it.release()
		}
	}()
	if header != nil {
		if err := c.sendSchema(number, header); err != nil {
			return err
		}
	}
	var leases []*lease
	defer func() { c.count(leases) }()
	for _, it := range items {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		l, err := c.offer(ctx, number, it)
		if err != nil {
			return err
		}
		leases = append(leases, l)
	}
	return nil
}

// startLeaseClocks starts the time that MaxLeaseTime bounds. The client can
// release these leases only from now on, after all data is sent.
func (c *conn) count(leases []*lease) {
	c.server.store.do(func() {
		for _, l := range leases {
			l.counted = time.Now()
		}
	})
}

// sendStream sends batches of a stream while the flow control window allows it.
func (c *conn) subscribe(ctx context.Context, number uint32, credit *credit, name string) error {
	feed, err := c.server.catalog.Subscribe(name)
	if err != nil {
		return err
	}
	defer feed.Close()
	if err := c.sendSchema(number, feed.stream.header); err != nil {
		return err
	}
	for credit.take(ctx) {
		it, err := feed.next(ctx)
		if err != nil {
			if errors.Is(err, ErrClosed) {
				return nil // end of the stream
			}
			return err
		}
		l, err := c.offer(ctx, number, it)
		it.release()
		if err != nil {
			return err
		}
		c.count([]*lease{l})
	}
	return ctx.Err()
}

// grantLease sends an object to the client, with a lease. It waits for the
// object's bytes unless the client can wait for the blocks' events itself.
func (c *conn) offer(ctx context.Context, number uint32, it *item) (l *lease, err error) {
	f, err := it.formFor(c)
	if err != nil {
		return nil, err
	}
	done, err := f.written()
	events := c.peer.Events && c.peer.Process.SameNamespace(c.server.self) && c.peer.Process != c.server.self
	if err == nil && !done && !events {
		done, err = true, f.wait(ctx)
	}
	if err != nil {
		f.release()
		return nil, err
	}
	c.server.store.do(func() { l, err = c.lend(number, it, f, !done, events) })
	return l, err
}

// grantLocked takes over one reference to the export. The caller holds the
// registry's mu.
func (c *conn) lend(number uint32, it *item, f *form, pending, events bool) (*lease, error) {
	if c.gone {
		f.leave()
		return nil, ErrClosed
	}
	m := wire.BatchMessage{Lease: c.issued + 1, Sequence: it.sequence, Pending: pending, Parts: f.parts}
	payload := m.Append(nil)
	if len(payload) > wire.MaxPayload {
		f.leave()
		return nil, fmt.Errorf("batch %d of %q: its description has %d bytes, want at most %d in a frame", it.sequence, it.name, len(payload), wire.MaxPayload)
	}
	for _, b := range f.blocks {
		if _, known := b.known[c]; known {
			continue
		}
		announced, err := b.announcement(c.server, events)
		if err != nil {
			f.leave()
			return nil, err
		}
		b.known[c] = struct{}{}
		c.out.Put(announced)
	}
	c.issued++
	l := &lease{form: f, sequence: it.sequence, since: time.Now()}
	c.leases[c.issued] = l
	for _, b := range f.blocks {
		b.leases++
	}
	c.out.Put(wire.Frame{Type: wire.Batch, Request: number, Payload: payload})
	return l, nil
}

// sendSchema sends the schema of a request's batches.
func (c *conn) sendSchema(number uint32, header []byte) error {
	if len(header) > wire.MaxPayload {
		return fmt.Errorf("the schema has %d bytes, want at most %d in a frame", len(header), wire.MaxPayload)
	}
	c.out.Put(wire.Frame{Type: wire.Schema, Request: number, Payload: header})
	return nil
}

// handleReleased handles RELEASE (leases) and FORGOTTEN (blocks). The caller
// holds the registry's mu.
func (c *conn) giveBack(what wire.Type, numbers []uint64) error {
	s := &c.server.store
	for _, n := range numbers {
		if what == wire.Release {
			l := c.leases[n]
			if l == nil {
				return fmt.Errorf("the client does not hold lease %d: %w", n, ErrFault)
			}
			c.endLease(n, l)
			continue
		}
		b := s.blocks[n]
		if b == nil || !b.retiring {
			return fmt.Errorf("the server did not send FORGET for block %d: %w", n, ErrFault)
		}
		if _, known := b.known[c]; !known {
			return fmt.Errorf("block %d was not announced to the client: %w", n, ErrFault)
		}
		s.forgotten(c, b)
	}
	return nil
}

// endLease removes a lease. The caller holds the registry's mu.
func (c *conn) endLease(number uint64, l *lease) {
	delete(c.leases, number)
	for _, b := range l.form.blocks {
		b.leases--
	}
	l.form.leave()
}

// releaseAll ends all leases of a closed connection. The client may still read
// its memory, so blocks with leases are never written again. The caller holds the
// registry's mu.
func (c *conn) forsake() {
	c.gone = true
	for number, l := range c.leases {
		for _, b := range l.form.blocks {
			b.spoiled = true
		}
		c.endLease(number, l)
	}
	for _, b := range c.server.store.blocks {
		if _, known := b.known[c]; known {
			c.server.store.forgotten(c, b)
		}
	}
}

// sendWindow is the flow control window of a subscription: the number of batches
// that the client still accepts.
type credit struct {
	mu    sync.Mutex
	n     uint64
	added chan struct{}
}

func newCredit(n uint32) *credit { return &credit{n: uint64(n), added: make(chan struct{}, 1)} }

// acquire waits until the window is not 0 and reduces it by one. It returns false
// if ctx is done first.
func (c *credit) take(ctx context.Context) bool {
	for {
		c.mu.Lock()
		got := c.n > 0
		if got {
			c.n--
		}
		c.mu.Unlock()
		if got {
			return true
		}
		select {
		case <-c.added:
		case <-ctx.Done():
			return false
		}
	}
}

// growWindow adds to the window of a subscription. It ignores one that has just
// ended.
func (c *conn) addCredit(number uint32, more uint32) error {
	c.mu.Lock()
	r := c.requests[number]
	c.mu.Unlock()
	if r == nil {
		return nil
	}
	if r.credit == nil {
		return fmt.Errorf("request %d is not a subscription: %w", number, ErrFault)
	}
	r.credit.mu.Lock()
	r.credit.n += uint64(more)
	n := r.credit.n
	r.credit.mu.Unlock()
	if n > math.MaxInt32 {
		return fmt.Errorf("credit: got %d batches, want at most %d: %w", n, math.MaxInt32, ErrFault)
	}
	signal(r.credit.added)
	return nil
}
