package ndview

import (
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/quiver-gpu/quiver/arrowbuf"
)

// Buffer is a run of bytes on a device, as stores and codecs pass them: what
// zarr-python calls a Buffer. It shows memory without owning a copy, and is
// reference counted by that memory: whoever makes or is given one releases it
// once. Used after that, it answers arrowbuf.ErrReleased.
//
// Ranges have Python's rules: a negative bound counts from the end, one beyond
// an end is cut there, Open is an absent one, and a stop before the start means
// nothing. There are no steps: a Buffer is always contiguous. Where its memory, or the
// array that it shows, must not be written to, it answers ErrReadOnly.
type Buffer struct {
	memory   arrowbuf.Buffer
	readOnly bool
}

// BufferOver shows all the memory of buf, and takes a reference to it.
func BufferOver(buf arrowbuf.Buffer) *Buffer {
	buf.Retain()
	return &Buffer{buf, !mayChange(buf)}
}

// BufferOf shows the bytes of an array of uint8 with one axis, which must lie
// without gaps. Another dtype is ErrDType, another layout ErrShape.
func BufferOf(a *NDBuffer) (*Buffer, error) {
	switch {
	case a.dtype != Uint8:
		return nil, fmt.Errorf("a Buffer of %s, not of uint8: %w", a.dtype, ErrDType)
	case len(a.shape) != 1 || !a.IsContiguous():
		return nil, fmt.Errorf("a Buffer of shape %v and strides %v: want one axis without gaps: %w", a.shape, a.strides, ErrShape)
	}
	if err := a.hold(); err != nil {
		return nil, err
	}
	defer a.Release()
	part, err := a.buf.Slice(a.offset, a.shape[0])
	return owned(part, err, a.readOnly)
}

// BufferFrom puts bytes on a device. On the CPU the Buffer is the slice itself,
// which then must not change unless the Buffer may; elsewhere it is a copy.
func BufferFrom(dev arrowbuf.Device, data []byte) (*Buffer, error) {
	if dev == arrowbuf.CPU() {
		buf, err := arrowbuf.WrapHost(memory.NewBufferBytes(data))
		return owned(buf, err, false)
	}
	b, err := newBuffer(dev, int64(len(data)))
	if err != nil {
		return nil, err
	}
	if _, err := b.memory.CopyFromHost(data, 0); err != nil {
		b.Release()
		return nil, err
	}
	return b, nil
}

func newBuffer(dev arrowbuf.Device, n int64) (*Buffer, error) {
	if dev == nil {
		return nil, fmt.Errorf("a Buffer of %d bytes: no device: %w", n, arrowbuf.ErrDevice)
	}
	buf, err := dev.Alloc(n)
	return owned(buf, err, false)
}

// owned is a Buffer that takes over the caller's reference.
func owned(buf arrowbuf.Buffer, err error, readOnly bool) (*Buffer, error) {
	if err != nil {
		return nil, err
	}
	return &Buffer{buf, readOnly}, nil
}

// alive answers ErrReleased for a Buffer that was released, which an empty one of the
// CPU is else hard to tell from.
func (b *Buffer) alive() error {
	if b == nil {
		return fmt.Errorf("there is no Buffer: %w", arrowbuf.ErrDevice)
	}
	_, err := b.memory.CopyToHost(nil, 0)
	return err
}

// Device is where the bytes live.
func (b *Buffer) Device() arrowbuf.Device { return b.memory.Device() }

// Len is the number of bytes.
func (b *Buffer) Len() int64 { return b.memory.Len() }

// Memory is the memory that the Buffer shows, which the Buffer keeps alive.
func (b *Buffer) Memory() arrowbuf.Buffer { return b.memory }

// Array looks at the bytes as an array of uint8 with one axis.
func (b *Buffer) Array() (*NDBuffer, error) {
	all, err := b.memory.Slice(0, b.Len())
	if err != nil {
		return nil, err
	}
	defer all.Release()
	a, err := FromBuffer(all, Uint8, 0, []int64{b.Len()}, nil)
	if err == nil {
		a.readOnly = b.readOnly
	}
	return a, err
}

// Bytes copies all bytes to the host.
func (b *Buffer) Bytes() ([]byte, error) {
	if err := arrowbuf.CheckRoom(b.Len()); err != nil {
		return nil, fmt.Errorf("the bytes of a Buffer: %w", err)
	}
	data := make([]byte, b.Len())
	if _, err := b.memory.CopyToHost(data, 0); err != nil {
		return nil, err
	}
	return data, nil
}

// HostBytes are the bytes in place, where the host reaches them. They are good
// until the Buffer is released.
func (b *Buffer) HostBytes() ([]byte, bool) {
	if b.alive() != nil {
		return nil, false
	}
	return arrowbuf.HostBytes(b.memory)
}

// Slice shows the bytes [start, stop).
func (b *Buffer) Slice(start, stop int64) (*Buffer, error) {
	start, stop = clamp(start, stop, b.Len())
	part, err := b.memory.Slice(start, stop-start)
	return owned(part, err, b.readOnly)
}

