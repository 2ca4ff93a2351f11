package ipc

import (
	"errors"
	"fmt"
	"math"
	"os"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ipc/handle"
	"github.com/quiver-gpu/quiver/ipc/internal/wire"
)

// block is an allocation that a server shares. The fields below mu are the
// store's.
type block struct {
	id        uint64
	mechanism handle.Mechanism
	size      int64
	buffer    arrowbuf.Buffer // all of it, or what keeps it; nil for Local
	base      uintptr         // where a GPU has it
	local     *local          // of Local
	file      *os.File        // that clients open, for CUDAFD and Memory
	handle    [64]byte        // that clients open, for CUDAIPC and CUDAPool
	pool      *exportedPool   // it is in, for CUDAPool
	event     *cudabuf.Event  // recorded when its contents are given to a stream to write
	shared    *cudabuf.EventHandle

	// mu of the store
	forms    int  // that lie in it
	leases   int  // in it
	own      bool // the server's, to be used again
	spoiled  bool // a lease in it ended without the client's word
	retiring bool
	at       place // of own ones
	used     int64 // bytes of own ones
	known    map[*conn]struct{}
}

// gpu is the device of a block, nil where it is the host's.
func (b *block) gpu() *cudabuf.Device {
	if b.buffer == nil {
		return nil
	}
	dev, _ := b.buffer.Device().(*cudabuf.Device)
	return dev
}

func (b *block) device() string {
	if b.buffer == nil {
		return b.local.device
	}
	return b.buffer.Device().String()
}

// announcement is the frame that a client opens the block by. Its event is for
// clients that can open one.
func (b *block) announcement(s *Server, events bool) (wire.Frame, error) {
	m := wire.BlockMessage{Block: b.id, Descriptor: handle.Descriptor{
		Mechanism: b.mechanism, AllocationSize: b.size, Length: b.size,
		Exporter: s.self, Sequence: b.id, Handle: b.handle,
	}}
	if dev := b.gpu(); dev != nil {
		m.Descriptor.Device = dev.UUID()
	}
	if events {
		m.Descriptor.Event = b.shared
	}
	file := b.file
	if b.pool != nil {
		m.Descriptor.Pool, file = b.pool.number, b.pool.file
	}
	payload, err := m.Append(nil)
	return wire.Frame{Type: wire.Block, Payload: payload, File: file}, err
}

// free gives the memory back. Nobody knows the block any more.
func (b *block) free() {
	if b.event != nil {
		_ = b.event.Close() // on a lost device nothing is left of it
	}
	if b.file != nil {
		_ = b.file.Close()
	}
	if b.buffer != nil {
		b.buffer.Release()
	}
	if b.pool != nil {
		b.pool.release()
	}
	if b.local != nil {
		b.local.Release()
	}
}

// shareEvent gives a GPU's block an event that other processes open.
func (b *block) shareEvent(dev *cudabuf.Device) error {
	event, err := dev.NewEvent(cudabuf.EventOptions{Interprocess: true})
	if err != nil {
		return err
	}
	h, err := event.ExportIPC()
	if err != nil {
		return errors.Join(err, event.Close())
	}
	b.event, b.shared = event, &h
	return nil
}

// Blocks are multiples of these, so that they hold later batches too.
const (
	granuleGPU  = 2 << 20 // what a GPU allocates
	granuleHost = 64 << 10
)

