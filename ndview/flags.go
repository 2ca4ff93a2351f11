package ndview

import (
	"encoding/binary"
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview/internal/cpu"
)

// flags tell which indices of a selection are bad. There is one word an axis that
// is picked along, in the device's memory: the first item of a walk whose index
// is bad.
type flags struct {
	array  *NDBuffer
	picked []picked
	walks  []*cpu.Walk
}

// newFlags makes flags for a selection that has indices.
func newFlags(s *selection) (*flags, error) {
	for _, p := range s.picked {
		if p.extent == 0 {
			return nil, fmt.Errorf("indices of axis %d, which has no elements: %w", p.axis, arrowbuf.ErrOutOfRange)
		}
	}
	array, err := Empty(s.from.Device(), Uint64, int64(len(s.picked)))
	if err != nil {
		return nil, err
	}
	if err := array.Fill(uint64(cpu.NoFlag)); err != nil {
		array.Release()
		return nil, err
	}
	return &flags{array, s.picked, make([]*cpu.Walk, len(s.picked))}, nil
}

// check waits for the work that was given the flags, and answers an error that
// names the first bad index.
func (f *flags) check() error {
	raw := make([]byte, f.array.NBytes())
	if err := f.array.CopyToHost(raw); err != nil {
		return err
	}
	for i, p := range f.picked {
		if item := binary.NativeEndian.Uint64(raw[8*i:]); cpu.Flag(item) != cpu.NoFlag {
			return p.outside(f.walks[i].At(int64(item)).Index)
		}
	}
	return nil
}

// outside is the error for the index so many bytes behind the first.
func (p *picked) outside(behind int64) error {
	one, err := p.indices.view(p.indices.dtype, p.indices.offset+behind, nil, nil)
	if err != nil {
		return err
	}
	defer one.Release()
	var raw [8]byte
	if err := one.CopyToHost(raw[:one.dtype.size]); err != nil {
		return err
	}
	value := binary.NativeEndian.Uint64(raw[:])
	text := fmt.Sprint(value)
	if one.dtype.kind == KindInt {
		beyond := 64 - 8*one.dtype.size
		text = fmt.Sprint(int64(value<<beyond) >> beyond)
	}
	return fmt.Errorf("index %s is outside axis %d of %d elements: %w", text, p.axis, p.extent, arrowbuf.ErrOutOfRange)
}
