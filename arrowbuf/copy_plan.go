package arrowbuf

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"golang.org/x/sync/errgroup"

	"github.com/quiver-gpu/quiver/arrowbuf/internal/integers"
)

// copyTogether copies ranges of any device to one new allocation on dev, and returns a
// slice of it per range. The caller owns one reference to each slice. On a GPU, each
// slice starts at a multiple of 64 bytes. On the CPU, it starts at a multiple of the
// range's own alignment. Ranges close together in one root buffer can then arrive in
// one copy, with the gaps between them. If the copier has a stream, the copies are
// submitted to it and may not be complete when copyTogether returns.
func (c copier) copyTogether(ranges []bufferRange, dev Device) ([]*memory.Buffer, error) {
	if len(ranges) == 0 {
		return nil, nil
	}
	p := newCopyPlan(ranges, dev)
	defer p.release()
	whole, err := p.execute(dev, c)
	if err != nil {
		return nil, err
	}
	root := whole.Arrow()
	whole.Release()
	defer root.Release()
	moved := make([]*memory.Buffer, len(ranges))
	for i, d := range p.destinations {
		var at int64
		if d.transfer >= 0 {
			at = p.transfers[d.transfer].pos + d.offset
		}
		moved[i] = memory.SliceBuffer(root, int(at), int(ranges[i].to-ranges[i].from))
	}
	return moved, nil
}

// bufferRange is bytes [from, to) of an arrow-go buffer, on the host or on a device.
// On the host, its copy must start at a multiple of align, a power of two up to 8.
type bufferRange struct {
	src      *memory.Buffer
	from, to int64
	align    int64
}

// rangeOfBytes returns a range of all of b, which was computed on the host.
func rangeOfBytes(b []byte, align int) bufferRange {
	return bufferRange{src: memory.NewBufferBytes(b), to: int64(len(b)), align: int64(align)}
}

// isWhole reports whether the range is all of its buffer.
func (p bufferRange) isWhole() bool { return p.from == 0 && p.to == int64(p.src.Len()) }

// bytes returns the range: in place if the host can access it, and otherwise a copy.
// The caller must not modify it.
func (p bufferRange) bytes() ([]byte, error) { return p.read(0, p.to-p.from) }

// ints is bytes, as integers.
func (p bufferRange) ints(width int) (integers.Slice, error) {
	b, err := p.bytes()
	return integers.Slice{Bytes: b, Width: width}, err
}

