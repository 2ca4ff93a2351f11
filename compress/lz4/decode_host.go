package lz4

import (
	"github.com/quiver-gpu/quiver/compress/internal/batch"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/launch"
)

// The host implementations of the kernels that decode, for the simulated device. They take
// the same steps and the same memory, but read sequences again instead of keeping bits.

const (
	mostExtended = 64
	done         = -1 // the status of a walk with the last sequence of a block
	longLength   = -2 // that of one that ends before a sequence with a long length
	mostLength   = 1 << 31
)

// inputs returns the inputs of a launch as one slice.
func inputs(l *cudabuf.HostLaunch, src int, items []batch.Item) []byte {
	var end int64
	for _, it := range items {
		end = max(end, it.Src+it.SrcSize)
	}
	return l.Memory(l.Pointer(src), end)
}

// parser reads sequences one after the other.
type parser struct {
	in     []byte
	at     int
	out    int64
	short  bool // whether it stops before a long sequence
	status batch.Status
}

// extend reads a length's further bytes. No length exceeds mostLength.
func (p *parser) extend(length int64) int64 {
	for k := 0; ; k++ {
		switch {
		case p.at >= len(p.in):
			p.status = batch.Truncated
			return 0
		case p.short && k == mostExtended:
			p.status = longLength
			return 0
		}
		b := p.in[p.at]
		p.at++
		if length += int64(b); length > mostLength {
			p.status = batch.TooLarge
			return 0
		}
		if b < 255 {
			return length
		}
	}
}

// read reads one sequence. Its output ends at out. It is valid if status is OK or done.
func (p *parser) read() (s batch.Sequence) {
	begin, out := p.at, p.out
	s.Out = uint32(out)
	token := p.in[p.at]
	p.at++
	literals := int64(token >> 4)
	if literals == 15 {
		literals = p.extend(15)
	}
	if p.status == batch.OK && literals > int64(len(p.in)-p.at) {
		p.status = batch.Truncated
	}
	if p.status != batch.OK {
		p.at = begin
		return s
	}
	s.Literals, s.Source = uint32(literals), uint32(p.at)
	p.at += int(literals)
	p.out += literals
	if p.at == len(p.in) {
		p.status = done
		return s
	}
	if len(p.in)-p.at < 2 {
		p.status = batch.Truncated
		return s
	}
	s.Offset = uint32(p.in[p.at]) | uint32(p.in[p.at+1])<<8
	p.at += 2
	match := int64(token&15) + 4
	if match == 19 {
		match = p.extend(19)
	}
	switch p.out += match; {
	case p.status == longLength:
		p.at, p.out = begin, out
	case p.status == batch.OK && p.out > mostLength:
		p.status = batch.TooLarge
	case p.status == batch.OK && p.at == len(p.in): // after a match there is another sequence
		p.status = batch.Truncated
	}
	return s
}

// walkPart reads the sequences of a part from a position on.
func walkPart(in []byte, entry int) walk {
	p := parser{in: in, at: entry, short: true}
	for end := min((entry/partBytes+1)*partBytes, len(in)); p.status == batch.OK && p.at < end; {
		p.read()
	}
	return walk{uint32(entry), uint32(p.at), uint32(p.out), p.status}
}

// partsHostKernel reads each part from where the one before it ends. In the first pass, the
// first part of a segment begins with a guess.
func partsHostKernel(l *cudabuf.HostLaunch) {
	n, pass, segments := l.Int64(7), l.Int64(8), int64(l.Grid.X)
	items, places, walks := launch.Structs[batch.Item](l, 1, n), launch.Structs[place](l, 2, n+1), launch.Structs[walk](l, 3, segments*segmentParts)
	src := inputs(l, 0, items)
	for i, it := range items {
		in, own := src[it.Src:it.Src+it.SrcSize], walks[int64(places[i].segment)*segmentParts:]
		for k := 0; k*partBytes < len(in); k++ {
			entry := k * partBytes
			if (k%segmentParts > 0 || pass > 0 && k > 0) && own[k-1].status == batch.OK && int(own[k-1].exit)/partBytes == k {
				entry = int(own[k-1].exit)
			}
			own[k] = walkPart(in, entry)
		}
	}
}

// pieceBegin returns where a piece of an item begins, whose output begins skew bytes after a
// multiple of 16.
func pieceBegin(number uint32, skew, size int64) int64 { return max(int64(number)*size-skew, 0) }

func linkHostKernel(l *cudabuf.HostLaunch) {
	size, n := int64(l.Uint32(8)), l.Int64(9)
	items, places := launch.Structs[batch.Item](l, 2, n), launch.Structs[place](l, 3, n+1)
	walks := launch.Structs[walk](l, 4, int64(places[n].segment)*segmentParts)
	pieces, outcomes := launch.Structs[piece](l, 6, int64(places[n].piece)), launch.Structs[batch.Outcome](l, 7, n)
	src := inputs(l, 1, items)
	for i, it := range items {
		in, most := src[it.Src:it.Src+it.SrcSize], min(it.DstSize, mostLength)
		skew, own := int64(l.Pointer(0)+uintptr(it.Dst))&15, pieces[places[i].piece:places[i+1].piece]
		next, out, at, status := 0, int64(0), 0, batch.OK
		if len(in) == 0 {
			status = batch.Corrupt
		}
		for status == batch.OK || status == longLength {
			var w walk
			if status == longLength {
				p := parser{in: in, at: at}
				p.read()
				w = walk{uint32(at), uint32(p.at), uint32(p.out), p.status}
				out += p.out - int64(w.bytes)
			} else if w = walks[int(places[i].segment)*segmentParts+at/partBytes]; int(w.entry) != at {
				w = walkPart(in, at)
			}
			if w.status > batch.OK {
				status = w.status
				break
			}
			begin := out
			if out += int64(w.bytes); out > most {
				status = batch.TooLarge
				break
			}
			for ; next < len(own) && pieceBegin(uint32(next), skew, size) < out; next++ {
				own[next].entry, own[next].out = w.entry, uint32(begin)
			}
			at, status = int(w.exit), w.status
		}
		outcomes[i] = batch.Outcome{Status: status}
		if status == done {
			outcomes[i] = batch.Outcome{Size: out}
		}
	}
}

