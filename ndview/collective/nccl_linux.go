package collective

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// ncclEngine is the implementation for GPUs.
//
// NCCL makes a communicator in one of two modes. A non-blocking one can be aborted while it
// waits for ranks, but starts a thread for each operation. A blocking one enqueues operations
// fast. So a non-blocking communicator is made first, and the blocking one that runs the
// operations is split from it, with shared resources.
type ncclEngine struct {
	*comm
	lib          *library
	cuda         *cudabuf.Device
	control      *cudabuf.Stream // for calls that enqueue nothing
	stream       *cudabuf.Stream
	parent, main ncclHandle

	issued   atomic.Int64 // operations enqueued so far
	entered  atomic.Int64 // when the running call of NCCL began, in nanoseconds; 0 for none
	active   atomic.Bool  // the watcher has to look
	activity chan struct{}
	stop     chan struct{} // closed to end the watcher
	watched  chan struct{} // closed when it has ended
	aborting sync.Once
	calling  sync.RWMutex // read while an operation is enqueued
}

// The pauses between looks at the state of a communicator.
const (
	startPause = 200 * time.Microsecond
	watchPause = 20 * time.Millisecond
	// blockedLimit is how long an abort waits for a call of NCCL to return.
	blockedLimit = 10 * time.Second
)

// newNCCL makes the communicator of NCCL for connected ranks.
func newNCCL(s *setup, c *comm) (_ engine, err error) {
	cuda, _ := arrowbuf.As[*cudabuf.Device](s.dev)
	e := &ncclEngine{comm: c, lib: s.nccl, cuda: cuda, stream: s.options.Stream, activity: make(chan struct{}, 1),
		stop: make(chan struct{}), watched: make(chan struct{}), parent: newHandle(), main: newHandle()}
	if e.control, err = cuda.DefaultStream(); err != nil {
		return nil, err
	}
	if e.stream == nil {
		e.stream = e.control
	}
	deadline := s.deadline()
	id := make([]byte, IDBytes)
	if s.rank == 0 {
		if id, err = e.lib.uniqueID(); err != nil {
			return nil, err
		}
	}
	all, err := c.mesh.exchange(opSetup, id, deadline)
	if err != nil {
		return nil, err
	}
	err = e.call(func() error { return e.lib.start(e.parent, all[0], s.rank, s.size) })
	if err == nil {
		err = e.ready(deadline)
	}
	if err == nil {
		err = e.call(func() error { return e.lib.split(e.parent.get(), e.main, s.rank) })
	}
	if err == nil {
		err = e.ready(deadline)
	}
	if err != nil {
		close(e.watched)
		e.abort()
		return nil, err
	}
	go e.watch()
	return e, nil
}

// call makes calls of NCCL with the device's context current.
func (e *ncclEngine) call(f func() error) error { return e.control.Enqueue(f) }

// ready waits until the non-blocking communicator has done what was begun.
func (e *ncclEngine) ready(deadline time.Time) error {
	for {
		state := e.lib.asyncError(e.parent.get())
		if state != InProgress {
			return e.lib.check(ncclCommInitRankScalable, e.parent.get(), state)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("NCCL does not start: %w", ErrTimeout)
		}
		select {
		case <-e.mesh.failed:
			return e.mesh.failure()
		case <-time.After(startPause):
		}
	}
}

// run runs the operations of one communicator.
func (e *ncclEngine) run(ops []*operation) error { return runNCCL(ops) }

// runNCCL runs operations of communicators of this process in one group of NCCL.
func runNCCL(ops []*operation) error {
	// Sends and receives first: ranks may mix them with the other operations of a group.
	for _, peers := range []bool{true, false} {
		for _, o := range ops {
			if !o.comm.options.Check || o.kind.isPeer() != peers {
				continue
			}
			if err := o.compareRanks(); err != nil {
				return err
			}
		}
	}
	first := ops[0].comm.engine.(*ncclEngine)
	if len(ops) == 1 && !ops[0].needsGroup() {
		return first.enqueueOne(ops[0])
	}
	// A group belongs to a thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	engines := map[*ncclEngine]bool{}
	for _, o := range ops {
		engines[o.comm.engine.(*ncclEngine)] = true
	}
	for e := range engines {
		e.calling.RLock()
		defer e.calling.RUnlock()
		if err := e.mesh.failure(); err != nil {
			return err
		}
	}
	for e := range engines {
		e.begin()
		defer e.end()
	}
	if err := first.lib.group(ncclGroupStart); err != nil {
		return err
	}
	var err error
	for _, o := range ops {
		if err == nil {
			err = o.comm.engine.(*ncclEngine).enqueue(o)
		}
	}
	// The group ends even after an error: it belongs to the thread.
	err = errors.Join(err, first.call(func() error { return first.lib.group(ncclGroupEnd) }))
	if err == nil {
		return nil
	}
	for e := range engines {
		e.mesh.fail(fmt.Errorf("rank %d: %w", e.rank, err), e.rank)
	}
	return err
}

