package dissociated

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
	"github.com/quiver-gpu/quiver/cudabuf"
)

// Window is memory of a device that other processes on the machine open with one
// handle: a CUDA IPC allocation, or shared memory of the host (memfd). Located
// bodies refer to it. A buffer in the window is sent as its offset; any other
// buffer is copied into the window first. The memory of a copy is free again when
// all receivers have freed it or are gone. Sending waits for free memory.
//
// A peer with the handle can read all of the window and nothing else.
type Window struct {
	dev    arrowbuf.Device
	whole  arrowbuf.Buffer
	handle []byte
	ranges *rangeAllocator
	unmap  func() error
	once   sync.Once
}

// windows maps the handles of this process's windows to the windows. CUDA does
// not open handles of the same process.
var windows sync.Map

// NewWindow returns a window of n bytes on a *cudabuf.Device or the CPU device.
// The caller closes it. The error wraps arrowbuf.ErrOutOfRange if n is too small,
// and arrowbuf.ErrDevice for other devices.
func NewWindow(dev arrowbuf.Device, n int64) (*Window, error) {
	if n < 2*alignment {
		return nil, fmt.Errorf("dissociated.NewWindow: size: got %d bytes, want at least %d: %w", n, 2*alignment, arrowbuf.ErrOutOfRange)
	}
	w := &Window{dev: dev, ranges: newRangeAllocator(n / alignment * alignment), unmap: func() error { return nil }}
	var err error
	switch gpu, ok := arrowbuf.As[*cudabuf.Device](dev); {
	case ok && gpu != nil:
		w.dev = gpu
		err = w.allocateOnGPU(gpu, n)
	case dev == arrowbuf.CPU():
		err = w.allocateOnHost(n)
	default:
		err = fmt.Errorf("%v: %w", dev, arrowbuf.ErrDevice)
	}
	if err != nil {
		return nil, fmt.Errorf("dissociated.NewWindow: %d bytes: %w", n, err)
	}
	windows.Store(string(w.handle), w)
	return w, nil
}

func (w *Window) allocateOnGPU(dev *cudabuf.Device, n int64) error {
	b, err := dev.NewIPCBuffer(n)
	if err != nil {
		return err
	}
	h, err := b.ExportIPC()
	if err != nil {
		b.Release()
		return err
	}
	w.whole, w.handle = b, h.Handle[:]
	return nil
}

func (w *Window) allocateOnHost(n int64) error {
	data, handle, unmap, err := createHostMemory(n)
	if err != nil {
		return err
	}
	w.whole, w.handle, w.unmap = arrowbuf.WrapExternal(data, func() {}), handle, unmap
	return nil
}

// Device returns the device of the window.
func (w *Window) Device() arrowbuf.Device { return w.dev }

// RemoteHandle returns the handle that opens the window in another process, for
// Endpoint. It is a CUDA IPC handle of 64 bytes, or the text memfd:PID:FD:NAME,
// which names the file /proc/PID/fd/FD.
func (w *Window) RemoteHandle() []byte { return w.handle }

// Used returns the number of bytes in use.
func (w *Window) Used() int64 { return w.ranges.used() }

// Close frees the memory. It returns an error and does nothing if some of the
// memory is in use, in this process or another.
func (w *Window) Close() (err error) {
	if used := w.Used(); used > 0 {
		return fmt.Errorf("dissociated.Window.Close: %d bytes are in use", used)
	}
	w.once.Do(func() {
		windows.Delete(string(w.handle))
		w.whole.Release()
		err = w.unmap()
	})
	return err
}

// offsetOf returns the offset of a buffer; ok is false if the buffer is outside
// the window.
func (w *Window) offsetOf(b arrowbuf.Buffer) (offset int64, ok bool) {
	if b.Device() != w.dev || b.Len() == 0 {
		return 0, false
	}
	offset = int64(b.Address() - w.whole.Address())
	return offset, arrowbuf.CheckRange(offset, b.Len(), w.whole.Len()) == nil
}

// waitWritten waits until the device has completed all work on a buffer. The
// protocol cannot tell a peer what to wait for.
func waitWritten(b arrowbuf.Buffer) error {
	if gpu, ok := arrowbuf.As[interface{ Wait() error }](b); ok {
		return gpu.Wait()
	}
	return nil
}

// slice returns a buffer over a part of the window. release is called when its
// last reference is released and the device no longer uses it.
func (w *Window) slice(l Location, release func()) (arrowbuf.Buffer, error) {
	return sliceMemory(w.whole, l, release)
}

