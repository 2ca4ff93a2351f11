package ndview

import (
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/launch"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
	"github.com/quiver-gpu/quiver/ndview/internal/stridedcopy"
)

// Copy returns a new contiguous array of the same elements on the same device, in the
// given order. Order A means F for an array in F order, otherwise C. Order K keeps the
// order of the axes in memory, but reverses none. It returns ErrShape for an unknown
// order. On a CUDA device the copy is enqueued on the default stream.
func (a *NDBuffer) Copy(order Order) (*NDBuffer, error) {
	return a.call("Copy", func() (*NDBuffer, error) { return a.copy(order) })
}

func (a *NDBuffer) copy(order Order) (*NDBuffer, error) {
	if err := order.check(); err != nil {
		return nil, err
	}
	if err := a.TryRetain(); err != nil {
		return nil, err
	}
	defer a.Release()
	c, err := a.emptyLike(a.dtype, order)
	if err != nil {
		return nil, err
	}
	if err := copyLayout(c, a); err != nil {
		c.Release()
		return nil, err
	}
	return c, nil
}

// inCOrder returns a copy of the elements in C order.
func (a *NDBuffer) inCOrder() (*NDBuffer, error) { return a.copy(OrderC) }

// emptyLike returns an uninitialized array of the shape and device of a, in an order.
func (a *NDBuffer) emptyLike(dtype DType, order Order) (*NDBuffer, error) {
	if order.fortran(a) {
		order = OrderF
	}
	if order != OrderK || a.IsContiguous() {
		return New(a.Device(), dtype, a.shape, Options{Order: order})
	}
	axes := layout.AxesByStride(a.strides)
	shape, back := make([]int64, len(axes)), make([]int, len(axes))
	for i, axis := range axes {
		shape[i], back[axis] = a.shape[axis], i
	}
	c, err := Empty(a.Device(), dtype, shape...)
	if err != nil || len(axes) == 0 {
		return c, err
	}
	defer c.Release()
	run, err := c.run().Permute(back)
	if err != nil {
		return nil, err
	}
	c.buf.Retain()
	return over(c.buf, c.dtype, 0, run.Shape, run.Strides), nil
}

// CopyFrom copies the elements of src, an array of the same dtype on any device whose
// shape broadcasts to that of a. If the arrays overlap, src is read as if before the
// first write. It returns ErrDType for another dtype, ErrShape if src does not
// broadcast, and ErrReadOnly if a is not writeable; then a is unchanged. Within a CUDA
// device the copy is enqueued on the default stream.
func (a *NDBuffer) CopyFrom(src *NDBuffer) (err error) {
	defer nameError("CopyFrom", &err)
	if err := checkNil(a, src); err != nil {
		return err
	}
	release, err := retainToWrite(a, src)
	if err != nil {
		return err
	}
	defer release()
	if src.dtype != a.dtype {
		return fmt.Errorf("got dtype %s, want %s: %w", src.dtype, a.dtype, ErrDType)
	}
	if err := src.broadcastsTo(a.shape); err != nil {
		return err
	}
	if a.Size() == 0 {
		return nil
	}
	if !a.canAccess(src) {
		return a.copyAcross(src)
	}
	if a.sameElements(src) || !MayShareMemory(a, src) {
		return a.copyBroadcast(src)
	}
	copied, err := src.copy(OrderK)
	if err != nil {
		return err
	}
	defer copied.Release()
	return a.copyBroadcast(copied)
}

// broadcastsTo returns ErrShape if a does not broadcast to a shape. As in NumPy's
// assignment, a may have more leading axes of extent 1 than the shape has.
func (a *NDBuffer) broadcastsTo(shape []int64) error {
	skip := len(a.shape) - len(shape)
	for i := range max(skip, 0) {
		if a.shape[i] != 1 {
			return fmt.Errorf("shape %v does not broadcast to %v: %w", a.shape, shape, ErrShape)
		}
	}
	_, err := layout.BroadcastStrides(a.shape[max(skip, 0):], a.strides[max(skip, 0):], shape)
	return err
}

