package ipc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quiver-gpu/quiver/ipc/internal/wire"
)

// A lease is a client's right to read an export. grantLease begins it. It ends
//
//   - by RELEASE, when the client has released the batch: handleReleased;
//   - with the connection, for any reason: the client died or closed it, it broke the
//     protocol, it sent nothing for KeepAliveTimeout (readFrames returns), it held a
//     lease for longer than MaxLeaseTime (enforceLeaseTime), or the server closes.
//     serverConn.serve then calls releaseAll, the one place where leases end so.
//
// After RELEASE nothing reads the memory, so an owned block is used again. After the
// end of a connection the client may still read: releaseAll taints the blocks of its
// leases, and releaseExport retires a tainted block instead of reusing it. Memory of
// the publisher is then released; a mapping of the client keeps it only as far as the
// mechanism does (docs/sharing.md, Leases).
//
// client_lease.go is the client's side.
type lease struct {
	export     *export
	sequence   uint64
	grantedAt  time.Time
	clockStart time.Time // start of the time that MaxLeaseTime bounds; zero until all is sent
}

// grantLease sends an object to the client, with a lease. It waits for the
// object's bytes unless the client can wait for the blocks' events itself.
func (c *serverConn) grantLease(ctx context.Context, number uint32, o *object) (l *lease, err error) {
	ex, err := o.exportFor(c)
	if err != nil {
		return nil, err
	}
	done, err := ex.ready()
	events := c.hello.Events && c.hello.Process.SameNamespace(c.server.self) && c.hello.Process != c.server.self
	if err == nil && !done && !events {
		done, err = true, ex.waitReady(ctx)
	}
	if err != nil {
		ex.release()
		return nil, err
	}
	c.server.blocks.withLock(func() { l, err = c.grantLocked(number, o, ex, !done, events) })
	return l, err
}

// grantLocked takes over one reference to the export. The caller holds the
// registry's mu.
func (c *serverConn) grantLocked(number uint32, o *object, ex *export, pending, events bool) (*lease, error) {
	if c.closed {
		ex.releaseLocked()
		return nil, ErrClosed
	}
	m := wire.BatchMessage{Lease: c.lastLease + 1, Sequence: o.sequence, Pending: pending, Parts: ex.parts}
	payload := m.Append(nil)
	if len(payload) > wire.MaxPayload {
		ex.releaseLocked()
		return nil, fmt.Errorf("batch %d of %q: its description has %d bytes, want at most %d in a frame", o.sequence, o.name, len(payload), wire.MaxPayload)
	}
	for _, b := range ex.blocks {
		if _, known := b.clients[c]; known {
			continue
		}
		announced, err := b.announcement(c.server, events)
		if err != nil {
			ex.releaseLocked()
			return nil, err
		}
		b.clients[c] = struct{}{}
		c.out.Put(announced)
	}
	c.lastLease++
	l := &lease{export: ex, sequence: o.sequence, grantedAt: time.Now()}
	c.leases[c.lastLease] = l
	for _, b := range ex.blocks {
		b.leases++
	}
	c.out.Put(wire.Frame{Type: wire.Batch, Request: number, Payload: payload})
	return l, nil
}

// startLeaseClocks starts the time that MaxLeaseTime bounds. It is called after
// all data is sent, since the client cannot release the leases earlier.
func (c *serverConn) startLeaseClocks(leases []*lease) {
	c.server.blocks.withLock(func() {
		for _, l := range leases {
			l.clockStart = time.Now()
		}
	})
}

// handleReleased handles RELEASE (leases) and FORGOTTEN (blocks). The caller
// holds the registry's mu.
func (c *serverConn) handleReleased(frameType wire.Type, numbers []uint64) error {
	s := &c.server.blocks
	for _, n := range numbers {
		if frameType == wire.Release {
			l := c.leases[n]
			if l == nil {
				return fmt.Errorf("the client does not hold lease %d: %w", n, ErrFault)
			}
			c.endLease(n, l)
			continue
		}
		b := s.byID[n]
		if b == nil || !b.retiring {
			return fmt.Errorf("the server did not send FORGET for block %d: %w", n, ErrFault)
		}
		if _, known := b.clients[c]; !known {
			return fmt.Errorf("block %d was not announced to the client: %w", n, ErrFault)
		}
		s.removeClient(c, b)
	}
	return nil
}

// endLease removes a lease. The caller holds the registry's mu.
func (c *serverConn) endLease(number uint64, l *lease) {
	delete(c.leases, number)
	for _, b := range l.export.blocks {
		b.leases--
	}
	l.export.releaseLocked()
}

// releaseAll ends all leases of a closed connection. The client may still read
// its memory, so blocks with leases are never written again. The caller holds the
// registry's mu.
func (c *serverConn) releaseAll() {
	c.closed = true
	for number, l := range c.leases {
		for _, b := range l.export.blocks {
			b.tainted = true
		}
		c.endLease(number, l)
	}
	for _, b := range c.server.blocks.byID {
		if _, known := b.clients[c]; known {
			c.server.blocks.removeClient(c, b)
		}
	}
}

// enforceLeaseTime closes the connections of clients that hold a lease for longer
// than MaxLeaseTime. It checks every quarter of that time.
func (s *Server) enforceLeaseTime() {
	tick := time.NewTicker(max(s.options.MaxLeaseTime/4, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
			for c, err := range s.expiredClients() {
				s.goroutines.Go(func() { c.close(err) })
			}
		}
	}
}

// expiredClients returns each connection with an expired lease, once, and the
// error to close it with.
func (s *Server) expiredClients() map[*serverConn]error {
	expired := map[*serverConn]error{}
	conns := s.connections()
	s.blocks.withLock(func() {
		for _, c := range conns {
			for number, l := range c.leases {
				if held := time.Since(l.clockStart); !l.clockStart.IsZero() && held > s.options.MaxLeaseTime && !c.expired {
					c.expired = true
					expired[c] = fmt.Errorf("ipc.Server: lease %d, batch %d of %q: held for %v, want at most %v: %w",
						number, l.sequence, l.export.name, held.Round(time.Millisecond), s.options.MaxLeaseTime, ErrLeaseExpired)
				}
			}
		}
	})
	return expired
}

// Shutdown stops accepting clients, waits until the connected clients hold no
// leases, and closes the server. If ctx is done first, it closes the server and
// returns ctx's error. It withdraws no names.
func (s *Server) Shutdown(ctx context.Context) error {
	_ = s.listener.Close()
	for tick := time.NewTicker(5 * time.Millisecond); ; {
		if s.leaseCount() == 0 {
			tick.Stop()
			return s.Close()
		}
		select {
		case <-ctx.Done():
			tick.Stop()
			return errors.Join(ctx.Err(), s.Close())
		case <-tick.C:
		}
	}
}

// leaseCount returns the number of leases, counted once per block.
func (s *Server) leaseCount() (n int) {
	s.blocks.withLock(func() {
		for _, b := range s.blocks.byID {
			n += b.leases
		}
	})
	return n
}
