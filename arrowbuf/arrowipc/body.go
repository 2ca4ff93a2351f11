package arrowipc

import (
	"fmt"
	"sort"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/quiver-gpu/quiver/arrowbuf"
)

// Body is the body of a message, wherever its bytes are: an arrowbuf.Buffer, or
// Parts that need not lie together. Slice is that of arrowbuf.Buffer.
type Body interface {
	Len() int64
	Slice(offset, length int64) (arrowbuf.Buffer, error)
}

// Part is bytes of a body, from an offset on.
type Part struct {
	Offset int64
	Buffer arrowbuf.Buffer
}

// Parts are a body whose bytes are in several buffers, by offset. A buffer of the
// message lies in one of them; what is between them is in none.
type Parts []Part

// Len is where the last part ends.
func (p Parts) Len() int64 {
	if len(p) == 0 {
		return 0
	}
	last := p[len(p)-1]
	return last.Offset + last.Buffer.Len()
}

// Slice is bytes [offset, offset+length) of the body, without a copy. Where they
// are not in one part the error is arrowbuf.ErrOutOfRange.
func (p Parts) Slice(offset, length int64) (arrowbuf.Buffer, error) {
	i := sort.Search(len(p), func(i int) bool { return p[i].Offset > offset }) - 1
	if i < 0 {
		return nil, fmt.Errorf("bytes [%d, %d+%d) of a body in %d parts: %w", offset, offset, length, len(p), arrowbuf.ErrOutOfRange)
	}
	part, err := p[i].Buffer.Slice(offset-p[i].Offset, length)
	if err != nil {
		return nil, fmt.Errorf("part %d of a body: %w", i, err)
	}
	return part, nil
}

// emptyBuffer stands for every buffer without bytes.
var emptyBuffer = memory.NewBufferBytes(nil)

// sliceBody returns the ranges of a body as arrow-go sees them. Those of one buffer
// share what it costs to be found again from arrow-go's buffers.
func sliceBody(body Body, ranges []Extent) (all []*memory.Buffer, err error) {
	all = make([]*memory.Buffer, 0, len(ranges))
	defer func() {
		if err != nil {
			releaseAll(all)
		}
	}()
	var root *memory.Buffer
	if whole, ok := body.(arrowbuf.Buffer); ok {
		root = whole.Arrow()
		defer root.Release()
	}
	for _, r := range ranges {
		switch {
		case r.Length == 0:
			all = append(all, emptyBuffer)
		case root != nil:
			if err := arrowbuf.CheckRange(r.Offset, r.Length, int64(root.Len())); err != nil {
				return all, err
			}
			all = append(all, memory.SliceBuffer(root, int(r.Offset), int(r.Length)))
		default:
			part, err := body.Slice(r.Offset, r.Length)
			if err != nil {
				return all, err
			}
			all = append(all, part.Arrow())
			part.Release()
		}
	}
	return all, nil
}

// copyIfElsewhere returns a buffer that lives on a device: the same where it does and is
// aligned, else a copy. The caller owns a reference.
func copyIfElsewhere(b arrowbuf.Buffer, dev arrowbuf.Device) (arrowbuf.Buffer, error) {
	if b.Device() == dev && b.Address()%8 == 0 {
		b.Retain()
		return b, nil
	}
	there, err := dev.Alloc(max(b.Len(), 1))
	if err != nil {
		return nil, err
	}
	if err := copyInto(there, b, 0); err != nil {
		there.Release()
		return nil, fmt.Errorf("copying to %s: %w", dev, err)
	}
	return there, nil
}

// bodyOn returns a body that lives on a device: the same where it does, else a copy
// of it in one allocation, which release gives back.
func bodyOn(body Body, dev arrowbuf.Device) (there Body, release func(), err error) {
	if whole, ok := body.(arrowbuf.Buffer); ok {
		moved, err := copyIfElsewhere(whole, dev)
		if err != nil {
			return nil, nil, err
		}
		return moved, moved.Release, nil
	}
	parts, ok := body.(Parts)
	if !ok {
		all, err := body.Slice(0, body.Len())
		if err != nil {
			return nil, nil, err
		}
		defer all.Release()
		parts = Parts{{0, all}}
	}
	if parts.areOn(dev) {
		return parts, func() {}, nil
	}
	whole, err := dev.Alloc(max(parts.Len(), 1))
	if err != nil {
		return nil, nil, err
	}
	defer whole.Release() // its slices keep it
	var moved Parts
	release = func() {
		for _, part := range moved {
			part.Buffer.Release()
		}
	}
	for _, part := range parts {
		// Slices, since what is between the parts has no bytes to be read.
		slice, err := whole.Slice(part.Offset, part.Buffer.Len())
		if err == nil {
			moved = append(moved, Part{part.Offset, slice})
			err = copyInto(whole, part.Buffer, part.Offset)
		}
		if err != nil {
			release()
			return nil, nil, fmt.Errorf("copying to %s: %w", dev, err)
		}
	}
	return moved, release, nil
}

