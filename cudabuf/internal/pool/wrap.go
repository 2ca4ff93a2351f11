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

// WithRetry calls more when there is no memory for a block of want bytes, and
// asks again while it answers true. more runs without any lock held: it may put
// blocks, and trim the pool.
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

// WithLog writes a line of CSV for every block that is got, asked for in vain,
// or put: Time (RFC 3339, with nanoseconds), Action (allocate, allocate failure,
// free), Address, Size as asked for, and Stream as name writes it. Played back in
// the order of its lines, a log never has an address twice at a time. What the
// writer answers is ignored: a full disk stops no program.
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
	var s S // that it was pending on, if one
	if len(pending) > 0 {
		s = pending[0]
	}
	l.writeEvent("free", b.Address, b.accounted, s) // before somebody else gets it
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

// Leak is a block that is lent, and who got it.
type Leak struct {
	Address uintptr
	Size    int64  // as asked for
	Stack   string // of the goroutine that got it, as a panic prints it
}

// String is the size, the address and the stack.
func (l Leak) String() string {
	return fmt.Sprintf("%d bytes at %#x, got by\n%s", l.Size, l.Address, l.Stack)
}

// Tracker remembers where each block was got.
type Tracker[S comparable] struct {
	Pool[S]
	mu   sync.Mutex
	live map[*Block[S]]origin
}

type origin struct {
	size  int64
	stack []uintptr
}

// Track makes a Tracker over a pool. Blocks got before are unknown to it.
func Track[S comparable](p Pool[S]) *Tracker[S] {
	return &Tracker[S]{Pool: p, live: map[*Block[S]]origin{}}
}

// Get is Pool's.
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

// Put is Pool's.
func (t *Tracker[S]) Put(b *Block[S], pending []S) error {
	t.mu.Lock()
	delete(t.live, b) // before somebody else gets it
	t.mu.Unlock()
	return t.Pool.Put(b, pending)
}

// Leaks are the blocks that are lent, in the order of their addresses.
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
