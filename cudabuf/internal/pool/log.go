package pool

import (
	"encoding/csv"
	"fmt"
	"io"
	"sync"
	"time"
)

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
		l.event("allocate failure", 0, n, s)
		return nil, err
	}
	l.event("allocate", b.Address, n, s)
	return b, nil
}

func (l *log[S]) Put(b *Block[S], pending []S) error {
	var s S // that it was pending on, if one
	if len(pending) > 0 {
		s = pending[0]
	}
	l.event("free", b.Address, b.charge, s) // before somebody else gets it
	return l.Pool.Put(b, pending)
}

func (l *log[S]) event(action string, address uintptr, size int64, s S) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write(l.now().Format(time.RFC3339Nano), action, fmt.Sprintf("%#x", address), fmt.Sprint(size), l.name(s))
}

func (l *log[S]) write(fields ...string) {
	_ = l.w.Write(fields)
	l.w.Flush()
}