// sliceMemory returns a buffer over a part of whole, which calls release at its
// end.
func sliceMemory(whole arrowbuf.Buffer, l Location, release func()) (arrowbuf.Buffer, error) {
	if l.Address > uint64(whole.Len()) || l.Length > uint64(whole.Len())-l.Address {
		return nil, fmt.Errorf("%w: location of %d bytes at %#x is outside the memory of %d bytes", ErrProtocol, l.Length, l.Address, whole.Len())
	}
	if data, ok := arrowbuf.HostBytes(whole); ok {
		return arrowbuf.WrapExternal(data[l.Address:l.Address+l.Length:l.Address+l.Length], release), nil
	}
	gpu, ok := whole.Device().(*cudabuf.Device)
	if !ok {
		return nil, errors.New("memory of an unknown device")
	}
	return gpu.WrapExternal(whole.Address()+uintptr(l.Address), int64(l.Length), release)
}

// CopyBatch copies a batch of any device into the window. The result can be sent
// any number of times without a copy. Its memory is free again after the last
// Release in this process and in all clients. CopyBatch waits for free memory
// until ctx is done.
func (w *Window) CopyBatch(ctx context.Context, batch arrow.RecordBatch) (copied arrow.RecordBatch, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("dissociated.Window.CopyBatch: %w", err)
		}
	}()
	if batch == nil {
		return nil, fmt.Errorf("nil batch: %w", arrow.ErrInvalid)
	}
	from, err := arrowipc.NewEncoder(batch.Schema())
	if err != nil {
		return nil, err
	}
	defer from.Release()
	to, err := arrowipc.NewDecoder(from.Schema(), w.dev)
	if err != nil {
		return nil, err
	}
	defer to.Release()
	messages, err := from.Encode(batch)
	if err != nil {
		return nil, err
	}
	defer releaseAll(messages)
	for _, m := range messages {
		if copied, err = w.copyMessage(ctx, m, to); err != nil {
			return nil, err
		}
	}
	return copied, nil // the last message is the record batch
}

func (w *Window) copyMessage(ctx context.Context, m *arrowipc.Message, to *arrowipc.Decoder) (arrow.RecordBatch, error) {
	parts, err := m.Parts()
	if err != nil {
		return nil, err
	}
	defer parts.Release()
	windowParts, err := w.addParts(ctx, parts)
	if err != nil {
		return nil, err
	}
	copies := make(arrowipc.Parts, 0, len(parts))
	defer func() { copies.Release() }()
	for i, p := range windowParts {
		b, err := w.slice(Location{uint64(p.offset), uint64(parts[i].Buffer.Len())}, p.release)
		if err != nil {
			for _, rest := range windowParts[i:] {
				rest.release()
			}
			return nil, err
		}
		copies = append(copies, arrowipc.Part{Offset: parts[i].Offset, Buffer: b})
	}
	return to.Decode(m.Metadata, copies)
}

// copyAlignment is the alignment of the parts of one body, which share an
// allocation.
const copyAlignment = 64

// windowPart is the memory of a part in a window, valid until release is called.
type windowPart struct {
	offset  int64
	inPlace bool // the part is in the window already, and is retained
	release func()
}

// addParts returns the window memory of each part, and copies the parts that are
// outside. When it returns, all bytes are written. The copies share one
// allocation.
func (w *Window) addParts(ctx context.Context, parts arrowipc.Parts) ([]windowPart, error) {
	windowParts := make([]windowPart, len(parts))
	var copies []int
	var size int64
	for i, part := range parts {
		if offset, ok := w.offsetOf(part.Buffer); ok {
			if err := waitWritten(part.Buffer); err != nil {
				return nil, err
			}
			windowParts[i] = windowPart{offset: offset, inPlace: true, release: part.Buffer.Release}
			continue
		}
		windowParts[i].offset = size
		copies = append(copies, i)
		size += (part.Buffer.Len() + copyAlignment - 1) / copyAlignment * copyAlignment
	}
	if err := w.copyParts(ctx, parts, copies, size, windowParts); err != nil {
		return nil, err
	}
	for i, part := range parts {
		if windowParts[i].inPlace {
			part.Buffer.Retain()
		}
	}
	return windowParts, nil
}