// newBlock allocates at least n bytes that are shared by a mechanism, cleared.
func newBlock(m handle.Mechanism, dev *cudabuf.Device, n int64) (b *block, err error) {
	granule := int64(granuleGPU)
	if m == handle.Memory {
		granule = granuleHost
	}
	if n > math.MaxInt64-granule {
		return nil, fmt.Errorf("%d bytes: %w", n, arrowbuf.ErrOutOfMemory)
	}
	n = (n + granule - 1) / granule * granule
	if m == handle.Memory {
		return newMemoryBlock(n)
	}
	b = &block{mechanism: m}
	defer func() {
		if err != nil {
			b.free()
			b = nil
		}
	}()
	var buffer *cudabuf.Buffer
	switch m {
	case handle.CUDAFD:
		buffer, err = dev.NewFDBuffer(n)
	case handle.CUDAIPC:
		buffer, err = dev.NewIPCBuffer(n)
	default:
		return b, fmt.Errorf("a copy by %v: %w", m, ErrNoMechanism)
	}
	if err != nil {
		return b, err
	}
	b.buffer = buffer
	if err = b.export(buffer, false); err != nil {
		return b, err
	}
	if err = buffer.Fill(0); err != nil {
		return b, err
	}
	return b, b.shareEvent(dev)
}

// export finds what opens the allocation that a buffer lies in, by the block's
// mechanism. Memory that other memory lies beside is exported only where that is
// asked for.
func (b *block) export(buffer *cudabuf.Buffer, pooled bool) error {
	var region cudabuf.Region
	switch b.mechanism {
	case handle.CUDAFD:
		file, r, err := buffer.ExportFD()
		if err != nil {
			return err
		}
		b.file, region = file, r
	case handle.CUDAIPC:
		h, err := buffer.ExportIPC()
		if pooled && errors.Is(err, cudabuf.ErrNotShareable) {
			h, err = buffer.ExportIPCWhole()
		}
		if err != nil {
			return err
		}
		b.handle, region = h.Handle, h.Region
	case handle.CUDAPool:
		h, err := buffer.ExportPool()
		if err != nil {
			return err
		}
		b.handle, region = h.Pointer, h.Region
	default:
		return fmt.Errorf("%v: %w", b.mechanism, cudabuf.ErrNotShareable)
	}
	b.size, b.base = region.AllocationSize, buffer.Address()-uintptr(region.Offset)
	return nil
}

// nativeBlock is the allocation that a buffer lies in, shared as it is. Where
// that cannot be by the mechanism, the error is cudabuf.ErrNotShareable.
func (s *store) nativeBlock(m handle.Mechanism, buffer *cudabuf.Buffer, pooled bool) (b *block, err error) {
	b = &block{mechanism: m}
	if m == handle.CUDAPool { // exported before what is in it
		if b.pool, err = s.pool(buffer.SharedPool()); err != nil {
			return nil, err
		}
	}
	if err := b.export(buffer, pooled); err != nil {
		b.free()
		return nil, err
	}
	buffer.Retain()
	b.buffer = buffer
	if err := b.shareEvent(buffer.Device().(*cudabuf.Device)); err != nil {
		b.free()
		return nil, err
	}
	return b, nil
}

// local is what a client in this process gets: the memory itself.
type local struct {
	batch  arrow.RecordBatch
	buffer arrowbuf.Buffer
	device string
}

func (l *local) Retain() {
	if l.batch != nil {
		l.batch.Retain()
	} else {
		l.buffer.Retain()
	}
}

func (l *local) Release() {
	if l.batch != nil {
		l.batch.Release()
	} else {
		l.buffer.Release()
	}
}

// localBlock stands for an item, for clients in this process.
func localBlock(s *Server, it *item) *block {
	l := &local{it.batch, it.buffer, it.device()}
	l.Retain()
	b := &block{mechanism: handle.Local, local: l, size: max(it.bytes(), 1)}
	copy(b.handle[:], s.instance[:])
	return b
}

// localOf finds what a block of this process stands for. The caller owns a
// reference.
func localOf(instance [16]byte, number uint64) (l *local, err error) {
	found, ok := instances.Load(instance)
	if ok {
		s := &found.(*Server).store
		s.do(func() {
			if b := s.blocks[number]; b != nil && b.local != nil {
				l = b.local
				l.Retain()
			}
		})
	}
	if l == nil {
		return nil, fmt.Errorf("block %d, which no server of this process has: %w", number, ErrServerGone)
	}
	return l, nil
}
