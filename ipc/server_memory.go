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
	"github.com/quiver-gpu/quiver/internal/memfile"
	"github.com/quiver-gpu/quiver/ipc/handle"
	"github.com/quiver-gpu/quiver/ipc/internal/wire"
)

// blockRegistry holds the blocks of a server, the clients that know each block,
// and the exports in it. Slow actions are deferred until mu is unlocked.
type blockRegistry struct {
	maxIdleBytes int64

	mu        sync.Mutex
	deferred  []func() // run by withLock after it unlocks mu
	lastID    uint64
	byID      map[uint64]*block
	partial   map[blockKey]*block // blocks with space for small batches
	pools     map[*cudabuf.SharedPool]*exportedPool
	idle      []*block // unused blocks, least recently used first
	idleBytes int64    // the bytes of idle
	closed    bool
}

// withLock runs f with mu held, and then the actions that f deferred.
func (r *blockRegistry) withLock(f func()) {
	r.mu.Lock()
	f()
	deferred := r.deferred
	r.deferred = nil
	r.mu.Unlock()
	for _, g := range deferred {
		g()
	}
}

// add registers a new block that holds one export. The caller holds mu.
func (r *blockRegistry) add(b *block) {
	r.lastID++
	b.id, b.exports, b.clients = r.lastID, 1, map[*serverConn]struct{}{}
	r.byID[b.id] = b
}

// blockKey identifies the owned blocks that may hold an export.
type blockKey struct {
	mechanism handle.Mechanism
	dev       *cudabuf.Device
	owner     string // the published name: blocks of one name are not shared with another
}

// allocate returns a block with n bytes for an export, and their offset. Small
// batches of a name share a block. A block that belonged to another name is
// cleared first.
func (r *blockRegistry) allocate(key blockKey, n int64) (b *block, offset int64, err error) {
	isNew := false
	r.withLock(func() {
		if b = r.partial[key]; b != nil && !b.tainted && b.available() >= n {
			offset = b.nextOffset()
			b.used = offset + n
			b.exports++
			return
		}
		i := slices.IndexFunc(r.idle, func(b *block) bool {
			return b.mechanism == key.mechanism && b.gpu() == key.dev && b.buffer.Len() >= n && (b.size <= 2*n || b.size <= granuleGPU)
		})
		if b, isNew = nil, true; i >= 0 {
			b = r.idle[i]
			r.idle = slices.Delete(r.idle, i, i+1)
			r.idleBytes -= b.size
			b.exports = 1
		}
	})
	if !isNew {
		return b, offset, nil
	}
	if b == nil {
		if b, err = newBlock(key.mechanism, key.dev, n); err != nil {
			return nil, 0, err
		}
		b.owned = true
		r.withLock(func() { r.add(b) })
	} else if b.key.owner != key.owner {
		err = clearAll(b.buffer)
	}
	r.withLock(func() {
		b.key = key
		if b.used = n; err != nil {
			b.tainted = true
			r.releaseExport(b)
			return
		}
		if last := r.partial[key]; last == nil || last.available() < b.available() {
			r.partial[key] = b
		}
	})
	return b, 0, err
}

// nextOffset returns the offset of the next export in a block.
func (b *block) nextOffset() int64 { return (b.used + 63) &^ 63 }

// available returns the number of bytes for the next export.
func (b *block) available() int64 { return b.buffer.Len() - b.nextOffset() }

// shareInPlace returns the block of a buffer that is shared in place, and counts
// one more export in it.
func (r *blockRegistry) shareInPlace(m handle.Mechanism, buffer *cudabuf.Buffer, exposed bool) (*block, error) {
	var b *block
	r.withLock(func() { b = r.acquireInPlace(m, buffer) })
	if b != nil {
		return b, nil
	}
	created, err := r.newInPlaceBlock(m, buffer, exposed)
	if err != nil {
		return nil, err
	}
	r.withLock(func() {
		if b = r.acquireInPlace(m, buffer); b != nil { // another request created the block meanwhile
			r.deferred = append(r.deferred, created.free)
			return
		}
		b = created
		r.add(b)
	})
	return b, nil
}

// acquireInPlace returns the existing block that contains a buffer and counts one
// more export in it. It returns nil if no block contains the buffer. The caller
// holds mu.
func (r *blockRegistry) acquireInPlace(m handle.Mechanism, buffer *cudabuf.Buffer) *block {
	for _, b := range r.byID {
		inside := buffer.Address() - b.base
		if !b.owned && !b.retiring && b.mechanism == m && b.gpu() == buffer.Device() && inside < uintptr(b.size) {
			b.exports++
			return b
		}
	}
	return nil
}

// releaseExport counts one export less in a block. An unused block becomes idle
// or is retired. The caller holds mu.
func (r *blockRegistry) releaseExport(b *block) {
	if b.exports--; b.exports > 0 {
		return
	}
	if r.partial[b.key] == b {
		delete(r.partial, b.key)
	}
	if !b.owned || b.tainted || r.closed || b.size > r.maxIdleBytes {
		r.retire(b)
		return
	}
	r.idle = append(r.idle, b)
	for r.idleBytes += b.size; r.idleBytes > r.maxIdleBytes; {
		oldest := r.idle[0]
		r.idle = r.idle[1:]
		r.idleBytes -= oldest.size
		r.retire(oldest)
	}
}