func (p Parts) areOn(dev arrowbuf.Device) bool {
	for _, part := range p {
		if part.Buffer.Device() != dev || part.Buffer.Address()%8 != 0 {
			return false
		}
	}
	return true
}

// Release gives the parts back.
func (p Parts) Release() {
	for _, part := range p {
		part.Buffer.Release()
	}
}

// bodyBuffer is a buffer of a body that nobody has asked for yet: bytes of an arrow
// buffer, on the host or a device, that may have to be fixed on the way, or bytes
// that are computed on the host. The zero piece has none.
type bodyBuffer struct {
	src          *memory.Buffer
	from, length int64
	transform    func([]byte) // rebases integers, in place; any 8 bytes of them on their own
	compute      func() ([]byte, error)
}

// newComputed is computed when it is first asked for, and kept as long as the message.
func newComputed(length int64, f func() ([]byte, error)) bodyBuffer {
	return bodyBuffer{length: length, compute: sync.OnceValues(f)}
}

// isVerbatim tells whether the bytes are in the arrow buffer.
func (p *bodyBuffer) isVerbatim() bool { return p.compute == nil && p.transform == nil }

// hostBytes returns all on the host. Nobody may write to them.
func (p *bodyBuffer) hostBytes() ([]byte, error) {
	switch {
	case p.compute != nil:
		return p.compute()
	case p.length == 0:
		return nil, nil
	case p.transform == nil:
		return bufferBytes(p.src, p.from, p.length)
	}
	b := make([]byte, p.length)
	return b, p.readAt(b, 0)
}

// readAt copies bytes from a position on, a multiple of 8.
func (p *bodyBuffer) readAt(b []byte, pos int64) error {
	if p.compute != nil {
		all, err := p.compute()
		if err == nil {
			copy(b, all[pos:])
		}
		return err
	}
	src, err := arrowbuf.BufferOf(p.src)
	if err != nil {
		return err
	}
	defer src.Release()
	if _, err := src.CopyToHost(b, p.from+pos); err != nil {
		return err
	}
	if p.transform != nil {
		p.transform(b)
	}
	return nil
}

// buffer returns the bytes where they are, or on the host where they must be
// made. The caller owns a reference.
func (p *bodyBuffer) buffer() (arrowbuf.Buffer, error) {
	if !p.isVerbatim() || p.length == 0 {
		b, err := p.hostBytes()
		if err != nil {
			return nil, err
		}
		return arrowbuf.WrapHost(memory.NewBufferBytes(b))
	}
	src, err := arrowbuf.BufferOf(p.src)
	if err != nil {
		return nil, err
	}
	defer src.Release()
	return src.Slice(p.from, p.length)
}

// bufferBytes returns bytes of an arrow buffer: in place where the host reaches them,
// else copied.
func bufferBytes(b *memory.Buffer, from, n int64) ([]byte, error) {
	if b == nil {
		return nil, fmt.Errorf("a buffer that is absent: %w", arrow.ErrInvalid)
	}
	src, err := arrowbuf.BufferOf(b)
	if err != nil {
		return nil, err
	}
	defer src.Release()
	if err := arrowbuf.CheckRange(from, n, src.Len()); err != nil {
		return nil, fmt.Errorf("%w: %w", arrow.ErrInvalid, err)
	}
	if host, ok := arrowbuf.HostBytes(src); ok {
		return host[from : from+n], nil
	}
	out := make([]byte, n)
	_, err = src.CopyToHost(out, from)
	return out, err
}

const (
	// maxGrouped is the size up to which parts of a device's memory that lie close
	// together are brought in one copy: a call costs a GPU as much time as the
	// processor needs to move so much again.
	maxGrouped = 64 << 10
	// maxGap is how many bytes that nobody asked for are copied to save a call.
	maxGap = 16 << 10
	// maxGroup is how much comes in one copy.
	maxGroup = 1 << 20
)

