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

// DLPackOptions says how ToDLPack hands an array out.
type DLPackOptions struct {
	// Stream is where the consumer will use a GPU's memory: the number that
	// DLPack's Python protocol passes. Work on it comes after what the array
	// still waits for, and what the array is used for once the consumer gave it
	// back comes after the work on it; the handle must live until then. 1 is
	// CUDA's legacy default stream, 2 the per-thread one of the thread that the
	// calling goroutine is locked to, another the handle of a stream. With 0 the
	// call itself waits until the memory is ready, with -1 nobody waits; the
	// consumer's own work is then the consumer's to end before it deletes the
	// tensor.
	Stream int64
	// Copy hands out a copy, in C order, marked as one.
	Copy bool
	// Legacy makes a DLManagedTensor, for consumers of before DLPack 1.0.
	Legacy bool
}

// ToDLPack hands an array to a library that takes DLPack, in this process: the
// result is the address of a DLManagedTensorVersioned 1.1 (or, for a legacy
// consumer, of a DLManagedTensor). It shows the array's memory and keeps it
// until the consumer calls its deleter, which must happen once, on any thread.
//
// datetimes, timedeltas and fixed bytes are ErrDType: DLPack has no such types.
// Strides that are no multiples of the element's size are ErrShape, and
// a read-only array for a legacy consumer, which could not be told so, is
// ErrReadOnly: both can be copied.
func ToDLPack(a *NDBuffer, o DLPackOptions) (unsafe.Pointer, error) {
	if err := dlpack.Supported(); err != nil {
		return nil, err
	}
	if err := a.hold(); err != nil {
		return nil, err
	}
	defer a.Release()
	shown, flags := a, uint64(0)
	if o.Copy {
		c, err := a.inCOrder()
		if err != nil {
			return nil, err
		}
		defer c.Release()
		shown, flags = c, dlpack.IsCopied
	}
	p, err := shown.toDLPack(flags, o)
	if err != nil {
		return nil, fmt.Errorf("DLPack of an array of %s %v on %s: %w", a.dtype, a.shape, a.Device(), err)
	}
	return p, nil
}

