package ipc

import (
	"fmt"
	"os"
	"sync"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/memfile"
	"github.com/quiver-gpu/quiver/ipc/handle"
	"github.com/quiver-gpu/quiver/ipc/internal/wire"
)

// openedBlock is a block of the server that this client has open.
type openedBlock struct {
	number uint64
	size   int64
	err    error // the reason why it could not be opened

	dev   *cudabuf.Device // nil for a block of the host
	whole *cudabuf.Buffer
	event *cudabuf.Event
	pool  *importedPool // set for CUDAPool

	data  []byte // set for Memory
	unmap func()

	local *localObject

	leases int // guarded by the client's mu
}

// openBlock opens a block. The block records an error.
func (c *Client) openBlock(m wire.BlockMessage, file *os.File) *openedBlock {
	b := &openedBlock{number: m.Block, size: m.Descriptor.AllocationSize}
	d := &m.Descriptor
	switch d.Mechanism {
	case handle.Local:
		b.local, b.err = lookupLocal([16]byte(d.Handle[:16]), m.Block)
	case handle.Memory:
		b.data, b.unmap, b.err = mapMemory(file, b.size)
	default:
		b.err = c.openOnGPU(b, d, file)
	}
	if b.err != nil {
		b.err = fmt.Errorf("opening memory of %v through %v: %w", d.Exporter, d.Mechanism, b.err)
	}
	return b
}

func (c *Client) openOnGPU(b *openedBlock, d *handle.Descriptor, file *os.File) (err error) {
	for _, dev := range c.gpus {
		if dev.UUID() == d.Device {
			b.dev = dev
		}
	}
	if b.dev == nil {
		return fmt.Errorf("the client does not have GPU-%v: %w", d.Device, arrowbuf.ErrDevice)
	}
	switch d.Mechanism {
	case handle.CUDAFD:
		b.whole, err = b.dev.OpenFD(file, d.Region())
	case handle.CUDAPool:
		err = c.openInPool(b, d, file)
	default:
		var h cudabuf.MemHandle
		if h, err = d.MemHandle(); err == nil {
			b.whole, err = b.dev.OpenIPC(h)
		}
	}
	if err == nil && d.Event != nil {
		b.event, err = b.dev.OpenIPCEvent(*d.Event)
	}
	return err
}

// openInPool opens a block of a pool. After an error, close frees what was
// opened.
func (c *Client) openInPool(b *openedBlock, d *handle.Descriptor, file *os.File) error {
	h, err := d.PoolHandle()
	if err != nil {
		return err
	}
	if b.pool, err = c.pools.acquire(d.Pool, b.dev, file); err != nil {
		return err
	}
	b.whole, err = b.pool.pool.Open(h)
	return err
}

// close closes the block. No lease uses it.
func (b *openedBlock) close() {
	if b.event != nil {
		_ = b.event.Close() // a lost device has released it already
	}
	if b.whole != nil {
		b.whole.Release()
	}
	if b.pool != nil {
		b.pool.release()
	}
	if b.unmap != nil {
		b.unmap()
	}
	if b.local != nil {
		b.local.Release()
	}
}

func closeBlocks(blocks []*openedBlock) {
	for _, b := range blocks {
		b.close()
	}
}

// device returns the device of a block's memory.
func (b *openedBlock) device() arrowbuf.Device {
	if b.dev != nil {
		return b.dev
	}
	return arrowbuf.CPU()
}

// view returns a range of a block as a buffer. The buffer holds a reference to a
// lease until it is released and no stream uses it. A view on a GPU is read-only.
// If pending is true, work on the view waits for the block's event.
func (b *openedBlock) view(l *clientLease, offset, length int64, pending bool) (arrowbuf.Buffer, error) {
	l.retain()
	if b.dev == nil {
		return arrowbuf.WrapExternal(b.data[offset:offset+length:offset+length], l.release), nil
	}
	all, err := b.dev.WrapExternal(b.whole.Address()+uintptr(offset), length, l.release)
	if err != nil {
		l.release()
		return nil, err
	}
	defer all.Release()
	if pending && b.event != nil {
		if err := b.delayStream(all, l.client.ended); err != nil {
			return nil, err
		}
	}
	return all.ReadOnly()
}

// delayStream makes the device's default stream wait until the block's event is
// done or the connection ends. All work that uses the buffer waits for that
// stream. The stream does not wait for the event itself: if the server was
// killed, that wait would never end and block other streams.
func (b *openedBlock) delayStream(buffer *cudabuf.Buffer, ended <-chan struct{}) error {
	stream, err := b.dev.DefaultStream()
	if err != nil {
		return err
	}
	done := make(chan struct{})
	if err := stream.LaunchHostFunc(func() { <-done }); err != nil {
		return err
	}
	go func() {
		defer close(done)
		_ = pollEvent(b.event, ended) // later work reports a device failure
	}()
	return buffer.RecordStream(stream)
}

// importedPools holds the pools of a server that a client has open, by pool
// number. A pool is open from its first opened block until the last is closed.
type importedPools struct {
	mu   sync.Mutex
	open map[uint64]*importedPool
}

type importedPool struct {
	owner  *importedPools
	id     uint64
	dev    *cudabuf.Device
	pool   *cudabuf.PeerPool
	blocks int // guarded by mu of the importedPools
}

// acquire returns a pool, and opens it with the file if it is not open. The
// caller releases the result.
func (p *importedPools) acquire(number uint64, dev *cudabuf.Device, file *os.File) (*importedPool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := p.open[number]
	if found == nil {
		pool, err := dev.OpenPoolFD(file)
		if err != nil {
			return nil, err
		}
		found = &importedPool{owner: p, id: number, dev: dev, pool: pool}
		if p.open == nil {
			p.open = map[uint64]*importedPool{}
		}
		p.open[number] = found
	}
	if found.dev != dev {
		return nil, fmt.Errorf("pool %d is on %v: got a block on %v: %w", number, found.dev, dev, ErrFault)
	}
	found.blocks++
	return found, nil
}

// release drops one block of the pool. The last one closes the pool.
func (p *importedPool) release() {
	p.owner.mu.Lock()
	defer p.owner.mu.Unlock()
	if p.blocks--; p.blocks == 0 {
		delete(p.owner.open, p.id)
		_ = p.pool.Close() // a lost device has released it already
	}
}

// mapMemory maps the memory file of another process for reading. The caller keeps
// the file.
func mapMemory(file *os.File, size int64) (data []byte, unmap func(), err error) {
	if data, err = memfile.Map(file, size); err != nil {
		return nil, nil, err
	}
	return data, func() { _ = memfile.Unmap(data) }, nil
}
