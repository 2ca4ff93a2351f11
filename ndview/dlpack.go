package ndview

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview/dtype"
	"github.com/quiver-gpu/quiver/ndview/internal/dlpack"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// DLPackOptions are the options of ToDLPack.
type DLPackOptions struct {
	// Stream is the stream on which the consumer will use a GPU's memory, by the
	// number that DLPack's Python protocol defines. 1 is CUDA's legacy default stream.
	// 2 is the per-thread stream of the thread that the goroutine is locked to. Another
	// number is the handle of a stream, which must exist until the deleter is called.
	// Work on that stream runs after earlier work on the array,
	// and before work on the array that follows the deleter.
	//
	// With 0, ToDLPack waits until the memory is ready; with -1 it does not. Then
	// the consumer must finish its own work before it calls the deleter.
	Stream int64
	// Copy exports a copy in C order with DLPack's flag IS_COPIED.
	Copy bool
	// Legacy exports a DLManagedTensor, for consumers older than DLPack 1.0.
	Legacy bool
}

// ToDLPack exports an array to a DLPack consumer in this process. It returns the
// address of a DLManagedTensorVersioned 1.1, or of a DLManagedTensor if o.Legacy is
// set. The tensor shares the array's memory and retains it until the consumer calls
// its deleter, which it must do exactly once, on any thread.
//
// ToDLPack returns ErrDType for times, bytes and records, which DLPack lacks. It
// returns ErrShape if a stride is not a multiple of the element's size. It returns
// ErrReadOnly for a read-only array and a legacy consumer, because a DLManagedTensor
// has no flag for that. Option Copy avoids the last two errors.
func ToDLPack(a *NDBuffer, o DLPackOptions) (_ unsafe.Pointer, err error) {
	defer nameError("ToDLPack", &err)
	if err := dlpack.Supported(); err != nil {
		return nil, err
	}
	if err := a.TryRetain(); err != nil {
		return nil, err
	}
	defer a.Release()
	exported, flags := a, uint64(0)
	if o.Copy {
		c, err := a.inCOrder()
		if err != nil {
			return nil, err
		}
		defer c.Release()
		exported, flags = c, dlpack.IsCopied
	}
	p, err := exported.toDLPack(flags, o)
	if err != nil {
		return nil, fmt.Errorf("array of %s %v on %s: %w", a.dtype, a.shape, a.Device(), err)
	}
	return p, nil
}

// toDLPack exports the array with the given flags.
func (a *NDBuffer) toDLPack(flags uint64, o DLPackOptions) (unsafe.Pointer, error) {
	code, bits, lanes, err := a.dtype.DLPack()
	if err != nil {
		return nil, err
	}
	shape, strides := append([]int64{}, a.shape...), make([]int64, len(a.shape))
	for i, stride := range a.strides {
		if strides[i] = stride / a.dtype.Size(); strides[i]*a.dtype.Size() != stride && a.shape[i] > 1 && a.Size() > 0 {
			return nil, fmt.Errorf("stride of %d bytes, want a multiple of %d: %w", stride, a.dtype.Size(), ErrShape)
		}
	}
	t := dlpack.Tensor{DataType: dlpack.DataType{Code: code, Bits: bits, Lanes: lanes}, Device: dlpack.Device{Type: int32(a.Device().Type())}}
	if t.Device.Type == dlpack.CUDA {
		t.Device.ID = int32(a.Device().ID())
	}
	if a.Size() > 0 {
		t.Data = a.buf.Address() + uintptr(a.offset)
	}
	if err := a.checkWriteable(); err != nil {
		if o.Legacy {
			return nil, err
		}
		flags |= dlpack.ReadOnly
	}
	closeStream, err := recordConsumerStream(a.buf, o.Stream)
	if err != nil {
		return nil, err
	}
	a.Retain()
	release := func() {
		closeStream()
		a.Release()
	}
	var keep *byte
	if host, ok := arrowbuf.HostBytes(a.buf); ok {
		keep = unsafe.SliceData(host)
	}
	if o.Legacy {
		return dlpack.ExportLegacy(t, shape, strides, keep, release), nil
	}
	return dlpack.Export(t, shape, strides, flags, keep, release), nil
}

