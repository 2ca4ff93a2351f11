package zarr

import (
	"errors"
	"fmt"
	"io"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// Buffer is contiguous bytes on a device, as zarr-python's Buffer. It does not own a
// copy: it refers to the memory of an arrowbuf.Buffer, which counts the references. The
// caller owns one reference to a Buffer that a function returns, and must release it.
// Methods of a released Buffer return arrowbuf.ErrReleased.
//
// Bounds of ranges follow Python's rules: a negative bound counts from the end, a bound
// beyond an end is clamped, ndview.Open is an absent bound, and a range is empty if its
// stop is before its start. There are no steps. Writes return ndview.ErrReadOnly if the
// memory, or the array that the Buffer was made of, is read-only.
type Buffer struct {
	memory   arrowbuf.Buffer
	readOnly bool
}

var (
	_ io.ReaderAt = (*Buffer)(nil)
	_ io.WriterAt = (*Buffer)(nil)
)

// BufferFromMemory returns a Buffer of all memory of buf, without a copy, and retains it.
func BufferFromMemory(buf arrowbuf.Buffer) (*Buffer, error) {
	if buf == nil {
		return nil, fmt.Errorf("zarr.BufferFromMemory: nil buffer: %w", ndview.ErrNil)
	}
	buf.Retain()
	m, ok := arrowbuf.As[interface{ Mutable() bool }](buf)
	return &Buffer{buf, ok && !m.Mutable()}, nil
}

// BufferFromArray returns a Buffer of the bytes of an array, without a copy. The array must
// have dtype uint8, otherwise the error is ndview.ErrDType. It must have one axis and be
// contiguous, otherwise it is ndview.ErrShape.
func BufferFromArray(a *ndview.NDBuffer) (*Buffer, error) {
	switch {
	case a.DType() != ndview.Uint8:
		return nil, fmt.Errorf("zarr.BufferFromArray: array of %s, want uint8: %w", a.DType(), ndview.ErrDType)
	case a.NDim() != 1 || !a.IsContiguous():
		return nil, fmt.Errorf("zarr.BufferFromArray: shape %v and strides %v, want one contiguous axis: %w", a.Shape(), a.Strides(), ndview.ErrShape)
	}
	v, err := a.Index() // keeps the memory if the array is released meanwhile
	if err != nil {
		return nil, err
	}
	defer v.Release()
	bytes, err := v.Buffer().Slice(v.Offset(), v.Size())
	return newBuffer(bytes, err, !v.Flags().Writeable)
}

// BufferFromBytes returns a Buffer of bytes on a device. On the CPU it is the slice itself,
// without a copy: the caller must not change the slice unless the Buffer may change.
// Elsewhere it is a copy.
func BufferFromBytes(dev arrowbuf.Device, data []byte) (*Buffer, error) {
	if dev == arrowbuf.CPU() {
		return &Buffer{arrowbuf.WrapExternal(data, func() {}), false}, nil
	}
	b, err := allocBuffer(dev, int64(len(data)))
	if err != nil {
		return nil, err
	}
	if _, err := b.memory.CopyFromHost(data, 0); err != nil {
		b.Release()
		return nil, err
	}
	return b, nil
}

// allocBuffer returns a Buffer of n undefined bytes.
func allocBuffer(dev arrowbuf.Device, n int64) (*Buffer, error) {
	if dev == nil {
		return nil, fmt.Errorf("buffer of %d bytes: nil device: %w", n, arrowbuf.ErrDevice)
	}
	buf, err := dev.Alloc(n)
	return newBuffer(buf, err, false)
}

// newBuffer returns a Buffer that takes over the caller's reference to buf. It passes
// on the error of the function that made buf.
func newBuffer(buf arrowbuf.Buffer, err error, readOnly bool) (*Buffer, error) {
	if err != nil {
		return nil, err
	}
	return &Buffer{buf, readOnly}, nil
}

// checkAlive returns ErrReleased if b was released. Device and Len do not, so an empty
// Buffer needs this check.
func (b *Buffer) checkAlive() error {
	if b == nil {
		return fmt.Errorf("nil buffer: %w", arrowbuf.ErrDevice)
	}
	_, err := b.memory.CopyToHost(nil, 0)
	return err
}

// Device returns the device of the bytes.
func (b *Buffer) Device() arrowbuf.Device { return b.memory.Device() }

// Len returns the number of bytes.
func (b *Buffer) Len() int64 { return b.memory.Len() }

// Memory returns the memory of the bytes, without a reference: it is valid until the
// Buffer is released.
func (b *Buffer) Memory() arrowbuf.Buffer { return b.memory }

// Array returns the bytes as an array of uint8 with one axis, without a copy. The caller
// must release it.
func (b *Buffer) Array() (*ndview.NDBuffer, error) {
	all, err := b.memory.Slice(0, b.Len())
	if err != nil {
		return nil, err
	}
	defer all.Release()
	a, err := ndview.FromBuffer(all, ndview.Uint8, 0, []int64{b.Len()}, nil)
	if err != nil || !b.readOnly {
		return a, err
	}
	defer a.Release()
	return a.ReadOnly()
}

// Bytes copies all bytes to the host.
func (b *Buffer) Bytes() ([]byte, error) {
	if err := arrowbuf.CheckHostMemory(b.Len()); err != nil {
		return nil, fmt.Errorf("zarr.Buffer.Bytes: %w", err)
	}
	data := make([]byte, b.Len())
	if _, err := b.memory.CopyToHost(data, 0); err != nil {
		return nil, err
	}
	return data, nil
}

// ReadAt copies bytes from an offset on to the host. It implements io.ReaderAt: it
// returns io.EOF if fewer bytes than asked for follow the offset.
func (b *Buffer) ReadAt(dst []byte, offset int64) (int, error) {
	if err := b.checkAlive(); err != nil {
		return 0, err
	}
	if offset < 0 {
		return 0, fmt.Errorf("zarr.Buffer.ReadAt: offset %d: %w", offset, arrowbuf.ErrOutOfRange)
	}
	n := min(int64(len(dst)), max(b.Len()-offset, 0))
	if n > 0 {
		if _, err := b.memory.CopyToHost(dst[:n], offset); err != nil {
			return 0, err
		}
	}
	if n < int64(len(dst)) {
		return int(n), io.EOF
	}
	return int(n), nil
}

// WriteAt copies bytes of the host to an offset. It implements io.WriterAt. All bytes
// must fit into the buffer, otherwise none is written and the error is
// arrowbuf.ErrOutOfRange.
func (b *Buffer) WriteAt(src []byte, offset int64) (int, error) {
	if err := b.checkAlive(); err != nil {
		return 0, err
	}
	if b.readOnly {
		return 0, fmt.Errorf("zarr.Buffer.WriteAt: %w", ndview.ErrReadOnly)
	}
	if offset < 0 || int64(len(src)) > b.Len()-offset {
		return 0, fmt.Errorf("zarr.Buffer.WriteAt: bytes [%d, +%d) of %d: %w", offset, len(src), b.Len(), arrowbuf.ErrOutOfRange)
	}
	if _, err := b.memory.CopyFromHost(src, offset); err != nil {
		return 0, err
	}
	return len(src), nil
}

// HostBytes returns the bytes in place, and false if the host cannot access them. They
// are valid until the Buffer is released.
func (b *Buffer) HostBytes() ([]byte, bool) {
	if b.checkAlive() != nil {
		return nil, false
	}
	return arrowbuf.HostBytes(b.memory)
}

// Slice returns a Buffer of the bytes [start, stop), without a copy. It may outlive b.
func (b *Buffer) Slice(start, stop int64) (*Buffer, error) {
	start, stop = clamp(start, stop, b.Len())
	part, err := b.memory.Slice(start, stop-start)
	return newBuffer(part, err, b.readOnly)
}

// SetRange writes the bytes of src, which may be on another device, to [start, stop).
// src must have as many bytes as the range, or one byte, which is repeated. Otherwise
// the error is ndview.ErrShape. The two may overlap.
func (b *Buffer) SetRange(start, stop int64, src *Buffer) error {
	if b.readOnly {
		return fmt.Errorf("zarr.Buffer.SetRange: %w", ndview.ErrReadOnly)
	}
	if err := errors.Join(b.checkAlive(), src.checkAlive()); err != nil {
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
		return fmt.Errorf("zarr.Buffer.SetRange: %d bytes for the %d of [%d, %d): %w", src.Len(), n, start, stop, ndview.ErrShape)
	}
}

// fill writes a value to n bytes from start on.
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
	filler, ok := arrowbuf.As[interface{ Fill(byte) error }](part)
	if !ok {
		return fmt.Errorf("%s cannot fill memory: %w", b.Device(), arrowbuf.ErrDevice)
	}
	return filler.Fill(value)
}