// copyParts copies the parts with the given indexes into one allocation.
func (w *Window) copyParts(ctx context.Context, parts arrowipc.Parts, copies []int, size int64, windowParts []windowPart) error {
	if size == 0 {
		return nil
	}
	base, err := w.ranges.allocate(ctx, size)
	if err != nil {
		return err
	}
	left := new(atomic.Int64)
	left.Store(int64(len(copies)))
	for _, i := range copies {
		windowParts[i].offset += base
		windowParts[i].release = func() {
			if left.Add(-1) == 0 {
				w.ranges.free(base, size)
			}
		}
		if err == nil {
			err = w.enqueueCopy(parts[i].Buffer, windowParts[i].offset)
		}
	}
	if err = errors.Join(err, waitWritten(w.whole)); err != nil {
		w.ranges.free(base, size)
		return fmt.Errorf("copying into the window: %w", err)
	}
	return nil
}

// enqueueCopy copies a buffer of any device to an offset. On a GPU the copy may
// only be enqueued, so that the caller waits once for many copies.
func (w *Window) enqueueCopy(src arrowbuf.Buffer, offset int64) error {
	gpu, ok := w.whole.(*cudabuf.Buffer)
	host, onHost := arrowbuf.HostBytes(src)
	if !ok || !onHost && src.Device() != w.dev {
		_, err := w.whole.CopyFromDevice(src, offset)
		return err
	}
	stream, err := w.dev.(*cudabuf.Device).DefaultStream()
	if err != nil {
		return err
	}
	if onHost {
		_, err = gpu.CopyFromHostAsync(host, offset, stream)
	} else {
		_, err = gpu.CopyFromDeviceAsync(src, offset, stream)
	}
	return err
}

// alignment is the alignment of allocations in a window, that of a GPU's own
// allocations.
const alignment = 256

// rangeAllocator is a first-fit allocator of the ranges of a window.
type rangeAllocator struct {
	size int64

	mu         sync.Mutex
	freeRanges []byteRange   // in ascending order
	changed    chan struct{} // closed when a range is freed; nil if no caller waits
}

type byteRange struct{ from, to int64 }

// newRangeAllocator excludes the first bytes, since location 0 means an empty
// buffer.
func newRangeAllocator(size int64) *rangeAllocator {
	return &rangeAllocator{size: size - alignment, freeRanges: []byteRange{{alignment, size}}}
}

// allocate returns the first free range of n > 0 bytes. It waits for one until
// ctx is done.
func (r *rangeAllocator) allocate(ctx context.Context, n int64) (offset int64, err error) {
	if n > r.size {
		return 0, fmt.Errorf("%w: got %d bytes, want at most %d, the size of the window", ErrTooLarge, n, r.size)
	}
	n = (n + alignment - 1) / alignment * alignment
	for {
		offset, changed := r.tryAllocate(n)
		if changed == nil {
			return offset, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, fmt.Errorf("waiting for %d free bytes in a window: %w", n, context.Cause(ctx))
		}
	}
}

// tryAllocate is allocate without waiting. If no range is free, it returns a
// channel that is closed when one is freed.
func (r *rangeAllocator) tryAllocate(n int64) (offset int64, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.freeRanges {
		if free := &r.freeRanges[i]; free.to-free.from >= n {
			offset = free.from
			if free.from += n; free.from == free.to {
				r.freeRanges = append(r.freeRanges[:i], r.freeRanges[i+1:]...)
			}
			return offset, nil
		}
	}
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return 0, r.changed
}

// free frees the range of an allocation.
func (r *rangeAllocator) free(offset, n int64) {
	n = (n + alignment - 1) / alignment * alignment
	r.mu.Lock()
	defer r.mu.Unlock()
	i := 0
	for i < len(r.freeRanges) && r.freeRanges[i].from < offset {
		i++
	}
	r.freeRanges = append(r.freeRanges, byteRange{})
	copy(r.freeRanges[i+1:], r.freeRanges[i:])
	r.freeRanges[i] = byteRange{offset, offset + n}
	if i+1 < len(r.freeRanges) && r.freeRanges[i].to == r.freeRanges[i+1].from {
		r.freeRanges[i].to = r.freeRanges[i+1].to
		r.freeRanges = append(r.freeRanges[:i+1], r.freeRanges[i+2:]...)
	}
	if i > 0 && r.freeRanges[i-1].to == r.freeRanges[i].from {
		r.freeRanges[i-1].to = r.freeRanges[i].to
		r.freeRanges = append(r.freeRanges[:i], r.freeRanges[i+1:]...)
	}
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// used returns the number of allocated bytes.
func (r *rangeAllocator) used() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	used := r.size
	for _, free := range r.freeRanges {
		used -= free.to - free.from
	}
	return used
}
