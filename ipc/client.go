package ipc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ipc/handle"
	"github.com/quiver-gpu/quiver/ipc/internal/unixsocket"
	"github.com/quiver-gpu/quiver/ipc/internal/wire"
)

// DialOptions says what a client can do. The zero value is a client without a
// GPU, of a server of the same user or root.
type DialOptions struct {
	// Devices are the GPUs on which shared memory is opened. What is in the memory
	// of another one comes as a copy in the host's.
	Devices []*cudabuf.Device
	// Mechanisms are the ways in which memory is opened, best first; all where it
	// is nil.
	Mechanisms handle.Mechanisms
	// Async takes a batch on a GPU while the server's streams still write it: the
	// device's default stream, and with it whatever uses the batch, is held back
	// until the server's event is done. When the server dies meanwhile the work
	// runs on bytes that were not written; Err tells of that, after the work.
	// Without Async a batch comes when it is written.
	Async bool
	// Servers are the users whose server is talked to, by number; the process's
	// own and root where it is nil.
	Servers []uint32
}

// Client is a connection to a Server. It may be used from any goroutine. What it
// is asked for at a time beyond the requests that the protocol allows waits, as
// long as its context does; each Subscription is one of 64 until it ends.
type Client struct {
	o       DialOptions
	path    string
	self    handle.Process
	in      *wire.Conn
	out     *wire.Queue
	welcome wire.WelcomeMessage
	pools   peerPools
	slots   chan struct{} // of requests that are under way
	leaving chan struct{} // closed by Close
	gone    chan struct{} // closed when the connection has ended
	done    chan struct{} // closed when nothing is read any more

	mu      sync.Mutex
	err     error // why the connection ended
	closing bool
	number  uint32
	calls   map[uint32]*call
	blocks  map[uint64]*opened
	leases  map[uint64]*held
	last    uint64 // lease
}

var allMechanisms = handle.Mechanisms{handle.Local, handle.CUDAFD, handle.CUDAPool, handle.CUDAIPC, handle.Memory}

// Dial connects to the server at a path. Where none listens the error is
// ErrServerGone; a server that does not take this process, or is of another user,
// is ErrRefused.
func Dial(ctx context.Context, path string, o DialOptions) (*Client, error) {
	c, err := dial(ctx, path, o)
	if err != nil {
		return nil, fmt.Errorf("connecting to the server at %s: %w", path, err)
	}
	return c, nil
}

func dial(ctx context.Context, path string, o DialOptions) (*Client, error) {
	self, err := handle.Self()
	if err != nil {
		return nil, err
	}
	if o.Mechanisms == nil {
		o.Mechanisms = allMechanisms
	}
	if o.Servers == nil {
		o.Servers = []uint32{uint32(os.Getuid()), 0}
	}
	socket, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if errors.Is(err, os.ErrPermission) {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrServerGone, err)
	}
	c := &Client{
		o: o, path: path, self: self, in: wire.NewConn(socket.(*net.UnixConn)),
		slots: make(chan struct{}, maxRequests), leaving: make(chan struct{}),
		gone: make(chan struct{}), done: make(chan struct{}),
		calls: map[uint32]*call{}, blocks: map[uint64]*opened{}, leases: map[uint64]*held{},
	}
	if err := c.greet(ctx); err != nil {
		_ = c.in.Close()
		return nil, err
	}
	c.out = wire.NewQueue(c.in, patience, unread)
	go c.read()
	if c.welcome.Silence > 0 {
		go c.live(time.Duration(c.welcome.Silence) * time.Millisecond / 4)
	}
	return c, nil
}

