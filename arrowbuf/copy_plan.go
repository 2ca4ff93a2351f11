package arrowbuf

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/quiver-gpu/quiver/arrowbuf/internal/integers"
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

// part is bytes [from, to) of an arrow buffer, on the host or on a device, that
// an array shows. On the host its address is to be a multiple of align, a power
// of two up to 8.
type part struct {
	src      *memory.Buffer
	from, to int64
	align    int64
}

// hostPart is a part of memory that was computed on the host.
func hostPart(b []byte, align int) part {
	return part{src: memory.NewBufferBytes(b), to: int64(len(b)), align: int64(align)}
}

// spot is a part as a range of the root buffer. Only what shares a root is
// known to be one piece of memory, whose gaps may be read: two buffers whose
// addresses happen to be close are not.
type spot struct {
	root     *memory.Buffer
	from, to int64
	order    int // of the root among the roots
	part     int // index
}

func (p part) locate() spot {
	root := rootOf(p.src)
	base := int64(sliceAddress(p.src.Buf())) - int64(sliceAddress(root.Buf()))
	if base < 0 || base+p.to > int64(root.Len()) {
		// The parent was given other memory after the slice was cut.
		root, base = p.src, 0
	}
	return spot{root: root, from: base + p.from, to: base + p.to}
}

func (p part) isWhole() bool { return p.from == 0 && p.to == int64(p.src.Len()) }

// bytes returns the part: in place where the host reaches it, else copied.
// Nobody may write to it.
func (p part) bytes() ([]byte, error) { return p.read(0, p.to-p.from) }

// ints returns the part as integers, under the rules of bytes.
func (p part) ints(width int) (integers.Slice, error) {
	b, err := p.bytes()
	return integers.Slice{Bytes: b, Width: width}, err
}

// read returns bytes [from, to) of the part, under the rules of bytes.
func (p part) read(from, to int64) ([]byte, error) {
	from, to = p.from+from, p.from+to
	if err := CheckRange(from, to-from, int64(p.src.Len())); err != nil {
		return nil, err
	}
	if OnHost(p.src) {
		return p.src.Bytes()[from:to], nil
	}
	src, err := BufferOf(p.src)
	if err != nil {
		return nil, err
	}
	defer src.Release()
	b := make([]byte, to-from)
	_, err = src.CopyToHost(b, from)
	return b, err
}

// ends reads the first and the last of a part of offsets.
func (p part) ends(width int) (first, last int64, err error) {
	w, n := int64(width), p.to-p.from
	head, err := p.read(0, w)
	if err != nil {
		return 0, 0, err
	}
	tail, err := p.read(n-w, n)
	if err != nil {
		return 0, 0, err
	}
	return integers.Slice{Bytes: head, Width: width}.At(0), integers.Slice{Bytes: tail, Width: width}.At(0), nil
}

// inFlight copies at once keep a link busy while each is given and awaited.
const inFlight = 2

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
	defer p.release()
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

const (
	// maxGathered is the size up to which parts of the host are put together
	// before they are copied: the processor moves as much in the time of one
	// copy call.
	maxGathered = 64 << 10
	// gatherPiece is how much of them goes in one call.
	gatherPiece = 1 << 20
)

// gather copies the small runs of the host, put together in memory from which
// the device copies fastest.
func (p *plan) gather(dst Buffer) error {
	if p.gathered == 0 {
		return nil
	}
	if host, ok := HostBytes(dst); ok {
		p.fill(host[:p.gathered], 0, 0)
		return nil
	}
	mem, err := stage(dst.Device(), min(p.gathered, gatherPiece))
	if err != nil {
		return err
	}
	defer dst.Device().HostAllocator().Free(mem)
	for at, next := int64(0), 0; at < p.gathered; {
		var n int64
		n, next = p.fill(mem, at, next)
		if _, err := dst.CopyFromHost(mem[:n], at); err != nil {
			return err
		}
		at += n
	}
	return nil
}

// fill writes small runs, from index next on, as they are to lie from position
// at on, until no other fits. It returns how many bytes that makes, and where
// to go on.
func (p *plan) fill(b []byte, at int64, next int) (n int64, after int) {
	for ; next < len(p.runs); next++ {
		r := &p.runs[next]
		if !r.small {
			continue
		}
		size := roundUp(r.to - r.from)
		if n+size > int64(len(b)) {
			break
		}
		copied := copy(b[r.at-at:], r.root.Bytes()[r.from:r.to])
		clear(b[r.at-at+int64(copied) : n+size])
		n += size
	}
	return n, next
}

// stage takes memory of the device's HostAllocator, which reports by a panic
// that it has none.
func stage(dev Device, n int64) (b []byte, err error) {
	defer func() {
		if failure := recover(); failure != nil {
			cause, ok := failure.(error)
			if !ok {
				panic(failure)
			}
			err = fmt.Errorf("memory to copy from: %w", cause)
		}
	}()
	return dev.HostAllocator().Allocate(int(n)), nil
}

// allocOn allocates on a device for a stream.
func allocOn(s Stream, dev Device, n int64) (Buffer, error) {
	b, err := s.Alloc(n)
	if err == nil && b.Device() != dev {
		err = fmt.Errorf("copying to %s in the order of a stream of %s: %w", dev, b.Device(), ErrDevice)
		b.Release()
	}
	return b, err
}

// copyOn gives the copies to a stream, which then holds what they read.
func (p *plan) copyOn(s Stream, dst Buffer) error {
	var held []*memory.Buffer
	defer func() { s.After(func() { releaseAll(held) }) }()
	for at, next := int64(0), 0; at < p.gathered; {
		mem, err := stage(dst.Device(), min(p.gathered-at, gatherPiece))
		if err != nil {
			return err
		}
		piece := memory.NewBufferWithAllocator(mem, dst.Device().HostAllocator())
		held = append(held, piece)
		var n int64
		n, next = p.fill(mem, at, next)
		if err := copyPart(s, dst, at, piece, 0, n); err != nil {
			return err
		}
		at += n
	}
	for i := range p.runs {
		if r := &p.runs[i]; !r.small {
			r.root.Retain()
			held = append(held, r.root)
			if err := copyPart(s, dst, r.at, r.root, r.from, r.to); err != nil {
				return err
			}
		}
	}
	return nil
}

// copyPart copies bytes [from, to) of a root buffer.
func copyPart(s Stream, dst Buffer, pos int64, root *memory.Buffer, from, to int64) error {
	whole, err := BufferOf(root)
	if err != nil {
		return err
	}
	defer whole.Release()
	bytes, err := whole.Slice(from, to-from)
	if err != nil {
		return err
	}
	defer bytes.Release()
	return s.Copy(dst, pos, bytes)
}
