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

// Window is memory of a device that other processes on the machine open by one
// handle, and from which located bodies come: a CUDA IPC allocation, or shared
// memory of the host (memfd). A buffer that lies in it is sent as its offset, any
// other is copied there first; the room of a copy is free again when all who were
// told of it have said so, or are gone. Sending waits for room.
//
// A peer that has the handle reaches all of the window and nothing else.
type Window struct {
	dev    arrowbuf.Device
	whole  arrowbuf.Buffer
	handle []byte
	rooms  *rooms
	unmap  func() error
	once   sync.Once
}

// windows are those of this process, by handle: CUDA does not open a process's
// own.
var windows sync.Map

// NewWindow makes a window of n bytes on a *cudabuf.Device or the CPU; on others
// it is arrowbuf.ErrDevice. The caller closes it.
func NewWindow(dev arrowbuf.Device, n int64) (*Window, error) {
	if n < 2*alignment {
		return nil, fmt.Errorf("a window of %d bytes, expected at least %d: %w", n, 2*alignment, arrowbuf.ErrOutOfRange)
	}
	w := &Window{dev: dev, rooms: newRooms(n / alignment * alignment), unmap: func() error { return nil }}
	var err error
	switch gpu, ok := dev.(*cudabuf.Device); {
	case ok:
		err = w.onGPU(gpu, n)
	case dev == arrowbuf.CPU():
		err = w.onHost(n)
	default:
		err = fmt.Errorf("%v: %w", dev, arrowbuf.ErrDevice)
	}
	if err != nil {
		return nil, fmt.Errorf("a window of %d bytes: %w", n, err)
	}
	windows.Store(string(w.handle), w)
	return w, nil
}

func (w *Window) onGPU(dev *cudabuf.Device, n int64) error {
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

func (w *Window) onHost(n int64) error {
	data, handle, unmap, err := shareHostMemory(n)
	if err != nil {
		return err
	}
	w.whole, w.handle, w.unmap = arrowbuf.WrapExternal(data, func() {}), handle, unmap
	return nil
}

// Device is where the window lies.
func (w *Window) Device() arrowbuf.Device { return w.dev }

// RemoteHandle is what opens the window in another process, for Endpoint: CUDA's
// handle of 64 bytes, or the text memfd:PID:FD:NAME of what /proc/PID/fd/FD is.
func (w *Window) RemoteHandle() []byte { return w.handle }

// Used is how many bytes of the window are in use.
func (w *Window) Used() int64 { return w.rooms.used() }

// Close gives the memory back. Nothing that lies in it may be in use any more,
// here or elsewhere: where some is, that is an error, and the window stays.
func (w *Window) Close() (err error) {
	if used := w.Used(); used > 0 {
		return fmt.Errorf("closing a window: %d bytes of it are in use", used)
	}
	w.once.Do(func() {
		windows.Delete(string(w.handle))
		w.whole.Release()
		err = w.unmap()
	})
	return err
}

// find tells where in the window a buffer lies, if it does.
func (w *Window) find(b arrowbuf.Buffer) (offset int64, ok bool) {
	if b.Device() != w.dev || b.Len() == 0 {
		return 0, false
	}
	offset = int64(b.Address() - w.whole.Address())
	return offset, arrowbuf.CheckRange(offset, b.Len(), w.whole.Len()) == nil
}

// settled returns when what was given to the device for a buffer is done: the
// protocol has no way to tell a peer what to wait for.
func settled(b arrowbuf.Buffer) error {
	if gpu, ok := b.(interface{ Wait() error }); ok {
		return gpu.Wait()
	}
	return nil
}

// part is a buffer over bytes of the window, which stay in use until its last
// reference goes and the device is done with it; then release is called.
func (w *Window) part(l Location, release func()) (arrowbuf.Buffer, error) {
	return within(w.whole, l, release)
}

// within is a buffer over a part of another that has an end to tell of.
func within(whole arrowbuf.Buffer, l Location, release func()) (arrowbuf.Buffer, error) {
	if l.Address > uint64(whole.Len()) || l.Length > uint64(whole.Len())-l.Address {
		return nil, fmt.Errorf("%w: a location of %d bytes at %#x, in memory of %d", ErrProtocol, l.Length, l.Address, whole.Len())
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

// Place returns a batch like another one of any device, whose buffers lie in the
// window: it can then be sent as often as wanted without a copy. The room is free
// again after its last Release, here and at all clients. Place waits for room
// until the context ends.
func (w *Window) Place(ctx context.Context, batch arrow.RecordBatch) (placed arrow.RecordBatch, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("placing a record batch in a window: %w", err)
		}
	}()
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
		if placed, err = w.placeMessage(ctx, m, to); err != nil {
			return nil, err
		}
	}
	return placed, nil // the batch's message is the last
}

