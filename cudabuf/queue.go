package cudabuf

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// queue is a CUDA stream as the package knows it: what a [Stream] works on, and
// what memory remembers. A Stream that is closed gives its queue back to the
// device, whose handle is destroyed with the device and not before: so whoever
// remembers it can still wait for it.
type queue struct {
	dev     *Device
	handle  driver.Stream
	kind    queueKind
	foreign bool        // the handle is another library's
	gone    atomic.Bool // foreign, waited for and forgotten

	mu   sync.Mutex
	mark driver.Event // recorded when another queue must wait, guarded by mu
}

// queueKind is what makes one queue as good as another.
type queueKind struct {
	flags    uint32
	priority int
	captures bool // of graphs: memory must never remember one, nor record a mark in it
}

// waitFor lets q wait on the device for what other has been given until now.
// The caller has entered q's device.
func (q *queue) waitFor(other *queue) error {
	if other == q || other.ended() {
		return nil
	}
	api := q.dev.api
	other.mu.Lock()
	defer other.mu.Unlock()
	if other.dev.context != q.dev.context {
		if err := api.CtxSetCurrent(other.dev.context); err != nil {
			return err
		}
	}
	err := other.recordMark()
	if other.dev.context != q.dev.context {
		if back := api.CtxSetCurrent(q.dev.context); err == nil {
			err = back
		}
	}
	if err != nil {
		return err
	}
	// The wait is for this record, whatever is recorded in the mark later.
	return api.StreamWaitEvent(q.handle, other.mark)
}

// recordMark records the queue's mark in its own context. The caller holds mu.
func (q *queue) recordMark() (err error) {
	if q.mark == 0 {
		if q.mark, err = q.dev.api.EventCreate(driver.EventDisableTiming); err != nil {
			return err
		}
	}
	return q.dev.api.EventRecord(q.mark, q.handle)
}

// ended tells whether the queue is known to be done for ever.
func (q *queue) ended() bool { return q.gone.Load() || q.dev.closed.Load() }

// forsake ends with a foreign stream whose work is done.
func (q *queue) forsake() error {
	q.gone.Store(true)
	return q.dropMark()
}

func (q *queue) dropMark() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mark == 0 {
		return nil
	}
	err := q.dev.do(func() error { return q.dev.api.EventDestroy(q.mark) })
	q.mark = 0
	return err
}

// synchronize returns when all work of the queue is done.
func (q *queue) synchronize() error {
	if q.ended() {
		return nil
	}
	return q.dev.do(func() error { return q.dev.api.StreamSynchronize(q.handle) })
}

// maxLent bounds how many operations that name no stream run at once. A GPU has
// a handful of copy engines; more queues would only wait for them.
const maxLent = 8

// queues are those of a device that no Stream has, and those of operations that
// name no stream.
//
// CUDA's own stream for the latter, the null stream, would put the copies of
// all goroutines, and of other libraries in the process, into one line. Here
// each operation takes a non-blocking queue for itself, waits for its own work
// alone, and gives the queue back: copies of several goroutines overlap, and
// each caller still finds its operation complete.
type queues struct {
	dev  *Device
	lent chan *queue // nil for one that nobody has needed yet

	mu   sync.Mutex
	idle map[queueKind][]*queue
}

func newQueues(d *Device) *queues {
	p := &queues{dev: d, lent: make(chan *queue, maxLent), idle: map[queueKind][]*queue{}}
	for range maxLent {
		p.lent <- nil
	}
	return p
}

// open returns a queue of a kind, a used one where there is one.
func (p *queues) open(kind queueKind) (*queue, error) {
	p.mu.Lock()
	if list := p.idle[kind]; len(list) > 0 {
		q := list[len(list)-1]
		p.idle[kind] = list[:len(list)-1]
		p.mu.Unlock()
		return q, nil
	}
	p.mu.Unlock()
	q := &queue{dev: p.dev, kind: kind}
	err := p.dev.do(func() (err error) {
		q.handle, err = p.dev.api.StreamCreateWithPriority(kind.flags, kind.priority)
		return err
	})
	if err != nil {
		return nil, err
	}
	return q, nil
}

// put takes a queue back.
func (p *queues) put(q *queue) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle[q.kind] = append(p.idle[q.kind], q)
}

// lend waits for a queue for one operation.
func (p *queues) lend() (*queue, error) {
	if q := <-p.lent; q != nil {
		return q, nil
	}
	q, err := p.open(queueKind{flags: driver.StreamNonBlocking})
	if err != nil {
		p.lent <- nil
	}
	return q, err
}

func (p *queues) giveBack(q *queue) { p.lent <- q }

// close destroys the queues. What Streams have that nobody closed goes with the
// context.
func (p *queues) close() error {
	var all []*queue
	if s := p.dev.shared.Load(); s != nil {
		all = append(all, s.queue)
	}
	for range maxLent {
		if q := <-p.lent; q != nil {
			all = append(all, q)
		}
		p.lent <- nil
	}
	p.mu.Lock()
	for _, list := range p.idle {
		all = append(all, list...)
	}
	clear(p.idle)
	p.mu.Unlock()
	failure := p.dev.null.dropMark()
	for _, q := range all {
		failure = errors.Join(failure, q.dropMark(), p.dev.do(func() error { return p.dev.api.StreamDestroy(q.handle) }))
	}
	return failure
}
