package dissociated

import (
	"sync"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// freeing tells a server which locations a client does not need any more, those
// that come together in one message. It closes the connection when there is
// nothing left to tell.
type freeing struct {
	conn Conn
	tag  Tag

	mu      sync.Mutex
	held    int // locations in use
	pending []uint64
	sending bool
	done    bool // no other location will come
	close   func()
}

// hold says that a location is in use; the result says that it is not any more.
func (f *freeing) hold(address uint64) (release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held++
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.held--
		f.pending = append(f.pending, address)
		f.start()
	}
}

// end says that no other location will come.
func (f *freeing) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done = true
	f.start()
}

// start has what is pending sent, without waiting for that: a release may come from
// anywhere. The caller holds the lock.
func (f *freeing) start() {
	if !f.sending {
		f.sending = true
		go f.send()
	}
}

func (f *freeing) send() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.pending) > 0 {
		message := AppendFreed(nil, f.pending...)
		f.pending = nil
		f.mu.Unlock()
		// A server that does not take it is gone, and its memory with it.
		_ = f.conn.Send(&f.tag, arrowbuf.Foreign(message, func() {}))
		f.mu.Lock()
	}
	f.sending = false
	if f.done && f.held == 0 {
		f.close()
	}
}
