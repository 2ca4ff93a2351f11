package pool

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// WithRetry returns a pool that calls more if p has no memory for want bytes,
// and tries again while more returns true. No lock is held during the call, so
// more may put blocks and trim the pool.
func WithRetry[S comparable](p Pool[S], more func(want int64) bool) Pool[S] {
	return retry[S]{p, more}
}

type retry[S comparable] struct {
	Pool[S]
	more func(want int64) bool
}

func (r retry[S]) Get(n int64, s S) (*Block[S], error) {
	for {
		b, err := r.Pool.Get(n, s)
		if !outOfMemory(err) || !r.more(n) {
			return b, err
		}
	}
}

// WithLog returns a pool that writes a CSV line for each allocation, failed
// allocation and free. The columns are Time (RFC 3339 with nanoseconds), Action
// (allocate, allocate failure, free), Address, requested Size, and Stream as
// formatted by name. Replayed in order, a log never has two allocations at one
// address. Errors of w are ignored.
func WithLog[S comparable](p Pool[S], w io.Writer, now func() time.Time, name func(S) string) Pool[S] {
	l := &log[S]{Pool: p, w: csv.NewWriter(w), now: now, name: name}
	l.write("Time", "Action", "Address", "Size", "Stream")
	return l
}

type log[S comparable] struct {
	Pool[S]
	now  func() time.Time
	name func(S) string

	mu sync.Mutex
	w  *csv.Writer
}

func (l *log[S]) Get(n int64, s S) (*Block[S], error) {
	b, err := l.Pool.Get(n, s)
	if err != nil {
		l.writeEvent("allocate failure", 0, n, s)
		return nil, err
	}
	l.writeEvent("allocate", b.Address, n, s)
	return b, nil
}

func (l *log[S]) Put(b *Block[S], pending []S) error {
	var s S // the first pending stream
	if len(pending) > 0 {
		s = pending[0]
	}
	l.writeEvent("free", b.Address, b.accounted, s) // before another Get can return it
	return l.Pool.Put(b, pending)
}

func (l *log[S]) writeEvent(action string, address uintptr, size int64, s S) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write(l.now().Format(time.RFC3339Nano), action, fmt.Sprintf("%#x", address), fmt.Sprint(size), l.name(s))
}

func (l *log[S]) write(fields ...string) {
	_ = l.w.Write(fields)
	l.w.Flush()
}

// Leak is an allocated block, and the place of its allocation.
type Leak struct {
	Address uintptr
	Size    int64  // requested size
	Stack   string // of the Get call, in the format of a panic
}

// String returns the size, the address and the stack.
func (l Leak) String() string {
	return fmt.Sprintf("%d bytes at %#x, got by\n%s", l.Size, l.Address, l.Stack)
}

// Tracker is a pool that records where each block was allocated.
type Tracker[S comparable] struct {
	Pool[S]
	mu   sync.Mutex
	live map[*Block[S]]origin
}

type origin struct {
	size  int64
	stack []uintptr
}

// Track returns a Tracker of p. It does not know blocks that were allocated
// before.
func Track[S comparable](p Pool[S]) *Tracker[S] {
	return &Tracker[S]{Pool: p, live: map[*Block[S]]origin{}}
}

// Get implements Pool.
func (t *Tracker[S]) Get(n int64, s S) (*Block[S], error) {
	b, err := t.Pool.Get(n, s)
	if err != nil || b.Address == 0 {
		return b, err
	}
	stack := make([]uintptr, 32)
	stack = stack[:runtime.Callers(2, stack)]
	t.mu.Lock()
	defer t.mu.Unlock()
	t.live[b] = origin{n, stack}
	return b, nil
}

// Put implements Pool.
func (t *Tracker[S]) Put(b *Block[S], pending []S) error {
	t.mu.Lock()
	delete(t.live, b) // before another Get can return it
	t.mu.Unlock()
	return t.Pool.Put(b, pending)
}

// Leaks returns the allocated blocks, ordered by address.
func (t *Tracker[S]) Leaks() []Leak {
	t.mu.Lock()
	defer t.mu.Unlock()
	leaks := make([]Leak, 0, len(t.live))
	for b, o := range t.live {
		leaks = append(leaks, Leak{b.Address, o.size, formatStack(o.stack)})
	}
	slices.SortFunc(leaks, func(a, b Leak) int { return cmp.Compare(a.Address, b.Address) })
	return leaks
}

func formatStack(stack []uintptr) string {
	var s strings.Builder
	frames := runtime.CallersFrames(stack)
	for {
		f, more := frames.Next()
		fmt.Fprintf(&s, "%s\n\t%s:%d\n", f.Function, f.File, f.Line)
		if !more {
			return s.String()
		}
	}
}
