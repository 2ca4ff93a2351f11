package ipc

import (
	"fmt"
	"os"
	"sync"

	"github.com/quiver-gpu/quiver/cudabuf"
)

// peerPools are pools of a server that a client has open, by their numbers: each
// once, from the first block in it that is opened until the last is closed.
type peerPools struct {
	mu   sync.Mutex
	open map[uint64]*peerPool
}

type peerPool struct {
	of     *peerPools
	number uint64
	dev    *cudabuf.Device
	pool   *cudabuf.PeerPool
	blocks int // guarded by peerPools
}

// get returns a pool, which it opens by the file unless it is open. The caller
// releases the result.
func (p *peerPools) get(number uint64, dev *cudabuf.Device, file *os.File) (*peerPool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := p.open[number]
	if found == nil {
		pool, err := dev.OpenPoolFD(file)
		if err != nil {
			return nil, err
		}
		found = &peerPool{of: p, number: number, dev: dev, pool: pool}
		if p.open == nil {
			p.open = map[uint64]*peerPool{}
		}
		p.open[number] = found
	}
	if found.dev != dev {
		return nil, fmt.Errorf("pool %d is on %v and on %v: %w", number, found.dev, dev, ErrFault)
	}
	found.blocks++
	return found, nil
}

// release gives a pool back, whose block is closed.
func (p *peerPool) release() {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	if p.blocks--; p.blocks == 0 {
		delete(p.of.open, p.number)
		_ = p.pool.Close() // on a lost device nothing is left of it
	}
}
