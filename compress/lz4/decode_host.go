package lz4

import (
	"github.com/quiver-gpu/quiver/compress/internal/batch"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/launch"
)

// The host implementations of the kernels that decode, for the simulated device. They take
// the same steps and the same memory.

const (
	mostExtended = 8
	longSequence = 1 << 15
	noExit       = 1<<16 - 1
	done         = -1 // the status of a part with the last sequence of a block
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

// exitsHostKernel finds the exits of each byte, from the last one to the first.
func exitsHostKernel(l *cudabuf.HostLaunch) {
	segments := launch.Structs[segment](l, 2, int64(l.Grid.X))
	last := segments[len(segments)-1]
	items := launch.Structs[batch.Item](l, 1, last.item+1)
	src, all := inputs(l, 0, items), launch.Structs[uint16](l, 3, last.exits+int64(last.size))
	ofSegments := launch.Structs[[partBytes]uint16](l, 4, int64(len(segments)))
	for i, s := range segments {
		it := items[s.item]
		in, exits := src[s.src:it.Src+it.SrcSize], all[s.exits:s.exits+int64(s.size)]
		for at := len(exits) - 1; at >= 0; at-- {
			partEnd := (at/partBytes + 1) * partBytes
			switch end := shortSequence(in, at); {
			case end == noExit || end&longSequence != 0:
				exits[at] = uint16(end)
			case end < partEnd:
				exits[at] = exits[end]
			default:
				exits[at] = uint16(end - partEnd)
			}
		}
		for first := range min(partBytes, len(exits)) {
			at := first
			exit := exits[at]
			for exit < longSequence && (at/partBytes+1)*partBytes+int(exit) < segmentBytes {
				at = (at/partBytes+1)*partBytes + int(exit)
				exit = exits[at]
			}
			if exit < longSequence {
				exit = uint16((at/partBytes+1)*partBytes + int(exit) - segmentBytes)
			}
			ofSegments[i][first] = exit
		}
	}
}

// shortSequence returns where the sequence at a byte of a segment ends, or the exit of a
// long one.
func shortSequence(in []byte, at int) int {
	begin, token := at, in[at]
	at++
	extended := func(nibble byte) (length int, ok bool) {
		length = int(nibble)
		if nibble < 15 {
			return length, true
		}
		for range mostExtended {
			if at >= len(in) {
				break
			}
			length += int(in[at])
			at++
			if in[at-1] < 255 {
				return length, true
			}
		}
		return 0, false
	}
	unfinished := func() int {
		if at < len(in) {
			return longSequence | begin
		}
		return noExit
	}
	literals, ok := extended(token >> 4)
	if !ok {
		return unfinished()
	}
	if at += literals + 2; at > len(in) {
		return noExit
	}
	if _, ok = extended(token & 15); !ok {
		return unfinished()
	}
	if at == len(in) {
		return noExit
	}
	return at
}

// skipLong returns where the long sequence at a byte ends, or the size of the input if it
// does not.
func skipLong(in []byte, at int) int {
	p := parser{in: in, at: at}
	if p.read(); p.status != batch.OK {
		return len(in)
	}
	return p.at
}

// chainHostKernel follows the exits of each item from segment to segment.
func chainHostKernel(l *cudabuf.HostLaunch) {
	n := l.Int64(6)
	items, starts := launch.Structs[batch.Item](l, 1, n), launch.Structs[uint32](l, 2, n+1)
	src, segments := inputs(l, 0, items), launch.Structs[segment](l, 3, int64(starts[n]))
	ofSegments := launch.Structs[[partBytes]uint16](l, 5, int64(len(segments)))
	for i, it := range items {
		if it.SrcSize == 0 {
			continue
		}
		in, own := src[it.Src:it.Src+it.SrcSize], segments[starts[i]:starts[i+1]]
		exits := launch.Structs[uint16](l, 4, own[0].exits+it.SrcSize)[own[0].exits:]
		for at := 0; at < len(in); {
			k, within := at/segmentBytes, at%segmentBytes
			if own[k].entry == noEntry {
				own[k].entry = uint32(at)
			}
			exit, end := exits[at], (at/partBytes+1)*partBytes
			if within < partBytes {
				exit, end = ofSegments[int(starts[i])+k][within], (k+1)*segmentBytes
			}
			switch {
			case exit == noExit:
				at = len(in)
			case exit&longSequence != 0:
				at = skipLong(in, k*segmentBytes+int(exit&^longSequence))
			default:
				at = end + int(exit)
			}
		}
	}
}

// enterHostKernel follows the exits of each segment from part to part.
func enterHostKernel(l *cudabuf.HostLaunch) {
	n := l.Int64(5)
	segments, all := launch.Structs[segment](l, 2, n), launch.Structs[[parts]part](l, 4, n)
	items := launch.Structs[batch.Item](l, 1, segments[n-1].item+1)
	src := inputs(l, 0, items)
	for i, s := range segments {
		for k := range uint32(parts) {
			all[i][k] = part{item: uint32(s.item), entry: noEntry, end: min(s.begin+(k+1)*partBytes, s.begin+s.size)}
		}
		if s.entry == noEntry {
			continue
		}
		it := items[s.item]
		in := src[it.Src : it.Src+it.SrcSize]
		exits := launch.Structs[uint16](l, 3, s.exits+int64(s.size))[s.exits:]
		for at := int(s.entry); at < int(s.begin+s.size); {
			k := (at - int(s.begin)) / partBytes
			if all[i][k].entry == noEntry {
				all[i][k].entry = uint32(at)
			}
			switch exit := exits[at-int(s.begin)]; {
			case exit == noExit:
				at = len(in)
			case exit&longSequence != 0:
				at = skipLong(in, int(s.begin)+int(exit&^longSequence))
			default:
				at = int(s.begin) + (k+1)*partBytes + int(exit)
			}
		}
	}
}

// parser reads the sequences of a part one after the other.
type parser struct {
	in     []byte
	at     int
	out    int64
	status batch.Status
}

func (p *parser) extend(length int64) int64 {
	for {
		if p.at >= len(p.in) {
			p.status = batch.Truncated
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

// read reads one sequence. Its output ends at out. It is valid unless status is an error.
func (p *parser) read() (s batch.Sequence) {
	s.Out = uint32(p.out)
	token := p.in[p.at]
	p.at++
	literals := int64(token >> 4)
	if literals == 15 {
		literals = p.extend(15)
	}
	if p.status != batch.OK {
		return s
	}
	if literals > int64(len(p.in)-p.at) {
		p.status = batch.Truncated
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
	if p.out += match; p.out > mostLength {
		p.status = batch.TooLarge
	}
	return s
}

// itemsOf returns the items of parts.
func itemsOf(l *cudabuf.HostLaunch, i int, all []part) []batch.Item {
	return launch.Structs[batch.Item](l, i, int64(all[len(all)-1].item)+1)
}

func countHostKernel(l *cudabuf.HostLaunch) {
	all := launch.Structs[part](l, 2, l.Int64(3))
	items := itemsOf(l, 1, all)
	src := inputs(l, 0, items)
	for i := range all {
		own := &all[i]
		if own.entry == noEntry {
			continue
		}
		it := items[own.item]
		p := parser{in: src[it.Src : it.Src+it.SrcSize], at: int(own.entry)}
		for p.status == batch.OK && p.at < int(own.end) {
			p.read()
			own.sequences++
		}
		switch { // after a match there is another sequence
		case p.status == batch.OK && p.at == len(p.in):
			p.status = batch.Truncated
		case p.out > it.DstSize && p.status <= batch.OK:
			p.status = batch.TooLarge
		}
		own.bytes, own.status = uint32(p.out), p.status
	}
}

func totalHostKernel(l *cudabuf.HostLaunch) {
	n := l.Int64(7)
	items, starts := launch.Structs[batch.Item](l, 1, n), launch.Structs[uint32](l, 2, n+1)
	all, counts := launch.Structs[part](l, 3, int64(starts[n])*parts), launch.Structs[uint32](l, 4, n)
	states, outcomes := launch.Structs[batch.Progress](l, 5, n), launch.Structs[batch.Outcome](l, 6, n)
	for i, it := range items {
		var out int64
		var count uint32
		status := batch.OK
		for k := int64(starts[i]) * parts; k < int64(starts[i+1])*parts && status == batch.OK; k++ {
			s := &all[k]
			if s.entry == noEntry {
				continue
			}
			s.out, s.first = uint32(out), count
			out, count, status = out+int64(s.bytes), count+s.sequences, s.status
			if out > it.DstSize && status <= batch.OK {
				status = batch.TooLarge
			}
		}
		counts[i], states[i], outcomes[i] = 0, batch.Progress{}, batch.Outcome{}
		switch { // an input ends with literals
		case status == done:
			counts[i], outcomes[i].Size = count, out
			if out > 0 {
				skew := int64(l.Pointer(0)+uintptr(it.Dst)) & 15
				states[i] = batch.Progress{Windows: uint32((out + skew + batch.WindowBytes - 1) / batch.WindowBytes), Size: uint32(out)}
			}
		case status != batch.OK:
			outcomes[i].Status = status
		case it.SrcSize == 0:
			outcomes[i].Status = batch.Corrupt
		default:
			outcomes[i].Status = batch.Truncated
		}
	}
}

func sequencesHostKernel(l *cudabuf.HostLaunch) {
	all := launch.Structs[part](l, 3, l.Int64(9))
	n := int64(all[len(all)-1].item) + 1
	items, outcomes := launch.Structs[batch.Item](l, 2, n), launch.Structs[batch.Outcome](l, 4, n)
	src := inputs(l, 1, items)
	firstSequence, firstWindow := launch.Structs[int64](l, 5, n), launch.Structs[int64](l, 6, n)
	for _, s := range all {
		if s.entry == noEntry || outcomes[s.item].Status != batch.OK {
			continue
		}
		it := items[s.item]
		p := parser{in: src[it.Src : it.Src+it.SrcSize], at: int(s.entry), out: int64(s.out)}
		at := firstSequence[s.item] + int64(s.first)
		sequences := launch.Structs[batch.Sequence](l, 7, at+int64(s.sequences))[at:]
		skew, window := int64(l.Pointer(0)+uintptr(it.Dst))&15, int64(0)
		if s.out > 0 {
			window = (int64(s.out) + skew + batch.WindowBytes - 1) / batch.WindowBytes
		}
		for k := range sequences {
			sequences[k] = p.read()
			for ; max(window*batch.WindowBytes-skew, 0) < p.out; window++ {
				w := firstWindow[s.item] + window
				launch.Structs[batch.Window](l, 8, w+1)[w] = batch.Window{First: s.first + uint32(k)}
			}
		}
	}
}

// executeHostKernel writes all windows of an item when it first appears among those that
// are written.
func executeHostKernel(l *cudabuf.HostLaunch) {
	writes := launch.Structs[int32](l, 2, int64(l.Grid.X))
	n := int64(0)
	for _, i := range writes {
		n = max(n, int64(i)+1)
	}
	items, firstSequence, counts := launch.Structs[batch.Item](l, 3, n), launch.Structs[int64](l, 4, n), launch.Structs[uint32](l, 6, n)
	states, outcomes := launch.Structs[batch.Progress](l, 9, n), launch.Structs[batch.Outcome](l, 10, n)
	for _, i := range writes {
		if states[i].Next == states[i].Windows {
			continue
		}
		states[i].Next = states[i].Windows
		it, at := items[i], firstSequence[i]
		src, dst := l.Memory(l.Pointer(1)+uintptr(it.Src), it.SrcSize), l.Memory(l.Pointer(0)+uintptr(it.Dst), int64(states[i].Size))
		sequences := launch.Structs[batch.Sequence](l, 7, at+int64(counts[i]))[at:]
		for k, s := range sequences {
			match := s.Out + s.Literals
			copy(dst[s.Out:match], src[s.Source:])
			if k+1 == len(sequences) {
				break
			}
			end := sequences[k+1].Out
			if s.Offset == 0 || s.Offset > match {
				outcomes[i] = batch.Outcome{Status: batch.BadOffset}
				break
			}
			for p := match; p < end; p++ {
				dst[p] = dst[p-s.Offset]
			}
		}
	}
}