// greet says HELLO and waits for the answer.
func (c *Client) greet(ctx context.Context) error {
	_, uid, err := unixsocket.Credentials(c.in.Unix())
	if err != nil {
		return err
	}
	if !slices.Contains(c.o.Servers, uid) {
		return fmt.Errorf("the server is user %d's, those of %v are talked to: %w", uid, c.o.Servers, ErrRefused)
	}
	deadline := time.Now().Add(patience)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	if err := errors.Join(c.in.SetReadDeadline(deadline), c.in.SetWriteDeadline(deadline)); err != nil {
		return err
	}
	hello := wire.HelloMessage{Lowest: wire.Version, Highest: wire.Version, Process: c.self, Mechanisms: c.o.Mechanisms, Events: c.o.Async && len(c.o.Devices) > 0}
	for _, dev := range c.o.Devices {
		hello.Devices = append(hello.Devices, dev.UUID())
	}
	// A server that refuses has closed its end, perhaps, and says why in what
	// there is to read.
	written := c.in.Write(wire.Frame{Type: wire.Hello, Payload: hello.Append(nil)})
	f, err := c.in.Read()
	if err != nil {
		return c.ended(errors.Join(err, written))
	}
	f.CloseFile()
	switch f.Type {
	case wire.Welcome:
		if err := c.welcome.Parse(f.Payload); err != nil {
			return err
		}
		if c.welcome.Version != wire.Version {
			return fmt.Errorf("the server chose version %d, not %d: %w", c.welcome.Version, wire.Version, ErrVersion)
		}
		return c.in.SetReadDeadline(time.Time{})
	case wire.Error:
		return parseError(f.Payload)
	default:
		return fmt.Errorf("%v, WELCOME expected: %w", f.Type, ErrFault)
	}
}

// ended is what the end of reading means.
func (c *Client) ended(err error) error {
	if errors.Is(err, ErrFault) || errors.Is(err, ErrServerGone) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrServerGone, err)
}

// live sends signs of life.
func (c *Client) live(every time.Duration) {
	for tick := time.NewTicker(every); ; {
		select {
		case <-tick.C:
			c.keepAlive()
		case <-c.gone:
			tick.Stop()
			return
		}
	}
}

// Server is the process that serves.
func (c *Client) Server() handle.Process { return c.welcome.Process }

// Done is closed when the connection has ended, by Close or with the server.
// Batches that are held stay mapped until they are released.
func (c *Client) Done() <-chan struct{} { return c.gone }

// Err is why the connection ended: ErrServerGone or ErrClosed, among others. It is
// nil while there is one.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// over tells whether the connection has ended. The caller holds mu.
func (c *Client) over() bool { return c.err != nil }

// Close takes nothing more from the server. What is held stays good, and the
// connection stays for it, until it is released. A second Close does nothing.
func (c *Client) Close() error {
	closed := fmt.Errorf("client of %s: %w", c.path, ErrClosed)
	c.mu.Lock()
	var calls []*call
	if !c.closing {
		calls = slices.Collect(maps.Values(c.calls))
		close(c.leaving)
	}
	c.closing = true
	c.mu.Unlock()
	for _, k := range calls {
		k.end(closed)
	}
	c.mu.Lock()
	idle := len(c.leases) == 0
	c.mu.Unlock()
	if idle {
		c.fail(closed)
		<-c.done
	}
	return nil
}

// fail ends the connection for a reason, unless it has ended. What is open and
// not in use is closed.
func (c *Client) fail(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	close(c.gone)
	calls := c.calls
	c.calls = nil
	unused := c.takeUnused()
	c.mu.Unlock()
	for _, call := range calls {
		call.deliver(event{err: err})
	}
	closeAll(unused)
	switch {
	case errors.Is(err, ErrClosed):
		c.out.End()
	case errors.Is(err, ErrFault):
		m := tell(err)
		c.out.Put(wire.Frame{Type: wire.Error, Payload: m.Append(nil)})
		c.out.End()
	default:
		c.out.Abort(err)
	}
}

// takeUnused takes out the blocks that no lease is in. The caller holds mu.
func (c *Client) takeUnused() (unused []*opened) {
	for id, b := range c.blocks {
		if b.leases == 0 {
			unused = append(unused, b)
			delete(c.blocks, id)
		}
	}
	return unused
}

// call is a request of the client's that is under way.
type call struct {
	client *Client
	number uint32
	name   string // that it is about
	stream bool   // it subscribes, and is ended by CANCEL
	slot   bool   // it has one of the client's

	ready chan struct{}
	mu    sync.Mutex
	queue []event
	left  bool  // nobody waits for the answers
	over  error // why no more of them are taken
}

