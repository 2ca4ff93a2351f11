package ndview

import (
	"fmt"
	"slices"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// Mode says what happens to an index outside its axis, as in NumPy.
type Mode byte

const (
	// ModeRaise counts a negative index from the end, and returns
	// arrowbuf.ErrOutOfRange for an index that is outside the axis even so.
	ModeRaise = Mode(cpu.Raise)
	// ModeWrap takes indices modulo the extent of the axis.
	ModeWrap = Mode(cpu.Wrap)
	// ModeClip selects the first element for a negative index, and the last one for an
	// index beyond the end.
	ModeClip = Mode(cpu.Clip)
)

// check returns ErrShape if m is not a mode.
func (m Mode) check() error {
	switch m {
	case ModeRaise, ModeWrap, ModeClip:
		return nil
	}
	return fmt.Errorf("mode %d: want ModeRaise, ModeWrap or ModeClip: %w", m, ErrShape)
}

// Take copies the elements of a at indices along one axis to a new array in C order,
// on the device of a. Its shape is that of a with the axis replaced by the shape of
// the indices. A negative axis counts from the end. The caller must release the
// result.
//
// Indices have any shape and any integer type, otherwise the error is ErrDType, and
// are on the device of a, otherwise it is arrowbuf.ErrDevice. mode says what happens
// to an index outside the axis; with ModeRaise the error names the first one.
func Take(a, indices *NDBuffer, axis int, mode Mode) (*NDBuffer, error) {
	return callOn("Take", func() (*NDBuffer, error) { return take(a, indices, axis, mode) }, a, indices)
}

func take(a, indices *NDBuffer, axis int, mode Mode) (*NDBuffer, error) {
	if err := mode.check(); err != nil {
		return nil, err
	}
	release, err := retainAll(a, indices)
	if err != nil {
		return nil, err
	}
	defer release()
	if len(a.shape) == 0 { // NumPy treats a scalar as an array of shape [1]
		if a, err = atLeast1D(a); err != nil {
			return nil, err
		}
		defer a.Release()
	}
	at, err := layout.NormalizeAxis(axis, len(a.shape))
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

// TakeFlat is Take from the elements of a in C order, as one axis. If a is not
// contiguous, it is copied first.
func TakeFlat(a, indices *NDBuffer, mode Mode) (*NDBuffer, error) {
	return callOn("TakeFlat", func() (*NDBuffer, error) { return takeFlat(a, indices, mode) }, a, indices)
}

func takeFlat(a, indices *NDBuffer, mode Mode) (*NDBuffer, error) {
	flat, err := a.ravel(OrderC)
	if err != nil {
		return nil, err
	}
	defer flat.Release()
	return take(flat, indices, 0, mode)
}

// Put writes values to the elements of a at indices, which count its elements in C
// order. The values are taken in C order, repeated if there are fewer than indices,
// and converted as by Assign. If an element is selected more than once, the last
// value wins. Without values, nothing is written.
//
// Indices have any shape and any integer type and are on the device of a. mode says
// what happens to an index outside a; with ModeRaise the error names the first one,
// and nothing is written. The other errors are those of Take and Assign.
func Put(a, indices *NDBuffer, values any, mode Mode) (err error) {
	defer nameError("Put", &err)
	if err := checkNil(a, indices); err != nil {
		return err
	}
	if err := mode.check(); err != nil {
		return err
	}
	release, err := retainToWrite(a, indices)
	if err != nil {
		return err
	}
	defer release()
	if err := checkIndices(a, indices); err != nil {
		return err
	}
	flat, err := a.ravel(OrderC)
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
	checked, err := s.valuesToWrite(cast)
	if err != nil {
		return err
	}
	defer checked.Release()
	from, err := checked.ravel(OrderC)
	if err != nil {
		return err
	}
	defer from.Release()
	if from.Size() == 0 || indices.Size() == 0 {
		return nil
	}
	if err := s.putCyclic(from); err != nil || a.IsContiguous() {
		return err
	}
	// flat is a copy, so the result must be copied back.
	shaped, err := flat.reshape(a.shape...)
	if err != nil {
		return err
	}
	defer shaped.Release()
	return a.CopyFrom(shaped)
}

// putCyclic writes values, which have one axis, to the selected elements, and starts
// again from the first value after the last.
func (s *selection) putCyclic(values *NDBuffer) error {
	flags, err := newBadIndexFlags(s)
	if err != nil {
		return err
	}
	defer flags.words.Release()
	pos, err := s.resolve(flags)
	if err != nil {
		return err
	}
	defer pos.indices.Release()
	if done, err := s.putBucketed(values, pos); done || err != nil {
		return err
	}
	distinct, err := pos.discardRepeats()
	if err != nil {
		return err
	}
	// Whole rounds through the values are rows of the positions; a last round may be
	// shorter.
	n, m := pos.indices.Size(), values.Size()
	rounds := n / m
	for _, part := range [...]struct{ first, rounds, n int64 }{{0, rounds, m}, {rounds * m, 1, n % m}} {
		if part.rounds == 0 || part.n == 0 {
			continue
		}
		shaped := *s
		shaped.shape, shaped.strides, shaped.indexShape = []int64{part.rounds, part.n}, []int64{0, 0}, []int64{part.rounds, part.n}
		rows, err := pos.indices.view(Int64, pos.indices.offset+8*part.first, shaped.shape, []int64{8 * m, 8})
		if err != nil {
			return err
		}
		at := *pos
		at.indices, at.strides = rows, rows.strides
		err = shaped.scatter(values, []int64{0, values.strides[0]}, &at, distinct)
		rows.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// Compress returns the slices of a along one axis at which the condition is not 0. The
// result is a new array in C order on the device of a. A negative axis counts from the end. The
// caller must release the result.
//
// The condition has one axis, otherwise the error is ErrShape, and is on the device of
// a, otherwise it is arrowbuf.ErrDevice. If it is shorter than the axis of a, its
// missing elements count as 0. If it is longer, those beyond the axis must be 0,
// otherwise the error is arrowbuf.ErrOutOfRange.
func Compress(condition, a *NDBuffer, axis int) (*NDBuffer, error) {
	return callOn("Compress", func() (*NDBuffer, error) { return compress(condition, a, axis) }, condition, a)
}

func compress(condition, a *NDBuffer, axis int) (*NDBuffer, error) {
	if len(a.shape) == 0 { // NumPy treats a scalar as an array of shape [1]
		row, err := atLeast1D(a)
		if err != nil {
			return nil, err
		}
		defer row.Release()
		a = row
	}
	at, err := layout.NormalizeAxis(axis, len(a.shape))
	if err != nil {
		return nil, err
	}
	if len(condition.shape) != 1 {
		return nil, fmt.Errorf("condition of shape %v, want one axis: %w", condition.shape, ErrShape)
	}
	if condition.Device() != a.Device() {
		return nil, fmt.Errorf("condition on %s for an array on %s: %w", condition.Device(), a.Device(), arrowbuf.ErrDevice)
	}
	mask, err := condition.nonZeroMask()
	if err != nil {
		return nil, err
	}
	defer mask.Release()
	if len(a.shape) == 1 && mask.shape[0] == a.shape[0] {
		return a.get(Mask(mask))
	}
	indices, err := maskPositions(mask)
	if err != nil {
		return nil, err
	}
	defer indices.Release()
	return take(a, indices, at, ModeRaise)
}

// CompressFlat is Compress of the elements of a in C order.
func CompressFlat(condition, a *NDBuffer) (*NDBuffer, error) {
	return callOn("CompressFlat", func() (*NDBuffer, error) { return compressFlat(condition, a) }, condition, a)
}

func compressFlat(condition, a *NDBuffer) (*NDBuffer, error) {
	flat, err := a.ravel(OrderC)
	if err != nil {
		return nil, err
	}
	defer flat.Release()
	return compress(condition, flat, 0)
}
