package ndview

import (
	"fmt"
	"unsafe"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// FromHost copies Go values to a new array on a device. The dtype says what
// the values are; its size must be that of T, or the error is ErrDType. The
// length of data must be the product of the shape, or it is ErrShape.
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

// fromBytes is an array that holds a copy of the bytes of its elements.
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

// ToHost copies the elements in C order to a new Go slice. The size of T must
// be that of the dtype.
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

// CopyFromHost fills an array from bytes in C order: exactly NBytes of them.
func (a *NDBuffer) CopyFromHost(raw []byte) error {
	if int64(len(raw)) != a.NBytes() {
		return fmt.Errorf("%d bytes for an array of %d: %w", len(raw), a.NBytes(), ErrShape)
	}
	release, err := holdToWrite(a)
	if err != nil {
		return err
	}
	defer release()
	if a.IsContiguous() {
		_, err = a.buf.CopyFromHost(raw, a.offset)
		return err
	}
	host := a.overHost(raw)
	defer host.Release()
	return a.CopyFrom(host)
}

// CopyToHost copies the elements in C order to exactly NBytes bytes of host
// memory. From a device only those bytes cross the link: elements that do not
// lie in C order are put together there first.
func (a *NDBuffer) CopyToHost(dst []byte) error {
	if int64(len(dst)) != a.NBytes() {
		return fmt.Errorf("%d bytes for an array of %d: %w", len(dst), a.NBytes(), ErrShape)
	}
	if err := a.hold(); err != nil {
		return err
	}
	defer a.Release()
	if a.IsContiguous() {
		_, err := a.buf.CopyToHost(dst, a.offset)
		return err
	}
	host := a.overHost(dst)
	defer host.Release()
	return host.CopyFrom(a)
}

// Bytes copies the elements in C order to new host memory, which is aligned to
// 8 bytes at least.
func (a *NDBuffer) Bytes() ([]byte, error) {
	if err := a.fitsHost(); err != nil {
		return nil, err
	}
	data := aligned(a.NBytes())
	if err := a.CopyToHost(data); err != nil {
		return nil, err
	}
	return data, nil
}

// fitsHost refuses an array of which the host has no room for a copy, as it may be if
// elements are repeated: Go would end the program.
func (a *NDBuffer) fitsHost() error {
	if err := arrowbuf.CheckRoom(a.NBytes()); err != nil {
		return fmt.Errorf("array of %s %v: %w", a.dtype, a.shape, err)
	}
	return nil
}

// Item is the only element of an array of one, whatever its axes. An array of
// none or several is ErrShape.
func (a *NDBuffer) Item() (Scalar, error) {
	if a.Size() != 1 {
		return Scalar{}, fmt.Errorf("the only element of an array of shape %v: %w", a.shape, ErrShape)
	}
	raw, err := a.Bytes()
	if err != nil {
		return Scalar{}, err
	}
	return NewScalar(a.dtype, raw)
}

// aligned is new memory that any element may begin in.
func aligned(n int64) []byte { return rawBytes(make([]uint64, (n+7)/8))[:n] }

// HostBytes returns the elements' bytes in C order, in place, where the host
// reaches them: on the CPU device, when the array is C-contiguous. They are
// good until the array is released.
func (a *NDBuffer) HostBytes() ([]byte, bool) {
	if a.hold() != nil {
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