// readBody copies bytes [pos, pos+len(b)) of the body to the host, with padding that
// is 0. pos is a multiple of 8.
func (m *Message) readBody(b []byte, pos int64) error {
	for i := 0; i < len(m.buffers); {
		next, run := m.group(b, pos, i)
		if next > i {
			if err := m.readGroup(b, pos, i, next, run); err != nil {
				return err
			}
			i = next
			continue
		}
		if err := m.readBuffer(b, pos, i); err != nil {
			return err
		}
		i++
	}
	return nil
}

// readBuffer copies what b has of one part, and of the padding behind it.
func (m *Message) readBuffer(b []byte, pos int64, i int) error {
	p, at, end := &m.buffers[i], m.batch.buffers[i].Offset, pos+int64(len(b))
	if from, to := max(at+p.length, pos), min(at+padTo8(p.length), end); from < to {
		clear(b[from-pos : to-pos])
	}
	if from, to := max(at, pos), min(at+p.length, end); from < to {
		return p.readAt(b[from-pos:to-pos], from-at)
	}
	return nil
}

// group finds parts from i on that lie close together in the memory of a device,
// two at least beside empty ones, and returns which comes behind them: i where there
// are none.
func (m *Message) group(b []byte, pos int64, i int) (next int, run rootRange) {
	run, ok := m.groupable(b, pos, i)
	if !ok {
		return i, run
	}
	next = i
	for j := i + 1; j < len(m.buffers); j++ {
		if m.buffers[j].length == 0 {
			continue
		}
		one, ok := m.groupable(b, pos, j)
		if !ok || one.root != run.root || one.from < run.to || one.from-run.to > maxGap || one.to-run.from > maxGroup {
			break
		}
		run.to, next = one.to, j+1
	}
	return next, run
}

// readGroup copies parts [i, next), which lie in one run.
func (m *Message) readGroup(b []byte, pos int64, i, next int, run rootRange) error {
	root, err := arrowbuf.BufferOf(run.root)
	if err != nil {
		return err
	}
	defer root.Release()
	all, err := allocStaging(root.Device(), run.to-run.from)
	if err != nil {
		return err
	}
	defer root.Device().HostAllocator().Free(all)
	if _, err := root.CopyToHost(all, run.from); err != nil {
		return err
	}
	for ; i < next; i++ {
		p, at := &m.buffers[i], m.batch.buffers[i].Offset-pos
		if one, ok := m.groupable(b, pos, i); ok {
			to := b[at : at+p.length]
			copy(to, all[one.from-run.from:])
			if p.transform != nil {
				p.transform(to)
			}
			clear(b[at+p.length : at+padTo8(p.length)])
		}
	}
	return nil
}

// rootRange is a range of the memory of a root buffer.
type rootRange struct {
	root     *memory.Buffer
	from, to int64
}

// groupable returns where a part lies that is small, on a device, and within b.
func (m *Message) groupable(b []byte, pos int64, i int) (s rootRange, ok bool) {
	p, at := &m.buffers[i], m.batch.buffers[i].Offset
	if p.src == nil || p.length == 0 || p.length > maxGrouped || at < pos || at+padTo8(p.length) > pos+int64(len(b)) || arrowbuf.OnHost(p.src) {
		return s, false
	}
	s.root = p.src
	for s.root.Parent() != nil {
		s.root = s.root.Parent()
	}
	whole, ok := arrowbuf.FromArrow(s.root)
	if !ok {
		return s, false
	}
	defer whole.Release()
	part, ok := arrowbuf.FromArrow(p.src)
	if !ok {
		return s, false
	}
	defer part.Release()
	s.from = int64(part.Address()-whole.Address()) + p.from
	s.to = s.from + p.length
	return s, true
}

// copyBodyTo copies the body to a buffer. Padding is 0.
func (m *Message) copyBodyTo(dst arrowbuf.Buffer) error {
	if host, ok := arrowbuf.HostBytes(dst); ok {
		return forEachChunk(m.BodyLength, func(pos, length int64) error { return m.readBody(host[pos:pos+length], pos) })
	}
	if m.BodyLength <= maxGroup { // two copies by way of the host, rather than one a part
		return fillRange(dst, Extent{0, m.BodyLength}, func(b []byte) error { return m.readBody(b, 0) })
	}
	parts, err := m.Parts()
	if err != nil {
		return err
	}
	defer parts.Release()
	for _, p := range parts {
		if err := copyInto(dst, p.Buffer, p.Offset); err != nil {
			return err
		}
		end := p.Offset + p.Buffer.Len()
		if rest := padTo8(end) - end; rest > 0 {
			if _, err := dst.CopyFromHost(make([]byte, rest), end); err != nil {
				return err
			}
		}
	}
	return nil
}
