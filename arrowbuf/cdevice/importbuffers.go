package cdevice

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// buffers are those of one ArrowArray.
type buffers struct {
	*importer
	c   *Array
	end int64 // of the elements that they hold
	// all are in arrow-go's order, nil where there is nothing.
	all   []arrowbuf.Buffer
	ended []*memory.Buffer
}

// read takes the buffers of a layout.
func (b *buffers) read(l layout) error {
	at := addresses(b.c.buffers, b.c.nBuffers)
	if l.validity {
		if at[0] == 0 && b.c.nulls > 0 {
			return refuse("%d nulls, and no validity bitmap", b.c.nulls)
		}
		size := bitutil.BytesForBits(b.end)
		if at[0] == 0 {
			size = 0
		}
		if err := b.add(at[0], size, 1); err != nil {
			return fmt.Errorf("validity bitmap: %w", err)
		}
		at = at[1:]
	} else {
		b.all = append(b.all, nil)
	}
	for i, k := range l.buffers {
		size, err := b.size(k)
		if err == nil {
			err = b.add(at[i], size, k.alignment())
		}
		if err != nil {
			return fmt.Errorf("buffer %d: %w", i+1, err)
		}
	}
	if l.variadic {
		return b.readVariadic(at[len(l.buffers):])
	}
	return nil
}

// size is how large the next buffer is. Arrays of no elements need not have
// offsets.
func (b *buffers) size(k kind) (int64, error) {
	switch {
	case k.what == heap:
		return b.last()
	case k.what == offsets && b.c.length == 0:
		return 0, nil
	}
	size, ok := k.size(b.end)
	if !ok {
		return 0, refuse("%d elements of %d bytes", b.end, k.width)
	}
	return size, nil
}

// readVariadic takes the buffers that views point into. The last address is that
// of their sizes, which is of the host's memory with some producers.
func (b *buffers) readVariadic(at []uintptr) error {
	n := len(at) - 1
	if n == 0 {
		return nil
	}
	raw, err := b.sizes(at[n], int64(n))
	if err != nil {
		return fmt.Errorf("sizes of %d buffers: %w", n, err)
	}
	for i, address := range at[:n] {
		size := int64(binary.NativeEndian.Uint64(raw[8*i:]))
		if size < 0 {
			return refuse("buffer %d of %d bytes", i+2, size)
		}
		if err := b.add(address, size, 1); err != nil {
			return fmt.Errorf("buffer %d: %w", i+2, err)
		}
	}
	return nil
}

func (b *buffers) sizes(address uintptr, n int64) ([]byte, error) {
	if address == 0 {
		return nil, refuse("the buffer is missing")
	}
	raw := make([]byte, 8*n)
	found, err := b.show(address, 8*n)
	if errors.Is(err, arrowbuf.ErrDevice) { // the device does not know it: it is the host's
		copy(raw, unsafe.Slice((*byte)(pointer(address)), len(raw)))
		return raw, nil
	}
	if err != nil {
		return nil, err
	}
	defer found.Release()
	_, err = found.CopyToHost(raw, 0)
	return raw, err
}

// mostBytes is more than any machine's memory, and what Go makes a slice of.
const mostBytes = 1 << 47

// add takes a buffer of n bytes. The release of one that fails is not called.
func (b *buffers) add(address uintptr, n int64, align uintptr) error {
	switch {
	case n == 0:
		b.all = append(b.all, nil)
		return nil
	case address == 0:
		return refuse("the buffer of %d bytes is missing", n)
	case n > mostBytes || uint64(n) > math.MaxUint64-uint64(address):
		return refuse("%d bytes at %#x", n, address)
	case !readable(b.dev) && address%align != 0:
		return refuse("values at %#x, which is no multiple of %d", address, align)
	}
	found, err := b.show(address, n)
	if err == nil {
		b.all = append(b.all, found)
	}
	return err
}

// show is a buffer over memory of the owner, which it holds.
func (b *buffers) show(address uintptr, n int64) (arrowbuf.Buffer, error) {
	o := b.owner
	if b.sharer == nil {
		host := unsafe.Slice((*byte)(pointer(address)), n) // which panics where no memory is so large
		o.retain()
		return arrowbuf.WrapExternal(host, o.release), nil
	}
	o.retain()
	found, err := b.sharer.WrapExternalAfter(b.event, address, n, o.release)
	if err != nil {
		o.release()
		return nil, err
	}
	return found, nil
}

// last reads the last of the offsets, the buffer behind the validity bitmap, and
// checks it against the first.
func (b *buffers) last() (int64, error) {
	if b.c.length == 0 {
		return 0, nil
	}
	from := b.all[1]
	return lastOf(from, b.c.offset, b.end, from.Len()/(b.end+1))
}

// lastOf reads an array's last offset, and checks it against the first. Each has width
// bytes.
func lastOf(from arrowbuf.Buffer, first, last, width int64) (int64, error) {
	low, err := readInt(from, first, width)
	if err != nil {
		return 0, err
	}
	high, err := readInt(from, last, width)
	if err == nil && (low < 0 || high < low) {
		err = refuse("offsets from %d to %d", low, high)
	}
	return high, err
}

// readInt copies an integer of width bytes, element i of a buffer.
func readInt(from arrowbuf.Buffer, i, width int64) (int64, error) {
	raw := make([]byte, width)
	if _, err := from.CopyToHost(raw, i*width); err != nil {
		return 0, err
	}
	switch width {
	case 2:
		return int64(int16(binary.NativeEndian.Uint16(raw))), nil
	case 4:
		return int64(int32(binary.NativeEndian.Uint32(raw))), nil
	default:
		return int64(binary.NativeEndian.Uint64(raw)), nil
	}
}

// forArrow are the buffers as arrow-go has them.
func (b *buffers) forArrow() []*memory.Buffer {
	for i, found := range b.all {
		switch {
		case found != nil:
			b.ended = append(b.ended, found.Arrow())
		case i == 0: // no validity bitmap
			b.ended = append(b.ended, nil)
		default:
			b.ended = append(b.ended, memory.NewBufferBytes([]byte{}))
		}
	}
	return b.ended
}

func (b *buffers) release() {
	for _, found := range b.all {
		if found != nil {
			found.Release()
		}
	}
	for _, found := range b.ended {
		if found != nil {
			found.Release()
		}
	}
}

// nulls is the null count as arrow-go has it.
func (b *buffers) nulls(storage arrow.DataType) int {
	switch {
	case storage.ID() == arrow.NULL:
		return int(b.c.length)
	case b.all[0] == nil:
		return 0
	case b.c.nulls < 0:
		return array.UnknownNullCount
	default:
		return int(b.c.nulls)
	}
}
