package ndview

import (
	"fmt"
	"reflect"
	"strconv"
	"unsafe"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// FromHost copies Go values to a new array on a device, in C order. It returns
// ErrDType unless the size of dtype is that of T, and ErrShape unless the length of
// data is the product of the shape.
func FromHost[T Element](dev arrowbuf.Device, dtype DType, data []T, shape ...int64) (*NDBuffer, error) {
	if err := checkElement[T](dtype); err != nil {
		return nil, err
	}
	raw := rawBytes(data)
	if n, err := byteCount(dtype, shape); err != nil {
		return nil, err
	} else if n != int64(len(raw)) {
		return nil, fmt.Errorf("%d values for an array of shape %v: %w", len(data), shape, ErrShape)
	}
	return fromBytes(dev, dtype, raw, shape...)
}

// fromBytes returns a new array that holds a copy of the bytes of its elements.
func fromBytes(dev arrowbuf.Device, dtype DType, raw []byte, shape ...int64) (*NDBuffer, error) {
	a, err := newArray(dev, arrowbuf.Device.Alloc, dtype, shape, OrderC)
	if err != nil {
		return nil, err
	}
	if err := a.CopyFromHost(raw); err != nil {
		a.Release()
		return nil, err
	}
	return a, nil
}

// ToHost copies the elements in C order to a new Go slice. It returns ErrDType
// unless the size of T is that of the dtype.
func ToHost[T Element](a *NDBuffer) ([]T, error) {
	if err := checkElement[T](a.dtype); err != nil {
		return nil, err
	}
	if err := a.fitsHost(); err != nil {
		return nil, err
	}
	data := make([]T, a.Size())
	if err := a.CopyToHost(rawBytes(data)); err != nil {
		return nil, err
	}
	return data, nil
}

// CopyFromHost writes the elements from their bytes in C order. It returns ErrShape
// unless raw has exactly NBytes bytes.
func (a *NDBuffer) CopyFromHost(raw []byte) error {
	if int64(len(raw)) != a.NBytes() {
		return fmt.Errorf("%d bytes for an array of %d: %w", len(raw), a.NBytes(), ErrShape)
	}
	release, err := retainToWrite(a)
	if err != nil {
		return err
	}
	defer release()
	if a.IsContiguous() {
		_, err = a.buf.CopyFromHost(raw, a.offset)
		return err
	}
	host := a.wrapHost(raw)
	defer host.Release()
	return a.CopyFrom(host)
}

// CopyToHost copies the elements in C order to dst, which must have exactly NBytes
// bytes, otherwise the error is ErrShape. Only those bytes cross the link: other
// layouts are made contiguous on the device first.
func (a *NDBuffer) CopyToHost(dst []byte) error {
	if int64(len(dst)) != a.NBytes() {
		return fmt.Errorf("%d bytes for an array of %d: %w", len(dst), a.NBytes(), ErrShape)
	}
	if err := a.TryRetain(); err != nil {
		return err
	}
	defer a.Release()
	if a.IsContiguous() {
		_, err := a.buf.CopyToHost(dst, a.offset)
		return err
	}
	host := a.wrapHost(dst)
	defer host.Release()
	return host.CopyFrom(a)
}

// Bytes copies the elements in C order to new memory of the host, aligned to at
// least 8 bytes.
func (a *NDBuffer) Bytes() ([]byte, error) {
	if err := a.fitsHost(); err != nil {
		return nil, err
	}
	data := newAlignedBytes(a.NBytes())
	if err := a.CopyToHost(data); err != nil {
		return nil, err
	}
	return data, nil
}

// fitsHost returns an error if the host lacks memory for a copy, which can be large
// if elements are repeated. Go would end the program.
func (a *NDBuffer) fitsHost() error {
	if err := arrowbuf.CheckHostMemory(a.NBytes()); err != nil {
		return fmt.Errorf("array of %s %v: %w", a.dtype, a.shape, err)
	}
	return nil
}

// Item returns the element of an array of size 1 with any number of axes. It
// returns ErrShape for other sizes.
func (a *NDBuffer) Item() (Scalar, error) {
	if a.Size() != 1 {
		return Scalar{}, fmt.Errorf("ndview.Item: array of shape %v, want one element: %w", a.shape, ErrShape)
	}
	raw, err := a.Bytes()
	if err != nil {
		return Scalar{}, err
	}
	return NewScalar(a.dtype, raw)
}

// newAlignedBytes returns n bytes of new memory, aligned for any element.
func newAlignedBytes(n int64) []byte { return rawBytes(make([]uint64, (n+7)/8))[:n] }

// HostBytes returns the bytes of the elements in place, and false unless the host
// can access them and the array is C-contiguous. They are valid until the array is
// released.
func (a *NDBuffer) HostBytes() ([]byte, bool) {
	if a.TryRetain() != nil {
		return nil, false
	}
	defer a.Release()
	host, ok := arrowbuf.HostBytes(a.buf)
	if !ok || !a.IsContiguous() {
		return nil, false
	}
	end := a.offset + a.NBytes()
	return host[a.offset:end:end], true
}

func checkElement[T Element](dtype DType) error {
	var one T
	if int64(unsafe.Sizeof(one)) != dtype.Size() {
		return fmt.Errorf("values of %T, %d bytes each, as %s: %w", one, unsafe.Sizeof(one), dtype, ErrDType)
	}
	return nil
}

func rawBytes[T Element](data []T) []byte {
	var one T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(data))), len(data)*int(unsafe.Sizeof(one)))
}

// fromSlice copies a slice with one value per element of the shape to a device.
func fromSlice(dev arrowbuf.Device, v reflect.Value, shape []int64) (*NDBuffer, error) {
	dtype, ok := dtypeOf(v.Type().Elem().Kind())
	if !ok {
		return nil, fmt.Errorf("%s: want a slice of numbers or bools: %w", v.Type(), ErrDType)
	}
	raw := unsafe.Slice((*byte)(v.UnsafePointer()), product(shape)*dtype.Size())
	return fromBytes(dev, dtype, raw, shape...)
}

// dtypeOf returns the dtype of Go values of a kind, and false if none exists.
func dtypeOf(k reflect.Kind) (DType, bool) {
	switch k {
	case reflect.Int:
		k = reflect.Int64 - (64-strconv.IntSize)/32
	case reflect.Uint:
		k = reflect.Uint64 - (64-strconv.IntSize)/32
	}
	dtype, ok := map[reflect.Kind]DType{
		reflect.Bool: Bool, reflect.Int8: Int8, reflect.Int16: Int16, reflect.Int32: Int32, reflect.Int64: Int64,
		reflect.Uint8: Uint8, reflect.Uint16: Uint16, reflect.Uint32: Uint32, reflect.Uint64: Uint64,
		reflect.Float32: Float32, reflect.Float64: Float64, reflect.Complex64: Complex64, reflect.Complex128: Complex128,
	}[k]
	return dtype, ok
}

// wrapHost returns an array in C order over bytes of the host, with the dtype and
// shape of a.
func (a *NDBuffer) wrapHost(raw []byte) *NDBuffer {
	return over(arrowbuf.WrapExternal(raw, func() {}), a.dtype, 0, a.shape, cStrides(a.dtype, a.shape))
}
