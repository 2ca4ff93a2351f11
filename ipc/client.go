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

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ipc/handle"
	"github.com/quiver-gpu/quiver/ipc/internal/unixsocket"
	"github.com/quiver-gpu/quiver/ipc/internal/wire"
)

// DialOptions configures a client. The zero value is a client without a GPU, of a
// server of the same user or root.
type DialOptions struct {
	// Devices are the GPUs on which shared memory is opened. Memory of any other
	// GPU is received as a copy on the host. The CPU may be among them; it is not
	// needed.
	Devices []arrowbuf.Device
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
	ServerUIDs []uint32
}

// Client is a connection to a Server. Its methods may be called from any
// goroutine. At most 64 requests are in progress; further calls wait until one
// ends or their context is done. A Subscription is a request until it ends.
type Client struct {
	options        DialOptions
	gpus           []*cudabuf.Device // of DialOptions.Devices
	path           string
	self           handle.Process
	in             *wire.Conn
	out            *wire.Queue
	welcome        wire.WelcomeMessage
	pools          importedPools
	slots          chan struct{} // a semaphore of the requests in progress
	closeRequested chan struct{} // closed by Close
	ended          chan struct{} // closed when the connection has ended
	readerDone     chan struct{} // closed when readFrames has returned

	mu          sync.Mutex
	err         error // the reason why the connection ended
	closing     bool
	lastRequest uint32
	requests    map[uint32]*pendingRequest
	blocks      map[uint64]*openedBlock
	leases      map[uint64]*clientLease
	lastLease   uint64 // the number of the last lease
}

var allMechanisms = handle.Mechanisms{handle.Local, handle.CUDAFD, handle.CUDAPool, handle.CUDAIPC, handle.Memory}

// Dial connects to the server at a socket path. The error wraps ErrServerGone if
// no process listens there. It wraps ErrRefused if the server rejects this
// process or runs as a user that is not allowed.
func Dial(ctx context.Context, path string, o DialOptions) (*Client, error) {
	c, err := dial(ctx, path, o)
	if err != nil {
		return nil, fmt.Errorf("ipc.Dial: socket %s: %w", path, err)
	}
	return c, nil
}

// gpusOf returns the GPUs among devices.
func gpusOf(devices []arrowbuf.Device) ([]*cudabuf.Device, error) {
	var gpus []*cudabuf.Device
	for i, dev := range devices {
		gpu, ok := arrowbuf.As[*cudabuf.Device](dev)
		switch {
		case ok && gpu != nil:
			gpus = append(gpus, gpu)
		case dev != arrowbuf.CPU():
			return nil, fmt.Errorf("device %d: got %v, want a GPU or the CPU: %w", i, dev, arrowbuf.ErrDevice)
		}
	}
	return gpus, nil
}

func dial(ctx context.Context, path string, o DialOptions) (*Client, error) {
	self, err := handle.Self()
	if err != nil {
		return nil, err
	}
	gpus, err := gpusOf(o.Devices)
	if err != nil {
		return nil, err
	}
	if o.Mechanisms == nil {
		o.Mechanisms = allMechanisms
	}
	if o.ServerUIDs == nil {
		o.ServerUIDs = []uint32{uint32(os.Getuid()), 0}
	}
	socket, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if errors.Is(err, os.ErrPermission) {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrServerGone, err)
	}
	c := &Client{
		options: o, gpus: gpus, path: path, self: self, in: wire.NewConn(socket.(*net.UnixConn)),
		slots: make(chan struct{}, maxRequests), closeRequested: make(chan struct{}),
		ended: make(chan struct{}), readerDone: make(chan struct{}),
		requests: map[uint32]*pendingRequest{}, blocks: map[uint64]*openedBlock{}, leases: map[uint64]*clientLease{},
	}
	if err := c.handshake(ctx); err != nil {
		_ = c.in.Close()
		return nil, err
	}
	c.out = wire.NewQueue(c.in, defaultPeerTimeout, maxUnsentBytes)
	go c.readFrames()
	if c.welcome.KeepAliveMillis > 0 {
		go c.sendKeepAlives(time.Duration(c.welcome.KeepAliveMillis) * time.Millisecond / 4)
	}
	return c, nil
}

