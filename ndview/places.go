package ndview

import (
	"fmt"

	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
)

// places are the indices of a selection as one array, of int32 or int64: element
// k, of extent, is k*step bytes behind the offset.
type places struct {
	indices      *NDBuffer
	strides      []int64 // along the varied shape
	offset       int64
	extent, step int64
}

// asTheyAre are places of which the indices need no work but to be checked.
func (s *selection) asTheyAre() (*places, bool) {
	p := &s.picked[0]
	dtype := p.indices.dtype
	ok := len(s.picked) == 1 && s.mode == ModeRaise && (dtype == Int32 || dtype == Int64) &&
		p.indices.alignment()%uint64(dtype.Size()) == 0
	return &places{p.indices, p.strides, s.offset, p.extent, p.stride}, ok
}

// resolve checks all indices and combines them to one array of int64, none of
// them negative, which the caller releases. Equal places are equal numbers.
func (s *selection) resolve(flags *flags) (*places, error) {
	step := int64(0)
	for _, p := range s.picked {
		step = gcd(step, max(p.stride, -p.stride))
	}
	pos, err := Empty(s.from.Device(), Int64, s.varied...)
	if err != nil {
		return nil, err
	}
	where := &places{pos, pos.strides, s.offset, 1, max(step, 1)}
	for i := range s.picked {
		if err == nil {
			err = where.add(s, i, flags)
		}
	}
	if err == nil && s.mode == ModeRaise { // in others no index is bad, and nobody waits
		err = flags.check()
	}
	if err != nil {
		pos.Release()
		return nil, err
	}
	return where, nil
}

// add adds what the indices along an axis contribute. Those of an axis that runs
// backwards are counted from its end.
func (w *places) add(s *selection, i int, flags *flags) error {
	p := &s.picked[i]
	walk, err := cpu.NewWalk(s.varied, nil, p.strides, nil)
	if err != nil {
		return err
	}
	f := cpu.Folding{Extent: p.extent, Scale: p.stride / w.step, Mode: cpu.Mode(s.mode), Size: p.indices.dtype.size}
	if f.Scale < 0 {
		f.Bias = -f.Scale * (p.extent - 1)
		w.offset += p.stride * (p.extent - 1)
	}
	if i > 0 {
		f.Add = 1
	}
	if p.indices.dtype.kind == KindInt {
		f.Signed = 1
	}
	w.extent += max(f.Scale, -f.Scale) * (p.extent - 1)
	flags.walks[i] = walk
	return fold(w.indices, p.indices, walk, &f, flags, i)
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// along are strides along the varied shape as strides along the whole.
func (s *selection) along(strides []int64) []int64 {
	all := make([]int64, len(s.shape))
	copy(all[s.at:], strides)
	return all
}

// gather copies what is at places to out, flagging the bad ones; neither is
// empty.
func (s *selection) gather(out *NDBuffer, where *places, flags *flags) error {
	align := s.from.address() + uint64(where.offset-s.from.offset)
	align |= uint64(where.step) | out.address()
	walk, width, err := cpu.NewUnitWalk(out.dtype.Size(), align, s.shape, s.strides, s.along(where.strides), nil)
	if err != nil {
		return fmt.Errorf("gathering from strides %v: %w", s.strides, err)
	}
	if len(flags.walks) == 1 {
		flags.walks[0] = walk
	}
	return gatherUnits(out, s.from.buf, where, width, walk, flags)
}
