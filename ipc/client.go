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

// DialOptions configures a client. The zero value is a client without a GPU, of a
// server of the same user or root.
type DialOptions struct {
	// Devices are the GPUs on which shared memory is opened. Memory of any other
	// GPU is received as a copy on the host.
	Devices []*cudabuf.Device
	// Mechanisms lists the mechanisms to open memory with, best first; nil means
	// all.
	Mechanisms handle.Mechanisms
	// Async returns a batch on a GPU while the server's streams are still writing
	// it. The device's default stream, and all work that uses the batch, then
	// waits for the server's event. If the server dies first, that work reads
	// incomplete bytes; Err reports the death after the work. Without Async a
	// batch is returned when it is written.
	Async bool
	// ServerUIDs lists the user ids that the server may run as; nil means the
	// process's own and root.
	Servers []uint32
}

// Client is a connection to a Server. Its methods may be called from any
// goroutine. At most 64 requests are in progress; further calls wait until one
// ends or their context is done. A Subscription is a request until it ends.
type Client struct {
	o       DialOptions
	path    string
	self    handle.Process
	in      *wire.Conn
	out     *wire.Queue
	welcome wire.WelcomeMessage
	pools   peerPools
	slots   chan struct{} // a semaphore of the requests in progress
	leaving chan struct{} // closed by Close
	gone    chan struct{} // closed when the connection has ended
	done    chan struct{} // closed when readFrames has returned

	mu      sync.Mutex
	err     error // the reason why the connection ended
	closing bool
	number  uint32
	calls   map[uint32]*call
	blocks  map[uint64]*opened
	leases  map[uint64]*held
	last    uint64 // the number of the last lease
}

var allMechanisms = handle.Mechanisms{handle.Local, handle.CUDAFD, handle.CUDAPool, handle.CUDAIPC, handle.Memory}

// Dial connects to the server at a socket path. The error wraps ErrServerGone if
// no process listens there, and ErrRefused if the server rejects this process or
// runs as a user that is not allowed.
func Dial(ctx context.Context, path string, o DialOptions) (*Client, error) {
	c, err := dial(ctx, path, o)
	if err != nil {
		return nil, fmt.Errorf("ipc.Dial: socket %s: %w", path, err)
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

// handshake checks the server's credentials, sends HELLO and waits for the reply.
func (c *Client) greet(ctx context.Context) error {
	_, uid, err := unixsocket.Credentials(c.in.Unix())
	if err != nil {
		return err
	}
	if !slices.Contains(c.o.Servers, uid) {
		return fmt.Errorf("user of the server: got %d, want one of %v: %w", uid, c.o.Servers, ErrRefused)
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
	// A server that refuses may have closed its end, so the write can fail. The
	// reason is still there to read.
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
			return fmt.Errorf("protocol version: got %d, want %d: %w", c.welcome.Version, wire.Version, ErrVersion)
		}
		return c.in.SetReadDeadline(time.Time{})
	case wire.Error:
		return parseError(f.Payload)
	default:
		return fmt.Errorf("got %v, want WELCOME: %w", f.Type, ErrFault)
	}
}

// connectionError returns the error of a connection whose read failed with err.
func (c *Client) ended(err error) error {
	if errors.Is(err, ErrFault) || errors.Is(err, ErrServerGone) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrServerGone, err)
}

// sendKeepAlives sends a PING at intervals until the connection ends.
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

// Server returns the process that serves.
func (c *Client) Server() handle.Process { return c.welcome.Process }

// Done returns a channel that is closed when the connection has ended, through
// Close or the server. Batches stay mapped until they are released.
func (c *Client) Done() <-chan struct{} { return c.gone }

// Err returns the reason why the connection ended, which wraps for example
// ErrServerGone or ErrClosed. It returns nil while the connection is open.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// hasEnded reports whether the connection has ended. The caller holds mu.
func (c *Client) over() bool { return c.err != nil }

// Close ends all requests. Batches and buffers stay valid, and the connection
// stays open for their leases, until they are released. A second Close does
// nothing.
func (c *Client) Close() error {
	closed := fmt.Errorf("ipc.Client: client of %s: %w", c.path, ErrClosed)
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

// fail ends the connection with an error, unless it has ended. It closes the
// blocks that no lease uses.
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

// detachUnused removes and returns the blocks that no lease uses. The caller
// holds mu.
func (c *Client) takeUnused() (unused []*opened) {
	for id, b := range c.blocks {
		if b.leases == 0 {
			unused = append(unused, b)
			delete(c.blocks, id)
		}
	}
	return unused
}

// pendingRequest is a client's request in progress.
type call struct {
	client *Client
	number uint32
	name   string // the published name that it is about
	stream bool   // it is a subscription, which CANCEL ends
	slot   bool   // it holds a slot of the client

	ready chan struct{}
	mu    sync.Mutex
	queue []event
	left  bool  // the caller has returned, so responses are dropped
	over  error // if set, further responses are dropped and next returns it
}

// response is a reply to a request, or the error that ended the request.
type event struct {
	frame wire.Frame
	batch *wire.BatchMessage
	lease *held // of the batch
	err   error
}

// startRequest sends a request as soon as the protocol's limit allows another
// one.
func (c *Client) call(ctx context.Context, t wire.Type, payload []byte, to *call) (*call, error) {
	select {
	case c.slots <- struct{}{}:
	case <-c.leaving:
	case <-c.gone:
	case <-ctx.Done():
		return nil, fmt.Errorf("%d requests are in progress: %w", cap(c.slots), ctx.Err())
	}
	to.slot = true
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, c.err
	}
	if c.closing {
		return nil, fmt.Errorf("ipc.Client: client of %s: %w", c.path, ErrClosed)
	}
	c.send(t, payload, to)
	return to, nil
}

// sendPing sends a PING, which proves that the client lives even if opening
// blocks delays its requests. The reply is dropped.
func (c *Client) keepAlive() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.send(wire.Ping, nil, &call{left: true})
	}
}

// sendRequest sends a request. The caller holds mu.
func (c *Client) send(t wire.Type, payload []byte, to *call) {
	for c.number++; c.number == 0 || c.calls[c.number] != nil; {
		c.number++
	}
	to.client, to.number, to.ready = c, c.number, make(chan struct{}, 1)
	c.calls[to.number] = to
	c.out.Put(wire.Frame{Type: t, Request: to.number, Payload: payload})
}

// roundTrip sends a request that has one reply, and waits for the reply.
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
		return nil, c.fault("got %v in reply to %v", e.frame.Type, t)
	}
	return e.frame.Payload, nil
}

// fault ends the connection because the server violates the protocol.
func (c *Client) fault(format string, a ...any) error {
	err := fmt.Errorf("%w: "+format, append([]any{ErrFault}, a...)...)
	c.fail(err)
	return err
}

// deliver queues a response. It releases the response if the request has ended.
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

// next waits for the next response. It returns an ERROR frame as an error.
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
			if e.err != nil { // a further call gets the same error
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

// requeue puts a response back at the front of the queue.
func (k *call) again(e event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.left {
		k.queue = append([]event{e}, k.queue...)
	}
}

// finish releases all responses, present and future. Calls of next return err.
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

// abandon releases all responses, present and future.
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