// copyBroadcast copies an array that broadcasts to a, on a device that can access
// both.
func (a *NDBuffer) copyBroadcast(src *NDBuffer) error {
	skip := max(len(src.shape)-len(a.shape), 0)
	strides, err := layout.BroadcastStrides(src.shape[skip:], src.strides[skip:], a.shape)
	if err != nil {
		return err
	}
	src.buf.Retain()
	broadcast := over(src.buf, src.dtype, src.offset, a.shape, strides)
	defer broadcast.Release()
	return copyLayout(a, broadcast)
}

// canAccess reports whether one device, or the host, can access both arrays.
func (a *NDBuffer) canAccess(b *NDBuffer) bool {
	if a.Device() == b.Device() {
		return true
	}
	_, aOnHost := arrowbuf.HostBytes(a.buf)
	_, bOnHost := arrowbuf.HostBytes(b.buf)
	return aOnHost && bOnHost
}

// copyAcross copies from another device. The elements cross the link as one contiguous
// copy: they are gathered on the source device and scattered on the target device.
func (a *NDBuffer) copyAcross(src *NDBuffer) error {
	if !src.IsContiguous() {
		c, err := src.inCOrder()
		if err != nil {
			return err
		}
		defer c.Release()
		src = c
	}
	part, err := src.buf.Slice(src.offset, src.NBytes())
	if err != nil {
		return err
	}
	defer part.Release()
	if a.IsContiguous() && a.Size() == src.Size() {
		_, err := a.buf.CopyFromDevice(part, a.offset)
		return err
	}
	received, err := newArray(a.Device(), arrowbuf.Device.Alloc, a.dtype, src.shape, OrderC)
	if err != nil {
		return err
	}
	defer received.Release()
	if _, err := received.buf.CopyFromDevice(part, 0); err != nil {
		return err
	}
	return a.copyBroadcast(received)
}

// copyToDevice copies the elements to a new array in C order on another device.
func (a *NDBuffer) copyToDevice(dev arrowbuf.Device) (*NDBuffer, error) {
	moved, err := newArray(dev, arrowbuf.Device.Alloc, a.dtype, a.shape, OrderC)
	if err != nil {
		return nil, err
	}
	if err := moved.CopyFrom(a); err != nil {
		moved.Release()
		return nil, err
	}
	return moved, nil
}

// onDevice returns a on a device: a itself, retained, or a copy. The caller must
// release it.
func (a *NDBuffer) onDevice(dev arrowbuf.Device) (*NDBuffer, error) {
	if a.Device() == dev {
		a.Retain()
		return a, nil
	}
	return a.copyToDevice(dev)
}

// copyLayout copies elements between two arrays of the same shape and element size.
// The caller retains both, ensures that one device or the host can access both, and
// that they do not overlap unless each is one contiguous run.
func copyLayout(dst, src *NDBuffer) error {
	if dst.Size() == 0 {
		return nil
	}
	align := dst.address() | src.address()
	width, n := layout.UnitNest(dst.dtype.Size(), align, dst.shape, dst.strides, src.strides)
	to, from := dst.offset+n.Offsets[0], src.offset+n.Offsets[1]
	n.Offsets = []int64{0, 0}
	if isContiguousNest(width, n) {
		return copyBytes(dst.buf, to, src.buf, from, width*layout.Product(n.Shape))
	}
	if d, ok := hostAt(dst.buf, to); ok {
		s, _ := hostAt(src.buf, from)
		cpu.Copy(d, s, width, n)
		return nil
	}
	return n.Split(stridedcopy.MaxItems, stridedcopy.MaxAxes, func(part layout.Nest) error {
		return launchCopy(dst.buf, to+part.Offsets[0], src.buf, from+part.Offsets[1], width, part)
	})
}

// isContiguousNest reports whether the units of both operands are one contiguous run.
func isContiguousNest(width int64, n layout.Nest) bool {
	switch len(n.Shape) {
	case 0:
		return true
	case 1:
		return n.Strides[0][0] == width && n.Strides[1][0] == width
	}
	return false
}