func executeHostKernel(l *cudabuf.HostLaunch) {
	first, end := l.Int64(7), l.Int64(8)
	items, places, outcomes := launch.Structs[batch.Item](l, 2, end), launch.Structs[place](l, 3, end+1), launch.Structs[batch.Outcome](l, 6, end)
	pieces := launch.Structs[piece](l, 4, int64(places[end].piece))
	src := inputs(l, 1, items)
	for i := first; i < end; i++ {
		it, o := items[i], &outcomes[i]
		if o.Status == batch.OK && places[i].marks < 0 && o.Size > 0 {
			dst := l.Memory(l.Pointer(0)+uintptr(it.Dst), o.Size)
			if !writePiece(dst, nil, src[it.Src:it.Src+it.SrcSize], pieces[places[i].piece], 0) {
				*o = batch.Outcome{Status: batch.BadOffset}
			}
		}
	}
}

func markHostKernel(l *cudabuf.HostLaunch) {
	size, first, end := int64(l.Uint32(9)), l.Int64(10), l.Int64(11)
	items, places, outcomes := launch.Structs[batch.Item](l, 2, end), launch.Structs[place](l, 3, end+1), launch.Structs[batch.Outcome](l, 8, end)
	pieces := launch.Structs[piece](l, 4, int64(places[end].piece))
	src := inputs(l, 1, items)
	for i := first; i < end; i++ {
		it, o, at := items[i], &outcomes[i], places[i]
		skew := int64(l.Pointer(0)+uintptr(it.Dst)) & 15
		for k := at.piece; at.marks >= 0 && k < places[i+1].piece && o.Status == batch.OK; k++ {
			begin, limit := pieceBegin(k-at.piece, skew, size), min(pieceBegin(k-at.piece+1, skew, size), o.Size)
			if begin >= limit {
				break
			}
			marks := launch.Structs[uint16](l, 6, at.marks+skew+limit)[at.marks+skew:]
			clear(marks[begin:])
			launch.Structs[uint32](l, 7, int64(k)+1)[k] = 1
			dst := l.Memory(l.Pointer(0)+uintptr(it.Dst), limit)
			if !writePiece(dst, marks, src[it.Src:it.Src+it.SrcSize], pieces[k], begin) {
				*o = batch.Outcome{Status: batch.BadOffset}
			}
		}
	}
}

// writePiece writes the piece of an output that begins at a position. It reports whether all
// offsets are valid.
func writePiece(dst []byte, marks []uint16, in []byte, q piece, begin int64) bool {
	p, end := parser{in: in, at: int(q.entry), out: int64(q.out)}, int64(len(dst))
	for p.out < end && p.status == batch.OK {
		s := p.read()
		match := int64(s.Out) + int64(s.Literals)
		if p.out > match && (s.Offset == 0 || int64(s.Offset) > match) {
			return false
		}
		if low := max(int64(s.Out), begin); low < match {
			copy(dst[low:min(match, end)], in[int64(s.Source)+low-int64(s.Out):])
		}
		offset := int64(s.Offset)
		for x, high := max(match, begin), min(p.out, end); x < high; {
			n := min(high-x, offset)
			if from := x - offset; from < begin {
				n = min(n, begin-from)
				for k := range n {
					marks[x+k] = uint16(begin - from - k)
				}
			} else {
				copy(dst[x:x+n], dst[from:])
				if marks != nil {
					copy(marks[x:x+n], marks[from:])
				}
			}
			x += n
		}
	}
	return true
}

func resolveHostKernel(l *cudabuf.HostLaunch) {
	size, first := int64(l.Uint32(6)), l.Int64(7)
	end := first + int64(l.Grid.X)
	items, places, outcomes := launch.Structs[batch.Item](l, 1, end), launch.Structs[place](l, 2, end+1), launch.Structs[batch.Outcome](l, 5, end)
	for i := first; i < end; i++ {
		it, o := items[i], outcomes[i]
		if o.Status != batch.OK || o.Size == 0 || places[i].marks < 0 {
			continue
		}
		skew := int64(l.Pointer(0)+uintptr(it.Dst)) & 15
		dst := l.Memory(l.Pointer(0)+uintptr(it.Dst), o.Size)
		marks := launch.Structs[uint16](l, 3, places[i].marks+skew+o.Size)[places[i].marks+skew:]
		for k := uint32(1); pieceBegin(k, skew, size) < o.Size; k++ {
			begin := pieceBegin(k, skew, size)
			for x := begin; x < min(pieceBegin(k+1, skew, size), o.Size); x++ {
				if marks[x] != 0 {
					dst[x] = dst[begin-int64(marks[x])]
				}
			}
		}
	}
}
