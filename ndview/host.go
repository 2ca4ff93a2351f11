package ndview

import (
	"fmt"
	"reflect"
	"slices"
	"time"
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

// FromSlice copies a Go slice to a new array on a device, in C order. The dtype is that
// of the slice's elements, see [dtype.OfGoType]: []float32 makes float32, []bool bool,
// []float16.Num float16, []time.Duration timedelta64[ns]. A []time.Time makes
// datetime64[ns], or ErrRange outside the years 1678 to 2262.
//
// Slices and Go arrays may be nested: each level is an axis, and [][]float32 makes a
// matrix. All slices of a level have one length, otherwise the error is ErrShape and
// names the first that differs. If the outer slice is empty, so are all axes of slices.
//
// Without a shape, the array has the axes of the slice. With a shape it has the same
// elements in that shape, where one extent may be -1; the error is ErrShape if their
// number differs. FromSlice returns ErrDType for other values.
func FromSlice(dev arrowbuf.Device, slice any, shape ...int64) (*NDBuffer, error) {
	v := reflect.ValueOf(slice)
	if !isList(v.Kind()) {
		return nil, named("FromSlice", fmt.Errorf("got %T, want a slice of bools, numbers or times: %w", slice, ErrDType))
	}
	a, err := fromSlice(dev, v, shape)
	return a, named("FromSlice", err)
}

func fromSlice(dev arrowbuf.Device, v reflect.Value, shape []int64) (*NDBuffer, error) {
	if dev == nil {
		return nil, errNilDevice
	}
	dtype, raw, own, err := flatten(v)
	if err != nil {
		return nil, err
	}
	if len(shape) > 0 {
		if own, err = shapeFor(product(own), shape); err != nil {
			return nil, err
		}
	}
	return fromBytes(dev, dtype, raw, own...)
}

func isList(k reflect.Kind) bool { return k == reflect.Slice || k == reflect.Array }

// maxNesting ends the walk through a type that contains itself. It is NumPy's limit of
// axes.
const maxNesting = 64

var typeOfTime = reflect.TypeFor[time.Time]()

// flatten returns the dtype of nested slices, their elements in C order and their
// shape. A slice that is not nested is not copied.
func flatten(v reflect.Value) (t DType, raw []byte, shape []int64, err error) {
	element := v.Type()
	for first := v; isList(element.Kind()); element = element.Elem() {
		if len(shape) == maxNesting {
			return t, nil, nil, fmt.Errorf("%s: nested more than %d times: %w", v.Type(), maxNesting, ErrDType)
		}
		n := 0
		if first.IsValid() {
			n = first.Len()
		} else if element.Kind() == reflect.Array {
			n = element.Len()
		}
		shape = append(shape, int64(n))
		if n > 0 && first.IsValid() {
			first = first.Index(0)
		} else {
			first = reflect.Value{}
		}
	}
	if element == typeOfTime {
		t = dtype.Datetime64(dtype.Nanosecond, 1)
	} else if t, err = dtype.OfGoType(element); err != nil {
		return t, nil, nil, fmt.Errorf("%s: %w", v.Type(), err)
	}
	if _, err := byteCount(t, shape); err != nil {
		return t, nil, nil, err
	}
	if len(shape) == 1 && v.Kind() == reflect.Slice && element != typeOfTime {
		return t, bytesOf(v, t), shape, nil
	}
	f := flattener{shape: shape, dtype: t, raw: make([]byte, 0, product(shape)*t.Size())}
	if err := f.add(v, nil); err != nil {
		return t, nil, nil, err
	}
	return t, f.raw, shape, nil
}

// flattener copies nested slices of a shape into one.
type flattener struct {
	shape []int64
	dtype DType
	raw   []byte
}

// add copies the elements of v, which is at a place of the outermost slice.
func (f *flattener) add(v reflect.Value, place []int) error {
	if want := f.shape[len(place)]; int64(v.Len()) != want {
		return fmt.Errorf("slice%s has length %d, want %d as the first: %w", placeName(place), v.Len(), want, ErrShape)
	}
	if len(place)+1 < len(f.shape) {
		for i := range v.Len() {
			if err := f.add(v.Index(i), append(slices.Clip(place), i)); err != nil {
				return err
			}
		}
		return nil
	}
	if v.Type().Elem() == typeOfTime {
		return f.addTimes(v, place)
	}
	if v.Kind() == reflect.Array { // whose memory may have no address
		list := reflect.MakeSlice(reflect.SliceOf(v.Type().Elem()), v.Len(), v.Len())
		reflect.Copy(list, v)
		v = list
	}
	f.raw = append(f.raw, bytesOf(v, f.dtype)...)
	return nil
}

func (f *flattener) addTimes(v reflect.Value, place []int) error {
	for i := range v.Len() {
		s, err := ScalarOf(v.Index(i).Interface())
		if err != nil {
			return fmt.Errorf("slice%s: %w", placeName(append(slices.Clip(place), i)), err)
		}
		f.raw = append(f.raw, s.Raw()...)
	}
	return nil
}

// placeName returns Go's notation of an element: "[1][0]".
func placeName(place []int) string {
	name := ""
	for _, i := range place {
		name += fmt.Sprintf("[%d]", i)
	}
	return name
}

// bytesOf returns the memory of a slice of elements of a dtype.
func bytesOf(v reflect.Value, t DType) []byte {
	return unsafe.Slice((*byte)(v.UnsafePointer()), int64(v.Len())*t.Size())
}