// recordConsumerStream orders the work of a consumer's stream after earlier work on a
// GPU's memory, see [DLPackOptions]. The caller calls closeStream when the consumer
// deletes the tensor.
func recordConsumerStream(buf arrowbuf.Buffer, stream int64) (closeStream func(), err error) {
	b, onGPU := arrowbuf.As[*cudabuf.Buffer](buf)
	switch {
	case stream < -1:
		return nil, fmt.Errorf("stream %d: %w", stream, arrowbuf.ErrOutOfRange)
	case !onGPU && stream > 0:
		return nil, fmt.Errorf("stream %d for host memory: %w", stream, arrowbuf.ErrDevice)
	case !onGPU || stream == -1:
		return func() {}, nil
	case stream == 0:
		return func() {}, b.Wait()
	}
	handle := uintptr(stream)
	if stream == 1 {
		handle = 0 // CUDA's handle of the legacy default stream
	}
	consumer, err := b.Device().(*cudabuf.Device).WrapStream(handle)
	if err != nil {
		return nil, err
	}
	if err := b.RecordStream(consumer); err != nil {
		_ = consumer.Close()
		return nil, err
	}
	return func() { _ = consumer.Close() }, nil // errors of the stream are the consumer's
}

// DLPackStream returns the stream number that a consumer on a device passes to a
// producer, as DLPack's Python protocol defines it: the device's default stream, or -1
// for a device without streams.
func DLPackStream(dev arrowbuf.Device) (_ int64, err error) {
	defer nameError("DLPackStream", &err)
	if dev == nil {
		return 0, errNilDevice
	}
	cuda, ok := arrowbuf.As[*cudabuf.Device](dev)
	if !ok {
		return -1, nil
	}
	s, err := cuda.DefaultStream()
	if err != nil {
		return 0, err
	}
	return int64(s.Handle()), nil
}

// FromDLPack returns a view of a DLManagedTensorVersioned of another library. The
// device must be that of the tensor. The producer ensures that the data is ready, or
// will be on the stream of DLPackStream.
//
// FromDLPack takes ownership of the tensor. It calls the deleter after the last view
// of the memory is released and the work on it is done, or before it returns an error.
// A read-only tensor becomes a read-only array; on a GPU its buffer is read-only, too.
//
// It returns errors.ErrUnsupported for another major version, arrowbuf.ErrDevice for
// another device, and ErrDType for elements that no dtype has, such as several lanes.
// It returns ErrShape for a negative extent, a missing shape, missing data, and data
// that is not aligned to its elements.
func FromDLPack(dev arrowbuf.Device, tensor unsafe.Pointer) (*NDBuffer, error) {
	a, err := fromDLPack(dev, tensor, dlpack.Import)
	return a, named("FromDLPack", err)
}

// FromLegacyDLPack is FromDLPack for a DLManagedTensor.
func FromLegacyDLPack(dev arrowbuf.Device, tensor unsafe.Pointer) (*NDBuffer, error) {
	a, err := fromDLPack(dev, tensor, dlpack.ImportLegacy)
	return a, named("FromLegacyDLPack", err)
}

func fromDLPack(dev arrowbuf.Device, tensor unsafe.Pointer, consume func(unsafe.Pointer) *dlpack.Imported) (*NDBuffer, error) {
	if err := dlpack.Supported(); err != nil {
		return nil, err
	}
	if tensor == nil {
		return nil, fmt.Errorf("nil tensor: %w", ErrNil)
	}
	t := consume(tensor)
	if dev == nil {
		t.Delete()
		return nil, errNilDevice
	}
	a, err := wrapTensor(dev, t)
	if err != nil {
		return nil, err
	}
	return a, nil
}

// wrapTensor returns an array over a tensor's memory. After an error, the tensor is
// deleted, by this function or by the release of the buffer that owns it.
func wrapTensor(dev arrowbuf.Device, t *dlpack.Imported) (*NDBuffer, error) {
	dtype, shape, strides, err := checkTensor(dev, t)
	if err != nil {
		t.Delete()
		return nil, err
	}
	low, high, _ := layout.ByteBounds(dtype.Size(), 0, shape, strides)
	start := t.Data + uintptr(t.ByteOffset) + uintptr(low)
	if high == low {
		start = 0
	}
	buf, err := wrapTensorMemory(dev, start, high-low, t)
	if err != nil {
		return nil, err
	}
	defer buf.Release()
	a, err := FromBuffer(buf, dtype, -low, shape, strides)
	if err == nil && t.Flags&dlpack.ReadOnly != 0 {
		a.readOnly = true
	}
	return a, err
}

