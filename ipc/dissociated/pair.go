package dissociated

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/quiver-gpu/quiver/ipc/internal/unixsocket"
)

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