// retire asks the clients that know a block to forget it. The block is freed when
// all have. The caller holds mu.
func (r *blockRegistry) retire(b *block) {
	b.retiring = true
	for c := range b.clients {
		c.out.Put(wire.Frame{Type: wire.Forget, Payload: wire.AppendNumbers(nil, []uint64{b.id})})
	}
	r.freeIfForgotten(b)
}

// freeIfForgotten frees a retired block that no client knows. The caller holds
// mu.
func (r *blockRegistry) freeIfForgotten(b *block) {
	if b.retiring && len(b.clients) == 0 {
		delete(r.byID, b.id)
		r.deferred = append(r.deferred, b.free)
	}
}

// removeClient records that a client has closed a block. The caller holds mu.
func (r *blockRegistry) removeClient(c *serverConn, b *block) {
	delete(b.clients, c)
	r.freeIfForgotten(b)
}

// close retires the idle blocks. Blocks that become unused later are retired at
// once.
func (r *blockRegistry) close() {
	r.withLock(func() {
		r.closed = true
		for _, b := range r.idle {
			r.retire(b)
		}
		r.idle, r.idleBytes = nil, 0
	})
}

// clearAll sets all bytes of a buffer to 0.
func clearAll(b arrowbuf.Buffer) error {
	if host, ok := arrowbuf.HostBytes(b); ok {
		clear(host)
		return nil
	}
	return b.(*cudabuf.Buffer).Fill(0)
}

// block is an allocation that a server shares.
type block struct {
	id          uint64
	mechanism   handle.Mechanism
	size        int64
	buffer      arrowbuf.Buffer // all of the block, or the buffer that keeps it alive; nil for Local
	base        uintptr         // the device address of the block, on a GPU
	local       *localObject    // set for Local
	file        *os.File        // the descriptor that clients open, for CUDAFD and Memory
	handle      [64]byte        // the handle that clients open, for CUDAIPC and CUDAPool
	pool        *exportedPool   // set for CUDAPool
	event       *cudabuf.Event  // recorded after the writes to the block are enqueued
	eventHandle *cudabuf.EventHandle

	// The registry's mu guards the fields below.
	exports  int  // the number of exports in it
	leases   int  // the number of leases on those exports
	owned    bool // allocated by the server, so it can be reused
	tainted  bool // a connection ended with leases in it, so it cannot be reused
	retiring bool
	key      blockKey                 // of owned blocks
	used     int64                    // bytes in use, of owned blocks
	clients  map[*serverConn]struct{} // that have it open
}

// gpu returns the GPU of a block, or nil for a block of the host.
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

// announcement returns the BLOCK frame of a block. It contains the event handle
// only if withEvent is true.
func (b *block) announcement(s *Server, withEvent bool) (wire.Frame, error) {
	m := wire.BlockMessage{Block: b.id, Descriptor: handle.Descriptor{
		Mechanism: b.mechanism, AllocationSize: b.size, Length: b.size,
		Exporter: s.self, Sequence: b.id, Handle: b.handle,
	}}
	if dev := b.gpu(); dev != nil {
		m.Descriptor.Device = dev.UUID()
	}
	if withEvent {
		m.Descriptor.Event = b.eventHandle
	}
	file := b.file
	if b.pool != nil {
		m.Descriptor.Pool, file = b.pool.id, b.pool.file
	}
	payload, err := m.Append(nil)
	return wire.Frame{Type: wire.Block, Payload: payload, File: file}, err
}

