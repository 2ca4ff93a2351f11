package zstd

import (
	"encoding/binary"
	"unsafe"

	"github.com/cespare/xxhash/v2"

	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/internal/batch"
	"github.com/quiver-gpu/quiver/compress/internal/matches"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/launch"
)

// The host implementations of the encoder's kernels, for the simulated device. They write
// the same bytes.

const (
	maxSingleSegment = 128 << 10 // larger frames have a window
	windowDescriptor = 7 << 3    // of 128 KiB
)

// sourceBlock is the struct SourceBlock of zstd_encode.cuh.
type sourceBlock struct {
	src, scratch int64
	size, item   uint32
}

// encodedBlock is the struct EncodedBlock of zstd_encode.cuh.
type encodedBlock struct{ literals, sequences, section, size, kind, out uint32 }

func matchesHostKernel(l *cudabuf.HostLaunch)     { findMatches(l, matches.SmallTable) }
func moreMatchesHostKernel(l *cudabuf.HostLaunch) { findMatches(l, matches.LargeTable) }

func findMatches(l *cudabuf.HostLaunch, tableBits int) {
	n := int64(l.Grid.X)
	pieces := launch.Structs[uint32](l, 2, n+1)
	blocks := launch.Structs[sourceBlock](l, 1, int64(pieces[n]))
	encoded := launch.Structs[encodedBlock](l, 5, int64(pieces[n]))
	batch.ForEach(n, func(i int64) {
		part := blocks[pieces[i]:pieces[i+1]]
		last := part[len(part)-1]
		piece := l.Memory(l.Pointer(0)+uintptr(part[0].src), last.src+int64(last.size)-part[0].src)
		finder, begin := matches.NewFinder(tableBits), uint32(0)
		for k, b := range part {
			end := begin + b.size
			literals := l.Memory(l.Pointer(3)+uintptr(b.scratch), int64(b.size))[:0]
			sequences := sequencesAt(l, 4, b, b.size/4)[:0]
			var r repeats
			anchor := begin
			finder.Find(piece, begin, end, matches.Entropy(piece[begin:end]), true, func(m matches.Match) {
				before := m.Position - anchor
				literals = append(literals, piece[anchor:m.Position]...)
				sequences = append(sequences, encodedSequence{r.value(m.Offset, before), uint16(before), uint16(m.Length)})
				anchor = m.Position + m.Length
			})
			literals = append(literals, piece[anchor:end]...)
			encoded[int(pieces[i])+k] = encodedBlock{literals: uint32(len(literals)), sequences: uint32(len(sequences))}
			begin = end
		}
	})
}

// sequencesAt returns n sequences of a block in the scratch memory.
func sequencesAt(l *cudabuf.HostLaunch, i int, b sourceBlock, n uint32) []encodedSequence {
	if n == 0 {
		return nil
	}
	memory := l.Memory(l.Pointer(i)+uintptr(b.scratch/4*sequenceSize), int64(n)*sequenceSize)
	return unsafe.Slice((*encodedSequence)(unsafe.Pointer(unsafe.SliceData(memory))), n)
}

func entropyHostKernel(l *cudabuf.HostLaunch) {
	n := int64(l.Grid.X)
	blocks, encoded := launch.Structs[sourceBlock](l, 1, n), launch.Structs[encodedBlock](l, 5, n)
	batch.ForEach(n, func(i int64) {
		b, e := blocks[i], &encoded[i]
		sequences := sequencesAt(l, 4, b, e.sequences)
		e.kind, e.size = rawBlock, b.size
		if len(sequences) == 1 && e.literals <= 1 && sequences[0].value == 4 && uint32(sequences[0].literals)+uint32(sequences[0].match) == b.size {
			e.kind, e.size = rleBlock, 1
			return
		}
		if len(sequences) == 0 && e.literals < minLiterals {
			return
		}
		contents := encodeLiterals(nil, l.Memory(l.Pointer(2)+uintptr(b.scratch), int64(e.literals)))
		e.section = uint32(len(contents))
		contents = encodeSequences(contents, sequences)
		if len(contents) < int(b.size) {
			e.kind, e.size = codedBlock, uint32(len(contents))
			copy(l.Memory(l.Pointer(3)+uintptr(b.scratch), int64(e.size)), contents)
		}
	})
}

