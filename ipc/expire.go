package ipc

import (
	"fmt"
	"time"
)

// expire ends the connections of clients that hold something for longer than the
// server lets them. One may hold it a quarter of that longer.
func (s *Server) expire() {
	tick := time.NewTicker(max(s.o.LeaseLimit/4, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
			for c, err := range s.overdue() {
				s.work.Go(func() { c.end(err) })
			}
		}
	}
}

// overdue are clients that hold something for too long, each once, and what.
func (s *Server) overdue() map[*conn]error {
	found := map[*conn]error{}
	conns := s.clients()
	s.store.do(func() {
		for _, c := range conns {
			for number, l := range c.leases {
				if held := time.Since(l.counted); !l.counted.IsZero() && held > s.o.LeaseLimit && !c.expired {
					c.expired = true
					found[c] = fmt.Errorf("lease %d, batch %d of %q, held for %v, at most %v expected: %w",
						number, l.sequence, l.form.name, held.Round(time.Millisecond), s.o.LeaseLimit, ErrLeaseExpired)
				}
			}
		}
	})
	return found
}
