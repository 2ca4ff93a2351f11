package soft

import (
	"errors"
	"math"
	"slices"

	"golang.org/x/sys/unix"
)

// pool is memory that streams allocate and free in their order. The books
// change when a call is made, not when its stream comes to it: a block is free
// for its own stream at once, for the others when the free has run. The memory
// itself is usable from where the allocation runs to where the free runs.
type pool struct {
	dev       *device
	segment   *segment // nil until there is a first allocation
	shareable bool
	imported  bool
	imports   int  // of an imported one, that were not destroyed
	ending    bool // an import of it was destroyed
	destroyed bool
	access    deviceSet
	frees     []*freeing // that have not run

	threshold uint64 // bytes to keep when nobody uses them
	live      int64  // of allocations
	pending   int64  // of frees that have not run
	cached    int64  // kept
	usedHigh  int64
	heldHigh  int64
}

// freeing is a block that a stream frees: the bytes that it had, which work
// that comes before still uses.
type freeing struct {
	offset, size int64
	stream       *stream
	at           mark // behind the free
}

func (p *pool) held() int64 { return p.live + p.pending + p.cached }

// open makes the pool's memory: addresses of it do not run out before the
// device's memory does.
func (p *pool) open() error {
	if p.segment != nil {
		return nil
	}
	size := pages(p.dev.arena.size)
	size = max(size, min(size*4, 1<<40))
	f, err := newFile(poolFile, p.dev.ordinal, size)
	if err != nil {
		return err
	}
	return p.mapFile(f)
}

func (p *pool) mapFile(f *file) error {
	s, err := newSegment(p.dev, pooled, f.size, f, 0)
	if err != nil {
		_ = f.close()
		return err
	}
	s.pool, s.access, p.segment = p, p.access, s
	p.dev.arena.add(s)
	return nil
}

// alloc returns a block for a stream, and what the stream has to wait for
// first. It is nil where memory ends.
func (p *pool) alloc(n int64, s *stream) (*block, mark) {
	length := pages(n)
	if b := p.reuse(n, length, func(f *freeing) bool { return f.stream == s }); b != nil {
		return b, mark{}
	}
	if b := p.segment.place(n, pages(1)); b != nil {
		grown := max(0, length-p.cached)
		if p.dev.arena.take(grown) {
			p.cached -= length - grown
			p.use(b)
			return b, mark{}
		}
		p.segment.remove(b)
	}
	var freed mark
	b := p.reuse(n, length, func(f *freeing) bool { freed = f.at; return true })
	return b, freed
}

// reuse takes a part of a block whose free has not run yet.
func (p *pool) reuse(n, length int64, suits func(*freeing) bool) *block {
	for _, b := range p.segment.blocks {
		if b.freeing == nil || b.length < length || !suits(b.freeing) {
			continue
		}
		taken := &block{offset: b.offset, length: length, size: n}
		p.segment.remove(b)
		b.offset, b.length, b.size = b.offset+length, b.length-length, b.length-length
		if b.length > 0 {
			p.segment.insert(b)
		}
		p.segment.insert(taken)
		p.pending -= length
		p.use(taken)
		return taken
	}
	return nil
}

func (p *pool) use(b *block) {
	p.live += b.length
	p.usedHigh = max(p.usedHigh, p.live)
	p.heldHigh = max(p.heldHigh, p.held())
}

// free lets a stream free a block when it comes to the mark.
func (p *pool) free(b *block, f *freeing) {
	b.freeing = f
	p.frees = append(p.frees, f)
	p.live -= b.length
	p.pending += b.length
}

// freed returns what a device sees at bytes that are free only for work that is
// issued from now on.
func (p *pool) freed(dev *device, offset, n int64) ([]byte, bool) {
	if p.dev != dev && !p.access[dev.ordinal] {
		return nil, false
	}
	for _, f := range p.frees {
		if offset >= f.offset && n <= f.size-(offset-f.offset) {
			return p.segment.hidden[offset : offset+n : offset+n], true
		}
	}
	return nil, false
}

// settle is what a free does when it runs, to what nobody took of the block in
// the meantime. It gives back what the pool does not keep.
func (p *pool) settle(b *block) error {
	p.frees = slices.DeleteFunc(p.frees, func(f *freeing) bool { return f == b.freeing })
	p.pending -= b.length
	if b.length == 0 {
		return nil
	}
	err := unix.Mprotect(p.segment.memory(b), unusable)
	p.segment.remove(b)
	if p.imported {
		return err // the exporter counts it
	}
	p.segment.discard(b.offset, b.length)
	p.cached += b.length
	keep := p.threshold
	if p.destroyed {
		keep = 0
	}
	p.trim(keep)
	return err
}

// trim gives kept memory back until the pool holds no more than keep bytes.
func (p *pool) trim(keep uint64) {
	over := p.held() - int64(min(keep, math.MaxInt64))
	if give := min(max(over, 0), p.cached); give > 0 {
		p.cached -= give
		p.dev.arena.used -= give
	}
}

// retire gives a destroyed pool's addresses back when nothing of it is left,
// after the work that other streams, by mistake, still have on it.
func (d *Driver) retire(p *pool) {
	s := p.segment
	if !p.destroyed || s == nil || len(s.blocks) > 0 {
		return
	}
	p.segment = nil
	for h, other := range d.space.pools {
		if other == p {
			delete(d.space.pools, h)
		}
	}
	d.space.forget(s)
	d.space.retiring.Go(func() {
		d.quiet()
		_ = errors.Join(s.unmap(), s.file.close()) // at worst it keeps the addresses
	})
}

// giveBack is a free that has run.
func (d *Driver) giveBack(p *pool, b *block) error {
	p.live -= b.length
	p.pending += b.length
	err := p.settle(b)
	d.retire(p)
	return err
}
