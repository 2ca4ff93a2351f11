package cudabuf

import (
	"errors"
	"fmt"
	"sync"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// stagingPool holds the page-locked buffers through which large copies between a
// device and ordinary memory pass. The driver does such a copy on one thread, at a
// fraction of the link's speed. Here several goroutines fill or empty some buffers
// while the device copies others.
//
// Each copy of the device begins some microseconds after the one before, so buffers are
// large. Several goroutines fill slices of one buffer, so that it is soon full, and few
// buffers are enough: they stay in the processor's cache.
//
// A buffer returns to the queue as soon as its copy is enqueued. The goroutine that
// gets it next waits for that copy. Concurrent copies thereby take turns.
type stagingPool struct {
	dev *Device
	stagingConfig

	users     sync.RWMutex // read-locked by running copies, locked by trim
	mu        sync.Mutex
	wanted    int                 // the most buffers that a copy may use
	allocated int                 // and being allocated, at most wanted
	idle      chan *stagingBuffer // buffers that no goroutine is using
}

// stagingConfig is chosen by measurement; see BenchmarkStaging.
type stagingConfig struct {
	threshold  int64 // bytes; the driver does smaller copies
	workers    int   // maximum number of goroutines that copy memory
	readers    int   // maximum number of goroutines that read what is copied: the rest of the program needs processors too
	bufferSize int64 // bytes of a buffer, and the maximum size of a part of a copy
	buffers    int   // maximum number of buffers
	minPart    int64 // bytes; the minimum size of a part of a copy
	minSlice   int64 // bytes; the minimum size of what a goroutine copies at a time
	undivided  int64 // bytes; what a function reads at once is not larger
}

var defaultStaging = stagingConfig{
	threshold: 8 << 20, workers: 8, readers: 14, bufferSize: 8 << 20, buffers: 8,
	minPart: 512 << 10, minSlice: 256 << 10, undivided: 4 << 20,
}

// stagingBuffer is one buffer of the pool.
type stagingBuffer struct {
	memory []byte
	event  driver.Event
	busy   bool // a copy is running, which ends before the event
}

func newStagingPool(d *Device, p stagingConfig) *stagingPool {
	return &stagingPool{dev: d, stagingConfig: p, idle: make(chan *stagingBuffer, p.buffers)}
}

// acquire lets a copy use up to n buffers, of which there is at least one. The copy must
// call release.
func (sp *stagingPool) acquire(n int) error {
	sp.users.RLock()
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if sp.allocated == 0 { // others would wait for it for ever
		b, err := sp.newBuffer()
		if err != nil {
			sp.users.RUnlock()
			return err
		}
		sp.allocated++
		sp.idle <- b
	}
	sp.wanted = max(sp.wanted, min(n, cap(sp.idle)))
	return nil
}

func (sp *stagingPool) release() { sp.users.RUnlock() }

// reserve reports whether another buffer may be allocated, which the caller then does.
func (sp *stagingPool) reserve() bool {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if sp.allocated >= sp.wanted {
		return false
	}
	sp.allocated++
	return true
}

// grow returns a new buffer, for which the caller has called reserve. If no more can be
// pinned, it returns nil: copies go on with the buffers that exist, and the next one tries
// again.
func (sp *stagingPool) grow() *stagingBuffer {
	b, err := sp.newBuffer()
	if err != nil { // acquire has made sure of one
		sp.mu.Lock()
		sp.allocated--
		sp.wanted = sp.allocated
		sp.mu.Unlock()
		return nil
	}
	return b
}

func (sp *stagingPool) newBuffer() (*stagingBuffer, error) {
	b, err := sp.tryNewBuffer()
	if err != nil {
		return nil, fmt.Errorf("allocating staging buffers: %w", err)
	}
	return b, nil
}

func (sp *stagingPool) tryNewBuffer() (*stagingBuffer, error) {
	b := &stagingBuffer{}
	err := sp.dev.withContext(func() (err error) { b.event, err = sp.dev.api.EventCreate(driver.EventDisableTiming); return err })
	if err != nil {
		return nil, err
	}
	address, err := sp.dev.allocPinned(sp.bufferSize, driver.HostAllocPortable)
	if err != nil {
		return nil, errors.Join(err, sp.dev.withContext(func() error { return sp.dev.api.EventDestroy(b.event) }))
	}
	b.memory = hostSlice(address, sp.bufferSize)
	for i := int64(0); i < sp.bufferSize; i += 4096 {
		b.memory[i] = 0 // map the pages now, not during a copy
	}
	return b, nil
}

// get waits for a buffer that no goroutine is using. Callers must not hold a
// staging buffer already, or they may deadlock.
func (sp *stagingPool) get() (*stagingBuffer, error) {
	if b, err := sp.tryGet(); b != nil || err != nil {
		return b, err
	}
	return sp.waitReady(<-sp.idle)
}

// tryGet is get, but returns nil if it would have to wait for another goroutine. A new
// buffer is better than one whose copy runs.
func (sp *stagingPool) tryGet() (*stagingBuffer, error) {
	select {
	case b := <-sp.idle:
		done, err := sp.done(b)
		switch {
		case err != nil:
			sp.put(b)
			return nil, err
		case done:
			return b, nil
		case !sp.reserve():
			return sp.waitReady(b)
		}
		sp.put(b)
		return sp.grow(), nil
	default:
		if !sp.reserve() {
			return nil, nil
		}
		return sp.grow(), nil
	}
}

// done reports whether the last copy of a buffer is complete.
func (sp *stagingPool) done(b *stagingBuffer) (done bool, err error) {
	if b.busy {
		err = sp.dev.withContext(func() error { done, err = sp.dev.api.EventQuery(b.event); return err })
		b.busy = !done
	}
	return !b.busy, err
}

// waitReady waits for the last copy of a buffer that was taken from the pool.
func (sp *stagingPool) waitReady(b *stagingBuffer) (*stagingBuffer, error) {
	if err := sp.wait(b); err != nil {
		sp.put(b)
		return nil, err
	}
	return b, nil
}

func (sp *stagingPool) wait(b *stagingBuffer) error {
	if !b.busy {
		return nil
	}
	err := sp.dev.withContext(func() error { return sp.dev.api.EventSynchronize(b.event) })
	b.busy = err != nil
	return err
}

func (sp *stagingPool) put(b *stagingBuffer) { sp.idle <- b }

// trim frees the buffers, unless a copy is running.
func (sp *stagingPool) trim() error {
	if !sp.users.TryLock() {
		return nil
	}
	defer sp.users.Unlock()
	var failure error
	sp.wanted = 0
	for ; sp.allocated > 0; sp.allocated-- {
		b := <-sp.idle
		failure = errors.Join(failure,
			sp.wait(b),
			sp.dev.withContext(func() error { return sp.dev.api.EventDestroy(b.event) }),
			sp.dev.freePinned(addressOf(b.memory)))
	}
	return failure
}

// usesStaging reports whether a copy passes through staging buffers: a large copy of
// ordinary memory, outside a capture.
func (d *Device) usesStaging(host []byte, s *Stream) bool {
	return int64(len(host)) >= d.staging.threshold && (s == nil || s.capture == nil) && !d.isPinned(host)
}

// checkCapturable returns an error if a graph would capture a copy of ordinary
// memory, which may be freed before the graph runs.
func (d *Device) checkCapturable(host []byte, s *Stream) error {
	if s == nil || s.capture == nil || d.isPinned(host) {
		return nil
	}
	return fmt.Errorf("%v: copying ordinary memory while capturing a graph: %w", d, errors.ErrUnsupported)
}

// isPinned reports whether host memory is page-locked.
func (d *Device) isPinned(host []byte) bool {
	if _, ok := d.driver.pinnedBlocks.find(host); ok {
		return true
	}
	if _, ok := d.driver.hostBuffers.find(host); ok {
		return true
	}
	// Another library may have pinned it. CUDA has attributes only of memory that
	// it knows. Memory that is pinned in part counts as ordinary.
	err := d.withContext(func() error {
		for _, end := range []uintptr{addressOf(host), addressOf(host[len(host)-1:])} {
			if _, err := d.api.PointerGetAttribute(driver.PointerMemoryType, end); err != nil {
				return err
			}
		}
		return nil
	})
	return err == nil
}