// copyBytes copies n bytes within a device or the host. The ranges may overlap.
func copyBytes(dst arrowbuf.Buffer, to int64, src arrowbuf.Buffer, from, n int64) error {
	if d, ok := arrowbuf.HostBytes(dst); ok {
		s, _ := arrowbuf.HostBytes(src)
		cpu.CopyBytes(d[to:to+n], s[from:from+n])
		return nil
	}
	part, err := src.Slice(from, n)
	if err != nil {
		return err
	}
	defer part.Release()
	cuda, ok := arrowbuf.As[*cudabuf.Device](dst.Device())
	if !ok {
		_, err := dst.CopyFromDevice(part, to)
		return err
	}
	stream, err := cuda.DefaultStream()
	if err != nil {
		return err
	}
	_, err = launch.CUDABuffer(dst).CopyFromDeviceAsync(launch.CUDABuffer(part), to, stream)
	return err
}

// ByteSwap reverses the bytes of each number in place, for data of the other byte
// order; of a complex number it reverses both parts. Bools, [Bytes] and numbers of one
// byte are unchanged. It returns ErrDType for records.
func (a *NDBuffer) ByteSwap() (err error) {
	defer nameError("ByteSwap", &err)
	if err := checkNil(a); err != nil {
		return err
	}
	release, err := retainToWrite(a)
	if err != nil {
		return err
	}
	defer release()
	size, err := swapSize(a.dtype)
	if err != nil || size == 1 || a.Size() == 0 {
		return err
	}
	if b := newStridedPair(a, a); b.isContiguous() {
		return swapBytes(a, a, b.in-a.offset, size)
	}
	dense, err := a.copy(OrderC)
	if err != nil {
		return err
	}
	defer dense.Release()
	if err := swapBytes(dense, dense, 0, size); err != nil {
		return err
	}
	return copyLayout(a, dense)
}

// ByteSwapped returns a copy in order K whose bytes are reversed as by ByteSwap.
func (a *NDBuffer) ByteSwapped() (*NDBuffer, error) {
	return a.call("ByteSwapped", func() (*NDBuffer, error) { return a.byteSwapped() })
}

func (a *NDBuffer) byteSwapped() (*NDBuffer, error) {
	if err := a.TryRetain(); err != nil {
		return nil, err
	}
	defer a.Release()
	size, err := swapSize(a.dtype)
	if err != nil {
		return nil, err
	}
	c, err := a.emptyLike(a.dtype, OrderK)
	if err != nil || a.Size() == 0 {
		return c, err
	}
	if b := newStridedPair(c, a); size > 1 && b.isContiguous() {
		err = swapBytes(c, a, b.in-a.offset, size)
	} else if err = copyLayout(c, a); err == nil && size > 1 {
		err = swapBytes(c, c, 0, size)
	}
	if err != nil {
		c.Release()
		return nil, err
	}
	return c, nil
}

// swapSize returns the size of the numbers whose bytes are reversed.
func swapSize(t DType) (int64, error) {
	switch t.Kind() {
	case KindBytes:
		return 1, nil
	case KindRecord:
		return 0, fmt.Errorf("dtype %s: %w", t, ErrDType)
	case KindComplex:
		return t.Size() / 2, nil
	default:
		return t.Size(), nil
	}
}

// swapBytes reverses the bytes of contiguous elements. They begin offset bytes after
// the first element of src, which may have a lower address; in dst they begin at the
// first element unless dst is src.
func swapBytes(dst, src *NDBuffer, offset, size int64) error {
	n, to := src.NBytes(), int64(0)
	if dst == src {
		to = offset
	}
	if to, ok := hostAt(dst.buf, dst.offset+to); ok {
		from, _ := hostAt(src.buf, src.offset+offset)
		cpu.SwapBytes(to, from, n, size)
		return nil
	}
	return launch.QueueItems(dst.Device(), swapProgram, "quiver_byteswap", n, 16, src.at(offset), dst.atOut(to), n, int32(size))
}

var swapProgram = launch.Program("copy/byteswap", map[string]cudabuf.HostKernel{"quiver_byteswap": func(l *cudabuf.HostLaunch) {
	n := l.Int64(2)
	cpu.SwapBytes(launch.PointerArg(l, 1, 0, n), launch.PointerArg(l, 0, 0, n), n, int64(l.Int32(3)))
}})
