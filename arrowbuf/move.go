package arrowbuf

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

const (
	// alignment of parts inside the allocation of a batch, as the Arrow
	// columnar format recommends.
	alignment = 64
	// maxGap is how many bytes that nobody asked for are copied to save a
	// copy call. A call costs a GPU some microseconds, in which its link moves
	// far more than this; the bound keeps the memory that gaps waste small.
	maxGap = 16 << 10
)

// run is bytes [from, to) of one root buffer, which go in one copy to the bytes
// that start at position at.
type run struct {
	root     *memory.Buffer
	from, to int64
	parts    int
	fixed    bool // its one part is misaligned at the source: no other may join
	at       int64
}

// plan says how parts become one allocation: which runs are copied, and where
// in it each part then lies.
type plan struct {
	runs   []run
	places []place
	size   int64
}

// place is where a part lies: at an offset in a run.
type place struct {
	run    int
	offset int64
}

// move copies parts, wherever they are, to one new allocation on a device and
// returns a slice of it for each. Parts of one root buffer that lie close
// together go in one copy, with the gaps between them. The caller owns a
// reference to each slice; the allocation goes back with the last of them.
func move(parts []part, dev Device) ([]*memory.Buffer, error) {
	if len(parts) == 0 {
		return nil, nil
	}
	p := newPlan(parts)
	whole, err := p.execute(dev)
	if err != nil {
		return nil, err
	}
	root := whole.Arrow()
	whole.Release()
	defer root.Release()
	moved := make([]*memory.Buffer, len(parts))
	for i, where := range p.places {
		var at int64
		if where.run >= 0 {
			at = p.runs[where.run].at + where.offset
		}
		moved[i] = memory.SliceBuffer(root, int(at), int(parts[i].to-parts[i].from))
	}
	return moved, nil
}

func newPlan(parts []part) *plan {
	p := &plan{places: make([]place, len(parts))}
	spots := make([]spot, 0, len(parts))
	roots := map[*memory.Buffer]int{}
	for i := range parts {
		p.places[i].run = -1
		if parts[i].from == parts[i].to {
			continue
		}
		s := parts[i].locate()
		s.part = i
		if _, seen := roots[s.root]; !seen {
			roots[s.root] = len(roots)
		}
		s.order = roots[s.root]
		spots = append(spots, s)
	}
	slices.SortStableFunc(spots, func(a, b spot) int {
		return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.from, b.from))
	})
	for _, s := range spots {
		p.join(s, parts[s.part].align)
	}
	p.arrange()
	return p
}

// join adds a part to the last run, or starts a new one.
func (p *plan) join(s spot, align uintptr) {
	misaligned := s.address()%align != 0
	last := len(p.runs) - 1
	if last < 0 || misaligned || p.runs[last].fixed || p.runs[last].root != s.root || s.from-p.runs[last].to > maxGap {
		p.runs = append(p.runs, run{root: s.root, from: s.from, to: s.to, fixed: misaligned})
		last++
	}
	r := &p.runs[last]
	r.to = max(r.to, s.to)
	r.parts++
	p.places[s.part] = place{run: last, offset: s.from - r.from}
}

// arrange lays the runs out. The one part of a run starts at a multiple of the
// alignment; several keep the alignment that they have at the source. The
// allocation is never empty: arrow-go takes empty values without memory for
// absent ones.
func (p *plan) arrange() {
	for i := range p.runs {
		r := &p.runs[i]
		r.at = p.size
		if r.parts > 1 {
			r.at += int64((sliceAddress(r.root.Buf()) + uintptr(r.from)) % alignment)
		}
		p.size = roundUp(r.at + r.to - r.from)
	}
	p.size = max(p.size, alignment)
}

func (p *plan) execute(dev Device) (Buffer, error) {
	whole, err := dev.Alloc(p.size)
	if err != nil {
		return nil, err
	}
	for _, r := range p.runs {
		if err := r.copyTo(whole); err != nil {
			whole.Release()
			return nil, fmt.Errorf("copying %d bytes to %s: %w", r.to-r.from, dev, err)
		}
	}
	return whole, nil
}

func (r *run) copyTo(dst Buffer) error {
	src, err := BufferOf(r.root)
	if err != nil {
		return err
	}
	defer src.Release()
	if host, ok := HostBytes(src); ok {
		_, err = dst.CopyFromHost(host[r.from:r.to], r.at)
		return err
	}
	bytes, err := src.Slice(r.from, r.to-r.from)
	if err != nil {
		return err
	}
	defer bytes.Release()
	_, err = dst.CopyFromDevice(bytes, r.at)
	return err
}

func roundUp(n int64) int64 { return (n + alignment - 1) &^ (alignment - 1) }