func (a *NDBuffer) toDLPack(flags uint64, o DLPackOptions) (unsafe.Pointer, error) {
	code, bits, lanes, err := a.dtype.DLPack()
	if err != nil {
		return nil, err
	}
	shape, strides := append([]int64{}, a.shape...), make([]int64, len(a.shape))
	for i, stride := range a.strides {
		if strides[i] = stride / a.dtype.Size(); strides[i]*a.dtype.Size() != stride && a.shape[i] > 1 && a.Size() > 0 {
			return nil, fmt.Errorf("a stride of %d bytes: %w", stride, ErrShape)
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
	giveBack, err := recordConsumerStream(a.buf, o.Stream)
	if err != nil {
		return nil, err
	}
	a.Retain()
	release := func() {
		giveBack()
		a.Release()
	}
	var keep *byte
	if host, ok := arrowbuf.HostBytes(a.buf); ok {
		keep = unsafe.SliceData(host)
	}
	if o.Legacy {
		return dlpack.GiveLegacy(t, shape, strides, keep, release), nil
	}
	return dlpack.Give(t, shape, strides, flags, keep, release), nil
}

// recordConsumerStream lets the work of a consumer's stream use memory of a GPU.
func recordConsumerStream(buf arrowbuf.Buffer, stream int64) (giveBack func(), err error) {
	b, onGPU := buf.(*cudabuf.Buffer)
	switch {
	case stream < -1:
		return nil, fmt.Errorf("stream %d: %w", stream, arrowbuf.ErrOutOfRange)
	case !onGPU && stream > 0:
		return nil, fmt.Errorf("stream %d for memory without streams: %w", stream, arrowbuf.ErrDevice)
	case !onGPU || stream == -1:
		return func() {}, nil
	case stream == 0:
		return func() {}, b.Wait()
	}
	handle := uintptr(stream)
	if stream == 1 {
		handle = 0 // the legacy stream has two names
	}
	theirs, err := b.Device().(*cudabuf.Device).WrapStream(handle)
	if err != nil {
		return nil, err
	}
	if err := b.RecordStream(theirs); err != nil {
		_ = theirs.Close()
		return nil, err
	}
	return func() { _ = theirs.Close() }, nil // what fails in it is theirs
}

// DLPackStream is the stream to ask a producer of tensors on a device for, as
// the number that DLPack's protocol passes: the device's default stream, or -1
// where there are none.
func DLPackStream(dev arrowbuf.Device) (int64, error) {
	cuda, ok := dev.(*cudabuf.Device)
	if !ok {
		return -1, nil
	}
	s, err := cuda.DefaultStream()
	if err != nil {
		return 0, err
	}
	return int64(s.Handle()), nil
}

// FromDLPack looks at a tensor of another library, a DLManagedTensorVersioned,
// as an array on a device, which must be the one that the tensor is on. Its data
// is ready, or will be on the stream of DLPackStream.
//
// The tensor is the array's from the call on: its deleter is called once the
// last view of the memory is released and the work on it is done, or before an
// error is returned. One that is read-only becomes an array that must not be
// written to, and on a GPU its buffer must not either.
//
// A tensor of another major version is errors.ErrUnsupported, one on another
// device arrowbuf.ErrDevice, elements that no dtype has (several lanes, less
// than a byte) ErrDType; a negative extent, no shape, no data, or data that is
// not aligned to its elements are ErrShape.
func FromDLPack(dev arrowbuf.Device, tensor unsafe.Pointer) (*NDBuffer, error) {
	return fromDLPack(dev, tensor, dlpack.Take)
}

// FromLegacyDLPack is FromDLPack for a DLManagedTensor.
func FromLegacyDLPack(dev arrowbuf.Device, tensor unsafe.Pointer) (*NDBuffer, error) {
	return fromDLPack(dev, tensor, dlpack.TakeLegacy)
}

func fromDLPack(dev arrowbuf.Device, tensor unsafe.Pointer, take func(unsafe.Pointer) *dlpack.Taken) (*NDBuffer, error) {
	if err := dlpack.Supported(); err != nil {
		return nil, err
	}
	if tensor == nil {
		return nil, errors.New("DLPack tensor: there is none")
	}
	t := take(tensor)
	a, err := wrapTensor(dev, t)
	if err != nil {
		return nil, fmt.Errorf("DLPack tensor: %w", err)
	}
	return a, nil
}

// wrapTensor makes the array. The tensor is deleted by whoever owns it when an error
// comes: this function, or the buffer.
func wrapTensor(dev arrowbuf.Device, t *dlpack.Taken) (*NDBuffer, error) {
	dtype, shape, strides, err := checkTensor(dev, t)
	if err != nil {
		t.Delete()
		return nil, err
	}
	low, high, _ := layout.Extent(dtype.Size(), 0, shape, strides)
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

// checkTensor checks all of a tensor, and reads its shape and byte strides.
func checkTensor(dev arrowbuf.Device, t *dlpack.Taken) (element DType, shape, strides []int64, err error) {
	refuse := func(kind error, format string, args ...any) (DType, []int64, []int64, error) {
		return DType{}, nil, nil, fmt.Errorf(format+": %w", append(args, kind)...)
	}
	if t.Version != dlpack.Major {
		return refuse(errors.ErrUnsupported, "its version is %d, and %d the one that is known", t.Version, dlpack.Major)
	}
	if !tensorIsOn(dev, t.Device) {
		return refuse(arrowbuf.ErrDevice, "it is on %s:%d, not on %s", arrowbuf.DeviceType(t.Device.Type), t.Device.ID, dev)
	}
	if element, err = dtype.ParseDLPack(t.DataType.Code, t.DataType.Bits, t.DataType.Lanes); err != nil {
		return DType{}, nil, nil, err
	}
	if t.NDim < 0 || t.NDim > 0 && t.Shape == 0 {
		return refuse(ErrShape, "%d axes, and a shape at %#x", t.NDim, t.Shape)
	}
	shape, strides = t.Extents()
	if _, err := byteCount(element, shape); err != nil {
		return refuse(err, "shape %v", shape)
	}
	if strides == nil {
		strides = cStrides(element, shape)
	} else {
		for i := range strides {
			if strides[i] > math.MaxInt64/element.Size() || strides[i] < math.MinInt64/element.Size() {
				return refuse(ErrShape, "strides %v", strides)
			}
			strides[i] *= element.Size()
		}
	}
	if _, _, ok := layout.Extent(element.Size(), 0, shape, strides); !ok {
		return refuse(ErrShape, "shape %v with byte strides %v", shape, strides)
	}
	if align := uint64(element.Alignment()); product(shape) > 0 && (t.Data == 0 || (uint64(t.Data)+t.ByteOffset)%align != 0) {
		return refuse(ErrShape, "data at %#x+%d, not at a multiple of %d bytes", t.Data, t.ByteOffset, align)
	}
	return element, shape, strides, nil
}

// tensorIsOn tells whether a device reaches the memory of a tensor.
func tensorIsOn(dev arrowbuf.Device, d dlpack.Device) bool {
	switch d.Type {
	case dlpack.CPU:
		return dev == arrowbuf.CPU()
	case dlpack.CUDA:
		return dev.Type() == arrowbuf.DeviceCUDA && dev.ID() == int64(d.ID)
	case dlpack.CUDAHost:
		return dev == arrowbuf.CPU() || dev.Type() == arrowbuf.DeviceCUDA
	case dlpack.CUDAManaged:
		return dev.Type() == arrowbuf.DeviceCUDA
	default:
		return false
	}
}

// wrapTensorMemory is a buffer over the tensor's memory, which deletes the tensor with
// its last reference. On a GPU it is ordered behind the default stream.
func wrapTensorMemory(dev arrowbuf.Device, start uintptr, n int64, t *dlpack.Taken) (arrowbuf.Buffer, error) {
	cuda, ok := dev.(*cudabuf.Device)
	if !ok {
		return arrowbuf.WrapExternal(unsafe.Slice((*byte)(dlpack.Pointer(start)), n), t.Delete), nil
	}
	buf, err := cuda.WrapExternal(start, n, t.Delete)
	if err != nil {
		t.Delete()
		return nil, err
	}
	ours, err := cuda.DefaultStream()
	if err == nil {
		err = buf.RecordStream(ours)
	}
	if err == nil && t.Flags&dlpack.ReadOnly != 0 {
		var fixed *cudabuf.Buffer
		if fixed, err = buf.ReadOnly(); err == nil {
			buf.Release()
			return fixed, nil
		}
	}
	if err != nil {
		buf.Release()
		return nil, err
	}
	return buf, nil
}
