package arrowbuf

import (
	"fmt"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Array is an Arrow array whose buffers are on a device. It implements arrow.Array
// and never accesses device memory from the host: methods copy the bytes that they
// need.
//
// Data returns the buffers; FromArrow returns the device buffer of each. The host
// must not access their Bytes. Typed access, array.Equal, array.Concatenate and
// other code that reads values in place need a copy on the host: CopyArrayTo with
// CPU().
//
// Methods of arrow.Array that cannot return an error panic with it if the device
// fails. All methods may be called concurrently.
type Array struct {
	refs     atomic.Int64
	dev      Device
	data     arrow.ArrayData
	nulls    atomic.Int64
	validity atomic.Pointer[[]byte] // the bitmap, after its first copy
}

var _ arrow.Array = (*Array)(nil)

// NewArray returns an array over data, to which it takes a reference. The result is
// an *Array if the host cannot access one of the buffers, and otherwise arrow-go's
// own array of the type. It panics as array.MakeFromData does, and with an error
// wrapping arrow.ErrInvalid if data is nil. The caller owns one reference and must
// release it.
func NewArray(data arrow.ArrayData) arrow.Array {
	if isNil(data) {
		panic(fmt.Errorf("arrowbuf.NewArray: nil data: %w", arrow.ErrInvalid))
	}
	return NewArrayOn(data, deviceOf(data))
}

// NewArrayOn is NewArray for a known device. dev is CPU() or the device of the
// buffers; an array without buffers belongs to dev as well.
func NewArrayOn(data arrow.ArrayData, dev Device) arrow.Array {
	if isNil(data) || isNil(dev) {
		panic(fmt.Errorf("arrowbuf.NewArrayOn: nil data or device: %w", arrow.ErrInvalid))
	}
	if hostReads(dev) {
		return array.MakeFromData(data)
	}
	a := new(Array)
	a.initialize(data, dev)
	return a
}

// hostReads reports whether the host reads all buffers of a device in place. Arrays
// there are arrow-go's own.
func hostReads(dev Device) bool { return dev == CPU() || dev.Type() == DeviceCUDAManaged }

// NewSlice returns elements [i, j) of an array on any device without a copy. It
// replaces array.NewSlice, which reads the memory of some arrays. It panics if the
// elements are out of range or arr is nil. The caller owns one reference to the
// result.
func NewSlice(arr arrow.Array, i, j int64) arrow.Array {
	if isNil(arr) {
		panic(fmt.Errorf("arrowbuf.NewSlice: nil array: %w", arrow.ErrInvalid))
	}
	if a, ok := arr.(*Array); ok {
		return a.Slice(int(i), int(j))
	}
	data := array.NewSliceData(arr.Data(), i, j)
	defer data.Release()
	return NewArrayOn(data, DeviceOf(arr))
}

// DeviceOf returns the device of an array: that of the first buffer that is not memory
// of the host, or CPU() if all are, or if arr is nil.
func DeviceOf(arr arrow.Array) Device {
	if a, ok := arr.(*Array); ok {
		return a.Device()
	}
	if isNil(arr) {
		return cpu
	}
	return deviceOf(arr.Data())
}

// Device returns the device of the buffers. A nil or zero Array is on CPU().
func (a *Array) Device() Device {
	if a == nil || a.dev == nil {
		return cpu
	}
	return a.dev
}

// DataType returns the type of the elements.
func (a *Array) DataType() arrow.DataType { return a.Data().DataType() }

// Data returns the buffers and their interpretation. They stay the array's: the
// caller does not release them. A nil or zero Array has no elements, of type null.
func (a *Array) Data() arrow.ArrayData {
	if a == nil || a.data == nil {
		return noElements
	}
	return a.data
}

// noElements are the data of a zero Array. They are never freed, because the package
// keeps a reference.
var noElements = array.NewData(arrow.Null, 0, []*memory.Buffer{nil}, nil, 0, 0)

// Len returns the number of elements.
func (a *Array) Len() int { return a.Data().Len() }

// Slice returns elements [i, j) without a copy, as array.NewSlice does for arrays of
// the host. It panics if they are out of range. The caller owns one reference to the
// result.
func (a *Array) Slice(i, j int) *Array {
	if i < 0 || j < i || j > a.Len() {
		panic(fmt.Errorf("arrowbuf.Array.Slice: elements [%d, %d) of %d: %w", i, j, a.Len(), ErrOutOfRange))
	}
	if a == nil || a.data == nil {
		return new(Array)
	}
	data := array.NewSliceData(a.data, int64(i), int64(j))
	defer data.Release()
	slice := NewArrayOn(data, a.dev).(*Array)
	if a.Len() > 0 && a.nulls.Load() == int64(a.Len()) {
		slice.nulls.Store(int64(slice.Len()))
	}
	return slice
}

// NullN returns the number of nulls. If it is unknown, the first call copies the
// validity bitmap and counts it.
func (a *Array) NullN() int {
	if a == nil {
		return 0
	}
	if a.nulls.Load() < 0 {
		bits := a.NullBitmapBytes()
		valid := a.Len()
		if len(bits) > 0 {
			valid = bitutil.CountSetBits(bits, a.Data().Offset(), a.Len())
		}
		a.nulls.Store(int64(a.Len() - valid))
	}
	return int(a.nulls.Load())
}

// NullBitmapBytes returns a copy of the validity bitmap on the host, or nil if the
// array has none. The bit of element i is at Data().Offset()+i, as in arrow-go's
// arrays; the bytes before the first element's are 0. The first call copies the
// bitmap, and later calls return the same slice, which the caller must not modify.
func (a *Array) NullBitmapBytes() []byte {
	if a == nil {
		return nil
	}
	if bits := a.validity.Load(); bits != nil {
		return *bits
	}
	bits, err := a.copyBitmap()
	if err != nil {
		panic(a.wrapError("the validity bitmap", err))
	}
	a.validity.Store(&bits)
	return bits
}

// IsNull reports whether element i is null. The first call copies the validity
// bitmap.
func (a *Array) IsNull(i int) bool { return !a.IsValid(i) }

// IsValid reports whether element i is not null.
func (a *Array) IsValid(i int) bool {
	bits := a.NullBitmapBytes()
	return len(bits) == 0 || bitutil.BitIsSet(bits, a.Data().Offset()+i)
}

// String formats the elements as arrow-go does. It copies the array.
func (a *Array) String() string {
	host, err := a.toHost()
	if err != nil {
		panic(a.wrapError("the elements", err))
	}
	defer host.Release()
	return host.String()
}

// MarshalJSON encodes the elements as arrow-go does. It copies the array.
func (a *Array) MarshalJSON() ([]byte, error) {
	host, err := a.toHost()
	if err != nil {
		return nil, a.wrapError("the elements", err)
	}
	defer host.Release()
	return host.MarshalJSON()
}

// ValueStr returns element i as a string. It copies that element.
func (a *Array) ValueStr(i int) string {
	host := a.mustElement(i)
	defer host.Release()
	return host.ValueStr(0)
}

// GetOneForMarshal returns element i as a value for json.Marshal. It copies that
// element.
func (a *Array) GetOneForMarshal(i int) any {
	host := a.mustElement(i)
	defer host.Release()
	return host.GetOneForMarshal(0)
}

// Retain adds a reference. It panics after the last release.
func (a *Array) Retain() {
	if a == nil || a.refs.Add(1) <= 1 {
		if a != nil {
			a.refs.Add(-1)
		}
		panic(fmt.Errorf("arrowbuf.Array.Retain: %w", ErrReleased))
	}
}

// Release releases one reference; the last releases the buffers. It panics if there
// are more releases than references.
func (a *Array) Release() {
	if a == nil {
		panic(fmt.Errorf("arrowbuf.Array.Release: nil array: %w", ErrReleased))
	}
	switch n := a.refs.Add(-1); {
	case n == 0:
		a.data.Release()
	case n < 0:
		panic(fmt.Errorf("arrowbuf.Array.Release: %w", ErrReleased))
	}
}

// toHost copies the elements.
func (a *Array) toHost() (arrow.Array, error) {
	if a == nil || a.data == nil {
		return array.MakeFromData(noElements), nil
	}
	return CopyArrayTo(a, CPU())
}

// initialize sets up a zero Array over data, to which it takes a reference.
func (a *Array) initialize(data arrow.ArrayData, dev Device) {
	data.Retain()
	a.dev, a.data = dev, data
	a.refs.Store(1)
	a.nulls.Store(int64(data.NullN()))
}

func deviceOf(data arrow.ArrayData) Device {
	for _, b := range data.Buffers() {
		if whole, _, ok := lookupWrapped(b); ok {
			if _, host := HostBytes(whole); !host {
				return whole.Device()
			}
		}
	}
	for _, child := range data.Children() {
		if child == nil {
			continue // CopyTo reports the nil child
		}
		if dev := deviceOf(child); dev != CPU() {
			return dev
		}
	}
	if dictionary, ok := data.Dictionary().(*array.Data); ok && dictionary != nil {
		return deviceOf(dictionary)
	}
	return CPU()
}

func (a *Array) copyBitmap() ([]byte, error) {
	if len(a.Data().Buffers()) == 0 || a.Data().Buffers()[0] == nil || a.Data().Buffers()[0].Len() == 0 {
		return nil, nil
	}
	src, err := BufferOf(a.Data().Buffers()[0])
	if err != nil {
		return nil, err
	}
	defer src.Release()
	from := int64(a.Data().Offset() / 8)
	bits := make([]byte, bitutil.BytesForBits(int64(a.Data().Offset()+a.Len())))
	_, err = src.CopyToHost(bits[from:], from)
	return bits, err
}

func (a *Array) mustElement(i int) arrow.Array {
	host, err := a.copyElement(i)
	if err != nil {
		panic(a.wrapError(fmt.Sprintf("element %d", i), err))
	}
	return host
}

// copyElement returns an array of the host with element i alone. Of a dictionary and
// of the buffers of views it copies only the bytes that the element refers to.
func (a *Array) copyElement(i int) (arrow.Array, error) {
	if err := CheckRange(int64(i), 1, int64(a.Len())); err != nil {
		return nil, err
	}
	s := slicer{narrow: true}
	element, err := s.slice(a.Data(), i, 1)
	if err != nil {
		return nil, err
	}
	return s.copyOne(&element, CPU())
}

func (a *Array) wrapError(what string, err error) error {
	return fmt.Errorf("arrowbuf: reading %s of an array of type %s on %s: %w", what, a.DataType(), a.Device(), err)
}
