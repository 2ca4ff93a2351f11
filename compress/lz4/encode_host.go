package lz4

import (
	"github.com/quiver-gpu/quiver/compress/internal/batch"
	"github.com/quiver-gpu/quiver/compress/internal/matches"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/launch"
)

// The host implementations of the kernels of kernels/compress/lz4_encode.cu, for the
// simulated device. They write the same bytes.

// sourcePiece is the struct SourcePiece.
type sourcePiece struct {
	src, scratch        int64
	size, matched, item uint32
	_                   uint32
}

// encodedSequence is the struct EncodedSequence.
type encodedSequence struct{ literals, match, offset, _ uint16 }

// encodedPiece is the struct EncodedPiece.
type encodedPiece struct{ sequences, first, rest, tail, out, carried, tailOut, lastOut, lastLiterals uint32 }

// extension returns the number of bytes that extend a length in a token.
func extension(length uint32) uint32 {
	if length < 15 {
		return 0
	}
	return (length-15)/255 + 1
}

// sequencesOf returns n sequences of a piece in the scratch memory.
func sequencesOf(l *cudabuf.HostLaunch, i int, p sourcePiece, n uint32) []encodedSequence {
	if n == 0 {
		return nil
	}
	return launch.Structs[encodedSequence](l, i, p.scratch+int64(n))[p.scratch:]
}

func matchesHostKernel(l *cudabuf.HostLaunch) {
	n := int64(l.Grid.X)
	pieces, encoded := launch.Structs[sourcePiece](l, 1, n), launch.Structs[encodedPiece](l, 3, n)
	batch.ForEach(n, func(i int64) {
		p := pieces[i]
		list := sequencesOf(l, 2, p, p.size/shortestMatch)
		var e encodedPiece
		anchor := uint32(0)
		matches.NewFinder(matches.SmallTable).Find(l.Memory(l.Pointer(0)+uintptr(p.src), int64(p.size)), 0, p.matched, matches.Incompressible, false, func(m matches.Match) {
			before := m.Position - anchor
			list[e.sequences] = encodedSequence{literals: uint16(before), match: uint16(m.Length), offset: uint16(m.Offset)}
			if e.sequences == 0 {
				e.first = before
			} else {
				e.rest += 1 + extension(before) + before
			}
			e.sequences++
			e.rest += 2 + extension(m.Length-minMatch)
			anchor = m.Position + m.Length
		})
		e.tail = p.size - anchor
		encoded[i] = e
	})
}

func placeHostKernel(l *cudabuf.HostLaunch) {
	n := l.Int64(5)
	items, starts := launch.Structs[batch.Item](l, 1, n), launch.Structs[uint32](l, 2, n+1)
	encoded, outcomes := launch.Structs[encodedPiece](l, 3, int64(starts[n])), launch.Structs[batch.Outcome](l, 4, n)
	for i, it := range items {
		pieces := encoded[starts[i]:starts[i+1]]
		size, ok := placePieces(pieces, it.DstSize)
		switch {
		case !ok:
			outcomes[i] = batch.Outcome{Status: batch.TooLarge}
			continue
		case len(pieces) == 0:
			l.Memory(l.Pointer(0)+uintptr(it.Dst), 1)[0] = 0
		}
		outcomes[i] = batch.Outcome{Size: size}
	}
}

// placePieces finds out where the pieces of an item go. It returns the size of the output,
// and whether that is at most room.
func placePieces(pieces []encodedPiece, room int64) (int64, bool) {
	at, literals := int64(0), uint32(0)
	for k := range pieces {
		e := &pieces[k]
		e.out, e.carried = uint32(at), literals
		if e.sequences == 0 {
			literals += e.tail
			continue
		}
		all := literals + e.first
		at += int64(1 + extension(all) + all + e.rest)
		literals = e.tail
	}
	end := at + int64(1+extension(literals)+literals)
	if end > room {
		return 0, false
	}
	if len(pieces) == 0 {
		return end, true
	}
	last := &pieces[len(pieces)-1]
	last.lastOut, last.lastLiterals = uint32(at), literals
	before := uint32(end)
	for k := len(pieces) - 1; k >= 0; k-- {
		e := &pieces[k]
		before -= e.tail
		e.tailOut = before
		if e.sequences > 0 {
			before = e.out + 1 + extension(e.carried+e.first) + e.carried
		}
	}
	return end, true
}

func writeHostKernel(l *cudabuf.HostLaunch) {
	n := int64(l.Grid.X)
	pieces, encoded := launch.Structs[sourcePiece](l, 4, n), launch.Structs[encodedPiece](l, 6, n)
	count := int64(pieces[n-1].item) + 1
	items, starts, outcomes := launch.Structs[batch.Item](l, 2, count), launch.Structs[uint32](l, 3, count+1), launch.Structs[batch.Outcome](l, 7, count)
	batch.ForEach(n, func(i int64) {
		p, e := pieces[i], encoded[i]
		if outcomes[p.item].Status != batch.OK {
			return
		}
		src := l.Memory(l.Pointer(1)+uintptr(p.src), int64(p.size))
		dst := l.Memory(l.Pointer(0)+uintptr(items[p.item].Dst), outcomes[p.item].Size)
		at, from := int(e.out), 0
		for k, s := range sequencesOf(l, 5, p, e.sequences) {
			literals := int(s.literals)
			if k == 0 {
				literals += int(e.carried)
			}
			token := at
			dst[token] = byte(min(literals, 15)<<4 | min(int(s.match)-minMatch, 15))
			at = putLength(dst, at+1, literals) + literals
			copy(dst[at-int(s.literals):at], src[from:])
			dst[at], dst[at+1] = byte(s.offset), byte(s.offset>>8)
			at = putLength(dst, at+2, int(s.match)-minMatch)
			from += int(s.literals) + int(s.match)
		}
		copy(dst[e.tailOut:e.tailOut+e.tail], src[p.size-e.tail:])
		if int64(starts[p.item+1]) == i+1 {
			dst[e.lastOut] = byte(min(e.lastLiterals, 15) << 4)
			putLength(dst, int(e.lastOut)+1, int(e.lastLiterals))
		}
	})
}
