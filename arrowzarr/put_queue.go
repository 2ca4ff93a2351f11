package arrowzarr

import (
	"bytes"
	"context"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/quiver-gpu/quiver/zarr/store"
)

// putQueue is a store that writes many values at once: Set returns when the value is
// copied, and the request continues. An object store takes long for each request, while
// encoding must not wait. flush waits for the requests.
type putQueue struct {
	store.Store
	ctx      context.Context // of the requests: the caller's may end when Set has returned
	requests *semaphore.Weighted
	memory   *semaphore.Weighted
	size     int64 // of memory
	existing bool  // the output has values before, which Delete deletes

	mu      sync.Mutex
	changed *sync.Cond
	next    int64 // number of the next request
	running map[int64]bool
	err     error // the first of any request
}

// newPutQueue returns a queue of at most n requests, whose values have at most size bytes.
func newPutQueue(ctx context.Context, s store.Store, n, size int64) *putQueue {
	q := &putQueue{Store: s, ctx: ctx, requests: semaphore.NewWeighted(n), memory: semaphore.NewWeighted(size), size: size, running: map[int64]bool{}}
	q.changed = sync.NewCond(&q.mu)
	return q
}

// Set begins a request. It returns the error of an earlier one.
func (q *putQueue) Set(ctx context.Context, key string, value []byte) error {
	if err := store.CheckKey(key); err != nil {
		return err
	}
	bytesHeld := min(int64(len(value)), q.size)
	if err := q.memory.Acquire(ctx, bytesHeld); err != nil {
		return err
	}
	if err := q.requests.Acquire(ctx, 1); err != nil {
		q.memory.Release(bytesHeld)
		return err
	}
	q.mu.Lock()
	if err := q.err; err != nil {
		q.mu.Unlock()
		q.requests.Release(1)
		q.memory.Release(bytesHeld)
		return err
	}
	number := q.next
	q.next++
	q.running[number] = true
	q.mu.Unlock()
	value = bytes.Clone(value)
	go func() {
		err := q.Store.Set(q.ctx, key, value)
		q.requests.Release(1)
		q.memory.Release(bytesHeld)
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(q.running, number)
		if q.err == nil {
			q.err = err
		}
		q.changed.Broadcast()
	}()
	return nil
}

// Delete does nothing if the output is new: the arrays of Zarr delete chunks of fill
// values, which would be a request each.
func (q *putQueue) Delete(ctx context.Context, key string) error {
	if q.existing {
		return q.Store.Delete(ctx, key)
	}
	return ctx.Err()
}

// flush waits for the requests that have begun, and returns the first error of any.
func (q *putQueue) flush() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	end := q.next
	for q.err == nil && q.anyBefore(end) {
		q.changed.Wait()
	}
	return q.err
}

func (q *putQueue) anyBefore(end int64) bool {
	for number := range q.running {
		if number < end {
			return true
		}
	}
	return false
}

// wait waits until no request runs, also after an error: what they write must be deleted.
func (q *putQueue) wait() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.running) > 0 {
		q.changed.Wait()
	}
}

// flushStore waits for the values that a store still writes.
func flushStore(ctx context.Context, s store.Store) error {
	if q, ok := s.(*putQueue); ok {
		return q.flush()
	}
	return ctx.Err()
}
