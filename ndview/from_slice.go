package ndview

import (
	"fmt"
	"reflect"
	"slices"
	"time"
	"unsafe"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview/dtype"
)

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