// enqueueOne enqueues one call of NCCL.
func (e *ncclEngine) enqueueOne(o *operation) error {
	e.calling.RLock()
	defer e.calling.RUnlock()
	if err := e.mesh.failure(); err != nil {
		return err
	}
	e.begin()
	err := e.enqueue(o)
	e.end()
	if err != nil {
		e.mesh.fail(fmt.Errorf("rank %d: %w", e.rank, err), e.rank)
		return e.mesh.failureOrClosed()
	}
	return nil
}

// begin wakes the watcher for a call of NCCL, which may itself wait for other ranks: the
// first operations connect them.
func (e *ncclEngine) begin() {
	e.entered.Store(time.Now().UnixNano())
	if !e.active.Swap(true) {
		select {
		case e.activity <- struct{}{}:
		default:
		}
	}
}

// end counts an operation that is enqueued.
func (e *ncclEngine) end() {
	e.issued.Add(1)
	e.entered.Store(0)
}

// compareRanks compares the operation with those of the other ranks, for Options.Check.
func (o *operation) compareRanks() error {
	c, s := o.comm, o.asked
	if !o.kind.isPeer() {
		return c.mesh.compareAll(s, c.deadline())
	}
	s.kind, s.root = opSend, 0
	switch {
	case o.root == c.rank:
		return nil
	case o.kind == opSend:
		return c.mesh.move(message(o.root, s.header(), nil), c.deadline())
	}
	return c.mesh.move(c.mesh.expect(o.root, s.header(), nil), c.deadline())
}

// compareAll compares a signature with those of all ranks.
func (m *mesh) compareAll(s signature, deadline time.Time) error {
	header := s.header()
	var transfers []transfer
	for rank := range m.peers {
		if rank != m.rank {
			transfers = append(transfers, message(rank, header, nil)...)
			transfers = append(transfers, m.expect(rank, header, nil)...)
		}
	}
	return m.move(transfers, deadline)
}

// needsGroup reports whether an operation is several calls of NCCL.
func (o *operation) needsGroup() bool {
	return o.kind == opAllToAll || o.kind == opGather || o.kind == opScatter
}

// ncclTypes are the values of ncclDataType_t.
var ncclTypes = map[ndview.DType]uintptr{
	ndview.Int8: 0, ndview.Uint8: 1, ndview.Int32: 2, ndview.Uint32: 3, ndview.Int64: 4, ndview.Uint64: 5,
	ndview.Float16: 6, ndview.Float32: 7, ndview.Float64: 8, ndview.BFloat16: 9,
}

// ncclOps are the values of ncclRedOp_t.
var ncclOps = [opCount]uintptr{Sum: 0, Prod: 1, Max: 2, Min: 3, Avg: 4}

// enqueue makes the calls of an operation, in the order of the stream.
func (e *ncclEngine) enqueue(o *operation) error {
	if o.count == 0 {
		return nil // at all ranks
	}
	element, ok := ncclTypes[o.element]
	if !ok {
		return fmt.Errorf("NCCL has no %s: %w", o.element, ndview.ErrDType)
	}
	var memory [2]cudabuf.Pointer
	used := memory[:0]
	var src, dst uintptr
	if o.src.buffer != nil {
		used, src = append(used, o.src.pointer(false)), o.src.address()
	}
	if o.dst.buffer != nil {
		used, dst = append(used, o.dst.pointer(true)), o.dst.address()
	}
	return e.stream.Enqueue(func() error { return e.calls(o, src, dst, element) }, used...)
}

// calls makes the calls of an operation.
func (e *ncclEngine) calls(o *operation, src, dst, element uintptr) error {
	lib, comm, stream := e.lib, e.main.get(), e.stream.Handle()
	count, root, op := uintptr(o.count), uintptr(o.root), ncclOps[o.op]
	part := func(address uintptr, rank int) uintptr { return address + uintptr(int64(rank)*o.bytes()) }
	send := func(address uintptr, to int) error {
		return lib.enqueue(ncclSend, comm, stream, address, count, element, uintptr(to))
	}
	receive := func(address uintptr, from int) error {
		return lib.enqueue(ncclRecv, comm, stream, address, count, element, uintptr(from))
	}
	switch o.kind {
	case opAllReduce:
		return lib.enqueue(ncclAllReduce, comm, stream, src, dst, count, element, op)
	case opReduce:
		return lib.enqueue(ncclReduce, comm, stream, src, dst, count, element, op, root)
	case opReduceScatter:
		return lib.enqueue(ncclReduceScatter, comm, stream, src, dst, count, element, op)
	case opBroadcast:
		at := max(src, dst) // only one is set; the root's is sent in place
		return lib.enqueue(ncclBroadcast, comm, stream, at, at, count, element, root)
	case opAllGather:
		return lib.enqueue(ncclAllGather, comm, stream, src, dst, count, element)
	case opSend:
		return send(src, o.root)
	case opRecv:
		return receive(dst, o.root)
	}
	var err error
	for rank := range e.size {
		switch {
		case err != nil:
		case o.kind == opAllToAll:
			if err = send(part(src, rank), rank); err == nil {
				err = receive(part(dst, rank), rank)
			}
		case o.kind == opGather && e.rank == o.root:
			err = receive(part(dst, rank), rank)
		case o.kind == opScatter && e.rank == o.root:
			err = send(part(src, rank), rank)
		}
	}
	if err == nil && o.kind == opGather {
		err = send(src, o.root)
	}
	if err == nil && o.kind == opScatter {
		err = receive(dst, o.root)
	}
	return err
}

