package ndview

import (
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// CopyMode says whether an operation may or must copy, as argument copy of
// numpy.asarray does.
type CopyMode byte

const (
	// CopyIfNeeded copies only if the operand does not have the wanted form.
	CopyIfNeeded CopyMode = iota
	// CopyAlways copies even so. The result shares no memory with the operand.
	CopyAlways
	// CopyNever returns ErrCopy if a copy is needed.
	CopyNever
)

// AsArrayOptions are the options of AsArray. The zero value changes nothing.
type AsArrayOptions struct {
	// Device is where the elements shall be; nil means the array's device.
	Device arrowbuf.Device
	// DType is the type of the elements, cast by CastUnsafe; the zero DType means the
	// array's type.
	DType DType
	// Order is the layout. OrderC and OrderF mean contiguous in that order, OrderA
	// contiguous in one of them. OrderK and 0 accept every layout.
	Order Order
	// Copy says whether AsArray may or must copy.
	Copy CopyMode
}

// AsArray returns a in the form that the options name, as numpy.asarray. If a has that
// form, the result is a itself, retained, or a view of a if a belongs to a [Scope].
// Otherwise it is a copy. The caller must release the result.
//
// AsArray returns ErrCopy if a copy is needed and CopyNever forbids it. It returns
// ErrShape for an unknown order or mode, and the errors of [NDBuffer.AsType] and [NDBuffer.To].
func AsArray(a *NDBuffer, o AsArrayOptions) (*NDBuffer, error) {
	return callOn("AsArray", func() (*NDBuffer, error) { return a.as(o) }, a)
}

// To returns the elements of a on a device, as PyTorch's method of this name. On the
// device of a, the result is a itself, retained, or a view of a if a belongs to a
// [Scope]. On another device it is a copy in C order, which crosses the link as one
// contiguous copy. The caller must release the result. It returns arrowbuf.ErrDevice
// for a nil device.
func (a *NDBuffer) To(dev arrowbuf.Device) (*NDBuffer, error) {
	return a.call("To", func() (*NDBuffer, error) {
		if dev == nil {
			return nil, errNilDevice
		}
		return a.as(AsArrayOptions{Device: dev})
	})
}

// Contiguous returns the elements of a in C order without gaps, as PyTorch's method of
// this name: a itself as by [AsArray] if they lie so, otherwise a copy. The caller must
// release the result.
func (a *NDBuffer) Contiguous() (*NDBuffer, error) {
	return a.call("Contiguous", func() (*NDBuffer, error) { return a.as(AsArrayOptions{Order: OrderC}) })
}

// as is AsArray for a result without a scope.
func (a *NDBuffer) as(o AsArrayOptions) (*NDBuffer, error) {
	if err := o.Order.check(); err != nil {
		return nil, err
	}
	if o.Copy > CopyNever {
		return nil, fmt.Errorf("copy mode %d: want CopyIfNeeded, CopyAlways or CopyNever: %w", o.Copy, ErrShape)
	}
	if o.DType == (DType{}) {
		o.DType = a.dtype
	}
	if err := a.TryRetain(); err != nil {
		return nil, err
	}
	defer a.Release()
	if o.Device == nil {
		o.Device = a.Device()
	}
	var reason string
	switch {
	case o.Copy == CopyAlways:
		reason = "asked for"
	case o.Device != a.Device():
		reason = fmt.Sprintf("array on %s, want %s", a.Device(), o.Device)
	case o.DType != a.dtype:
		reason = fmt.Sprintf("elements of %s, want %s", a.dtype, o.DType)
	case !a.hasOrder(o.Order):
		reason = fmt.Sprintf("strides %v of shape %v, want order %q", a.strides, a.shape, byte(o.Order))
	case a.scope.Load() != nil:
		return a.show(a.dtype, a.run(), nil)
	default:
		return a, a.TryRetain()
	}
	if o.Copy == CopyNever {
		return nil, fmt.Errorf("%s: %w", reason, ErrCopy)
	}
	return a.copyAs(o)
}

// hasOrder reports whether the layout of a is one that AsArrayOptions.Order accepts.
func (a *NDBuffer) hasOrder(o Order) bool {
	switch o {
	case OrderC:
		return a.IsContiguous()
	case OrderF:
		return a.isF()
	case OrderA:
		return a.IsContiguous() || a.isF()
	default:
		return true
	}
}

// copyAs returns a copy of the dtype, order and device of the options. It casts on the
// device of a if that makes the elements smaller, so that fewer bytes cross the link.
func (a *NDBuffer) copyAs(o AsArrayOptions) (*NDBuffer, error) {
	if o.Order == 0 {
		o.Order = OrderK
	}
	if o.Device == a.Device() {
		return a.asType(o.DType, o.Order, CastUnsafe)
	}
	if o.DType.Size() < a.dtype.Size() {
		small, err := a.asType(o.DType, OrderK, CastUnsafe)
		if err != nil {
			return nil, err
		}
		defer small.Release()
		a = small
	}
	moved, err := a.copyToDevice(o.Device)
	if err != nil || moved.dtype == o.DType && moved.hasOrder(o.Order) {
		return moved, err
	}
	defer moved.Release()
	return moved.asType(o.DType, o.Order, CastUnsafe)
}

// Wait returns when all work that reads or writes the memory of a is done, and returns
// the first error of that work. On the CPU, where operations are done when they return,
// it does nothing.
func (a *NDBuffer) Wait() (err error) {
	defer nameError("Wait", &err)
	if err := a.TryRetain(); err != nil {
		return err
	}
	defer a.Release()
	if b, ok := arrowbuf.As[interface{ Wait() error }](a.buf); ok {
		return b.Wait()
	}
	return nil
}