func frameHostKernel(l *cudabuf.HostLaunch) {
	n, checksum := l.Int64(6), l.Int64(7) != 0
	items, starts := launch.Structs[batch.Item](l, 2, n), launch.Structs[uint32](l, 3, n+1)
	encoded, outcomes := launch.Structs[encodedBlock](l, 4, int64(starts[n])), launch.Structs[batch.Outcome](l, 5, n)
	batch.ForEach(n, func(i int64) {
		it := items[i]
		frame := binary.LittleEndian.AppendUint32(nil, frameMagic)
		descriptor := uint8(0)
		if checksum {
			descriptor = 4
		}
		if it.SrcSize <= maxSingleSegment {
			frame = append(frame, descriptor|1<<5)
		} else {
			frame = append(frame, descriptor, windowDescriptor)
		}
		switch {
		case it.SrcSize < 256:
			frame = append(frame, byte(it.SrcSize))
		case it.SrcSize < 256+1<<16:
			frame[4] |= 1 << 6
			frame = binary.LittleEndian.AppendUint16(frame, uint16(it.SrcSize-256))
		default:
			frame[4] |= 2 << 6
			frame = binary.LittleEndian.AppendUint32(frame, uint32(it.SrcSize))
		}
		if it.SrcSize == 0 {
			frame = append(frame, 1, 0, 0) // the last block, raw and empty
		}
		at := int64(len(frame))
		for k := starts[i]; k < starts[i+1]; k++ {
			encoded[k].out = uint32(at)
			at += 3 + int64(encoded[k].size)
		}
		end := at
		if checksum {
			end += 4
		}
		if end > it.DstSize || end > compress.MaxSize {
			outcomes[i] = batch.Outcome{Status: batch.TooLarge}
			return
		}
		dst := l.Memory(l.Pointer(0)+uintptr(it.Dst), end)
		copy(dst, frame)
		if checksum {
			binary.LittleEndian.PutUint32(dst[at:], uint32(xxhash.Sum64(l.Memory(l.Pointer(1)+uintptr(it.Src), it.SrcSize))))
		}
		outcomes[i] = batch.Outcome{Size: end}
	})
}

func packHostKernel(l *cudabuf.HostLaunch) {
	n := int64(l.Grid.X)
	blocks, encoded := launch.Structs[sourceBlock](l, 4, n), launch.Structs[encodedBlock](l, 6, n)
	count := int64(blocks[n-1].item) + 1
	items, starts, outcomes := launch.Structs[batch.Item](l, 2, count), launch.Structs[uint32](l, 3, count+1), launch.Structs[batch.Outcome](l, 7, count)
	batch.ForEach(n, func(i int64) {
		b, e := blocks[i], encoded[i]
		if outcomes[b.item].Status != batch.OK {
			return
		}
		header, from := e.kind<<1|e.size<<3, l.Pointer(1)+uintptr(b.src)
		switch e.kind {
		case rleBlock:
			header = e.kind<<1 | b.size<<3
		case codedBlock:
			from = l.Pointer(5) + uintptr(b.scratch)
		}
		if int64(starts[b.item+1]) == i+1 {
			header |= 1
		}
		dst := l.Memory(l.Pointer(0)+uintptr(items[b.item].Dst+int64(e.out)), 3+int64(e.size))
		dst[0], dst[1], dst[2] = byte(header), byte(header>>8), byte(header>>16)
		copy(dst[3:], l.Memory(from, int64(e.size)))
	})
}
