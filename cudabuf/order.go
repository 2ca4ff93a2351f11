package cudabuf

import (
	"slices"
	"sync"
)

// access is what an operation does with memory.
type access bool

const (
	reads  access = false
	writes access = true
)

// uses remembers which streams have used an allocation, so that work on another
// stream can wait for theirs. Nothing is paid while one stream uses it: events
// are recorded only when a second one comes, and then, so they cover all that
// the first was given until that moment.
//
// Reads wait for the last write; a write waits for the last write and for every
// read since. A stream among the readers has waited for the writer already.
type uses struct {
	mu      sync.Mutex
	writer  *queue
	readers []*queue
}

// begin lets s wait for whom it must, and notes its use. The caller holds mu
// from here until the work is issued: who comes next then records its event
// behind that work.
func (u *uses) begin(s *queue, a access) error {
	if u.writer == s && len(u.readers) == 0 {
		return nil
	}
	waited := false
	for _, r := range u.readers {
		if r == s {
			waited = true
		} else if a == writes {
			if err := s.waitFor(r); err != nil {
				return err
			}
		}
	}
	if w := u.writer; w != nil && w != s && !waited {
		if err := s.waitFor(w); err != nil {
			return err
		}
	}
	switch {
	case a == writes:
		u.writer, u.readers = s, u.readers[:0]
	case !waited && u.writer != s:
		u.readers = append(u.readers, s)
	}
	return nil
}

// settled tells whether begin would do nothing.
func (u *uses) settled(q *queue, a access) bool {
	if u.writer == q {
		return a == reads || len(u.readers) == 0
	}
	return a == reads && slices.Contains(u.readers, q)
}

// end forgets a stream whose work is known to be done.
func (u *uses) end(s *queue) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.writer == s {
		u.writer = nil
	}
	for i, r := range u.readers {
		if r == s {
			u.readers = append(u.readers[:i], u.readers[i+1:]...)
			break
		}
	}
}

// pending are the streams that may still be using the memory.
func (u *uses) pending() []*queue {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.writer == nil && len(u.readers) == 0 {
		return nil
	}
	var streams []*queue
	if u.writer != nil {
		streams = append(streams, u.writer)
	}
	return append(streams, u.readers...)
}