// free releases the memory. No client has the block open.
func (b *block) free() {
	if b.event != nil {
		_ = b.event.Close() // a lost device has released it already
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

// createEvent creates the block's event, which other processes can open.
func (b *block) createEvent(dev *cudabuf.Device) error {
	event, err := dev.NewEvent(cudabuf.EventOptions{Interprocess: true})
	if err != nil {
		return err
	}
	h, err := event.ExportIPC()
	if err != nil {
		return errors.Join(err, event.Close())
	}
	b.event, b.eventHandle = event, &h
	return nil
}

// The sizes of blocks are multiples of these, so that blocks can hold later batches.
const (
	granuleGPU  = 2 << 20 // the allocation granularity of a GPU
	granuleHost = 64 << 10
)

// newBlock allocates at least n bytes, cleared, that mechanism m can share.
func newBlock(m handle.Mechanism, dev *cudabuf.Device, n int64) (b *block, err error) {
	granule := int64(granuleGPU)
	if m == handle.Memory {
		granule = granuleHost
	}
	if n > math.MaxInt64-granule {
		return nil, fmt.Errorf("a shared block of %d bytes: %w", n, arrowbuf.ErrOutOfMemory)
	}
	n = (n + granule - 1) / granule * granule
	if m == handle.Memory {
		return newHostBlock(n)
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
		return b, fmt.Errorf("copying to memory of mechanism %v: %w", m, ErrNoMechanism)
	}
	if err != nil {
		return b, err
	}
	b.buffer = buffer
	if err = b.exportAllocation(buffer, false); err != nil {
		return b, err
	}
	if err = buffer.Fill(0); err != nil {
		return b, err
	}
	return b, b.createEvent(dev)
}

// exportAllocation exports the allocation that contains a buffer, through the
// block's mechanism. It exports an allocation with other memory only if exposed
// is true.
func (b *block) exportAllocation(buffer *cudabuf.Buffer, exposed bool) error {
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
		if exposed && errors.Is(err, cudabuf.ErrNotShareable) {
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

// newInPlaceBlock exports the allocation that contains a buffer. The error wraps
// cudabuf.ErrNotShareable if the mechanism cannot export it.
func (r *blockRegistry) newInPlaceBlock(m handle.Mechanism, buffer *cudabuf.Buffer, exposed bool) (b *block, err error) {
	b = &block{mechanism: m}
	if m == handle.CUDAPool { // a pool is exported before its allocations
		if b.pool, err = r.acquirePool(buffer.SharedPool()); err != nil {
			return nil, err
		}
	}
	if err := b.exportAllocation(buffer, exposed); err != nil {
		b.free()
		return nil, err
	}
	buffer.Retain()
	b.buffer = buffer
	if err := b.createEvent(buffer.Device().(*cudabuf.Device)); err != nil {
		b.free()
		return nil, err
	}
	return b, nil
}

// localObject is an object for a client in the same process, which uses the
// memory directly.
type localObject struct {
	batch  arrow.RecordBatch
	buffer arrowbuf.Buffer
	device string
}

func (l *localObject) Retain() {
	if l.batch != nil {
		l.batch.Retain()
	} else {
		l.buffer.Retain()
	}
}

func (l *localObject) Release() {
	if l.batch != nil {
		l.batch.Release()
	} else {
		l.buffer.Release()
	}
}

// newLocalBlock returns a block that stands for an object, for clients in this
// process.
func newLocalBlock(s *Server, o *object) *block {
	l := &localObject{o.batch, o.buffer, o.deviceName()}
	l.Retain()
	b := &block{mechanism: handle.Local, local: l, size: max(o.bytes(), 1)}
	copy(b.handle[:], s.instance[:])
	return b
}

// lookupLocal returns the object of a block of a server in this process. The
// caller owns one reference.
func lookupLocal(instance [16]byte, number uint64) (l *localObject, err error) {
	found, ok := instances.Load(instance)
	if ok {
		s := &found.(*Server).blocks
		s.withLock(func() {
			if b := s.byID[number]; b != nil && b.local != nil {
				l = b.local
				l.Retain()
			}
		})
	}
	if l == nil {
		return nil, fmt.Errorf("no server of this process has block %d: %w", number, ErrServerGone)
	}
	return l, nil
}

// exportedPool is a memory pool that a server exports while it shares blocks of
// the pool.
type exportedPool struct {
	registry *blockRegistry
	pool     *cudabuf.SharedPool
	id       uint64
	file     *os.File
	blocks   int // guarded by the registry's mu
}

// acquirePool exports a pool, once for all of its blocks. The caller releases the
// result.
func (r *blockRegistry) acquirePool(pool *cudabuf.SharedPool) (*exportedPool, error) {
	if p := r.findPool(pool); p != nil {
		return p, nil
	}
	file, err := pool.ExportFD()
	if err != nil {
		return nil, err
	}
	p := &exportedPool{registry: r, pool: pool, file: file, blocks: 1}
	r.withLock(func() {
		if existing := r.pools[pool]; existing != nil { // another goroutine exported it first
			r.deferred = append(r.deferred, func() { _ = file.Close() })
			existing.blocks++
			p = existing
			return
		}
		r.lastID++
		p.id = r.lastID
		r.pools[pool] = p
	})
	return p, nil
}

// findPool returns a pool that is exported already, or nil.
func (r *blockRegistry) findPool(pool *cudabuf.SharedPool) (p *exportedPool) {
	r.withLock(func() {
		if p = r.pools[pool]; p != nil {
			p.blocks++
		}
	})
	return p
}

func (p *exportedPool) release() {
	p.registry.withLock(func() {
		if p.blocks--; p.blocks == 0 {
			delete(p.registry.pools, p.pool)
			p.registry.deferred = append(p.registry.deferred, func() { _ = p.file.Close() })
		}
	})
}

// newHostBlock allocates a block as a memory file, which only this process can
// write.
func newHostBlock(n int64) (*block, error) {
	n = max(n, 1)
	file, data, err := memfile.Create("quiver shared columns", n)
	if err != nil {
		return nil, err
	}
	release := func() { _ = memfile.Unmap(data) }
	return &block{mechanism: handle.Memory, size: n, file: file, buffer: arrowbuf.WrapExternal(data, release)}, nil
}
