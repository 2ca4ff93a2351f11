package ndview

import (
	"fmt"
	"slices"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
)

// operands are what a kernel is called with, checked against its arguments.
type operands struct {
	arrays  []*NDBuffer // by argument, nil for scalars
	scalars [][]byte
	held    []*NDBuffer
}

// bind checks operands. The caller releases the result.
func bind(dev *cudabuf.Device, args []KernelArg, given []any) (*operands, error) {
	if len(given) != len(args) {
		return nil, fmt.Errorf("%d operands for the %d arguments of a kernel", len(given), len(args))
	}
	o := &operands{arrays: make([]*NDBuffer, len(args)), scalars: make([][]byte, len(args))}
	for i, arg := range args {
		if err := o.bindOne(dev, i, arg, given[i]); err != nil {
			o.release()
			return nil, fmt.Errorf("argument %s: %w", arg.Name, err)
		}
	}
	return o, nil
}

func (o *operands) bindOne(dev *cudabuf.Device, i int, arg KernelArg, given any) error {
	a, isArray := given.(*NDBuffer)
	if arg.Scalar {
		if isArray {
			return fmt.Errorf("an array for a scalar: %w", ErrDType)
		}
		s, err := ScalarOf(given)
		if err == nil {
			o.scalars[i], err = s.Bytes(arg.DType)
		}
		return err
	}
	if !isArray || a == nil {
		return fmt.Errorf("%T for an array: %w", given, ErrDType)
	}
	if err := a.hold(); err != nil {
		return err
	}
	o.arrays[i], o.held = a, append(o.held, a)
	switch {
	case a.dtype != arg.DType:
		return fmt.Errorf("an array of %s for one of %s: %w", a.dtype, arg.DType, ErrDType)
	case a.Device() != dev:
		return fmt.Errorf("an array on %s for a kernel on %s: %w", a.Device(), dev, arrowbuf.ErrDevice)
	case arg.Write && a.checkWriteable() != nil:
		return a.checkWriteable()
	case !a.isAligned():
		return fmt.Errorf("offset %d and strides %v of the array are not multiples of %d: %w", a.offset, a.strides, a.dtype.alignment(), ErrShape)
	}
	return nil
}

func (o *operands) release() {
	for _, a := range o.held {
		a.Release()
	}
}

// separate makes what is read unaffected by what is written: an array that
// shares memory with one that is written, and does not lie exactly as it does,
// is copied. Arrays that are written share none, nor do their own elements.
func (o *operands) separate(args []KernelArg) error {
	for i, out := range o.arrays {
		if out == nil || !args[i].Write {
			continue
		}
		if out.run().Overlaps() {
			return fmt.Errorf("argument %s is written, and its elements share memory: %w", args[i].Name, ErrShape)
		}
		for j, other := range o.arrays {
			if j == i || other == nil || !MayShareMemory(out, other) {
				continue
			}
			if args[j].Write {
				return fmt.Errorf("arguments %s and %s are written, and share memory: %w", args[i].Name, args[j].Name, ErrShape)
			}
			if out.liesAs(other) {
				continue
			}
			copied, err := other.inCOrder()
			if err != nil {
				return err
			}
			o.arrays[j], o.held = copied, append(o.held, copied)
		}
	}
	return nil
}

// liesAs tells whether the elements of two arrays are the same.
func (a *NDBuffer) liesAs(b *NDBuffer) bool {
	return int64(a.buf.Address())+a.offset == int64(b.buf.Address())+b.offset &&
		slices.Equal(a.shape, b.shape) && slices.Equal(a.strides, b.strides)
}

// pointers are the arguments of a launch, of arrays that begin at offsets from
// where they do, and of scalars.
func (o *operands) pointers(args []KernelArg, offsets []int64) []any {
	var launched []any
	next := 0
	for i, a := range o.arrays {
		switch {
		case a == nil:
			launched = append(launched, o.scalars[i])
			continue
		case args[i].Write:
			launched = append(launched, cudabuf.InOut(a.buf.(*cudabuf.Buffer), a.offset+offsets[next]))
		default:
			launched = append(launched, cudabuf.In(a.buf.(*cudabuf.Buffer), a.offset+offsets[next]))
		}
		next++
	}
	return launched
}
