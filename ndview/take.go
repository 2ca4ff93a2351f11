package ndview

import (
	"fmt"
	"slices"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// Take copies the elements of an array at the indices along an axis, which
// counts from the end where it is negative, to a new array in C order: its shape
// is that of a with the axis replaced by the shape of the indices. Indices are
// of any integer type and shape and on the device of a, else the error is
// ErrDType or arrowbuf.ErrDevice. An index outside the axis is what mode says;
// the error of ModeRaise names the first such index.
func Take(a, indices *NDBuffer, axis int, mode Mode) (*NDBuffer, error) {
	if err := mode.check(); err != nil {
		return nil, err
	}
	release, err := holdAll(a, indices)
	if err != nil {
		return nil, err
	}
	defer release()
	if len(a.shape) == 0 { // NumPy takes it for one of an element
		if a, err = AtLeast1D(a); err != nil {
			return nil, err
		}
		defer a.Release()
	}
	at, err := layout.Axis(axis, len(a.shape))
	if err != nil {
		return nil, err
	}
	if err := checkIndices(a, indices); err != nil {
		return nil, err
	}
	s := &selection{
		array:      a,
		offset:     a.offset,
		shape:      slices.Concat(a.shape[:at], indices.shape, a.shape[at+1:]),
		strides:    slices.Concat(a.strides[:at], make([]int64, len(indices.shape)), a.strides[at+1:]),
		indexAxis:  at,
		indexShape: indices.shape,
		axes:       []indexedAxis{{at, a.shape[at], a.strides[at], indices, indices.strides}},
		mode:       mode,
	}
	return s.get()
}

// TakeFlat is Take of the elements of a in C order, as if they were one axis. An
// array in which they do not lie so is copied first.
func TakeFlat(a, indices *NDBuffer, mode Mode) (*NDBuffer, error) {
	flat, err := a.Ravel(OrderC)
	if err != nil {
		return nil, err
	}
	defer flat.Release()
	return Take(flat, indices, 0, mode)
}

// Put writes values, in C order and over again where they are fewer, to the
// elements of a at the indices, which count its elements in C order. Values are
// what Assign takes, cast as it casts. Where an element is chosen more than once
// the last value stays. Indices are of any integer type and shape, on the device
// of a; one outside a is what mode says, and with the error of ModeRaise, which
// names the first such index, nothing is written. Without values nothing happens.
func Put(a, indices *NDBuffer, values any, mode Mode) error {
	if err := mode.check(); err != nil {
		return err
	}
	release, err := holdToWrite(a, indices)
	if err != nil {
		return err
	}
	defer release()
	if err := checkIndices(a, indices); err != nil {
		return err
	}
	flat, err := a.Ravel(OrderC)
	if err != nil {
		return err
	}
	defer flat.Release()
	s := &selection{
		array: flat, offset: flat.offset, indexShape: indices.shape, mode: mode,
		axes: []indexedAxis{{0, flat.shape[0], flat.strides[0], indices, indices.strides}},
	}
	cast, err := a.assignable(values)
	if err != nil {
		return err
	}
	defer cast.Release()
	readable, err := s.valuesToWrite(cast)
	if err != nil {
		return err
	}
	defer readable.Release()
	from, err := readable.Ravel(OrderC)
	if err != nil {
		return err
	}
	defer from.Release()
	if from.Size() == 0 || indices.Size() == 0 {
		return nil
	}
	if err := s.putPositions(from); err != nil || a.IsContiguous() {
		return err
	}
	back, err := flat.Reshape(a.shape...)
	if err != nil {
		return err
	}
	defer back.Release()
	return a.CopyFrom(back)
}

// Mode is what becomes of an index that is outside its axis.
type Mode byte

// The modes of NumPy. ModeRaise counts a negative index from the end, and
// answers arrowbuf.ErrOutOfRange for any other outside the axis; ModeWrap takes
// indices modulo the extent; ModeClip takes the first element for a negative
// index, and the last for one beyond it. Others are ErrShape.
const (
	ModeRaise = Mode(cpu.Raise)
	ModeWrap  = Mode(cpu.Wrap)
	ModeClip  = Mode(cpu.Clip)
)

func (m Mode) check() error {
	switch m {
	case ModeRaise, ModeWrap, ModeClip:
		return nil
	}
	return fmt.Errorf("mode %d: want ModeRaise, ModeWrap or ModeClip: %w", m, ErrShape)
}

// Compress copies the slices of a along an axis, which counts from the end where
// it is negative, at which the condition is not 0. The condition has one axis;
// where it is shorter than that of a the rest is 0, and where it is longer all
// beyond must be, else the error is arrowbuf.ErrOutOfRange.
func Compress(condition, a *NDBuffer, axis int) (*NDBuffer, error) {
	if len(a.shape) == 0 { // NumPy takes it for one of an element
		row, err := AtLeast1D(a)
		if err != nil {
			return nil, err
		}
		defer row.Release()
		a = row
	}
	at, err := layout.Axis(axis, len(a.shape))
	if err != nil {
		return nil, err
	}
	if len(condition.shape) != 1 {
		return nil, fmt.Errorf("a condition of shape %v: one axis is expected: %w", condition.shape, ErrShape)
	}
	if condition.Device() != a.Device() {
		return nil, fmt.Errorf("a condition on %s for an array on %s: %w", condition.Device(), a.Device(), arrowbuf.ErrDevice)
	}
	truths, err := condition.nonZeroMask()
	if err != nil {
		return nil, err
	}
	defer truths.Release()
	if len(a.shape) == 1 && truths.shape[0] == a.shape[0] {
		return a.Get(Mask(truths))
	}
	places, err := maskPositions(truths)
	if err != nil {
		return nil, err
	}
	defer places.Release()
	return Take(a, places, at, ModeRaise)
}

// CompressFlat is Compress of the elements of a in C order.
func CompressFlat(condition, a *NDBuffer) (*NDBuffer, error) {
	flat, err := a.Ravel(OrderC)
	if err != nil {
		return nil, err
	}
	defer flat.Release()
	return Compress(condition, flat, 0)
}