// Combine returns a new Buffer on the device of b that holds the bytes of b and then of
// the others, which may be on other devices. Without others it is a copy.
func (b *Buffer) Combine(others ...*Buffer) (*Buffer, error) {
	n, parts := int64(0), append([]*Buffer{b}, others...)
	for _, part := range parts {
		if err := part.checkAlive(); err != nil {
			return nil, err
		}
		n += part.Len()
	}
	all, err := allocBuffer(b.Device(), n)
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

// To returns a Buffer of the bytes on a device: of the same memory if b is on that
// device, otherwise of a copy.
func (b *Buffer) To(dev arrowbuf.Device) (*Buffer, error) {
	if dev == b.Device() {
		return b.Slice(0, ndview.Open)
	}
	if err := b.checkAlive(); err != nil {
		return nil, err
	}
	c, err := allocBuffer(dev, b.Len())
	if err != nil {
		return nil, err
	}
	if _, err := c.memory.CopyFromDevice(b.memory, 0); err != nil {
		c.Release()
		return nil, err
	}
	return c, nil
}

// Equal reports whether another Buffer, on any device, has the same bytes. If both are on
// one device, they are compared there.
func (b *Buffer) Equal(other *Buffer) (bool, error) {
	if err := other.checkAlive(); err != nil {
		return false, err
	}
	x, err := b.Array()
	if err != nil {
		return false, err
	}
	defer x.Release()
	y, err := other.Array()
	if err != nil {
		return false, err
	}
	defer y.Release()
	return x.Equal(y)
}

// Retain adds a reference. It panics if the last one was released.
func (b *Buffer) Retain() { b.memory.Retain() }

// Release releases one reference.
func (b *Buffer) Release() { b.memory.Release() }

// clamp applies Python's rules for the bounds of a slice of n bytes.
func clamp(start, stop, n int64) (int64, int64) {
	if stop == ndview.Open {
		stop = n
	}
	bound := func(i int64) int64 {
		if i < 0 {
			i = max(i+n, 0)
		}
		return min(i, n)
	}
	start, stop = bound(start), bound(stop) // ndview.Open is negative, so it becomes 0
	return start, max(start, stop)
}

// Prototype says on which device a reader such as [Array.Read] allocates its results.
// Prototypes of one device are equal by ==. The zero value means the CPU.
//
// It is always an argument. No global default exists, unlike zarr-python's enable_gpu,
// which changes all readers of a program.
type Prototype struct {
	device arrowbuf.Device // nil for the CPU
}

// PrototypeOn returns the prototype of a device.
func PrototypeOn(dev arrowbuf.Device) Prototype {
	if dev == arrowbuf.CPU() {
		return Prototype{}
	}
	return Prototype{device: dev}
}

// Device returns the device on which results are allocated.
func (p Prototype) Device() arrowbuf.Device {
	if p.device == nil {
		return arrowbuf.CPU()
	}
	return p.device
}

// Buffer returns a Buffer of n undefined bytes.
func (p Prototype) Buffer(n int64) (*Buffer, error) { return allocBuffer(p.Device(), n) }

// BufferFromBytes is [BufferFromBytes] for the prototype's device.
func (p Prototype) BufferFromBytes(data []byte) (*Buffer, error) {
	return BufferFromBytes(p.Device(), data)
}

// NDBuffer returns an array in C order whose elements are undefined.
func (p Prototype) NDBuffer(dtype ndview.DType, shape ...int64) (*ndview.NDBuffer, error) {
	return ndview.Empty(p.Device(), dtype, shape...)
}

// String returns the name of the device.
func (p Prototype) String() string { return p.Device().String() }
