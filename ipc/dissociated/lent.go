package dissociated

import (
	"errors"
	"fmt"
	"sync"
)

// lent is what a client was told the locations of and has not freed: for each
// address, once for each time it was sent, how to give it back.
type lent struct {
	mu    sync.Mutex
	by    map[uint64][]func()
	count int
	ended bool
	empty chan struct{} // closed once, when nothing is lent after last
	last  bool
	why   error // of the end, where that was none of the client's choice
}

func newLent() *lent { return &lent{by: map[uint64][]func(){}, empty: make(chan struct{})} }

// lend remembers an address. It answers false when the client is gone: then the
// memory was given back at once.
func (l *lent) lend(address uint64, giveBack func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		giveBack()
		return false
	}
	l.by[address] = append(l.by[address], giveBack)
	l.count++
	return true
}

// freed gives back what a free_data message names. Address 0 is that of empty
// buffers, which are not lent. One that is not lent is ErrProtocol.
func (l *lent) freed(addresses []uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range addresses {
		if one == 0 {
			continue
		}
		times := l.by[one]
		if len(times) == 0 {
			return fmt.Errorf("%w: free_data of %#x, where nothing is lent", ErrProtocol, one)
		}
		times[0]()
		if l.by[one] = times[1:]; len(times) == 1 {
			delete(l.by, one)
		}
		l.count--
	}
	l.check()
	return nil
}

// noMore says that nothing else will be lent. The channel is closed when all is
// back: a client that is gone gave it all back.
func (l *lent) noMore() (back <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = true
	l.check()
	return l.empty
}

// misuse is what the client did that it may not, if so.
func (l *lent) misuse() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if errors.Is(l.why, ErrPeerGone) {
		return nil
	}
	return l.why
}

func (l *lent) check() {
	if l.last && l.count == 0 && !l.ended {
		l.ended = true
		close(l.empty)
	}
}

// end gives everything back: the client is gone, or did what it may not.
func (l *lent) end(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, times := range l.by {
		for _, giveBack := range times {
			giveBack()
		}
	}
	clear(l.by)
	if !l.ended {
		l.why = why
	}
	l.count, l.last = 0, true
	l.check()
}
