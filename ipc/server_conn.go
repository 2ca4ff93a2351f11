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

// conn is a client, as the server sees it.
type conn struct {
	server *Server
	in     *wire.Conn
	out    *wire.Queue
	pid    int32
	uid    uint32
	peer   wire.HelloMessage
	since  time.Time

	// requests are of the goroutine that reads, and of those that answer.
	mu       sync.Mutex
	requests map[uint32]*request

	// These are of the store's books.
	welcomed bool
	gone     bool
	expired  bool
	issued   uint64
	leases   map[uint64]*lease
}

// lease is what a client holds.
type lease struct {
	form     *form
	sequence uint64
	since    time.Time
	counted  time.Time // since when LeaseLimit counts; it does not where this is zero
}

// request is one that is under way.
type request struct {
	cancel context.CancelFunc
	credit *credit // of a subscription
}

const maxRequests = 64

func newConn(s *Server, unix *net.UnixConn) *conn {
	in := wire.NewConn(unix)
	return &conn{
		server: s, in: in, out: wire.NewQueue(in, s.o.patience, unread), since: time.Now(),
		requests: map[uint32]*request{}, leases: map[uint64]*lease{},
	}
}

// serve talks to the client until one of both ends it, and then ends what the
// client holds.
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

// end tells the client why, where it is its fault, and closes the connection.
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

// welcome checks who is there.
func (c *conn) welcome() (err error) {
	s := c.server
	if c.pid, c.uid, err = unixsocket.Credentials(c.in.Unix()); err != nil {
		return err
	}
	if !s.allowed(c.uid) {
		return fmt.Errorf("user %d may not connect to the server at %s: %w", c.uid, s.Path(), ErrRefused)
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
		return fmt.Errorf("%v of request %d, HELLO expected: %w", f.Type, f.Request, ErrFault)
	}
	if err = c.peer.Parse(f.Payload); err != nil {
		return err
	}
	if c.peer.Lowest > wire.Version || c.peer.Highest < wire.Version {
		return fmt.Errorf("the client speaks versions %d to %d, the server %d: %w", c.peer.Lowest, c.peer.Highest, wire.Version, ErrVersion)
	}
	if p := c.peer.Process; p.SameNamespace(s.self) && int64(p.PID) != int64(c.pid) {
		return fmt.Errorf("the client says that it is process %d, the kernel says %d: %w", p.PID, c.pid, ErrRefused)
	}
	m := wire.WelcomeMessage{Version: wire.Version, Process: s.self, Instance: s.instance, Silence: uint32(s.o.Silence.Milliseconds())}
	s.store.do(func() {
		c.welcomed = true
		c.out.Put(wire.Frame{Type: wire.Welcome, Payload: m.Append(nil)})
	})
	return nil
}

// read takes frames until the connection ends.
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

// take does what a frame asks for. An error ends the connection.
func (c *conn) take(ctx context.Context, f wire.Frame, work *sync.WaitGroup) error {
	switch f.Type {
	case wire.Release, wire.Forgotten:
		if f.Request != 0 {
			return fmt.Errorf("request %d, 0 expected: %w", f.Request, ErrFault)
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
			return fmt.Errorf("a credit of %d batches: %w", n, ErrFault)
		}
		r := &request{credit: newCredit(n)}
		return c.begin(ctx, work, f.Request, r, func(ctx context.Context) error { return c.subscribe(ctx, f.Request, r.credit, name) })
	case wire.Error:
		return &quiet{parseError(f.Payload)}
	default:
		return fmt.Errorf("a client does not send it: %w", ErrFault)
	}
}

// quiet is the end of a connection of which the peer need not be told.
type quiet struct{ error }

// answer answers what takes no time.
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
		m := wire.ErrorMessage{Code: wire.CodeFailed, Text: fmt.Sprintf("the answer has %d bytes, a frame at most %d", len(reply.Payload), wire.MaxPayload)}
		reply.Type, reply.Payload = wire.Error, m.Append(nil)
	}
	c.out.Put(reply)
}

// isNew returns a fault for the number of a request that is none, or under way.
func (c *conn) isNew(number uint32) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if number == 0 || c.requests[number] != nil {
		return fmt.Errorf("request %d is not new: %w", number, ErrFault)
	}
	return nil
}

