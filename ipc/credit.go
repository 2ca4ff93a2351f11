package ipc

import (
	"context"
	"fmt"
	"math"
	"sync"
)

// credit is how many batches a subscriber takes.
type credit struct {
	mu    sync.Mutex
	n     uint64
	added chan struct{}
}

func newCredit(n uint32) *credit { return &credit{n: uint64(n), added: make(chan struct{}, 1)} }

// take waits for credit and uses one of it. It is false when ctx ends.
func (c *credit) take(ctx context.Context) bool {
	for {
		c.mu.Lock()
		got := c.n > 0
		if got {
			c.n--
		}
		c.mu.Unlock()
		if got {
			return true
		}
		select {
		case <-c.added:
		case <-ctx.Done():
			return false
		}
	}
}

// addCredit adds to a subscription's credit. One that has just ended is not there
// any more.
func (c *conn) addCredit(number uint32, more uint32) error {
	c.mu.Lock()
	r := c.requests[number]
	c.mu.Unlock()
	if r == nil {
		return nil
	}
	if r.credit == nil {
		return fmt.Errorf("request %d is no subscription: %w", number, ErrFault)
	}
	r.credit.mu.Lock()
	r.credit.n += uint64(more)
	n := r.credit.n
	r.credit.mu.Unlock()
	if n > math.MaxInt32 {
		return fmt.Errorf("a credit of %d batches: %w", n, ErrFault)
	}
	signal(r.credit.added)
	return nil
}
