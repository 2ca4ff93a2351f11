package dissociated

import (
	"sync"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// freeing tells a server which locations a client does not need any more, those
// that come together in one message. When none is in use and none will come, it
// closes the memory that they lie in at once, and the connection when all is told.
type freeing struct {
	conn   Conn
	tag    Tag
	remote *remote

	mu      sync.Mutex
	held    int // locations in use
	pending []uint64
	sending bool
	done    bool // no other location will come
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
		f.changed()
	}
}

// end says that no other location will come.
func (f *freeing) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done = true
	f.changed()
}

// changed has what is pending sent, without waiting for that: a release may come
// from anywhere. The caller holds the lock.
func (f *freeing) changed() {
	if f.done && f.held == 0 {
		f.remote.close()
	}
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
		_ = f.conn.Send(&f.tag, arrowbuf.WrapExternal(message, func() {}))
		f.mu.Lock()
	}
	f.sending = false
	if f.done && f.held == 0 {
		_ = f.conn.Close()
	}
}
