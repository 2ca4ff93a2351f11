package pool

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
)

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
	lent map[*Block[S]]origin
}

type origin struct {
	size  int64
	stack []uintptr
}

// Track makes a Tracker over a pool. Blocks got before are unknown to it.
func Track[S comparable](p Pool[S]) *Tracker[S] {
	return &Tracker[S]{Pool: p, lent: map[*Block[S]]origin{}}
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
	t.lent[b] = origin{n, stack}
	return b, nil
}

// Put is Pool's.
func (t *Tracker[S]) Put(b *Block[S], pending []S) error {
	t.mu.Lock()
	delete(t.lent, b) // before somebody else gets it
	t.mu.Unlock()
	return t.Pool.Put(b, pending)
}

// Leaks are the blocks that are lent, in the order of their addresses.
func (t *Tracker[S]) Leaks() []Leak {
	t.mu.Lock()
	defer t.mu.Unlock()
	leaks := make([]Leak, 0, len(t.lent))
	for b, o := range t.lent {
		leaks = append(leaks, Leak{b.Address, o.size, text(o.stack)})
	}
	slices.SortFunc(leaks, func(a, b Leak) int { return cmp.Compare(a.Address, b.Address) })
	return leaks
}

func text(stack []uintptr) string {
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