// begin does a request in a goroutine of its own, and answers its end.
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
		return fmt.Errorf("%d requests at a time, at most %d expected: %w", n, maxRequests, ErrFault)
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
		if parent.Err() == nil { // else the connection ends, not the request
			c.out.Put(reply)
		}
	})
	return nil
}

// cancel ends a subscription. One that has just ended is not there any more.
func (c *conn) cancel(number uint32) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch r := c.requests[number]; {
	case r == nil:
	case r.credit == nil:
		return fmt.Errorf("request %d is no subscription: %w", number, ErrFault)
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

// get sends a table or a buffer.
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

// count lets the time of leases run: the client has all that it waits for before it
// can end them.
func (c *conn) count(leases []*lease) {
	c.server.store.do(func() {
		for _, l := range leases {
			l.counted = time.Now()
		}
	})
}

// subscribe sends a stream as far as the credit goes.
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
				return nil // the stream's end
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

// offer gives the client a lease of an item.
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

// lend takes over a form's reference. The caller holds the books.
func (c *conn) lend(number uint32, it *item, f *form, pending, events bool) (*lease, error) {
	if c.gone {
		f.leave()
		return nil, ErrClosed
	}
	m := wire.BatchMessage{Lease: c.issued + 1, Sequence: it.sequence, Pending: pending, Parts: f.parts}
	payload := m.Append(nil)
	if len(payload) > wire.MaxPayload {
		f.leave()
		return nil, fmt.Errorf("batch %d of %q takes %d bytes to describe, a frame at most %d", it.sequence, it.name, len(payload), wire.MaxPayload)
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

// sendSchema sends what the batches of a request are of.
func (c *conn) sendSchema(number uint32, header []byte) error {
	if len(header) > wire.MaxPayload {
		return fmt.Errorf("a schema of %d bytes, a frame has at most %d", len(header), wire.MaxPayload)
	}
	c.out.Put(wire.Frame{Type: wire.Schema, Request: number, Payload: header})
	return nil
}

// giveBack takes what the client says that it does not use any more. The caller
// holds the books.
func (c *conn) giveBack(what wire.Type, numbers []uint64) error {
	s := &c.server.store
	for _, n := range numbers {
		if what == wire.Release {
			l := c.leases[n]
			if l == nil {
				return fmt.Errorf("lease %d, which the client does not hold: %w", n, ErrFault)
			}
			c.endLease(n, l)
			continue
		}
		b := s.blocks[n]
		if b == nil || !b.retiring {
			return fmt.Errorf("block %d, which the client was not asked to forget: %w", n, ErrFault)
		}
		if _, known := b.known[c]; !known {
			return fmt.Errorf("block %d, which the client does not know: %w", n, ErrFault)
		}
		s.forgotten(c, b)
	}
	return nil
}

func (c *conn) endLease(number uint64, l *lease) {
	delete(c.leases, number)
	for _, b := range l.form.blocks {
		b.leases--
	}
	l.form.leave()
}

// forsake ends all that a client holds whose connection has ended. It may still
// read: no block that it has a lease in is written again. The caller holds the
// books.
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

// credit is how many batches a subscriber takes.
type credit struct {
	mu    sync.Mutex
	n     uint64
	added chan struct{}
}

func newCredit(n uint32) *credit { return &credit{n: uint64(n), added: make(chan struct{}, 1)} }

// take waits for credit and uses one of it. It is false when ctx ends.
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

// addCredit adds to a subscription's credit. One that has just ended is not there
// any more.
func (c *conn) addCredit(number uint32, more uint32) error {
	c.mu.Lock()
	r := c.requests[number]
	c.mu.Unlock()
	if r == nil {
		return nil
	}
	if r.credit == nil {
		return fmt.Errorf("request %d is no subscription: %w", number, ErrFault)
	}
	r.credit.mu.Lock()
	r.credit.n += uint64(more)
	n := r.credit.n
	r.credit.mu.Unlock()
	if n > math.MaxInt32 {
		return fmt.Errorf("a credit of %d batches: %w", n, ErrFault)
	}
	signal(r.credit.added)
	return nil
}
