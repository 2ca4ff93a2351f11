package arrowbuf

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"golang.org/x/sync/errgroup"
)

const (
	// alignment of parts inside an allocation, as the Arrow columnar format
	// recommends; a part has its last line to itself.
	alignment = 64
	// maxGap is how many bytes that nobody asked for are copied to save a
	// copy call. A call costs a GPU some microseconds, in which its link moves
	// far more than this; the bound keeps the memory that gaps waste small.
	maxGap = 16 << 10
	// inFlight copies at once keep a link busy while each is given and awaited.
	inFlight = 2
)

// run is bytes [from, to) of one root buffer, which go together to the bytes
// that start at position at.
type run struct {
	root     *memory.Buffer
	from, to int64
	at       int64
	small    bool // and on the host: worth gathering
}

// plan says how parts become one allocation: which runs are copied, and where
// in it each part then lies. Runs below gathered bytes are small ones.
type plan struct {
	runs           []run
	places         []place
	gathered, size int64
}

// place is where a part lies: at an offset in a run.
type place struct {
	run    int
	offset int64
}

// move copies parts, wherever they are, to one new allocation on a device and
// returns a slice of it for each. Each starts at a multiple of 64 bytes; on the
// CPU at one of its own alignment, so that parts of one root buffer that lie
// close together can come in one copy, with the gaps between them. The caller
// owns a reference to each slice; the allocation goes back with the last. With a
// stream, copies are in its order and may not be done when move returns.
func move(parts []part, dev Device, s Stream) ([]*memory.Buffer, error) {
	if len(parts) == 0 {
		return nil, nil
	}
	p := newPlan(parts, dev)
	whole, err := p.execute(dev, s)
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

func newPlan(parts []part, dev Device) *plan {
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
		if dev == CPU() {
			p.join(s, parts[s.part].align)
		} else {
			p.join(s, alignment)
		}
	}
	p.arrange(dev)
	return p
}

// join adds a part to the last run, or starts a new one. A run starts where
// others can join it: before its first part, if that keeps the part aligned.
func (p *plan) join(s spot, align int64) {
	last := len(p.runs) - 1
	if last < 0 || p.runs[last].root != s.root || s.from-p.runs[last].to > maxGap || (s.from-p.runs[last].from)%align != 0 {
		from := s.from &^ (alignment - 1)
		if s.from%align != 0 {
			from = s.from
		}
		p.runs = append(p.runs, run{root: s.root, from: from, to: s.to})
		last++
	}
	r := &p.runs[last]
	r.to = max(r.to, s.to)
	p.places[s.part] = place{run: last, offset: s.from - r.from}
}

// arrange lays the runs out: first what is gathered, then the others. The
// allocation is never empty: arrow-go takes empty values without memory for
// absent ones.
func (p *plan) arrange(dev Device) {
	for i := range p.runs {
		r := &p.runs[i]
		r.small = r.to-r.from <= maxGathered && dev != CPU() && OnHost(r.root)
		if r.small {
			r.at = p.size
			p.size += roundUp(r.to - r.from)
		}
	}
	p.gathered = p.size
	for i := range p.runs {
		if r := &p.runs[i]; !r.small {
			r.at = p.size
			p.size += roundUp(r.to - r.from)
		}
	}
	p.size = max(p.size, alignment)
}

func (p *plan) execute(dev Device, s Stream) (whole Buffer, err error) {
	if s == nil {
		whole, err = dev.Alloc(p.size)
	} else {
		whole, err = allocOn(s, dev, p.size)
	}
	if err != nil {
		return nil, err
	}
	if s == nil {
		err = p.gather(whole)
		if err == nil {
			err = p.copyLarge(whole)
		}
	} else {
		err = p.copyOn(s, whole)
	}
	if err != nil {
		whole.Release()
		return nil, fmt.Errorf("copying to %s: %w", dev, err)
	}
	return whole, nil
}

// copyLarge copies the runs that are not gathered: those of the host together,
// where the device can, and else some at a time.
func (p *plan) copyLarge(dst Buffer) error {
	together, ok := dst.(rangeCopier)
	var ranges []HostRange
	var copies errgroup.Group
	copies.SetLimit(inFlight)
	for i := range p.runs {
		r := &p.runs[i]
		switch {
		case r.small:
		case ok && OnHost(r.root):
			ranges = append(ranges, HostRange{Bytes: r.root.Bytes()[r.from:r.to], Pos: r.at})
		case i == len(p.runs)-1: // this goroutine has nothing else to do
			return errors.Join(r.copyTo(dst), copies.Wait())
		default:
			copies.Go(func() error { return r.copyTo(dst) })
		}
	}
	var err error
	if len(ranges) > 0 {
		err = together.CopyRangesFromHost(ranges)
	}
	return errors.Join(err, copies.Wait())
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
