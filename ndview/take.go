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
		from:    a,
		offset:  a.offset,
		shape:   slices.Concat(a.shape[:at], indices.shape, a.shape[at+1:]),
		strides: slices.Concat(a.strides[:at], make([]int64, len(indices.shape)), a.strides[at+1:]),
		at:      at,
		varied:  indices.shape,
		picked:  []picked{{at, a.shape[at], a.strides[at], indices, indices.strides}},
		mode:    mode,
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

// set writes values, which broadcast to the selection's shape, to the chosen
// elements. Where an element is chosen more than once, the last value in C order
// stays. Nothing is written where an index is bad.
func (s *selection) set(values *NDBuffer) error {
	values, err := s.readable(values)
	if err != nil {
		return err
	}
	defer values.Release()
	strides, err := stretch(values, s.shape)
	if err != nil {
		return err
	}
	if product(s.varied) == 0 {
		return nil
	}
	flags, err := newFlags(s)
	if err != nil {
		return err
	}
	defer flags.array.Release()
	where, err := s.resolve(flags)
	if err != nil {
		return err
	}
	defer where.indices.Release()
	if product(s.shape) == 0 {
		return nil
	}
	apart := s.unique || !slices.ContainsFunc(strides[s.at:s.at+len(s.varied)], func(d int64) bool { return d != 0 })
	if !apart {
		if apart, err = where.settle(); err != nil {
			return err
		}
	}
	return s.scatter(values, strides, where, apart)
}

// readable are the values to write, which the caller releases: a copy of those
// that lie where they are to be written.
func (s *selection) readable(values *NDBuffer) (*NDBuffer, error) {
	if values.dtype != s.from.dtype {
		return nil, fmt.Errorf("writing %s to elements of %s: %w", values.dtype, s.from.dtype, ErrDType)
	}
	if values.Device() != s.from.Device() {
		return nil, fmt.Errorf("writing values on %s to an array on %s: %w", values.Device(), s.from.Device(), arrowbuf.ErrDevice)
	}
	if MayShareMemory(s.from, values) {
		return values.inCOrder()
	}
	values.Retain()
	return values, nil
}

// stretch are the strides with which an array is assigned to a shape, to which it
// broadcasts; its leading axes of extent 1 are dropped if it has more.
func stretch(a *NDBuffer, shape []int64) ([]int64, error) {
	from, strides := a.shape, a.strides
	for len(from) > len(shape) && from[0] == 1 {
		from, strides = from[1:], strides[1:]
	}
	return layout.Stretch(from, strides, shape)
}

// scatter writes values to places, not all of them if they are not apart.
func (s *selection) scatter(values *NDBuffer, strides []int64, where *places, apart bool) error {
	to := s.from
	align := to.address() + uint64(where.offset-to.offset)
	align |= uint64(where.step) | values.address()
	walk, width, err := cpu.NewUnitWalk(to.dtype.Size(), align, s.shape, s.strides, s.along(where.strides), strides)
	if err != nil {
		return fmt.Errorf("scattering to strides %v: %w", s.strides, err)
	}
	return scatterUnits(to.buf, where, values, width, walk, apart)
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
		from: flat, offset: flat.offset, varied: indices.shape, mode: mode,
		picked: []picked{{0, flat.shape[0], flat.strides[0], indices, indices.strides}},
	}
	cast, err := a.assignable(values)
	if err != nil {
		return err
	}
	defer cast.Release()
	readable, err := s.readable(cast)
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
	if err := s.put(from); err != nil || a.IsContiguous() {
		return err
	}
	back, err := flat.Reshape(a.shape...)
	if err != nil {
		return err
	}
	defer back.Release()
	return a.CopyFrom(back)
}

// put writes values, one axis of them, round and round to the chosen elements.
func (s *selection) put(values *NDBuffer) error {
	flags, err := newFlags(s)
	if err != nil {
		return err
	}
	defer flags.array.Release()
	where, err := s.resolve(flags)
	if err != nil {
		return err
	}
	defer where.indices.Release()
	if done, err := s.putByBuckets(values, where); done || err != nil {
		return err
	}
	apart, err := where.settle()
	if err != nil {
		return err
	}
	n, m := where.indices.Size(), values.Size()
	rounds := n / m
	for _, part := range [...]struct{ first, rounds, n int64 }{{0, rounds, m}, {rounds * m, 1, n % m}} {
		if part.rounds == 0 || part.n == 0 {
			continue
		}
		turn := *s
		turn.shape, turn.strides, turn.varied = []int64{part.rounds, part.n}, []int64{0, 0}, []int64{part.rounds, part.n}
		pos, err := where.indices.view(Int64, where.indices.offset+8*part.first, turn.shape, []int64{8 * m, 8})
		if err != nil {
			return err
		}
		at := *where
		at.indices, at.strides = pos, pos.strides
		err = turn.scatter(values, []int64{0, values.strides[0]}, &at, apart)
		pos.Release()
		if err != nil {
			return err
		}
	}
	return nil
}