func (w *Window) placeMessage(ctx context.Context, m *arrowipc.Message, to *arrowipc.Decoder) (arrow.RecordBatch, error) {
	parts, err := m.Parts()
	if err != nil {
		return nil, err
	}
	defer parts.Release()
	places, err := w.place(ctx, parts)
	if err != nil {
		return nil, err
	}
	there := make(arrowipc.Parts, 0, len(parts))
	defer func() { there.Release() }()
	for i, p := range places {
		b, err := w.part(Location{uint64(p.offset), uint64(parts[i].Buffer.Len())}, p.giveBack)
		if err != nil {
			for _, rest := range places[i:] {
				rest.giveBack()
			}
			return nil, err
		}
		there = append(there, arrowipc.Part{Offset: parts[i].Offset, Buffer: b})
	}
	return to.Decode(m.Metadata, there)
}

// alignment is that of what lies in a window: a GPU's own allocations have it.
const alignment = 256

// rooms keeps the books of a window: which ranges of it are free, in order.
type rooms struct {
	size int64

	mu      sync.Mutex
	free    []span
	changed chan struct{} // closed when room comes back, where somebody waits
}

type span struct{ from, to int64 }

// newRooms leaves out the first bytes: a location at 0 is one of length 0.
func newRooms(size int64) *rooms {
	return &rooms{size: size - alignment, free: []span{{alignment, size}}}
}

// take finds room for n > 0 bytes, the first that is large enough, and waits for
// it where that is in use.
func (r *rooms) take(ctx context.Context, n int64) (offset int64, err error) {
	if n > r.size {
		return 0, fmt.Errorf("%d bytes in a window that has %d: %w", n, r.size, ErrTooLarge)
	}
	n = (n + alignment - 1) / alignment * alignment
	for {
		offset, changed := r.try(n)
		if changed == nil {
			return offset, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, fmt.Errorf("waiting for %d free bytes of a window: %w", n, context.Cause(ctx))
		}
	}
}

// try is take, or the channel that tells when to try again.
func (r *rooms) try(n int64) (offset int64, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.free {
		if one := &r.free[i]; one.to-one.from >= n {
			offset = one.from
			if one.from += n; one.from == one.to {
				r.free = append(r.free[:i], r.free[i+1:]...)
			}
			return offset, nil
		}
	}
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return 0, r.changed
}

// give is the end of what take took.
func (r *rooms) give(offset, n int64) {
	n = (n + alignment - 1) / alignment * alignment
	r.mu.Lock()
	defer r.mu.Unlock()
	i := 0
	for i < len(r.free) && r.free[i].from < offset {
		i++
	}
	r.free = append(r.free, span{})
	copy(r.free[i+1:], r.free[i:])
	r.free[i] = span{offset, offset + n}
	if i+1 < len(r.free) && r.free[i].to == r.free[i+1].from {
		r.free[i].to = r.free[i+1].to
		r.free = append(r.free[:i+1], r.free[i+2:]...)
	}
	if i > 0 && r.free[i-1].to == r.free[i].from {
		r.free[i-1].to = r.free[i].to
		r.free = append(r.free[:i], r.free[i+1:]...)
	}
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// used is how many bytes are taken.
func (r *rooms) used() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	used := r.size
	for _, one := range r.free {
		used -= one.to - one.from
	}
	return used
}

// copyAlignment is the alignment of copies of one body, which share a room.
const copyAlignment = 64

// placement is where in a window something lies, until giveBack is called.
type placement struct {
	offset   int64
	inPlace  bool // the part lies there, and is held
	giveBack func()
}

// place finds or makes the place of each part, whose bytes are there when it
// returns. The copies take one room.
func (w *Window) place(ctx context.Context, parts arrowipc.Parts) ([]placement, error) {
	placed := make([]placement, len(parts))
	var copies []int
	var size int64
	for i, part := range parts {
		if offset, ok := w.find(part.Buffer); ok {
			if err := settled(part.Buffer); err != nil {
				return nil, err
			}
			placed[i] = placement{offset: offset, inPlace: true, giveBack: part.Buffer.Release}
			continue
		}
		placed[i].offset = size
		copies = append(copies, i)
		size += (part.Buffer.Len() + copyAlignment - 1) / copyAlignment * copyAlignment
	}
	if err := w.copyIn(ctx, parts, copies, size, placed); err != nil {
		return nil, err
	}
	for i, part := range parts {
		if placed[i].inPlace {
			part.Buffer.Retain()
		}
	}
	return placed, nil
}

// copyIn copies some of the parts, to offsets from where there is room.
func (w *Window) copyIn(ctx context.Context, parts arrowipc.Parts, copies []int, size int64, placed []placement) error {
	if size == 0 {
		return nil
	}
	room, err := w.rooms.take(ctx, size)
	if err != nil {
		return err
	}
	left := new(atomic.Int64)
	left.Store(int64(len(copies)))
	for _, i := range copies {
		placed[i].offset += room
		placed[i].giveBack = func() {
			if left.Add(-1) == 0 {
				w.rooms.give(room, size)
			}
		}
		if err == nil {
			err = w.write(parts[i].Buffer, placed[i].offset)
		}
	}
	if err = errors.Join(err, settled(w.whole)); err != nil {
		w.rooms.give(room, size)
		return fmt.Errorf("copying into a window: %w", err)
	}
	return nil
}

// write copies a buffer of any device to an offset. On a GPU it may be done only
// when the window is settled, so that many copies are waited for once.
func (w *Window) write(src arrowbuf.Buffer, offset int64) error {
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
