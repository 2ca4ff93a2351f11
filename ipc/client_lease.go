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

// clientLease is a lease on the client's side. Each buffer that shows a block holds a
// reference, and so does the code that assembles the batch. The last release ends the
// lease: it sends RELEASE while the connection is open.
//
// Client.Close keeps the connection open until the last lease has ended. If the server
// ends the connection, the memory stays mapped until the last release, and Client.Err
// says that nothing protects it any longer. server_lease.go has the server's side.
type clientLease struct {
	client   *Client
	number   uint64
	sequence uint64
	name     string
	bytes    int64
	since    time.Time
	blocks   map[uint64]*openedBlock
	refs     atomic.Int64
}

// newClientLease records a lease and finds its blocks. The caller holds mu.
func (c *Client) newClientLease(name string, m *wire.BatchMessage) (*clientLease, error) {
	l := &clientLease{client: c, number: m.Lease, sequence: m.Sequence, name: name, since: time.Now(), blocks: map[uint64]*openedBlock{}}
	l.refs.Store(1)
	for _, p := range m.Parts {
		for _, r := range p.Regions {
			b := c.blocks[r.Block]
			if b == nil {
				return nil, fmt.Errorf("lease %d uses block %d, which was not announced: %w", m.Lease, r.Block, ErrFault)
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

func (l *clientLease) retain() { l.refs.Add(1) }

// release drops a reference. The last one ends the lease.
func (l *clientLease) release() {
	if l.refs.Add(-1) > 0 {
		return
	}
	c := l.client
	c.mu.Lock()
	delete(c.leases, l.number)
	for _, b := range l.blocks {
		b.leases--
	}
	var unused []*openedBlock
	if c.err != nil {
		unused = c.detachUnused()
	} else {
		c.out.Put(wire.Frame{Type: wire.Release, Payload: wire.AppendNumbers(nil, []uint64{l.number})})
	}
	last := c.closing && c.err == nil && len(c.leases) == 0
	c.mu.Unlock()
	closeBlocks(unused)
	if last {
		c.fail(fmt.Errorf("ipc.Client: client of %s: %w", c.path, ErrClosed))
	}
}

// Leases returns the client's leases, oldest first.
func (c *Client) Leases() []LeaseStat {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]LeaseStat, 0, len(c.leases))
	for _, l := range c.leases {
		all = append(all, LeaseStat{Lease: l.number, Sequence: l.sequence, Bytes: l.bytes, Since: l.since, Name: l.name})
	}
	slices.SortFunc(all, func(a, b LeaseStat) int { return cmp.Compare(a.Lease, b.Lease) })
	return all
}
