package ipc

import (
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ipc/internal/wire"
)

// held is a lease, as the client sees it: one reference for each buffer that
// shows a block, and one for who puts the batch together.
type held struct {
	client   *Client
	number   uint64
	sequence uint64
	name     string
	bytes    int64
	since    time.Time
	blocks   map[uint64]*opened
	refs     atomic.Int64
}

// newHeld notes a lease, and finds its blocks. The caller holds mu.
func (c *Client) newHeld(name string, m *wire.BatchMessage) (*held, error) {
	l := &held{client: c, number: m.Lease, sequence: m.Sequence, name: name, since: time.Now(), blocks: map[uint64]*opened{}}
	l.refs.Store(1)
	for _, p := range m.Parts {
		for _, r := range p.Regions {
			b := c.blocks[r.Block]
			if b == nil {
				return nil, fmt.Errorf("lease %d is in block %d, which was not announced: %w", m.Lease, r.Block, ErrFault)
			}
			if err := arrowbuf.CheckRange(r.Offset, r.Length, b.size); err != nil {
				return nil, fmt.Errorf("lease %d in block %d: %w: %w", m.Lease, r.Block, ErrFault, err)
			}
			l.bytes += r.Length
			l.blocks[r.Block] = b
		}
	}
	for _, b := range l.blocks {
		b.leases++
	}
	c.leases[m.Lease] = l
	return l, nil
}

func (l *held) retain() { l.refs.Add(1) }

// release gives a reference back, and with the last the lease.
func (l *held) release() {
	if l.refs.Add(-1) > 0 {
		return
	}
	c := l.client
	c.mu.Lock()
	delete(c.leases, l.number)
	for _, b := range l.blocks {
		b.leases--
	}
	var unused []*opened
	if c.err != nil {
		unused = c.takeUnused()
	} else {
		c.out.Put(wire.Frame{Type: wire.Release, Payload: wire.AppendNumbers(nil, []uint64{l.number})})
	}
	last := c.closing && c.err == nil && len(c.leases) == 0
	c.mu.Unlock()
	closeAll(unused)
	if last {
		c.fail(fmt.Errorf("client of %s: %w", c.path, ErrClosed))
	}
}

// LeaseStat is a batch or a buffer that a client holds.
type LeaseStat = wire.LeaseStat

// Held says what this client holds, the longest held first.
func (c *Client) Held() []LeaseStat {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]LeaseStat, 0, len(c.leases))
	for _, l := range c.leases {
		all = append(all, LeaseStat{Lease: l.number, Sequence: l.sequence, Bytes: l.bytes, Since: l.since, Name: l.name})
	}
	slices.SortFunc(all, func(a, b LeaseStat) int { return cmp.Compare(a.Lease, b.Lease) })
	return all
}
