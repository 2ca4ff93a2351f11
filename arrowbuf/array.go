package arrowbuf

import (
	"fmt"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
)

// Array is an Arrow array whose buffers live on a device. It is an arrow.Array,
// so it goes wherever code asks for no more than that, and it never touches
// device memory from the host: what a method needs to look at, it copies.
//
// Data gives the buffers, which FromArrow turns into device buffers; their
// Bytes are not for the host. For typed access, array.Equal, Concatenate and
// other code that reads values in place, copy the array down first, by ToHost.
//
// Methods of arrow.Array that copy and have no error to return panic with the
// error of a device that fails.
type Array struct {
	refs     atomic.Int64
	dev      Device
	data     arrow.ArrayData
	nulls    atomic.Int64
	validity atomic.Pointer[[]byte] // the bitmap, once it was copied
}

var _ arrow.Array = (*Array)(nil)

// NewArray returns an array over data and takes a reference to it: an *Array if
// any of its buffers lives where the host cannot read, else arrow-go's own
// array of the type, with the panics of array.MakeFromData.
func NewArray(data arrow.ArrayData) arrow.Array { return over(data, deviceOf(data)) }

// NewArrayOn is NewArray where it is known which device the buffers live on: the
// host's, or one that even an array without buffers is then said to live on.
func NewArrayOn(data arrow.ArrayData, dev Device) arrow.Array { return over(data, dev) }

// over makes the array for data that lives on a device.
func over(data arrow.ArrayData, dev Device) arrow.Array {
	if dev == CPU() {
		return array.MakeFromData(data)
	}
	a := new(Array)
	a.begin(data, dev)
	return a
}

// begin makes a new array that of data, to which it takes a reference.
func (a *Array) begin(data arrow.ArrayData, dev Device) {
	data.Retain()
	a.dev, a.data = dev, data
	a.refs.Store(1)
	a.nulls.Store(int64(data.NullN()))
}

// DeviceOf is where an array lives: the device of those of its buffers that the
// host cannot read, or else the CPU.
func DeviceOf(arr arrow.Array) Device {
	if a, ok := arr.(*Array); ok {
		return a.dev
	}
	return deviceOf(arr.Data())
}

