package arrowbuf

import (
	"cmp"
	"slices"
	"sync"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

const (
	// alignment of parts inside an allocation, as the Arrow columnar format
	// recommends; a part has its last line to itself.
	alignment = 64
	// maxGap is how many bytes that nobody asked for are copied to save a
	// copy call. A call costs a GPU some microseconds, in which its link moves
	// far more than this; the bound keeps the memory that gaps waste small.
	maxGap = 16 << 10
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

	spots []spot                 // of the parts that are not empty
	roots map[*memory.Buffer]int // in what order the parts came upon them
}

// plans are used again: to plan a batch of many small columns takes as long as to
// copy it, and half of that would be memory.
var plans = sync.Pool{New: func() any { return &plan{roots: map[*memory.Buffer]int{}} }}

func (p *plan) release() {
	clear(p.runs)
	clear(p.spots)
	clear(p.roots)
	*p = plan{runs: p.runs[:0], places: p.places[:0], spots: p.spots[:0], roots: p.roots}
	plans.Put(p)
}

// place is where a part lies: at an offset in a run.
type place struct {
	run    int
	offset int64
}

// newPlan plans for parts on a device. The caller releases the result.
func newPlan(parts []part, dev Device) *plan {
	p := plans.Get().(*plan)
	p.runs, p.places, p.spots = slices.Grow(p.runs, len(parts)), slices.Grow(p.places, len(parts)), slices.Grow(p.spots, len(parts))
	for i := range parts {
		p.places = append(p.places, place{run: -1})
		if parts[i].from == parts[i].to {
			continue
		}
		s := parts[i].locate()
		s.part = i
		order, seen := p.roots[s.root]
		if !seen {
			order = len(p.roots)
			p.roots[s.root] = order
		}
		s.order = order
		p.spots = append(p.spots, s)
	}
	if !slices.IsSortedFunc(p.spots, byPlace) { // as they are where each has a root of its own
		slices.SortStableFunc(p.spots, byPlace)
	}
	for i := range p.spots {
		align := int64(alignment)
		if dev == CPU() {
			align = parts[p.spots[i].part].align
		}
		p.join(&p.spots[i], align)
	}
	p.arrange(dev)
	return p
}

func byPlace(a, b spot) int {
	if a.order != b.order {
		return cmp.Compare(a.order, b.order)
	}
	return cmp.Compare(a.from, b.from)
}

// join adds a part to the last run, or starts a new one. A run starts where
// others can join it: before its first part, if that keeps the part aligned.
func (p *plan) join(s *spot, align int64) {
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

func roundUp(n int64) int64 { return (n + alignment - 1) &^ (alignment - 1) }
