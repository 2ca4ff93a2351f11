package arrowipc

import (
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

const (
	// maxGathered is the size up to which parts of a device's memory that lie close
	// together are brought in one copy: a call costs a GPU as much time as the
	// processor needs to move so much again.
	maxGathered = 64 << 10
	// maxGap is how many bytes that nobody asked for are copied to save a call.
	maxGap = 16 << 10
	// maxTogether is how much comes in one copy.
	maxTogether = 1 << 20
)

// read copies bytes [pos, pos+len(b)) of the body to the host, with padding that
// is 0. pos is a multiple of 8.
func (m *Message) read(b []byte, pos int64) error {
	for i := 0; i < len(m.parts); {
		next, run := m.together(b, pos, i)
		if next > i {
			if err := m.readRun(b, pos, i, next, run); err != nil {
				return err
			}
			i = next
			continue
		}
		if err := m.readPart(b, pos, i); err != nil {
			return err
		}
		i++
	}
	return nil
}

// readPart copies what b has of one part, and of the padding behind it.
func (m *Message) readPart(b []byte, pos int64, i int) error {
	p, at, end := &m.parts[i], m.rows.buffers[i].Offset, pos+int64(len(b))
	if from, to := max(at+p.length, pos), min(at+padded(p.length), end); from < to {
		clear(b[from-pos : to-pos])
	}
	if from, to := max(at, pos), min(at+p.length, end); from < to {
		return p.read(b[from-pos:to-pos], from-at)
	}
	return nil
}

// together finds parts from i on that lie close together in the memory of a device,
// two at least beside empty ones, and returns which comes behind them: i where there
// are none.
func (m *Message) together(b []byte, pos int64, i int) (next int, run stretch) {
	run, ok := m.small(b, pos, i)
	if !ok {
		return i, run
	}
	next = i
	for j := i + 1; j < len(m.parts); j++ {
		if m.parts[j].length == 0 {
			continue
		}
		one, ok := m.small(b, pos, j)
		if !ok || one.root != run.root || one.from < run.to || one.from-run.to > maxGap || one.to-run.from > maxTogether {
			break
		}
		run.to, next = one.to, j+1
	}
	return next, run
}

// readRun copies parts [i, next), which lie in one run.
func (m *Message) readRun(b []byte, pos int64, i, next int, run stretch) error {
	root, err := arrowbuf.BufferOf(run.root)
	if err != nil {
		return err
	}
	defer root.Release()
	all, err := stage(root.Device(), run.to-run.from)
	if err != nil {
		return err
	}
	defer root.Device().HostAllocator().Free(all)
	if _, err := root.CopyToHost(all, run.from); err != nil {
		return err
	}
	for ; i < next; i++ {
		p, at := &m.parts[i], m.rows.buffers[i].Offset-pos
		if one, ok := m.small(b, pos, i); ok {
			to := b[at : at+p.length]
			copy(to, all[one.from-run.from:])
			if p.fix != nil {
				p.fix(to)
			}
			clear(b[at+p.length : at+padded(p.length)])
		}
	}
	return nil
}

// stretch is a range of the memory of a root buffer.
type stretch struct {
	root     *memory.Buffer
	from, to int64
}

// small returns where a part lies that is small, on a device, and within b.
func (m *Message) small(b []byte, pos int64, i int) (s stretch, ok bool) {
	p, at := &m.parts[i], m.rows.buffers[i].Offset
	if p.src == nil || p.length == 0 || p.length > maxGathered || at < pos || at+padded(p.length) > pos+int64(len(b)) || arrowbuf.OnHost(p.src) {
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
