package ipc

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ipc/handle"
	"github.com/quiver-gpu/quiver/ipc/internal/memfile"
	"github.com/quiver-gpu/quiver/ipc/internal/wire"
)

// store keeps the books of a server: blocks, who knows them, what lies in them
// and who reads it. What takes time is put off until the lock is open.
type store struct {
	idleLimit int64

	mu     sync.Mutex
	later  []func()
	next   uint64
	blocks map[uint64]*block
	open   map[place]*block // to which small batches are added
	pools  map[*cudabuf.SharedPool]*exportedPool
	idle   []*block // the longest idle first
	kept   int64    // bytes of idle
	closed bool
}

// do runs f with the books, and what it puts off behind it.
func (s *store) do(f func()) {
	s.mu.Lock()
	f()
	later := s.later
	s.later = nil
	s.mu.Unlock()
	for _, g := range later {
		g()
	}
}

// add takes over a block, with a form in it.
func (s *store) add(b *block) {
	s.next++
	b.id, b.forms, b.known = s.next, 1, map[*conn]struct{}{}
	s.blocks[b.id] = b
}

// place says whose bytes lie in a block, and what kind of block that is.
type place struct {
	mechanism handle.Mechanism
	dev       *cudabuf.Device
	owner     string // a name
}

// take returns a block with n bytes for a form, and where they are. Small batches
// of a name share a block. Of what another name had in one nothing is left.
func (s *store) take(at place, n int64) (b *block, offset int64, err error) {
	fresh := false
	s.do(func() {
		if b = s.open[at]; b != nil && !b.spoiled && b.room() >= n {
			offset = b.end()
			b.used = offset + n
			b.forms++
			return
		}
		i := slices.IndexFunc(s.idle, func(b *block) bool {
			return b.mechanism == at.mechanism && b.gpu() == at.dev && b.buffer.Len() >= n && (b.size <= 2*n || b.size <= granuleGPU)
		})
		if b, fresh = nil, true; i >= 0 {
			b = s.idle[i]
			s.idle = slices.Delete(s.idle, i, i+1)
			s.kept -= b.size
			b.forms = 1
		}
	})
	if !fresh {
		return b, offset, nil
	}
	if b == nil {
		if b, err = newBlock(at.mechanism, at.dev, n); err != nil {
			return nil, 0, err
		}
		b.own = true
		s.do(func() { s.add(b) })
	} else if b.at.owner != at.owner {
		err = clearAll(b.buffer)
	}
	s.do(func() {
		b.at = at
		if b.used = n; err != nil {
			b.spoiled = true
			s.leave(b)
			return
		}
		if last := s.open[at]; last == nil || last.room() < b.room() {
			s.open[at] = b
		}
	})
	return b, 0, err
}

// end is where the next form in a block may begin.
func (b *block) end() int64 { return (b.used + 63) &^ 63 }

// room is how many bytes another form may have.
func (b *block) room() int64 { return b.buffer.Len() - b.end() }

// native returns the block of memory that is shared as it is, with a form in it.
func (s *store) native(m handle.Mechanism, buffer *cudabuf.Buffer, pooled bool) (*block, error) {
	var b *block
	s.do(func() { b = s.enter(m, buffer) })
	if b != nil {
		return b, nil
	}
	made, err := s.nativeBlock(m, buffer, pooled)
	if err != nil {
		return nil, err
	}
	s.do(func() {
		if b = s.enter(m, buffer); b != nil { // which another client's request made meanwhile
			s.later = append(s.later, made.free)
			return
		}
		b = made
		s.add(b)
	})
	return b, nil
}

// enter returns the block that has a buffer in memory shared as it is, with a form
// more in it, or nil. The caller holds the books.
func (s *store) enter(m handle.Mechanism, buffer *cudabuf.Buffer) *block {
	for _, b := range s.blocks {
		inside := buffer.Address() - b.base
		if !b.own && !b.retiring && b.mechanism == m && b.gpu() == buffer.Device() && inside < uintptr(b.size) {
			b.forms++
			return b
		}
	}
	return nil
}