func deviceOf(data arrow.ArrayData) Device {
	for _, b := range data.Buffers() {
		if whole, _, ok := lookup(b); ok {
			if _, host := HostBytes(whole); !host {
				return whole.Device()
			}
		}
	}
	for _, child := range data.Children() {
		if child == nil {
			continue // CopyTo says what is wrong
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

// Device is where the buffers live.
func (a *Array) Device() Device { return a.dev }

// DataType is the type of the elements.
func (a *Array) DataType() arrow.DataType { return a.data.DataType() }

// Data returns the buffers and what they mean. They are the array's own.
func (a *Array) Data() arrow.ArrayData { return a.data }

// Len is the number of elements.
func (a *Array) Len() int { return a.data.Len() }

// Slice returns elements [i, j) without a copy, as array.NewSlice does for
// arrays of the host. It panics if they are out of range.
func (a *Array) Slice(i, j int) *Array {
	data := array.NewSliceData(a.data, int64(i), int64(j))
	defer data.Release()
	slice := over(data, a.dev).(*Array)
	if a.Len() > 0 && a.nulls.Load() == int64(a.Len()) {
		slice.nulls.Store(int64(slice.Len()))
	}
	return slice
}

// NullN is the number of nulls. Where it is not known it is counted, once, in a
// copy of the bitmap.
func (a *Array) NullN() int {
	if a.nulls.Load() < 0 {
		bits := a.NullBitmapBytes()
		valid := a.Len()
		if len(bits) > 0 {
			valid = bitutil.CountSetBits(bits, a.data.Offset(), a.Len())
		}
		a.nulls.Store(int64(a.Len() - valid))
	}
	return int(a.nulls.Load())
}

// NullBitmapBytes returns a copy of the validity bitmap on the host, nil if
// there is none. The bit of element i is at Data().Offset()+i, as in arrow-go's
// arrays; the bytes before the first element's are 0. The copy is made once and
// kept.
func (a *Array) NullBitmapBytes() []byte {
	if bits := a.validity.Load(); bits != nil {
		return *bits
	}
	bits, err := a.copyBitmap()
	if err != nil {
		panic(a.failure("the validity bitmap", err))
	}
	a.validity.Store(&bits)
	return bits
}

func (a *Array) copyBitmap() ([]byte, error) {
	if len(a.data.Buffers()) == 0 || a.data.Buffers()[0] == nil || a.data.Buffers()[0].Len() == 0 {
		return nil, nil
	}
	src, err := BufferOf(a.data.Buffers()[0])
	if err != nil {
		return nil, err
	}
	defer src.Release()
	from := int64(a.data.Offset() / 8)
	bits := make([]byte, bitutil.BytesForBits(int64(a.data.Offset()+a.Len())))
	_, err = src.CopyToHost(bits[from:], from)
	return bits, err
}

// IsNull tells whether element i is null. The first call copies the validity
// bitmap.
func (a *Array) IsNull(i int) bool { return !a.IsValid(i) }

// IsValid is the opposite of IsNull.
func (a *Array) IsValid(i int) bool {
	bits := a.NullBitmapBytes()
	return len(bits) == 0 || bitutil.BitIsSet(bits, a.data.Offset()+i)
}

// Retain adds a reference.
func (a *Array) Retain() {
	if a.refs.Add(1) <= 1 {
		a.refs.Add(-1)
		panic(fmt.Errorf("arrowbuf: Retain of an array: %w", ErrReleased))
	}
}

// Release gives one reference back; with the last the buffers go.
func (a *Array) Release() {
	switch n := a.refs.Add(-1); {
	case n == 0:
		a.data.Release()
	case n < 0:
		panic(fmt.Errorf("arrowbuf: Release of an array: %w", ErrReleased))
	}
}

func (a *Array) failure(what string, err error) error {
	return fmt.Errorf("arrowbuf: looking at %s of an array of type %s on %s: %w", what, a.DataType(), a.dev, err)
}

// NewSlice returns elements [i, j) of an array on any device without a copy. It
// is array.NewSlice, which alone looks into the memory of some arrays, and
// panics like it if they are out of range.
func NewSlice(arr arrow.Array, i, j int64) arrow.Array {
	if a, ok := arr.(*Array); ok {
		return a.Slice(int(i), int(j))
	}
	data := array.NewSliceData(arr.Data(), i, j)
	defer data.Release()
	return over(data, DeviceOf(arr))
}

// ToHost copies the elements that the array shows to the host, and returns
// arrow-go's own array of them. The caller owns one reference to it.
func (a *Array) ToHost() (arrow.Array, error) { return CopyArrayTo(a, CPU()) }

// String prints the elements as arrow-go prints them. It copies the array.
func (a *Array) String() string {
	host, err := a.ToHost()
	if err != nil {
		panic(a.failure("the elements", err))
	}
	defer host.Release()
	return host.String()
}

// MarshalJSON writes the elements as arrow-go writes them. It copies the array.
func (a *Array) MarshalJSON() ([]byte, error) {
	host, err := a.ToHost()
	if err != nil {
		return nil, a.failure("the elements", err)
	}
	defer host.Release()
	return host.MarshalJSON()
}

// ValueStr is element i as a string. It copies that element.
func (a *Array) ValueStr(i int) string {
	host := a.mustElement(i)
	defer host.Release()
	return host.ValueStr(0)
}

// GetOneForMarshal is element i as a value for json.Marshal. It copies that
// element.
func (a *Array) GetOneForMarshal(i int) any {
	host := a.mustElement(i)
	defer host.Release()
	return host.GetOneForMarshal(0)
}

func (a *Array) mustElement(i int) arrow.Array {
	host, err := a.element(i)
	if err != nil {
		panic(a.failure(fmt.Sprintf("element %d", i), err))
	}
	return host
}

// element returns an array of the host with element i alone. It copies the
// element, and of a dictionary and of what views point into no more than it
// names.
func (a *Array) element(i int) (arrow.Array, error) {
	if err := CheckRange(int64(i), 1, int64(a.Len())); err != nil {
		return nil, err
	}
	c := cutter{look: true}
	one, err := c.array(a.data, i, 1)
	if err != nil {
		return nil, err
	}
	return c.one(&one, CPU())
}