// handshake checks the server's credentials, sends HELLO and waits for the reply.
func (c *Client) handshake(ctx context.Context) error {
	_, uid, err := unixsocket.Credentials(c.in.Unix())
	if err != nil {
		return err
	}
	if !slices.Contains(c.options.ServerUIDs, uid) {
		return fmt.Errorf("user of the server: got %d, want one of %v: %w", uid, c.options.ServerUIDs, ErrRefused)
	}
	deadline := time.Now().Add(defaultPeerTimeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	if err := errors.Join(c.in.SetReadDeadline(deadline), c.in.SetWriteDeadline(deadline)); err != nil {
		return err
	}
	hello := wire.HelloMessage{Lowest: wire.Version, Highest: wire.Version, Process: c.self, Mechanisms: c.options.Mechanisms, Events: c.options.Async && len(c.gpus) > 0}
	for _, dev := range c.gpus {
		hello.Devices = append(hello.Devices, dev.UUID())
	}
	// A server that refuses may have closed its end, so the write can fail. The
	// reason is still there to read.
	written := c.in.Write(wire.Frame{Type: wire.Hello, Payload: hello.Append(nil)})
	f, err := c.in.Read()
	if err != nil {
		return c.connectionError(errors.Join(err, written))
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
func (c *Client) connectionError(err error) error {
	if errors.Is(err, ErrFault) || errors.Is(err, ErrServerGone) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrServerGone, err)
}

// sendKeepAlives sends a PING at intervals until the connection ends.
func (c *Client) sendKeepAlives(every time.Duration) {
	for tick := time.NewTicker(every); ; {
		select {
		case <-tick.C:
			c.sendPing()
		case <-c.ended:
			tick.Stop()
			return
		}
	}
}

// Server returns the process that serves.
func (c *Client) Server() handle.Process { return c.welcome.Process }

// Done returns a channel that is closed when the connection has ended, through
// Close or the server. Batches stay mapped until they are released.
func (c *Client) Done() <-chan struct{} { return c.ended }

// Err returns the reason why the connection ended, which wraps for example
// ErrServerGone or ErrClosed. It returns nil while the connection is open.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// hasEnded reports whether the connection has ended. The caller holds mu.
func (c *Client) hasEnded() bool { return c.err != nil }

// Close ends all requests. Batches and buffers stay valid, and the connection
// stays open for their leases, until they are released. A second Close does
// nothing.
func (c *Client) Close() error {
	closed := fmt.Errorf("ipc.Client: client of %s: %w", c.path, ErrClosed)
	c.mu.Lock()
	var requests []*pendingRequest
	if !c.closing {
		requests = slices.Collect(maps.Values(c.requests))
		close(c.closeRequested)
	}
	c.closing = true
	c.mu.Unlock()
	for _, k := range requests {
		k.finish(closed)
	}
	c.mu.Lock()
	idle := len(c.leases) == 0
	c.mu.Unlock()
	if idle {
		c.fail(closed)
		<-c.readerDone
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
	close(c.ended)
	requests := c.requests
	c.requests = nil
	unused := c.detachUnused()
	c.mu.Unlock()
	for _, request := range requests {
		request.deliver(response{err: err})
	}
	closeBlocks(unused)
	switch {
	case errors.Is(err, ErrClosed):
		c.out.Drain()
	case errors.Is(err, ErrFault):
		m := errorMessage(err)
		c.out.Put(wire.Frame{Type: wire.Error, Payload: m.Append(nil)})
		c.out.Drain()
	default:
		c.out.Abort(err)
	}
}

// detachUnused removes and returns the blocks that no lease uses. The caller
// holds mu.
func (c *Client) detachUnused() (unused []*openedBlock) {
	for id, b := range c.blocks {
		if b.leases == 0 {
			unused = append(unused, b)
			delete(c.blocks, id)
		}
	}
	return unused
}

// pendingRequest is a client's request in progress.
type pendingRequest struct {
	client *Client
	number uint32
	name   string // the published name that it is about
	stream bool   // it is a subscription, which CANCEL ends
	slot   bool   // it holds a slot of the client

	ready     chan struct{}
	mu        sync.Mutex
	queue     []response
	abandoned bool  // the caller has returned, so responses are dropped
	err       error // if set, further responses are dropped and next returns it
}

// response is a reply to a request, or the error that ended the request.
type response struct {
	frame wire.Frame
	batch *wire.BatchMessage
	lease *clientLease // of the batch
	err   error
}

// startRequest sends a request as soon as the protocol's limit allows another
// one.
func (c *Client) startRequest(ctx context.Context, t wire.Type, payload []byte, request *pendingRequest) (*pendingRequest, error) {
	select {
	case c.slots <- struct{}{}:
	case <-c.closeRequested:
	case <-c.ended:
	case <-ctx.Done():
		return nil, fmt.Errorf("%d requests are in progress: %w", cap(c.slots), ctx.Err())
	}
	request.slot = true
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, c.err
	}
	if c.closing {
		return nil, fmt.Errorf("ipc.Client: client of %s: %w", c.path, ErrClosed)
	}
	c.sendRequest(t, payload, request)
	return request, nil
}

// sendPing sends a PING, which proves that the client lives even if opening
// blocks delays its requests. The reply is dropped.
func (c *Client) sendPing() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.sendRequest(wire.Ping, nil, &pendingRequest{abandoned: true})
	}
}