// checkTensor checks all fields of a tensor and returns its dtype, shape and byte
// strides.
func checkTensor(dev arrowbuf.Device, t *dlpack.Imported) (element DType, shape, strides []int64, err error) {
	fail := func(kind error, format string, args ...any) (DType, []int64, []int64, error) {
		return DType{}, nil, nil, fmt.Errorf(format+": %w", append(args, kind)...)
	}
	if t.Version != dlpack.Major {
		return fail(errors.ErrUnsupported, "major version %d, want %d", t.Version, dlpack.Major)
	}
	if !tensorIsOn(dev, t.Device) {
		return fail(arrowbuf.ErrDevice, "tensor on %s:%d, want %s", arrowbuf.DeviceType(t.Device.Type), t.Device.ID, dev)
	}
	if element, err = dtype.ParseDLPack(t.DataType.Code, t.DataType.Bits, t.DataType.Lanes); err != nil {
		return DType{}, nil, nil, err
	}
	if t.NDim < 0 || t.NDim > 0 && t.Shape == 0 {
		return fail(ErrShape, "%d axes with a shape at %#x", t.NDim, t.Shape)
	}
	shape, strides = t.Extents()
	if _, err := byteCount(element, shape); err != nil {
		return fail(err, "shape %v", shape)
	}
	if strides == nil {
		strides = cStrides(element, shape)
	} else {
		for i := range strides {
			if strides[i] > math.MaxInt64/element.Size() || strides[i] < math.MinInt64/element.Size() {
				return fail(ErrShape, "strides %v", strides)
			}
			strides[i] *= element.Size()
		}
	}
	if _, _, ok := layout.ByteBounds(element.Size(), 0, shape, strides); !ok {
		return fail(ErrShape, "shape %v with byte strides %v", shape, strides)
	}
	if align := uint64(element.Alignment()); product(shape) > 0 && (t.Data == 0 || (uint64(t.Data)+t.ByteOffset)%align != 0) {
		return fail(ErrShape, "data at %#x+%d, want a multiple of %d bytes", t.Data, t.ByteOffset, align)
	}
	return element, shape, strides, nil
}

// tensorIsOn reports whether a device can access the memory of a tensor.
func tensorIsOn(dev arrowbuf.Device, d dlpack.Device) bool {
	switch d.Type {
	case dlpack.CPU:
		return dev == arrowbuf.CPU()
	case dlpack.CUDA:
		return dev.Type() == arrowbuf.DeviceCUDA && dev.ID() == int64(d.ID)
	case dlpack.CUDAHost:
		return dev == arrowbuf.CPU() || dev.Type() == arrowbuf.DeviceCUDA
	case dlpack.CUDAManaged:
		return dev.Type() == arrowbuf.DeviceCUDA || dev.Type() == arrowbuf.DeviceCUDAManaged
	default:
		return false
	}
}

// wrapTensorMemory returns a buffer over the tensor's memory, whose last release
// deletes the tensor. On a GPU its uses are ordered with the default stream.
func wrapTensorMemory(dev arrowbuf.Device, start uintptr, n int64, t *dlpack.Imported) (arrowbuf.Buffer, error) {
	cuda, ok := arrowbuf.As[*cudabuf.Device](dev)
	if !ok {
		return arrowbuf.WrapExternal(unsafe.Slice((*byte)(dlpack.Pointer(start)), n), t.Delete), nil
	}
	buf, err := cuda.WrapExternal(start, n, t.Delete)
	if err != nil {
		t.Delete()
		return nil, err
	}
	stream, err := cuda.DefaultStream()
	if err == nil {
		err = buf.RecordStream(stream)
	}
	if err == nil && t.Flags&dlpack.ReadOnly != 0 {
		var readOnly *cudabuf.Buffer
		if readOnly, err = buf.ReadOnly(); err == nil {
			buf.Release()
			return readOnly, nil
		}
	}
	if err != nil {
		buf.Release()
		return nil, err
	}
	return buf, nil
}