// SetRange writes the bytes of src, which may live on any device, to
// [start, stop). There must be as many of them as the range has, or else it is
// ErrShape, or one, which is repeated. The two may overlap.
func (b *Buffer) SetRange(start, stop int64, src *Buffer) error {
	if b.readOnly {
		return fmt.Errorf("writing to a Buffer: %w", ErrReadOnly)
	}
	if err := errors.Join(b.alive(), src.alive()); err != nil {
		return err
	}
	start, stop = clamp(start, stop, b.Len())
	switch n := stop - start; src.Len() {
	case n:
		_, err := b.memory.CopyFromDevice(src.memory, start)
		return err
	case 1:
		one, err := src.Bytes()
		if err != nil {
			return err
		}
		return b.fill(start, n, one[0])
	default:
		return fmt.Errorf("%d bytes for the %d of [%d, %d): %w", src.Len(), n, start, stop, ErrShape)
	}
}

func (b *Buffer) fill(start, n int64, value byte) error {
	part, err := b.memory.Slice(start, n)
	if err != nil {
		return err
	}
	defer part.Release()
	if host, ok := arrowbuf.HostBytes(part); ok {
		for i := range host {
			host[i] = value
		}
		return nil
	}
	filler, ok := part.(interface{ Fill(byte) error })
	if !ok {
		return fmt.Errorf("%s cannot fill memory: %w", b.Device(), arrowbuf.ErrDevice)
	}
	return filler.Fill(value)
}

// Combine puts the bytes of b and then of the others, which may live on any
// device, into a new Buffer on the device of b. Of none it is a copy.
func (b *Buffer) Combine(others ...*Buffer) (*Buffer, error) {
	n, parts := int64(0), append([]*Buffer{b}, others...)
	for _, part := range parts {
		if err := part.alive(); err != nil {
			return nil, err
		}
		n += part.Len()
	}
	all, err := newBuffer(b.Device(), n)
	if err != nil {
		return nil, err
	}
	at := int64(0)
	for _, part := range parts {
		if _, err := all.memory.CopyFromDevice(part.memory, at); err != nil {
			all.Release()
			return nil, err
		}
		at += part.Len()
	}
	return all, nil
}

// To shows the bytes on a device: the same memory where they are on it already,
// else a copy.
func (b *Buffer) To(dev arrowbuf.Device) (*Buffer, error) {
	if dev == b.Device() {
		return b.Slice(0, Open)
	}
	if err := b.alive(); err != nil {
		return nil, err
	}
	c, err := newBuffer(dev, b.Len())
	if err != nil {
		return nil, err
	}
	if _, err := c.memory.CopyFromDevice(b.memory, 0); err != nil {
		c.Release()
		return nil, err
	}
	return c, nil
}

// Equal tells whether another Buffer, on any device, holds the same bytes.
func (b *Buffer) Equal(other *Buffer) (bool, error) {
	if err := other.alive(); err != nil {
		return false, err
	}
	return b.memory.Equal(other.memory)
}

// Retain adds a reference. It panics once the last was released.
func (b *Buffer) Retain() { b.memory.Retain() }

// Release gives one reference back.
func (b *Buffer) Release() { b.memory.Release() }

// clamp applies Python's rules for the bounds of a slice to n elements.
func clamp(start, stop, n int64) (int64, int64) {
	if stop == Open {
		stop = n
	}
	bound := func(i int64) int64 {
		if i < 0 {
			i = max(i+n, 0)
		}
		return min(i, n)
	}
	start, stop = bound(start), bound(stop) // an absent start is a negative number
	return start, max(start, stop)
}

// Prototype says what kind of memory a reader should produce, such as those of
// zarr.Array. It is a small value: two are equal by == when they mean the same
// device. The zero value means the CPU.
//
// It goes where it is meant, as an argument. There is no default that a program
// could change for all its readers at once, as zarr-python's enable_gpu does.
type Prototype struct {
	device arrowbuf.Device // nil for the CPU
}

// PrototypeOn means memory of a device.
func PrototypeOn(dev arrowbuf.Device) Prototype {
	if dev == arrowbuf.CPU() {
		return Prototype{}
	}
	return Prototype{device: dev}
}

// Device is where the memory is to be.
func (p Prototype) Device() arrowbuf.Device {
	if p.device == nil {
		return arrowbuf.CPU()
	}
	return p.device
}

// Buffer makes n bytes whose values are undefined.
func (p Prototype) Buffer(n int64) (*Buffer, error) { return newBuffer(p.Device(), n) }

// BufferFrom is BufferFrom for the prototype's device.
func (p Prototype) BufferFrom(data []byte) (*Buffer, error) { return BufferFrom(p.Device(), data) }

// NDBuffer makes an array in C order whose elements are undefined.
func (p Prototype) NDBuffer(dtype DType, shape ...int64) (*NDBuffer, error) {
	return Empty(p.Device(), dtype, shape...)
}

// String names the device.
func (p Prototype) String() string { return p.Device().String() }
