package arrowzarr

import (
	"context"
	"fmt"
	"sync"
)

// budget bounds the memory of the batches that are held at a time. Batches
// whose rows are being written give theirs back; those that wait for the rest of
// their chunk do not. Where the waiting ones leave no room for the next batch,
// none will come, and that is an error rather than a standstill.
type budget struct {
	limit int64

	mu      sync.Mutex
	changed chan struct{} // closed when used or waiting changes
	used    int64
	waiting int64
}

func newBudget(limit int64) *budget { return &budget{limit: limit, changed: make(chan struct{})} }

// take waits until there is room for n bytes, and takes it.
func (b *budget) take(ctx context.Context, n int64) error {
	for {
		b.mu.Lock()
		if b.used+n <= b.limit {
			b.used += n
			b.mu.Unlock()
			return nil
		}
		if b.waiting+n > b.limit {
			b.mu.Unlock()
			return failed(PartUsage, fmt.Errorf("the batches that make up one chunk take more than %d bytes, half of --max-memory: lower --chunk-rows, or raise --max-memory", b.limit))
		}
		changed := b.changed
		b.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// give returns n bytes.
func (b *budget) give(n int64) { b.change(func() { b.used -= n }) }

// wait says how many of the bytes belong to batches that wait for more.
func (b *budget) wait(n int64) { b.change(func() { b.waiting = n }) }

func (b *budget) change(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
	close(b.changed)
	b.changed = make(chan struct{})
}
