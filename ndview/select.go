package ndview

import (
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
)

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

// selection is what arrays of indices choose of an array's elements. Along axes
// [at, at+len(varied)) of its shape the indices vary, along the others the array
// does.
type selection struct {
	from    *NDBuffer
	offset  int64 // where the first element is if all indices are 0
	shape   []int64
	strides []int64 // of the array along the shape, 0 where the indices vary
	at      int
	varied  []int64  // the shape that the indices broadcast to
	picked  []picked // one at least
	mode    Mode
	unique  bool // no element is chosen twice
}

// picked is an axis along which indices choose.
type picked struct {
	axis           int // as the caller counts, for messages
	extent, stride int64
	indices        *NDBuffer
	strides        []int64 // of the indices along the varied shape
}

// checkIndices tells whether an array can be indices of a.
func checkIndices(a, indices *NDBuffer) error {
	if indices.dtype.kind != KindInt && indices.dtype.kind != KindUint {
		return fmt.Errorf("indices of dtype %s: integers are expected: %w", indices.dtype, ErrDType)
	}
	if indices.Device() != a.Device() {
		return fmt.Errorf("indices on %s for an array on %s: %w", indices.Device(), a.Device(), arrowbuf.ErrDevice)
	}
	return nil
}

// get copies the chosen elements to a new array in C order.
func (s *selection) get() (*NDBuffer, error) {
	out, err := Empty(s.from.Device(), s.from.dtype, s.shape...)
	if err != nil {
		return nil, err
	}
	if err := s.copyTo(out); err != nil {
		out.Release()
		return nil, err
	}
	return out, nil
}

func (s *selection) copyTo(out *NDBuffer) error {
	if product(s.varied) == 0 {
		return nil
	}
	flags, err := newFlags(s)
	if err != nil {
		return err
	}
	defer flags.array.Release()
	if where, ok := s.asTheyAre(); ok && out.Size() > 0 {
		if err := s.gather(out, where, flags); err != nil {
			return err
		}
		return flags.check()
	}
	where, err := s.resolve(flags)
	if err != nil {
		return err
	}
	defer where.indices.Release()
	if out.Size() == 0 {
		return nil
	}
	return s.gather(out, where, flags)
}

// alignment has the address of the first element and all strides: where it is a
// multiple of a power of two, so are all elements' addresses.
func (a *NDBuffer) alignment() uint64 {
	all := a.address()
	for i, s := range a.strides {
		if a.shape[i] > 1 {
			all |= uint64(s)
		}
	}
	return all
}
