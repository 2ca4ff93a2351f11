package ndview

import (
	"fmt"
	"reflect"
	"strconv"
	"unsafe"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// Assign writes a value to all elements: an *NDBuffer on any device that
// broadcasts to the shape of a; a Go slice of numbers or bools, which has one for
// each element, in C order, or broadcasts as an array of one axis; or what
// [ScalarOf] takes.
//
// Elements of arrays and slices, and strong scalars, are cast as AsType casts
// them by the rule "unsafe"; a weak scalar must be one that the type takes, see
// [Scalar.Bytes]. The value is read as if before the first write, so it may
// overlap a. Shapes that do not fit are ErrShape, types ErrDType, and times that the
// unit of a does not count ErrRange; nothing is written then.
func (a *NDBuffer) Assign(value any) error {
	if src, ok := value.(*NDBuffer); ok && src != nil {
		return a.assignArray(src)
	}
	if v := reflect.ValueOf(value); v.Kind() == reflect.Slice {
		return a.assignSlice(v)
	}
	return a.Fill(value)
}

// assignArray is CopyFrom of an array of any type.
func (a *NDBuffer) assignArray(src *NDBuffer) error {
	if src.dtype == a.dtype {
		return a.CopyFrom(src)
	}
	release, err := holdToWrite(a, src)
	if err != nil {
		return err
	}
	defer release()
	if err := src.broadcastsTo(a.shape); err != nil {
		return err
	}
	if err := castable(src.dtype, a.dtype); err != nil {
		return err
	}
	if a.Size() == 0 {
		return nil
	}
	var apart *NDBuffer
	switch {
	case timesApart(src.dtype, a.dtype) && !convertsAll(src.dtype, a.dtype):
		if apart, err = src.AsType(a.dtype, OrderK, CastUnsafe); err != nil {
			return err
		}
		defer apart.Release()
		return a.CopyFrom(apart)
	case !a.reaches(src):
		apart, err = src.on(a.Device())
	case MayShareMemory(a, src):
		apart, err = src.Copy(OrderK)
	default:
		return a.write(src)
	}
	if err != nil {
		return err
	}
	defer apart.Release()
	return a.write(apart)
}

// assignSlice uploads the slice as it is, and casts it where a is.
func (a *NDBuffer) assignSlice(v reflect.Value) error {
	shape := []int64{int64(v.Len())}
	if shape[0] == a.Size() {
		shape = a.shape
	} else if _, err := layout.Stretch(shape, shape, a.shape); err != nil {
		return fmt.Errorf("assigning %d values to %v: %w", v.Len(), a.shape, err)
	}
	src, err := fromSlice(a.Device(), v, shape)
	if err != nil {
		return err
	}
	defer src.Release()
	return a.assignArray(src)
}

// fromSlice copies a slice, which has as many elements as the shape, to a device.
func fromSlice(dev arrowbuf.Device, v reflect.Value, shape []int64) (*NDBuffer, error) {
	dtype, ok := dtypeOf(v.Type().Elem().Kind())
	if !ok {
		return nil, fmt.Errorf("a %s, which is no slice of numbers: %w", v.Type(), ErrDType)
	}
	raw := unsafe.Slice((*byte)(v.UnsafePointer()), product(shape)*dtype.Size())
	return fromBytes(dev, dtype, raw, shape...)
}

// assignable is what Assign takes as an array of a's dtype on its device, which
// the caller releases. It does not broadcast.
func (a *NDBuffer) assignable(value any) (*NDBuffer, error) {
	src, ok := value.(*NDBuffer)
	if ok && src == nil {
		value, ok = nil, false
	}
	if v := reflect.ValueOf(value); !ok && v.Kind() == reflect.Slice {
		made, err := fromSlice(a.Device(), v, []int64{int64(v.Len())})
		if err != nil {
			return nil, err
		}
		defer made.Release()
		src = made
	} else if !ok {
		return Full(a.Device(), a.dtype, value)
	}
	if src.Device() != a.Device() {
		moved, err := src.on(a.Device())
		if err != nil {
			return nil, err
		}
		defer moved.Release()
		src = moved
	}
	if src.dtype != a.dtype {
		return src.AsType(a.dtype, OrderC, CastUnsafe)
	}
	return src, src.hold()
}

// dtypeOf is the type of Go's values of a kind.
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

// on copies the elements to a new array, in C order, on another device.
func (a *NDBuffer) on(dev arrowbuf.Device) (*NDBuffer, error) {
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
