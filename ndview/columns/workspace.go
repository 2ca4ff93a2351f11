package columns

import (
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

// workspace holds the device and the temporaries of one call. Objects in the result
// hold references of their own, so release may run when the call returns.
type workspace struct {
	dev         arrowbuf.Device
	temporaries []interface{ Release() }
}

// release releases all temporaries.
func (w *workspace) release() {
	for _, one := range w.temporaries {
		one.Release()
	}
}

// own releases obj together with the workspace.
func (w *workspace) own(obj interface{ Release() }) { w.temporaries = append(w.temporaries, obj) }

// deviceOf returns the device of arr. An array without memory, such as one of nulls,
// takes the device of other.
func deviceOf(arr, other arrow.Array) arrowbuf.Device {
	if dev := arrowbuf.DeviceOf(arr); dev != arrowbuf.CPU() || hasBuffers(arr.Data()) {
		return dev
	}
	return arrowbuf.DeviceOf(other)
}

// deviceOfAll returns the device of the first array that is not on the CPU, or the CPU.
func deviceOfAll(arrays []arrow.Array) arrowbuf.Device {
	for _, arr := range arrays {
		if dev := arrowbuf.DeviceOf(arr); dev != arrowbuf.CPU() {
			return dev
		}
	}
	return arrowbuf.CPU()
}

// errNil is returned for nil arrays, batches and types.
var errNil = fmt.Errorf("nil argument: %w", arrow.ErrInvalid)

// hasBuffers reports whether an array or one of its children has a buffer with bytes.
func hasBuffers(data arrow.ArrayData) bool {
	for _, b := range data.Buffers() {
		if b != nil && b.Len() > 0 {
			return true
		}
	}
	for _, child := range data.Children() {
		if child != nil && hasBuffers(child) {
			return true
		}
	}
	return false
}

// copyToDevice copies a host array to the workspace's device. An array that is on the
// device already is shared. An array on another device returns arrowbuf.ErrDevice.
func (w *workspace) copyToDevice(arr arrow.Array) (arrow.Array, error) {
	if dev := arrowbuf.DeviceOf(arr); dev != w.dev && dev != arrowbuf.CPU() {
		return nil, fmt.Errorf("on %s, for an array on %s: %w", dev, w.dev, arrowbuf.ErrDevice)
	}
	moved, err := arrowbuf.CopyArrayTo(arr, w.dev)
	if err != nil {
		return nil, err
	}
	w.own(moved)
	return moved, nil
}

// ownArray passes on a new NDBuffer that the workspace releases.
func (w *workspace) ownArray(a *ndview.NDBuffer, err error) (*ndview.NDBuffer, error) {
	if err == nil {
		w.own(a)
	}
	return a, err
}

// alloc returns a new array of n undefined elements, which the workspace owns.
func (w *workspace) alloc(dtype ndview.DType, n int64) (*ndview.NDBuffer, error) {
	return w.ownArray(ndview.Empty(w.dev, dtype, n))
}

// toBuffer returns the first n bytes of a contiguous array as an Arrow buffer. The
// buffer is never nil, even for n = 0: arrow-go treats an array without a value buffer
// as absent.
func (w *workspace) toBuffer(a *ndview.NDBuffer, n int64) (*memory.Buffer, error) {
	if n == 0 {
		placeholder, err := w.dev.Alloc(1)
		if err != nil {
			return nil, err
		}
		defer placeholder.Release()
		return w.sliceBuffer(placeholder.Arrow(), 0, 0), nil
	}
	return w.sliceBuffer(a.Buffer().Arrow(), a.Offset(), n), nil
}

// sliceBuffer takes over the caller's reference to b and returns n bytes of it from
// offset, which the workspace owns.
func (w *workspace) sliceBuffer(b *memory.Buffer, offset, n int64) *memory.Buffer {
	part := memory.SliceBuffer(b, int(offset), int(n))
	b.Release()
	w.own(part)
	return part
}

// newData returns array data at offset 0, which the workspace owns.
func (w *workspace) newData(dtype arrow.DataType, n int64, buffers []*memory.Buffer, children ...arrow.ArrayData) *array.Data {
	nulls := array.UnknownNullCount
	if len(buffers) == 0 {
		buffers = []*memory.Buffer{nil}
	}
	switch {
	case storageOf(dtype).ID() == arrow.NULL:
		nulls = int(n)
	case buffers[0] == nil:
		nulls = 0
	}
	data := array.NewData(dtype, int(n), buffers, children, nulls, 0)
	w.own(data)
	return data
}

// sliceData returns elements [from, from+n) of a child array. It returns
// arrow.ErrInvalid if they exceed the child: then the parent does not fit it.
func (w *workspace) sliceData(data arrow.ArrayData, from, n int64, what string) (arrow.ArrayData, error) {
	if from < 0 || n < 0 || n > int64(data.Len())-from {
		return nil, fmt.Errorf("%s: elements [%d, %d+%d) of %d: %w", what, from, from, n, data.Len(), arrow.ErrInvalid)
	}
	if from == 0 && n == int64(data.Len()) {
		return data, nil
	}
	part := array.NewSliceData(data, from, from+n)
	w.own(part)
	return part, nil
}

// viewBuffer views n elements of a dtype that start at byte from of a buffer. On a GPU
// the elements are copied if they are not aligned to align bytes, as kernels require.
func (w *workspace) viewBuffer(b *memory.Buffer, dtype ndview.DType, from, n, align int64) (*ndview.NDBuffer, error) {
	if n == 0 {
		return w.alloc(dtype, 0)
	}
	if b == nil {
		return nil, fmt.Errorf("nil buffer: %w", arrow.ErrInvalid)
	}
	wrap := arrowbuf.BufferOf
	if w.dev == arrowbuf.CPU() {
		wrap = arrowbuf.WrapHost // also accepts pinned memory
	}
	buf, err := wrap(b)
	if err != nil {
		return nil, err
	}
	defer buf.Release()
	if from < 0 || from > buf.Len() || n > (buf.Len()-from)/max(dtype.Size(), 1) {
		return nil, fmt.Errorf("%d elements of %d bytes at byte %d exceed a buffer of %d bytes: %w",
			n, dtype.Size(), from, buf.Len(), arrow.ErrInvalid)
	}
	a, err := w.ownArray(ndview.FromBuffer(buf, dtype, from, []int64{n}, nil))
	if err != nil || w.dev == arrowbuf.CPU() || (int64(buf.Address())+from)%align == 0 {
		return a, err
	}
	return w.ownArray(a.Copy(ndview.OrderC))
}

// viewFixed views buffer i of an array as its values, width bytes each.
func (w *workspace) viewFixed(data arrow.ArrayData, i int, width int64) (*ndview.NDBuffer, error) {
	return w.viewValues(data, i, width, int64(data.Len()))
}

// viewValues views n values of width bytes each in buffer i, starting at the array's
// offset.
func (w *workspace) viewValues(data arrow.ArrayData, i int, width, n int64) (*ndview.NDBuffer, error) {
	if data.Offset() < 0 || int64(data.Offset()) > math.MaxInt64/max(width, 1)-n {
		return nil, fmt.Errorf("buffer %d at offset %d: %w", i, data.Offset(), arrow.ErrInvalid)
	}
	a, err := w.viewBuffer(bufferOf(data, i), dtypeOf(width), int64(data.Offset())*width, n, min(width&-width, 16))
	if err != nil {
		return nil, fmt.Errorf("buffer %d: %w", i, err)
	}
	return a, nil
}

// bitmap is n bits of an Arrow bitmap that start at bit first of the first byte. If
// bytes is nil, all bits are set.
type bitmap struct {
	bytes    *ndview.NDBuffer
	first, n int64
}

// viewBits views buffer i of an array as one bit per element.
func (w *workspace) viewBits(data arrow.ArrayData, i int) (bitmap, error) {
	at := int64(data.Offset())
	bytes, err := w.viewBuffer(bufferOf(data, i), ndview.Uint8, at/8, bitutil.BytesForBits(at%8+int64(data.Len())), 1)
	if err != nil {
		return bitmap{}, fmt.Errorf("buffer %d: %w", i, err)
	}
	return bitmap{bytes, at % 8, int64(data.Len())}, nil
}

// viewValidity views the validity bitmap. The result has no bytes if the array has no
// nulls.
func (w *workspace) viewValidity(data arrow.ArrayData) (bitmap, error) {
	if b := bufferOf(data, 0); b == nil || b.Len() == 0 || data.NullN() == 0 || data.Len() == 0 {
		return bitmap{}, nil
	}
	return w.viewBits(data, 0)
}

// bufferOf returns buffer i, or nil if the array has fewer buffers.
func bufferOf(data arrow.ArrayData, i int) *memory.Buffer {
	if i >= len(data.Buffers()) {
		return nil
	}
	return data.Buffers()[i]
}

// dtypeOf returns a dtype whose elements have the given width in bytes.
func dtypeOf(width int64) ndview.DType {
	switch width {
	case 1:
		return ndview.Uint8
	case 2:
		return ndview.Uint16
	case 4:
		return ndview.Uint32
	case 8:
		return ndview.Uint64
	default:
		return ndview.Bytes(int32(width))
	}
}

// storageOf returns the storage type of an extension type, and any other type itself.
func storageOf(dtype arrow.DataType) arrow.DataType {
	for {
		ext, ok := dtype.(arrow.ExtensionType)
		if !ok {
			return dtype
		}
		dtype = ext.StorageType()
	}
}

// children returns the children of an array, or arrow.ErrInvalid unless there are n of
// them and none is nil.
func children(data arrow.ArrayData, n int) ([]arrow.ArrayData, error) {
	all := data.Children()
	for _, child := range all {
		if child == nil {
			all = nil
		}
	}
	if len(all) != n {
		return nil, fmt.Errorf("%d child arrays, want %d: %w", len(all), n, arrow.ErrInvalid)
	}
	return all, nil
}
