package arrowipc

import (
	"fmt"
	"sort"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// Body is the body of a message on any device: an arrowbuf.Buffer, or Parts that are
// not contiguous. Slice has the contract of arrowbuf.Buffer.Slice.
type Body interface {
	Len() int64
	Slice(offset, length int64) (arrowbuf.Buffer, error)
}

// Part is a contiguous range of a body that starts at Offset.
type Part struct {
	Offset int64
	Buffer arrowbuf.Buffer
}

// Parts is a body in several buffers, ordered by offset. Each buffer of the message
// must lie within one part; bytes between the parts do not exist.
type Parts []Part

// Len returns the end of the last part.
func (p Parts) Len() int64 {
	if len(p) == 0 {
		return 0
	}
	last := p[len(p)-1]
	if last.Buffer == nil {
		return last.Offset
	}
	return last.Offset + last.Buffer.Len()
}

// Slice returns bytes [offset, offset+length) of the body without a copy. The caller
// owns one reference to the result. Slice returns an error wrapping
// arrowbuf.ErrOutOfRange if the bytes are not in one part.
func (p Parts) Slice(offset, length int64) (arrowbuf.Buffer, error) {
	i := sort.Search(len(p), func(i int) bool { return p[i].Offset > offset }) - 1
	if i < 0 {
		return nil, fmt.Errorf("bytes [%d, %d+%d) are not in one of %d parts of the body: %w", offset, offset, length, len(p), arrowbuf.ErrOutOfRange)
	}
	if p[i].Buffer == nil {
		return nil, fmt.Errorf("part %d of the body: nil buffer: %w", i, arrowbuf.ErrOutOfRange)
	}
	part, err := p[i].Buffer.Slice(offset-p[i].Offset, length)
	if err != nil {
		return nil, fmt.Errorf("part %d of the body: %w", i, err)
	}
	return part, nil
}

// Release releases the buffers of the parts.
func (p Parts) Release() {
	for _, part := range p {
		if part.Buffer != nil {
			part.Buffer.Release()
		}
	}
}

// emptyBuffer stands for every buffer of length 0.
var emptyBuffer = memory.NewBufferBytes(nil)

// sliceBody returns the ranges of a body as arrow-go buffers. The caller owns one
// reference to each. The ranges of one Buffer share a root, which is registered only
// once.
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

// copyIfElsewhere returns b if it is on dev and aligned to 8 bytes, and otherwise a
// copy of it on dev. The caller owns one reference to the result.
func copyIfElsewhere(b arrowbuf.Buffer, dev arrowbuf.Device) (arrowbuf.Buffer, error) {
	if b.Device() == dev && b.Address()%8 == 0 {
		b.Retain()
		return b, nil
	}
	dst, err := dev.Alloc(max(b.Len(), 1))
	if err != nil {
		return nil, err
	}
	if err := copyInto(dst, b, 0); err != nil {
		dst.Release()
		return nil, fmt.Errorf("copying to %s: %w", dev, err)
	}
	return dst, nil
}

// bodyOn returns body if it is on dev and aligned, and otherwise a copy of it in one
// allocation. The caller must call release after use.
func bodyOn(body Body, dev arrowbuf.Device) (onDev Body, release func(), err error) {
	if whole, ok := body.(arrowbuf.Buffer); ok {
		copied, err := copyIfElsewhere(whole, dev)
		if err != nil {
			return nil, nil, err
		}
		return copied, copied.Release, nil
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
	defer whole.Release() // its slices hold the memory
	var copied Parts
	release = func() {
		for _, part := range copied {
			part.Buffer.Release()
		}
	}
	for _, part := range parts {
		// One slice per part, because the bytes between the parts are undefined.
		slice, err := whole.Slice(part.Offset, part.Buffer.Len())
		if err == nil {
			copied = append(copied, Part{part.Offset, slice})
			err = copyInto(whole, part.Buffer, part.Offset)
		}
		if err != nil {
			release()
			return nil, nil, fmt.Errorf("copying to %s: %w", dev, err)
		}
	}
	return copied, release, nil
}

// areOn reports whether all parts are on dev and aligned to 8 bytes.
func (p Parts) areOn(dev arrowbuf.Device) bool {
	for _, part := range p {
		if part.Buffer.Device() != dev || part.Buffer.Address()%8 != 0 {
			return false
		}
	}
	return true
}

// bodyBuffer is a buffer of a body that has not been copied yet. It is either length
// bytes of src from position from on, with an optional transform, or bytes that
// compute returns. The zero bodyBuffer is empty.
type bodyBuffer struct {
	src          *memory.Buffer
	from, length int64
	transform    func([]byte) // modifies copied bytes in place, 8 bytes independently of the others
	compute      func() ([]byte, error)
}

// newComputed returns a bodyBuffer of length bytes. f is called at most once, when
// the bytes are first needed, and its result is kept.
func newComputed(length int64, f func() ([]byte, error)) bodyBuffer {
	return bodyBuffer{length: length, compute: sync.OnceValues(f)}
}

// isVerbatim reports whether the bytes are those of src.
func (p *bodyBuffer) isVerbatim() bool { return p.compute == nil && p.transform == nil }

// hostBytes returns all bytes on the host. The caller must not modify them.
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

// readAt fills b with the bytes from pos on, which is a multiple of 8.
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

// buffer returns the bytes as a Buffer: a slice of src if they are verbatim, and
// otherwise a buffer of the host. The caller owns one reference to it.
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

// bufferBytes returns n bytes of an arrow-go buffer: in place if the host can access
// them, and otherwise a copy.
func bufferBytes(b *memory.Buffer, from, n int64) ([]byte, error) {
	if b == nil {
		return nil, fmt.Errorf("nil buffer: %w", arrow.ErrInvalid)
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
	// maxGrouped is the size up to which buffers of a device that are close together
	// are read in one copy. A call costs a GPU as much time as the processor needs
	// to copy this many bytes again.
	maxGrouped = 64 << 10
	// maxGap is the largest gap between two buffers that is copied to save a call.
	maxGap = 16 << 10
	// maxGroup is the largest size of one such copy.
	maxGroup = 1 << 20
)

// readBody copies bytes [pos, pos+len(b)) of the body to the host. Padding is 0. pos
// must be a multiple of 8.
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

// readBuffer copies the part of buffer i, and of its padding, that lies within b.
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

// group returns the device memory that contains buffers [i, next), if these are
// small and close together. It returns next = i if buffer i cannot be grouped with
// others.
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

// readGroup copies buffers [i, next), all of which lie in run.
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

// groupable returns the memory of buffer i if it is small, on a device, and within
// b.
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

// copyBodyTo copies the body to the start of dst. Padding is 0.
func (m *Message) copyBodyTo(dst arrowbuf.Buffer) error {
	if host, ok := arrowbuf.HostBytes(dst); ok {
		return forEachChunk(m.BodyLength, func(pos, length int64) error { return m.readBody(host[pos:pos+length], pos) })
	}
	if m.BodyLength <= maxGroup { // two copies through the host are faster than one per buffer
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
