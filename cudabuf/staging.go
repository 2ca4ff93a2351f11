package cudabuf

import (
	"errors"
	"fmt"
	"sync"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// staging is the page-locked memory through which large copies between a device
// and ordinary memory go. The driver does such a copy on one thread, which moves
// a fraction of what the link does; here several goroutines fill or drain the
// pieces while the device copies others.
//
// A piece goes back to the end of the line as soon as its copy is issued, and
// whoever gets it next waits for that copy: so concurrent copies share the
// pieces by turns.
type staging struct {
	dev *Device
	stagingParameters

	users sync.RWMutex // read by copies under way, written by who frees the pieces
	mu    sync.Mutex
	made  int
	idle  chan *stagingPiece // all that no goroutine works on
}

// stagingParameters are chosen by measurement, see BenchmarkStaging.
type stagingParameters struct {
	threshold int64 // copies below are left to the driver
	workers   int   // goroutines a copy, at most
	piece     int64 // bytes; each worker can have two
	least     int64 // bytes of a piece that are worth a copy of their own
}

var defaultStaging = stagingParameters{threshold: 8 << 20, workers: 8, piece: 4 << 20, least: 512 << 10}

// stagingPiece is a part of the ring.
type stagingPiece struct {
	memory []byte
	event  driver.Event
	busy   bool // a copy is under way, which ends before the event
}

func newStaging(d *Device, p stagingParameters) *staging {
	return &staging{dev: d, stagingParameters: p, idle: make(chan *stagingPiece, 2*p.workers)}
}

// open readies n pieces for a copy, which ends with close.
func (r *staging) open(n int) error {
	r.users.RLock()
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.made < min(n, cap(r.idle)) {
		p, err := r.newPiece()
		if err != nil {
			r.users.RUnlock()
			return fmt.Errorf("for copies of ordinary memory: %w", err)
		}
		r.made++
		r.idle <- p
	}
	return nil
}

func (r *staging) close() { r.users.RUnlock() }

func (r *staging) newPiece() (*stagingPiece, error) {
	p := &stagingPiece{}
	err := r.dev.do(func() (err error) { p.event, err = r.dev.api.EventCreate(driver.EventDisableTiming); return err })
	if err != nil {
		return nil, err
	}
	address, err := r.dev.lockHost(r.piece, driver.HostAllocPortable)
	if err != nil {
		return nil, errors.Join(err, r.dev.do(func() error { return r.dev.api.EventDestroy(p.event) }))
	}
	p.memory = hostSlice(address, r.piece)
	for i := int64(0); i < r.piece; i += 4096 {
		p.memory[i] = 0 // or copies would wait for its pages to be mapped
	}
	return p, nil
}

// take waits for a piece that nobody uses. Who has one must not: all might wait.
func (r *staging) take() (*stagingPiece, error) { return r.ready(<-r.idle) }

// try is take where no goroutine need be waited for, and nil elsewhere.
func (r *staging) try() (*stagingPiece, error) {
	select {
	case p := <-r.idle:
		return r.ready(p)
	default:
		return nil, nil
	}
}

// ready waits for the last copy of a piece.
func (r *staging) ready(p *stagingPiece) (*stagingPiece, error) {
	if err := r.wait(p); err != nil {
		r.put(p)
		return nil, err
	}
	return p, nil
}

func (r *staging) wait(p *stagingPiece) error {
	if !p.busy {
		return nil
	}
	err := r.dev.do(func() error { return r.dev.api.EventSynchronize(p.event) })
	p.busy = err != nil
	return err
}

func (r *staging) put(p *stagingPiece) { r.idle <- p }

// trim gives the pieces back to the driver, unless a copy is under way.
func (r *staging) trim() error {
	if !r.users.TryLock() {
		return nil
	}
	defer r.users.Unlock()
	var failure error
	for ; r.made > 0; r.made-- {
		p := <-r.idle
		failure = errors.Join(failure,
			r.wait(p),
			r.dev.do(func() error { return r.dev.api.EventDestroy(p.event) }),
			r.dev.hostFree(addressOf(p.memory)))
	}
	return failure
}
