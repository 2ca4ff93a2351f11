package ndview

import (
	"fmt"
	"reflect"
	"unsafe"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview/dtype"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// FromHost copies Go values to a new array of a dtype on a device, in C order. It
// returns ErrDType, with both types, unless values of T are elements of dtype: an int32
// is not a float32 ([dtype.CheckGoType] has the rule). To read the bits of a value as
// another type, use View; for bytes use [FromBytes]. It returns ErrShape unless the
// length of data is the product of the shape, where one extent may be -1.
//
// [FromSlice] infers the dtype; FromHost serves times, whose unit Go types lack.
func FromHost[T Element](dev arrowbuf.Device, dtype DType, data []T, shape ...int64) (*NDBuffer, error) {
	a, err := fromHost(dev, dtype, data, shape)
	return a, named("FromHost", err)
}

func fromHost[T Element](dev arrowbuf.Device, to DType, data []T, shape []int64) (*NDBuffer, error) {
	if err := checkElement[T](to); err != nil {
		return nil, err
	}
	shape, err := shapeFor(int64(len(data)), shape)
	if err != nil {
		return nil, err
	}
	return fromBytes(dev, to, rawBytes(data), shape...)
}

// shapeFor returns a shape of n elements, in which -1 is computed from the others.
func shapeFor(n int64, shape []int64) ([]int64, error) {
	inferred, err := layout.InferShape(shape, n)
	if err != nil {
		return nil, fmt.Errorf("%d values for an array of shape %v: %w", n, shape, err)
	}
	return inferred, nil
}

// FromBytes copies the bytes of elements, in C order and in the byte order of the host,
// to a new array on a device. It returns ErrShape unless raw has exactly the bytes of
// the shape, where one extent may be -1. The caller ensures that elements of Bool are 0
// or 1.
func FromBytes(dev arrowbuf.Device, dtype DType, raw []byte, shape ...int64) (*NDBuffer, error) {
	size := dtype.Size()
	switch {
	case size < 1:
		return nil, named("FromBytes", fmt.Errorf("dtype %s: %w", dtype, ErrDType))
	case int64(len(raw))%size != 0:
		return nil, named("FromBytes", fmt.Errorf("%d bytes, want a multiple of %d for %s: %w", len(raw), size, dtype, ErrShape))
	}
	inferred, err := shapeFor(int64(len(raw))/size, shape)
	if err != nil {
		return nil, named("FromBytes", err)
	}
	a, err := fromBytes(dev, dtype, raw, inferred...)
	return a, named("FromBytes", err)
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

// ToHost copies the elements in C order to a new Go slice. It returns ErrDType, with
// both types, unless elements of a are values of T, see [FromHost]. [Read] copies to a
// slice of the caller.
func ToHost[T Element](a *NDBuffer) (_ []T, err error) {
	defer nameError("ToHost", &err)
	if a == nil {
		return nil, ErrNil
	}
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

// Read copies the elements in C order to dst, which must have exactly Size values,
// otherwise the error is ErrShape. The types are those of [ToHost]. Read allocates
// nothing if the array is contiguous. Pinned memory as dst crosses the link fastest.
func Read[T Element](a *NDBuffer, dst []T) (err error) {
	defer nameError("Read", &err)
	if a == nil {
		return ErrNil
	}
	if err := checkElement[T](a.dtype); err != nil {
		return err
	}
	if int64(len(dst)) != a.Size() {
		return fmt.Errorf("%d values for an array of %d: %w", len(dst), a.Size(), ErrShape)
	}
	return a.CopyToHost(rawBytes(dst))
}

// CopyFromHost writes the elements from their bytes in C order. It returns ErrShape
// unless raw has exactly NBytes bytes.
func (a *NDBuffer) CopyFromHost(raw []byte) (err error) {
	defer nameError("CopyFromHost", &err)
	if a == nil {
		return ErrNil
	}
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
func (a *NDBuffer) CopyToHost(dst []byte) (err error) {
	defer nameError("CopyToHost", &err)
	if a == nil {
		return ErrNil
	}
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
func (a *NDBuffer) Bytes() (_ []byte, err error) {
	defer nameError("Bytes", &err)
	if a == nil {
		return nil, ErrNil
	}
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
func (a *NDBuffer) Item() (_ Scalar, err error) {
	defer nameError("Item", &err)
	if a == nil {
		return Scalar{}, ErrNil
	}
	if a.Size() != 1 {
		return Scalar{}, fmt.Errorf("array of shape %v, want one element: %w", a.shape, ErrShape)
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
	if a == nil || a.TryRetain() != nil {
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

func checkElement[T Element](t DType) error { return dtype.CheckGoType(t, reflect.TypeFor[T]()) }

func rawBytes[T Element](data []T) []byte {
	var one T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(data))), len(data)*int(unsafe.Sizeof(one)))
}

// wrapHost returns an array in C order over bytes of the host, with the dtype and
// shape of a.
func (a *NDBuffer) wrapHost(raw []byte) *NDBuffer {
	return over(arrowbuf.WrapExternal(raw, func() {}), a.dtype, 0, a.shape, cStrides(a.dtype, a.shape))
}
