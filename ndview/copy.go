package ndview

import (
	"fmt"
	"slices"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
	"github.com/quiver-gpu/quiver/ndview/internal/launch"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
	"github.com/quiver-gpu/quiver/ndview/internal/stridedcopy"
)

// Copy returns a new array of the same elements on the same device, without
// gaps, in an order: with A it is F for an array in F order, else C, and with K
// the axes lie as those of a do, but none backwards. Another order is ErrShape. On a
// CUDA device the copy is queued on the default stream.
func (a *NDBuffer) Copy(order Order) (*NDBuffer, error) {
	if err := order.check(); err != nil {
		return nil, err
	}
	if err := a.hold(); err != nil {
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

// emptyLike returns an array of the shape and device of a, in an order.
func (a *NDBuffer) emptyLike(dtype DType, order Order) (*NDBuffer, error) {
	if order.fortran(a) {
		order = OrderF
	}
	if order != OrderK || a.IsContiguous() {
		return New(a.Device(), dtype, a.shape, Options{Order: order})
	}
	axes := layout.Falling(a.strides)
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

// inCOrder copies the elements to a new array.
func (a *NDBuffer) inCOrder() (*NDBuffer, error) { return a.Copy(OrderC) }

// CopyFrom copies the elements of another array of the same dtype, on any
// device, into a, whose shape src broadcasts to. Where they overlap, src is as
// if it had been read first. Another dtype is ErrDType, a shape that does not broadcast
// ErrShape, and an array that is not writeable ErrReadOnly; a is as it was then. Within a
// CUDA device the copy is queued on the default stream.
func (a *NDBuffer) CopyFrom(src *NDBuffer) error {
	release, err := holdToWrite(a, src)
	if err != nil {
		return err
	}
	defer release()
	if src.dtype != a.dtype {
		return fmt.Errorf("copying %s to %s: %w", src.dtype, a.dtype, ErrDType)
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
	apart, err := src.Copy(OrderK)
	if err != nil {
		return err
	}
	defer apart.Release()
	return a.copyBroadcast(apart)
}

// broadcastsTo answers ErrShape for an array that does not.
func (a *NDBuffer) broadcastsTo(shape []int64) error {
	skip := len(a.shape) - len(shape)
	// As NumPy does when it assigns, leave out axes of extent 1 that are too many.
	for i := range max(skip, 0) {
		if a.shape[i] != 1 {
			return fmt.Errorf("shape %v does not broadcast to %v: %w", a.shape, shape, ErrShape)
		}
	}
	_, err := layout.Stretch(a.shape[max(skip, 0):], a.strides[max(skip, 0):], shape)
	return err
}

// copyBroadcast copies an array that broadcasts to a, and that a reaches.
func (a *NDBuffer) copyBroadcast(src *NDBuffer) error {
	skip := max(len(src.shape)-len(a.shape), 0)
	strides, err := layout.Stretch(src.shape[skip:], src.strides[skip:], a.shape)
	if err != nil {
		return err
	}
	src.buf.Retain()
	stretched := over(src.buf, src.dtype, src.offset, a.shape, strides)
	defer stretched.Release()
	return copyLayout(a, stretched)
}

// canAccess tells whether one device, or the host, reaches both arrays.
func (a *NDBuffer) canAccess(b *NDBuffer) bool {
	if a.Device() == b.Device() {
		return true
	}
	_, here := arrowbuf.HostBytes(a.buf)
	_, there := arrowbuf.HostBytes(b.buf)
	return here && there
}

// sameElements tells whether all elements of b are those of a, so that none is moved.
func (a *NDBuffer) sameElements(b *NDBuffer) bool {
	return a.buf.Address() == b.buf.Address() && a.offset == b.offset && slices.Equal(a.shape, b.shape) && slices.Equal(a.strides, b.strides)
}

// copyAcross copies from another device: the elements are put together where
// they are, cross in one copy, and are put in their places where they go.
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
	here, err := newArray(a.Device(), arrowbuf.Device.Alloc, a.dtype, src.shape, OrderC)
	if err != nil {
		return err
	}
	defer here.Release()
	if _, err := here.buf.CopyFromDevice(part, 0); err != nil {
		return err
	}
	return a.copyBroadcast(here)
}

// ByteSwap turns around the bytes of each number, in place, as data of the other
// byte order needs it: of a complex number those of either part. Bools, [Bytes]
// and numbers of one byte stay as they are; records are ErrDType.
func (a *NDBuffer) ByteSwap() error {
	release, err := holdToWrite(a)
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
	dense, err := a.Copy(OrderC)
	if err != nil {
		return err
	}
	defer dense.Release()
	if err := swapBytes(dense, dense, 0, size); err != nil {
		return err
	}
	return copyLayout(a, dense)
}

// ByteSwapped is a copy, in the order K, with the bytes turned around as
// ByteSwap does.
func (a *NDBuffer) ByteSwapped() (*NDBuffer, error) {
	if err := a.hold(); err != nil {
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

// swapped is the size of the numbers whose bytes have an order.
func swapSize(t DType) (int64, error) {
	switch t.Kind() {
	case KindBytes:
		return 1, nil
	case KindRecord:
		return 0, fmt.Errorf("turning the bytes of %s around: %w", t, ErrDType)
	case KindComplex:
		return t.Size() / 2, nil
	default:
		return t.Size(), nil
	}
}

// swapBytes swaps the bytes of gapless elements. Those of src begin so many bytes
// beside the first, as those of dst do where it is the same array.
func swapBytes(dst, src *NDBuffer, beside, size int64) error {
	n, to := src.NBytes(), int64(0)
	if dst == src {
		to = beside
	}
	if to, ok := hostAt(dst.buf, dst.offset+to); ok {
		from, _ := hostAt(src.buf, src.offset+beside)
		cpu.SwapBytes(to, from, n, size)
		return nil
	}
	return launch.Items(dst.Device(), swapProgram, "quiver_swap", n, 16, src.at(beside), dst.atOut(to), n, int32(size))
}

var swapProgram = launch.Program("swap", map[string]cudabuf.HostKernel{"quiver_swap": func(l *cudabuf.HostLaunch) {
	n := l.Int64(2)
	cpu.SwapBytes(launch.Reached(l, 1, 0, n), launch.Reached(l, 0, 0, n), n, int64(l.Int32(3)))
}})

// copyToDevice copies the elements to a new array, in C order, on another device.
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

// copyLayout moves elements from one layout to another of the same shape, with
// elements of the same size. The caller holds both; they are on one device, or
// both on the host, and do not overlap unless each is one run of bytes.
func copyLayout(dst, src *NDBuffer) error {
	if dst.Size() == 0 {
		return nil
	}
	align := dst.address() | src.address()
	width, n := layout.Units(dst.dtype.Size(), align, dst.shape, dst.strides, src.strides)
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
	return n.Cut(stridedcopy.MaxItems, stridedcopy.MaxAxes, func(part layout.Nest) error {
		return launchCopy(dst.buf, to+part.Offsets[0], src.buf, from+part.Offsets[1], width, part)
	})
}

// isContiguousNest tells whether the units are one run in both operands.
func isContiguousNest(width int64, n layout.Nest) bool {
	switch len(n.Shape) {
	case 0:
		return true
	case 1:
		return n.Strides[0][0] == width && n.Strides[1][0] == width
	}
	return false
}

// copyBytes copies bytes, which may overlap.
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
	cuda, ok := dst.Device().(*cudabuf.Device)
	if !ok {
		_, err := dst.CopyFromDevice(part, to)
		return err
	}
	stream, err := cuda.DefaultStream()
	if err != nil {
		return err
	}
	_, err = dst.(*cudabuf.Buffer).CopyFromDeviceAsync(part, to, stream)
	return err
}

// onDevice is the array on a device: itself, or a copy.
func (a *NDBuffer) onDevice(dev arrowbuf.Device) (*NDBuffer, error) {
	if a.Device() == dev {
		a.Retain()
		return a, nil
	}
	return a.copyToDevice(dev)
}
