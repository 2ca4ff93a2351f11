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
	ample int64 // of limit, how much reading ahead may fill

	mu      sync.Mutex
	changed chan struct{} // closed when used or waiting changes
	used    int64
	waiting int64
}

func newBudget(limit int64) *budget {
	return &budget{limit: limit, ample: limit, changed: make(chan struct{})}
}

// take waits until there is room for n bytes, and takes it.
func (b *budget) take(ctx context.Context, n int64) error {
	return b.takeWhen(ctx, n, func() (bool, error) {
		if b.used+n > b.limit && b.waiting+n > b.limit {
			return false, failed(PartUsage, fmt.Errorf("the batches that make up one chunk take more than %d bytes, half of --max-memory: lower --chunk-rows, or raise --max-memory", b.limit))
		}
		return b.used+n <= b.limit, nil
	})
}

// expect waits until there is ample room for n bytes, or until no held batch
// will give any back. Nothing is taken.
func (b *budget) expect(ctx context.Context, n int64) error {
	return b.takeWhen(ctx, 0, func() (bool, error) {
		return b.used+n <= b.ample || b.used <= b.waiting, nil
	})
}

// takeWhen takes n bytes as soon as may says so.
func (b *budget) takeWhen(ctx context.Context, n int64, may func() (bool, error)) error {
	for {
		b.mu.Lock()
		ok, err := may()
		if ok {
			b.used += n
		}
		changed := b.changed
		b.mu.Unlock()
		if ok || err != nil {
			return err
		}
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