// leave ends a form in a block. The caller holds the books.
func (s *store) leave(b *block) {
	if b.forms--; b.forms > 0 {
		return
	}
	if s.open[b.at] == b {
		delete(s.open, b.at)
	}
	if !b.own || b.spoiled || s.closed || b.size > s.idleLimit {
		s.retire(b)
		return
	}
	s.idle = append(s.idle, b)
	for s.kept += b.size; s.kept > s.idleLimit; {
		oldest := s.idle[0]
		s.idle = s.idle[1:]
		s.kept -= oldest.size
		s.retire(oldest)
	}
}

// retire asks those who know a block to forget it, and frees it then. The caller
// holds the books.
func (s *store) retire(b *block) {
	b.retiring = true
	for c := range b.known {
		c.out.Put(wire.Frame{Type: wire.Forget, Payload: wire.AppendNumbers(nil, []uint64{b.id})})
	}
	s.freeUnknown(b)
}

// freeUnknown frees a block that is not used when nobody knows it any more.
func (s *store) freeUnknown(b *block) {
	if b.retiring && len(b.known) == 0 {
		delete(s.blocks, b.id)
		s.later = append(s.later, b.free)
	}
}

// forgotten notes that a client has closed a block.
func (s *store) forgotten(c *conn, b *block) {
	delete(b.known, c)
	s.freeUnknown(b)
}

// close retires what is idle, and keeps nothing from now on.
func (s *store) close() {
	s.do(func() {
		s.closed = true
		for _, b := range s.idle {
			s.retire(b)
		}
		s.idle, s.kept = nil, 0
	})
}

// clearAll sets all bytes to 0.
func clearAll(b arrowbuf.Buffer) error {
	if host, ok := arrowbuf.HostBytes(b); ok {
		clear(host)
		return nil
	}
	return b.(*cudabuf.Buffer).Fill(0)
}

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

// exportedPool is a pool of which a server shares memory as it is, while blocks of
// it are there.
type exportedPool struct {
	store  *store
	of     *cudabuf.SharedPool
	number uint64
	file   *os.File
	blocks int // of the store's books
}

// pool exports a pool, once for all its blocks. The caller releases the result.
func (s *store) pool(of *cudabuf.SharedPool) (*exportedPool, error) {
	if p := s.findPool(of); p != nil {
		return p, nil
	}
	file, err := of.ExportFD()
	if err != nil {
		return nil, err
	}
	p := &exportedPool{store: s, of: of, file: file, blocks: 1}
	s.do(func() {
		if there := s.pools[of]; there != nil { // another was faster
			s.later = append(s.later, func() { _ = file.Close() })
			there.blocks++
			p = there
			return
		}
		s.next++
		p.number = s.next
		s.pools[of] = p
	})
	return p, nil
}

func (s *store) findPool(of *cudabuf.SharedPool) (p *exportedPool) {
	s.do(func() {
		if p = s.pools[of]; p != nil {
			p.blocks++
		}
	})
	return p
}

func (p *exportedPool) release() {
	p.store.do(func() {
		if p.blocks--; p.blocks == 0 {
			delete(p.store.pools, p.of)
			p.store.later = append(p.store.later, func() { _ = p.file.Close() })
		}
	})
}

// newMemoryBlock makes a file of the host's memory, which this process alone
// writes.
func newMemoryBlock(n int64) (*block, error) {
	n = max(n, 1)
	file, data, err := memfile.Create("quiver shared columns", n)
	if err != nil {
		return nil, err
	}
	release := func() { _ = memfile.Unmap(data) }
	return &block{mechanism: handle.Memory, size: n, file: file, buffer: arrowbuf.WrapExternal(data, release)}, nil
}