// watch ends the communicator if NCCL reports an error, another rank fails, or work takes
// longer than the timeout. It sleeps while the stream has no work.
func (e *ncclEngine) watch() {
	defer close(e.watched)
	for {
		select {
		case <-e.stop:
			return
		case <-e.mesh.failed:
			e.abort()
			return
		case <-e.activity:
		}
		if !e.watchWork() {
			return
		}
	}
}

// watchWork watches until the stream has no work. It returns false if the watcher must end.
func (e *ncclEngine) watchWork() bool {
	ticker := time.NewTicker(watchPause)
	defer ticker.Stop()
	limit := e.options.timeout()
	var marker *cudabuf.Event
	defer func() {
		if marker != nil {
			_ = marker.Close() // fails only on a lost device
		}
	}()
	var since time.Time // when the marker was recorded
	var marked int64    // operations before it
	for {
		select {
		case <-e.stop:
			return false
		case <-e.mesh.failed:
			e.abort()
			return false
		case <-ticker.C:
		}
		err := e.lib.check(ncclCommGetAsyncError, e.main.get(), e.lib.asyncError(e.main.get()))
		done := false
		if err == nil && marker != nil {
			done, err = marker.Done()
		}
		entered := e.entered.Load()
		switch {
		case err != nil:
		case entered != 0 && limit > 0 && time.Since(time.Unix(0, entered)) > limit:
			err = fmt.Errorf("NCCL of rank %d waits longer than %v: %w", e.rank, limit, ErrTimeout)
		case done && entered == 0 && marked == e.issued.Load():
			e.active.Store(false)
			if e.entered.Load() == 0 && marked == e.issued.Load() {
				return true
			}
			e.active.Store(true) // an operation began meanwhile
		case done || marker == nil:
			if marker == nil {
				if marker, err = e.cuda.NewEvent(cudabuf.EventOptions{}); err != nil {
					break
				}
			}
			marked, since = e.issued.Load(), time.Now()
			err = e.stream.Record(marker)
		case limit > 0 && time.Since(since) > limit:
			err = fmt.Errorf("work of rank %d takes longer than %v: %w", e.rank, limit, ErrTimeout)
		}
		if err != nil {
			e.mesh.fail(fmt.Errorf("rank %d: %w", e.rank, err), e.rank)
			e.abort()
			return false
		}
	}
}

// wait returns when all work of the stream is done. The work of a communicator that fails
// ends too, because the watcher aborts it.
func (e *ncclEngine) wait() error {
	err := e.stream.Synchronize()
	if failed := e.mesh.failure(); failed != nil {
		<-e.watched
		return failed
	}
	return err
}

// close ends the watcher and destroys the communicators.
func (e *ncclEngine) close() error {
	close(e.stop)
	<-e.watched
	if err := e.mesh.failure(); err != nil { // since the caller looked
		e.abort()
		return err
	}
	var err error
	e.aborting.Do(func() {
		err = errors.Join(e.free(ncclCommDestroy, e.main), e.free(ncclCommDestroy, e.parent))
		e.unpin()
	})
	return err
}

// abort ends the work of the communicators and frees them, once. The two share the flag that
// ends work, so aborting the first one also ends a call that waits in the other. Only then
// the other can be freed.
func (e *ncclEngine) abort() {
	e.aborting.Do(func() {
		_ = e.free(ncclCommAbort, e.parent) // the communicator has failed already
		locked := e.calling.TryLock()
		for until := time.Now().Add(blockedLimit); !locked && time.Now().Before(until); locked = e.calling.TryLock() {
			time.Sleep(startPause)
		}
		if !locked {
			return // a call still uses it
		}
		defer e.calling.Unlock() // later calls find the failure first
		_ = e.free(ncclCommAbort, e.main)
		e.unpin()
	})
}

// free calls a function that frees a communicator, if it was made.
func (e *ncclEngine) free(f function, h ncclHandle) error {
	comm := h.get()
	if comm == 0 {
		return nil
	}
	return e.call(func() error { return e.lib.check(f, 0, e.lib.call(f, comm)) })
}

func (e *ncclEngine) unpin() {
	e.main.unpin()
	e.parent.unpin()
}