// read returns bytes [from, to) of the range, as bytes does.
func (p bufferRange) read(from, to int64) ([]byte, error) {
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

// firstAndLast returns the first and the last integer of a non-empty range.
func (p bufferRange) firstAndLast(width int) (first, last int64, err error) {
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

const (
	// alignment of ranges inside an allocation, as the Arrow columnar format
	// recommends. A range is padded to it.
	alignment = 64
	// maxGap is the largest gap between two ranges that is copied to save a call. A
	// call costs a GPU some microseconds, in which its link moves far more than
	// this. The limit keeps the memory small that gaps waste.
	maxGap = 16 << 10
)

// copyPlan lays out ranges in one allocation: which transfers are made, and where
// each range then lies. The transfers below stagedSize are staged.
type copyPlan struct {
	transfers        []transfer
	destinations     []destination
	stagedSize, size int64

	// ranges are the non-empty ranges, sorted by root and position. roots numbers
	// the roots in the order in which they occur.
	ranges []rootRange
	roots  map[*memory.Buffer]int
}

// transfer copies bytes [from, to) of one root buffer to the bytes of the allocation
// that start at pos.
type transfer struct {
	root     *memory.Buffer
	from, to int64
	pos      int64
	staged   bool // small host memory: see maxStaged
}

// destination is the position of a range: an offset in a transfer, or -1 if the
// range is empty.
type destination struct {
	transfer int
	offset   int64
}

// planPool reuses plans. Planning a batch of many small columns takes as long as
// copying it, and allocation would be half of that.
var planPool = sync.Pool{New: func() any { return &copyPlan{roots: map[*memory.Buffer]int{}} }}

// newCopyPlan plans a copy of ranges to a device. The caller must release the
// result.
func newCopyPlan(ranges []bufferRange, dev Device) *copyPlan {
	p := planPool.Get().(*copyPlan)
	p.transfers, p.destinations, p.ranges = slices.Grow(p.transfers, len(ranges)), slices.Grow(p.destinations, len(ranges)), slices.Grow(p.ranges, len(ranges))
	for i := range ranges {
		p.destinations = append(p.destinations, destination{transfer: -1})
		if ranges[i].from == ranges[i].to {
			continue
		}
		r := ranges[i].inRoot()
		r.index = i
		order, seen := p.roots[r.root]
		if !seen {
			order = len(p.roots)
			p.roots[r.root] = order
		}
		r.order = order
		p.ranges = append(p.ranges, r)
	}
	if !slices.IsSortedFunc(p.ranges, compareRanges) { // they are sorted if each range has a root of its own
		slices.SortStableFunc(p.ranges, compareRanges)
	}
	for i := range p.ranges {
		align := int64(alignment)
		if dev == CPU() {
			align = ranges[p.ranges[i].index].align
		}
		p.add(&p.ranges[i], align)
	}
	p.layOut(dev)
	return p
}

func (p *copyPlan) release() {
	clear(p.transfers)
	clear(p.ranges)
	clear(p.roots)
	*p = copyPlan{transfers: p.transfers[:0], destinations: p.destinations[:0], ranges: p.ranges[:0], roots: p.roots}
	planPool.Put(p)
}

// rootRange is a bufferRange relative to its root buffer. Only ranges of one root
// are known to be in one allocation, so that the gap between them may be read.
// Buffers with adjacent addresses may belong to different allocations.
type rootRange struct {
	root     *memory.Buffer
	from, to int64
	order    int // of the root in copyPlan.roots
	index    int // of the range in the argument of newCopyPlan
}

// inRoot returns the range relative to its root buffer.
func (p bufferRange) inRoot() rootRange {
	root := rootOf(p.src)
	base := int64(addressOf(p.src.Buf())) - int64(addressOf(root.Buf()))
	if base < 0 || base+p.to > int64(root.Len()) {
		// The parent was reallocated after the slice was made.
		root, base = p.src, 0
	}
	return rootRange{root: root, from: base + p.from, to: base + p.to}
}

func compareRanges(a, b rootRange) int {
	if a.order != b.order {
		return cmp.Compare(a.order, b.order)
	}
	return cmp.Compare(a.from, b.from)
}

// add extends the last transfer by r, or starts a new one. A transfer starts at a
// multiple of alignment if that keeps its first range aligned, so that others can
// join it.
func (p *copyPlan) add(r *rootRange, align int64) {
	last := len(p.transfers) - 1
	if last < 0 || p.transfers[last].root != r.root || r.from-p.transfers[last].to > maxGap || (r.from-p.transfers[last].from)%align != 0 {
		from := r.from &^ (alignment - 1)
		if r.from%align != 0 {
			from = r.from
		}
		p.transfers = append(p.transfers, transfer{root: r.root, from: from, to: r.to})
		last++
	}
	t := &p.transfers[last]
	t.to = max(t.to, r.to)
	p.destinations[r.index] = destination{transfer: last, offset: r.from - t.from}
}

// layOut assigns positions: first to the staged transfers, then to the others. The
// allocation is never empty, because arrow-go treats an empty buffer without memory
// as absent.
func (p *copyPlan) layOut(dev Device) {
	for i := range p.transfers {
		t := &p.transfers[i]
		t.staged = t.to-t.from <= maxStaged && dev != CPU() && isHostMemory(t.root)
		if t.staged {
			t.pos = p.size
			p.size += alignUp(t.to - t.from)
		}
	}
	p.stagedSize = p.size
	for i := range p.transfers {
		if t := &p.transfers[i]; !t.staged {
			t.pos = p.size
			p.size += alignUp(t.to - t.from)
		}
	}
	p.size = max(p.size, alignment)
}

func alignUp(n int64) int64 { return (n + alignment - 1) &^ (alignment - 1) }

// execute allocates the destination and copies all transfers.
func (p *copyPlan) execute(dev Device, c copier) (whole Buffer, err error) {
	s := c.stream
	if c.read != nil && (s != nil || dev == CPU()) {
		return nil, fmt.Errorf("copying to %s: a reader of host memory needs a GPU and no stream: %w", dev, errors.ErrUnsupported)
	}
	if s == nil {
		whole, err = dev.Alloc(p.size)
	} else {
		whole, err = allocOnStream(s, dev, p.size)
	}
	if err != nil {
		return nil, err
	}
	if s == nil {
		err = p.copyStaged(whole, c.read)
		if err == nil {
			err = p.copyUnstaged(whole, c)
		}
	} else {
		err = p.enqueue(s, whole)
	}
	if err != nil {
		whole.Release()
		return nil, fmt.Errorf("copying to %s: %w", dev, err)
	}
	return whole, nil
}

// maxInFlight copies at a time keep a link busy while the host submits the next.
const maxInFlight = 2

// copyUnstaged copies the transfers that are not staged. Those of the host go in one
// operation if dst supports it, and otherwise maxInFlight at a time.
func (p *copyPlan) copyUnstaged(dst Buffer, c copier) error {
	read := c.read
	batched, ok := As[rangeCopier](dst)
	reading, canRead := As[rangeReader](dst)
	if read != nil && !canRead {
		return fmt.Errorf("a reader of host memory: %w", errors.ErrUnsupported)
	}
	var ranges []HostRange
	var reads []ReadRange
	var copies errgroup.Group
	copies.SetLimit(maxInFlight)
	for i := range p.transfers {
		t := &p.transfers[i]
		switch {
		case t.staged:
		case read != nil && isHostMemory(t.root):
			src := t.root.Bytes()[t.from:t.to]
			reads = append(reads, ReadRange{Pos: t.pos, Length: t.to - t.from, Read: func(dst []byte, offset int64) error {
				return read(dst, src[offset:][:len(dst)])
			}})
		case ok && isHostMemory(t.root):
			ranges = append(ranges, HostRange{Bytes: t.root.Bytes()[t.from:t.to], Pos: t.pos})
		case i == len(p.transfers)-1: // this goroutine is otherwise idle
			return errors.Join(t.copyTo(dst), copies.Wait())
		default:
			copies.Go(func() error { return t.copyTo(dst) })
		}
	}
	var err error
	if len(ranges) > 0 {
		err = batched.CopyRangesFromHost(ranges)
	}
	if len(reads) > 0 && err == nil {
		err = reading.CopyRangesFromReaders(reads, c.readers)
	}
	return errors.Join(err, copies.Wait())
}

func (t *transfer) copyTo(dst Buffer) error {
	src, err := BufferOf(t.root)
	if err != nil {
		return err
	}
	defer src.Release()
	if host, ok := HostBytes(src); ok {
		_, err = dst.CopyFromHost(host[t.from:t.to], t.pos)
		return err
	}
	bytes, err := src.Slice(t.from, t.to-t.from)
	if err != nil {
		return err
	}
	defer bytes.Release()
	_, err = dst.CopyFromDevice(bytes, t.pos)
	return err
}

const (
	// maxStaged is the size up to which host memory is staged: gathered in pinned
	// memory and copied in one call. In the time of one copy call the processor
	// moves this much.
	maxStaged = 64 << 10
	// stagingSize is the size of the staging memory.
	stagingSize = 1 << 20
)

// copyStaged gathers the staged transfers in memory of the device's HostAllocator
// and copies them.
func (p *copyPlan) copyStaged(dst Buffer, read hostReader) error {
	if p.stagedSize == 0 {
		return nil
	}
	if host, ok := HostBytes(dst); ok {
		_, _, err := p.fillStaging(host[:p.stagedSize], 0, 0, read)
		return err
	}
	mem, err := allocStaging(dst.Device(), min(p.stagedSize, stagingSize))
	if err != nil {
		return err
	}
	defer dst.Device().HostAllocator().Free(mem)
	for at, next := int64(0), 0; at < p.stagedSize; {
		var n int64
		if n, next, err = p.fillStaging(mem, at, next, read); err != nil {
			return err
		}
		if _, err := dst.CopyFromHost(mem[:n], at); err != nil {
			return err
		}
		at += n
	}
	return nil
}

// fillStaging writes staged transfers to b, from index next on, until no other fits.
// b[0] belongs at position pos of the destination. It returns the number of bytes
// written and the index of the next transfer.
func (p *copyPlan) fillStaging(b []byte, at int64, next int, read hostReader) (n int64, after int, err error) {
	for ; next < len(p.transfers); next++ {
		t := &p.transfers[next]
		if !t.staged {
			continue
		}
		size := alignUp(t.to - t.from)
		if n+size > int64(len(b)) {
			break
		}
		src := t.root.Bytes()[t.from:t.to]
		part := b[t.pos-at : n+size]
		if read == nil {
			copy(part, src)
		} else if err := read(part[:len(src)], src); err != nil {
			return n, next, err
		}
		clear(part[len(src):])
		n += size
	}
	return n, next, nil
}

// allocStaging allocates memory of the device's HostAllocator. A panic of the
// allocator becomes an error.
func allocStaging(dev Device, n int64) (b []byte, err error) {
	if err := panicAsError(func() { b = dev.HostAllocator().Allocate(int(n)) }); err != nil {
		return nil, fmt.Errorf("allocating staging memory: %w", err)
	}
	return b, nil
}

// allocOnStream allocates on a stream, whose device must be dev.
func allocOnStream(s Stream, dev Device, n int64) (Buffer, error) {
	b, err := s.Alloc(n)
	if err == nil && b.Device() != dev {
		err = fmt.Errorf("the stream is on %s, want %s: %w", b.Device(), dev, ErrDevice)
		b.Release()
	}
	return b, err
}

// enqueue submits the copies to a stream. It keeps the sources alive until the
// stream has run them.
func (p *copyPlan) enqueue(s Stream, dst Buffer) error {
	var sources []*memory.Buffer
	defer func() { s.After(func() { releaseAll(sources) }) }()
	for at, next := int64(0), 0; at < p.stagedSize; {
		mem, err := allocStaging(dst.Device(), min(p.stagedSize-at, stagingSize))
		if err != nil {
			return err
		}
		staging := memory.NewBufferWithAllocator(mem, dst.Device().HostAllocator())
		sources = append(sources, staging)
		var n int64
		n, next, _ = p.fillStaging(mem, at, next, nil) // without a reader, there is no error
		if err := enqueueRange(s, dst, at, staging, 0, n); err != nil {
			return err
		}
		at += n
	}
	for i := range p.transfers {
		if t := &p.transfers[i]; !t.staged {
			t.root.Retain()
			sources = append(sources, t.root)
			if err := enqueueRange(s, dst, t.pos, t.root, t.from, t.to); err != nil {
				return err
			}
		}
	}
	return nil
}

// enqueueRange submits a copy of bytes [from, to) of a root buffer.
func enqueueRange(s Stream, dst Buffer, pos int64, root *memory.Buffer, from, to int64) error {
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