// event is an answer, or the reason why there is none.
type event struct {
	frame wire.Frame
	batch *wire.BatchMessage
	lease *held // of the batch
	err   error
}

// call sends a request, when fewer are under way than the protocol allows.
func (c *Client) call(ctx context.Context, t wire.Type, payload []byte, to *call) (*call, error) {
	select {
	case c.slots <- struct{}{}:
	case <-c.leaving:
	case <-c.gone:
	case <-ctx.Done():
		return nil, fmt.Errorf("%d requests are under way: %w", cap(c.slots), ctx.Err())
	}
	to.slot = true
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, c.err
	}
	if c.closing {
		return nil, fmt.Errorf("client of %s: %w", c.path, ErrClosed)
	}
	c.send(t, payload, to)
	return to, nil
}

// keepAlive says that the client lives, however long answers take: here they wait
// while blocks are opened and closed. Nobody waits for this one's.
func (c *Client) keepAlive() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.send(wire.Ping, nil, &call{left: true})
	}
}

// send sends a request. The caller holds mu.
func (c *Client) send(t wire.Type, payload []byte, to *call) {
	for c.number++; c.number == 0 || c.calls[c.number] != nil; {
		c.number++
	}
	to.client, to.number, to.ready = c, c.number, make(chan struct{}, 1)
	c.calls[to.number] = to
	c.out.Put(wire.Frame{Type: t, Request: to.number, Payload: payload})
}

// ask sends a request that has one answer.
func (c *Client) ask(ctx context.Context, t, answer wire.Type) ([]byte, error) {
	call, err := c.call(ctx, t, nil, &call{})
	if err != nil {
		return nil, err
	}
	defer call.leave()
	e, err := call.next(ctx)
	if err != nil {
		return nil, err
	}
	if e.frame.Type != answer {
		return nil, c.fault("%v in answer to %v", e.frame.Type, t)
	}
	return e.frame.Payload, nil
}

// fault ends the connection with a server that breaks the protocol.
func (c *Client) fault(format string, a ...any) error {
	err := fmt.Errorf("%w: "+format, append([]any{ErrFault}, a...)...)
	c.fail(err)
	return err
}

// deliver passes an answer on. What nobody waits for is given back.
func (k *call) deliver(e event) {
	k.mu.Lock()
	left := k.left || k.over != nil
	if !left {
		k.queue = append(k.queue, e)
	}
	k.mu.Unlock()
	if left {
		e.drop()
	} else {
		signal(k.ready)
	}
}

func (e event) drop() {
	if e.lease != nil {
		e.lease.release()
	}
}

// next waits for the next answer. An ERROR is one.
func (k *call) next(ctx context.Context) (event, error) {
	for {
		k.mu.Lock()
		if len(k.queue) > 0 {
			e := k.queue[0]
			k.queue = k.queue[1:]
			k.mu.Unlock()
			if e.err == nil && e.frame.Type == wire.Error {
				e.err = parseError(e.frame.Payload)
			}
			if e.err != nil { // whoever asks again gets the same answer
				k.again(event{err: e.err})
			}
			return e, e.err
		}
		over := k.over
		k.mu.Unlock()
		if over != nil {
			return event{}, over
		}
		select {
		case <-k.ready:
		case <-ctx.Done():
			return event{}, ctx.Err()
		}
	}
}

// again puts an answer back.
func (k *call) again(e event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.left {
		k.queue = append([]event{e}, k.queue...)
	}
}

// end gives back what has come and what will, and tells who waits why.
func (k *call) end(err error) {
	k.mu.Lock()
	k.over = err
	queue := k.queue
	k.queue = nil
	k.mu.Unlock()
	signal(k.ready)
	for _, e := range queue {
		e.drop()
	}
	if k.stream {
		k.client.out.Put(wire.Frame{Type: wire.Cancel, Request: k.number})
	}
}

// leave gives back what has come and what will.
func (k *call) leave() {
	k.mu.Lock()
	k.left = true
	queue := k.queue
	k.queue = nil
	k.mu.Unlock()
	for _, e := range queue {
		e.drop()
	}
}
