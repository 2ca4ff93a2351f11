package ipc

import (
	"fmt"
	"os"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ipc/handle"
	"github.com/quiver-gpu/quiver/ipc/internal/wire"
)

// opened is a block of the server that is open here.
type opened struct {
	number uint64
	size   int64
	err    error // why it is not open

	dev   *cudabuf.Device // of a GPU's
	whole *cudabuf.Buffer
	event *cudabuf.Event
	pool  *peerPool // that it is of

	data  []byte // of the host's
	unmap func()

	local *local

	leases int // guarded by the client
}

// open opens a block.
func (c *Client) open(m wire.BlockMessage, file *os.File) *opened {
	b := &opened{number: m.Block, size: m.Descriptor.AllocationSize}
	d := &m.Descriptor
	switch d.Mechanism {
	case handle.Local:
		b.local, b.err = localOf([16]byte(d.Handle[:16]), m.Block)
	case handle.Memory:
		b.data, b.unmap, b.err = mapMemory(file, b.size)
	default:
		b.err = c.openOnGPU(b, d, file)
	}
	if b.err != nil {
		b.err = fmt.Errorf("opening memory of %v by %v: %w", d.Exporter, d.Mechanism, b.err)
	}
	return b
}

func (c *Client) openOnGPU(b *opened, d *handle.Descriptor, file *os.File) (err error) {
	for _, dev := range c.o.Devices {
		if dev.UUID() == d.Device {
			b.dev = dev
		}
	}
	if b.dev == nil {
		return fmt.Errorf("GPU-%v, which the client does not have: %w", d.Device, arrowbuf.ErrDevice)
	}
	switch d.Mechanism {
	case handle.CUDAFD:
		b.whole, err = b.dev.OpenFD(file, d.Region())
	case handle.CUDAPool:
		err = c.openPooled(b, d, file)
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

// openPooled opens a block of a pool. What is open is closed with the block.
func (c *Client) openPooled(b *opened, d *handle.Descriptor, file *os.File) error {
	h, err := d.PoolHandle()
	if err != nil {
		return err
	}
	if b.pool, err = c.pools.get(d.Pool, b.dev, file); err != nil {
		return err
	}
	b.whole, err = b.pool.pool.Open(h)
	return err
}

// close gives the block back. No lease is in it.
func (b *opened) close() {
	if b.event != nil {
		_ = b.event.Close() // on a lost device nothing is left of it
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

func closeAll(blocks []*opened) {
	for _, b := range blocks {
		b.close()
	}
}

// device is where a block's bytes are.
func (b *opened) device() arrowbuf.Device {
	if b.dev != nil {
		return b.dev
	}
	return arrowbuf.CPU()
}

// show returns bytes of a block, which end a lease's reference when they are
// released and no stream uses them any more. On a GPU they are read-only, and used
// behind the block's event where they are still being written.
func (b *opened) show(l *held, offset, length int64, pending bool) (arrowbuf.Buffer, error) {
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
		if err := b.holdBack(all, l.client.gone); err != nil {
			return nil, err
		}
	}
	return all.ReadOnly()
}

// holdBack lets the device's default stream, and with it whatever uses the buffer,
// wait for the block's event, or for the end of the connection. The device does not
// wait for the event itself: a wait for that of a process which was killed never
// ends, and holds other streams up.
func (b *opened) holdBack(buffer *cudabuf.Buffer, gone <-chan struct{}) error {
	stream, err := b.dev.DefaultStream()
	if err != nil {
		return err
	}
	over := make(chan struct{})
	if err := stream.Do(func() { <-over }); err != nil {
		return err
	}
	go func() {
		defer close(over)
		_ = waitFor(b.event, gone) // a device that fails says so to the work behind
	}()
	return buffer.RecordStream(stream)
}
