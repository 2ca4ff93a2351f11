package ipc

import (
	"context"
	"fmt"
	"sync"

	"github.com/quiver-gpu/quiver/ipc/internal/wire"
)

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
