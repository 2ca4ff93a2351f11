package cdevice

import (
	"fmt"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// nothing is what an empty buffer of the host points to, offsets too: not every
// consumer takes a null pointer there. It is zero.
var nothing [64]byte

// buffers collects the addresses of an array's buffers.
func (x *exporter) buffers(n *arrayNode, data arrow.ArrayData, l layout) error {
	all := data.Buffers()
	least := 1 + len(l.buffers)
	if len(all) > least && !l.variadic {
		return refuse("%d buffers of a type with %d, %s", len(all), least, data.DataType())
	}
	var sizes []int64
	for i := l.first(); i < max(least, len(all)); i++ {
		var b *memory.Buffer
		if i < len(all) {
			b = all[i]
		}
		address, err := x.show(b)
		if err != nil {
			return fmt.Errorf("buffer %d: %w", i, err)
		}
		if address == 0 && i > 0 && readable(x.dev) {
			address = addressOf(&nothing)
		}
		n.buffers = append(n.buffers, address)
		if i >= least {
			size := 0
			if b != nil {
				size = b.Len()
			}
			sizes = append(sizes, int64(size))
		}
	}
	if l.variadic {
		return x.sizes(n, sizes)
	}
	return nil
}

// show is the address of a buffer on the device, 0 if there is nothing in it.
func (x *exporter) show(b *memory.Buffer) (uintptr, error) {
	if b == nil || b.Len() == 0 {
		return 0, nil
	}
	found, err := arrowbuf.BufferOf(b)
	if err != nil {
		return 0, err
	}
	x.shown = append(x.shown, found)
	if x.dev != arrowbuf.CPU() {
		if found.Device() != x.dev {
			return 0, fmt.Errorf("it is on %v: %w", found.Device(), arrowbuf.ErrDevice)
		}
		return found.Address(), nil
	}
	host, ok := arrowbuf.HostBytes(found)
	if !ok {
		return 0, fmt.Errorf("it is on %v: %w", found.Device(), arrowbuf.ErrDevice)
	}
	if w, ok := found.(interface{ Wait() error }); ok { // a stream may be filling it
		if err := w.Wait(); err != nil {
			return 0, err
		}
	}
	return addressOf(unsafe.SliceData(host)), nil
}

// sizes adds the buffer of the sizes of others. On a GPU it is memory that the
// host reads as well.
func (x *exporter) sizes(n *arrayNode, sizes []int64) (err error) {
	if len(sizes) == 0 {
		address := uintptr(0)
		if readable(x.dev) {
			address = addressOf(&nothing)
		}
		n.buffers = append(n.buffers, address)
		return nil
	}
	mem := x.dev.HostAllocator()
	defer guardMemory(&err)
	n.sizes = memory.NewBufferWithAllocator(mem.Allocate(8*len(sizes)), mem)
	copy(n.sizes.Bytes(), arrow.Int64Traits.CastToBytes(sizes))
	n.buffers = append(n.buffers, addressOf(unsafe.SliceData(n.sizes.Bytes())))
	return nil
}

// guardMemory turns the panic of an allocator into its error.
func guardMemory(err *error) {
	if failure := recover(); failure != nil {
		*err = fmt.Errorf("%v: %w", failure, arrowbuf.ErrOutOfMemory)
	}
}
