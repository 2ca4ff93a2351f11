package ndview

import (
	"fmt"
	"reflect"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/launch"
	"github.com/quiver-gpu/quiver/ndview/dtype"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// Assign writes a value to all elements. The value is an *NDBuffer on any device, a Go
// slice of numbers or bools, or a value that [ScalarOf] accepts. An array must
// broadcast to the shape of a. A slice with one value per element is read in C order;
// otherwise it broadcasts as an array of one axis.
//
// Elements of arrays and slices, and strong scalars, are cast as AsType casts them by
// the rule "unsafe". A weak scalar must fit the type, see [Scalar.Bytes]. The value
// may overlap a: it is read as if before the first write. Assign returns ErrShape if
// the shapes do not fit, ErrDType if the types do not, and ErrRange for times that the
// unit of a cannot represent. After an error, nothing is written.
func (a *NDBuffer) Assign(value any) (err error) {
	defer nameError("Assign", &err)
	if err := checkNil(a); err != nil {
		return err
	}
	if src, ok := value.(*NDBuffer); ok && src != nil {
		return a.assignArray(src)
	}
	if v := reflect.ValueOf(value); v.Kind() == reflect.Slice {
		return a.assignSlice(v)
	}
	return a.Fill(value)
}

// assignArray is CopyFrom for an array of any type.
func (a *NDBuffer) assignArray(src *NDBuffer) error {
	if src.dtype == a.dtype {
		return a.CopyFrom(src)
	}
	release, err := retainToWrite(a, src)
	if err != nil {
		return err
	}
	defer release()
	if err := src.broadcastsTo(a.shape); err != nil {
		return err
	}
	if err := dtype.CheckCast(src.dtype, a.dtype); err != nil {
		return err
	}
	if a.Size() == 0 {
		return nil
	}
	var copied *NDBuffer
	switch {
	case unitsDiffer(src.dtype, a.dtype) && !convertsExactly(src.dtype, a.dtype):
		if copied, err = src.asType(a.dtype, OrderK, CastUnsafe); err != nil {
			return err
		}
		defer copied.Release()
		return a.CopyFrom(copied)
	case !a.canAccess(src):
		copied, err = src.copyToDevice(a.Device())
	case MayShareMemory(a, src):
		copied, err = src.copy(OrderK)
	default:
		return a.writeCast(src)
	}
	if err != nil {
		return err
	}
	defer copied.Release()
	return a.writeCast(copied)
}

// assignSlice uploads the slice unchanged, and casts it on the device of a.
func (a *NDBuffer) assignSlice(v reflect.Value) error {
	shape := []int64{int64(v.Len())}
	if shape[0] == a.Size() {
		if t, err := dtype.OfGoType(v.Type().Elem()); err == nil && t == a.dtype {
			return a.CopyFromHost(bytesOf(v, t))
		}
		shape = a.shape
	} else if _, err := layout.BroadcastStrides(shape, shape, a.shape); err != nil {
		return fmt.Errorf("%d values for an array of shape %v: %w", v.Len(), a.shape, err)
	}
	src, err := fromSlice(a.Device(), v, shape)
	if err != nil {
		return err
	}
	defer src.Release()
	return a.assignArray(src)
}

// assignable returns an operand of Assign as an array of the dtype and device of a,
// not broadcast. The caller must release it.
func (a *NDBuffer) assignable(value any) (*NDBuffer, error) {
	src, ok := value.(*NDBuffer)
	if ok && src == nil {
		value, ok = nil, false
	}
	if v := reflect.ValueOf(value); !ok && v.Kind() == reflect.Slice {
		made, err := fromSlice(a.Device(), v, nil)
		if err != nil {
			return nil, err
		}
		defer made.Release()
		src = made
	} else if !ok {
		return Full(a.Device(), a.dtype, value)
	}
	if src.Device() != a.Device() {
		moved, err := src.copyToDevice(a.Device())
		if err != nil {
			return nil, err
		}
		defer moved.Release()
		src = moved
	}
	if src.dtype != a.dtype {
		return src.asType(a.dtype, OrderC, CastUnsafe)
	}
	return src, src.TryRetain()
}

// FillWhere writes one value to the rows of a, along its first axis, for which mask is
// true. The value is the 8 bytes of pattern, little-endian, repeated over the row: 0
// zeroes it. Both arrays must be C-contiguous and on one device; mask has dtype bool
// and shape [rows].
func (a *NDBuffer) FillWhere(mask *NDBuffer, pattern uint64) (err error) {
	defer nameError("FillWhere", &err)
	if err := checkNil(a, mask); err != nil {
		return err
	}
	release, err := retainToWrite(a, mask)
	if err != nil {
		return err
	}
	defer release()
	switch {
	case mask.dtype != Bool:
		return fmt.Errorf("mask of dtype %s, want bool: %w", mask.dtype, ErrDType)
	case len(a.shape) == 0 || len(mask.shape) != 1 || mask.shape[0] != a.shape[0]:
		return fmt.Errorf("mask of shape %v for rows of shape %v: %w", mask.shape, a.shape, ErrShape)
	case !a.IsContiguous() || !mask.IsContiguous():
		return fmt.Errorf("strides %v, mask strides %v: want C-contiguous arrays: %w", a.strides, mask.strides, ErrShape)
	case mask.Device() != a.Device():
		return fmt.Errorf("mask on %s for an array on %s: %w", mask.Device(), a.Device(), arrowbuf.ErrDevice)
	case a.Size() == 0:
		return nil
	}
	width := a.NBytes() / a.shape[0]
	if dst, ok := a.HostBytes(); ok {
		m, _ := mask.HostBytes()
		cpu.FillWhere(dst, m, width, pattern)
		return nil
	}
	return launchFillWhere(a, mask, width, pattern)
}

var maskProgram = launch.Program("index/fill_where", map[string]cudabuf.HostKernel{"quiver_fill_where": func(l *cudabuf.HostLaunch) {
	width, n := l.Int64(1), l.Int64(3)
	launch.MustAlignAt(l, 2, -int64(l.Uint32(4)), 16)
	cpu.FillWhere(l.Memory(l.Pointer(0), n*width), l.Memory(l.Pointer(2), n), width, l.Uint64(5))
}})

func launchFillWhere(a, mask *NDBuffer, width int64, pattern uint64) error {
	rows, phase := a.shape[0], int64(mask.address()%16)
	return launch.QueueItems(a.Device(), maskProgram, "quiver_fill_where", rows+phase, 16,
		a.inOut(), width, mask.in(), rows, uint32(phase), pattern)
}
