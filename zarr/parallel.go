package zarr

import (
	"context"
	"hash/maphash"
	"iter"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"
)

// parallelism returns the number of goroutines for a jobs argument: GOMAXPROCS if jobs
// is not positive.
func parallelism(jobs int) int {
	if jobs < 1 {
		return runtime.GOMAXPROCS(0)
	}
	return jobs
}

// waiting is the number of goroutines beyond GOMAXPROCS, unless the caller says how many.
// The scheduler takes the processor from a goroutine whose C function or system call lasts
// longer than 20 us. At its return the goroutine waits for one, which another then uses.
const waiting = 2

// hostParallelism is parallelism for chunks that the host encodes or decodes.
func hostParallelism(jobs int) int {
	if jobs < 1 {
		return parallelism(jobs) + waiting
	}
	return jobs
}

// forEachParallel calls f for each item in up to jobs goroutines. It stops at the first
// error. Each goroutine takes items itself: one per item would wake up another thread
// whenever one ends.
func forEachParallel[T any](ctx context.Context, jobs int, items iter.Seq[T], f func(context.Context, T) error) error {
	if jobs == 1 {
		for item := range items {
			if err := f(ctx, item); err != nil {
				return err
			}
			if ctx.Err() != nil {
				break
			}
		}
		return ctx.Err()
	}
	next, stop := iter.Pull(items)
	defer stop()
	group, groupCtx := errgroup.WithContext(ctx)
	var mu sync.Mutex
	workers := 1
	var work func() error
	work = func() error {
		for groupCtx.Err() == nil {
			mu.Lock()
			item, ok := next()
			more := ok && workers < jobs
			if more {
				workers++
			}
			mu.Unlock()
			if !ok {
				return nil
			}
			if more {
				group.Go(work)
			}
			if err := f(groupCtx, item); err != nil {
				return err
			}
		}
		return nil
	}
	group.Go(work)
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// keyedMutex is a mutex per key. The zero value is ready to use. Few keys share a part, so
// goroutines with keys of their own hardly wait for each other.
type keyedMutex [64]keyLocks

type keyLocks struct {
	mu    sync.Mutex
	locks map[string]*keyLock
}

type keyLock struct {
	held  chan struct{} // full while a goroutine holds the lock
	users int           // goroutines that hold the lock or wait for it
}

// lock waits for the lock of a key, unless the context is done before.
func (all *keyedMutex) lock(ctx context.Context, key string) (unlock func(), err error) {
	m := &all[maphash.String(shardSeed, key)%uint64(len(all))]
	m.mu.Lock()
	l := m.locks[key]
	if l == nil {
		if m.locks == nil {
			m.locks = map[string]*keyLock{}
		}
		l = &keyLock{held: make(chan struct{}, 1)}
		m.locks[key] = l
	}
	l.users++
	m.mu.Unlock()
	leave := func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(m.locks, key)
		}
	}
	select {
	case l.held <- struct{}{}:
		return func() { <-l.held; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