// sendRequest sends a request. The caller holds mu.
func (c *Client) sendRequest(t wire.Type, payload []byte, request *pendingRequest) {
	for c.lastRequest++; c.lastRequest == 0 || c.requests[c.lastRequest] != nil; {
		c.lastRequest++
	}
	request.client, request.number, request.ready = c, c.lastRequest, make(chan struct{}, 1)
	c.requests[request.number] = request
	c.out.Put(wire.Frame{Type: t, Request: request.number, Payload: payload})
}

// roundTrip sends a request that has one reply, and waits for the reply.
func (c *Client) roundTrip(ctx context.Context, t, reply wire.Type) ([]byte, error) {
	request, err := c.startRequest(ctx, t, nil, &pendingRequest{})
	if err != nil {
		return nil, err
	}
	defer request.abandon()
	e, err := request.next(ctx)
	if err != nil {
		return nil, err
	}
	if e.frame.Type != reply {
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
func (r *pendingRequest) deliver(e response) {
	r.mu.Lock()
	dropped := r.abandoned || r.err != nil
	if !dropped {
		r.queue = append(r.queue, e)
	}
	r.mu.Unlock()
	if dropped {
		e.release()
	} else {
		notify(r.ready)
	}
}

func (e response) release() {
	if e.lease != nil {
		e.lease.release()
	}
}

// next waits for the next response. It returns an ERROR frame as an error.
func (r *pendingRequest) next(ctx context.Context) (response, error) {
	for {
		r.mu.Lock()
		if len(r.queue) > 0 {
			e := r.queue[0]
			r.queue = r.queue[1:]
			r.mu.Unlock()
			if e.err == nil && e.frame.Type == wire.Error {
				e.err = parseError(e.frame.Payload)
			}
			if e.err != nil { // a further call gets the same error
				r.requeue(response{err: e.err})
			}
			return e, e.err
		}
		err := r.err
		r.mu.Unlock()
		if err != nil {
			return response{}, err
		}
		select {
		case <-r.ready:
		case <-ctx.Done():
			return response{}, ctx.Err()
		}
	}
}

// requeue puts a response back at the front of the queue.
func (r *pendingRequest) requeue(e response) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.abandoned {
		r.queue = append([]response{e}, r.queue...)
	}
}

// finish releases all responses, present and future. Calls of next return err.
func (r *pendingRequest) finish(err error) {
	r.mu.Lock()
	r.err = err
	queue := r.queue
	r.queue = nil
	r.mu.Unlock()
	notify(r.ready)
	for _, e := range queue {
		e.release()
	}
	if r.stream {
		r.client.out.Put(wire.Frame{Type: wire.Cancel, Request: r.number})
	}
}

// abandon releases all responses, present and future.
func (r *pendingRequest) abandon() {
	r.mu.Lock()
	r.abandoned = true
	queue := r.queue
	r.queue = nil
	r.mu.Unlock()
	for _, e := range queue {
		e.release()
	}
}
