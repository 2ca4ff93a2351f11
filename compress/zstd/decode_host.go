package zstd

import (
	"bytes"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/quiver-gpu/quiver/compress/internal/batch"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/launch"
)

// The host implementations of the kernels, for the simulated device. They take the same
// steps and the same memory.

// The largest block, and the kinds of blocks.
const (
	maxBlock   = 128 << 10
	rawBlock   = 0
	rleBlock   = 1
	codedBlock = 2
)

// The index of a block has the sequence of every indexStep bytes of output.
const (
	indexStep = 2 << 10
	indexSize = maxBlock / indexStep
)

// block is the struct Block of zstd.cuh.
type block struct {
	src                             int64
	srcSize                         uint32
	literals, sequences             uint32
	firstLiteral, firstSequence     int64
	literalsSrc, literalsSrcSize    uint32
	sequencesSrc                    uint32
	huffman                         int32
	tables                          [3]int32
	kind, literalsKind, streams     uint8
	modes                           uint8
	frameBegins, frameEnds, checked bool
	_                               uint8
	checksum                        uint32
	contentSize                     int64
	status                          batch.Status
	size                            uint32
	repeats                         [3]uint32
	out, frame                      uint32
	item                            int64
}

// hasCodedLiterals reports whether the literals have Huffman codes. Other literals are not in
// the scratch memory.
func (b *block) hasCodedLiterals() bool { return b.kind == codedBlock && b.literalsKind >= huffman }

// hasSameLiterals reports whether all literals are the first one.
func (b *block) hasSameLiterals() bool {
	return b.kind == rleBlock || b.kind == codedBlock && b.literalsKind == rleLiterals
}

// source returns the inputs of a launch as one slice, and its items.
func source(l *cudabuf.HostLaunch, src, items int, n int64) ([]byte, []batch.Item) {
	all := launch.Structs[batch.Item](l, items, n)
	var end int64
	for _, it := range all {
		end = max(end, it.Src+it.SrcSize)
	}
	return l.Memory(l.Pointer(src), end), all
}

func countHostKernel(l *cudabuf.HostLaunch) {
	n := l.Int64(3)
	src, items := source(l, 0, 1, n)
	found := launch.Structs[counts](l, 2, n)
	for i, it := range items {
		s := scan{src: src[it.Src : it.Src+it.SrcSize], item: it}
		status := s.run()
		if status != batch.OK {
			s.counts = counts{}
		} else if s.counts.Blocks > 0 {
			s.counts.Windows = batch.Windows(min(s.largest, it.DstSize))
		}
		s.counts.Status = int64(status)
		found[i] = s.counts
	}
}

func scanHostKernel(l *cudabuf.HostLaunch) {
	n := l.Int64(4)
	src, items := source(l, 0, 1, n)
	starts := launch.Structs[counts](l, 2, n+1)
	blocks := launch.Structs[block](l, 3, starts[n].Blocks)
	for i, it := range items {
		if starts[i].Status != int64(batch.OK) {
			continue
		}
		s := scan{src: src[it.Src : it.Src+it.SrcSize], item: it, index: int64(i), blocks: blocks[starts[i].Blocks:starts[i+1].Blocks]}
		s.run()
		for k := range s.blocks {
			s.blocks[k].firstLiteral += starts[i].Literals
			s.blocks[k].firstSequence += starts[i].Sequences
		}
	}
}

// scan finds the frames and blocks of an item.
type scan struct {
	src      []byte
	item     batch.Item
	index    int64
	at       int
	blocks   []block // nil to count only
	counts   counts
	smallest int64 // bytes of output that the blocks have at least
	largest  int64 // and at most
	huffman  int64
	tables   [3]int64
}

func (s *scan) left() int { return len(s.src) - s.at }

func (s *scan) little(at, n int) (v uint64) {
	for k := range n {
		v |= uint64(s.src[at+k]) << (8 * k)
	}
	return v
}

func (s *scan) run() batch.Status {
	for s.left() > 0 {
		if s.left() < 4 {
			return batch.Truncated
		}
		magic := s.little(s.at, 4)
		if magic&^15 == 0x184D2A50 {
			if s.left() < 8 {
				return batch.Truncated
			}
			size := int(s.little(s.at+4, 4))
			if size > s.left()-8 {
				return batch.Truncated
			}
			s.at += 8 + size
			continue
		}
		if magic != frameMagic {
			return batch.Corrupt
		}
		if status := s.frame(); status != batch.OK {
			return status
		}
	}
	return batch.OK
}

// frameHeader is what the header of a frame says.
type frameHeader struct {
	checked bool
	content int64  // bytes, -1 if unknown
	most    uint32 // bytes of a block's content
}

// header reads the header of a frame.
func (s *scan) header() (h frameHeader, status batch.Status) {
	if s.left() < 5 {
		return h, batch.Truncated
	}
	descriptor := s.src[s.at+4]
	s.at += 5
	single := descriptor>>5&1 == 1
	h.checked = descriptor>>2&1 == 1
	if descriptor&8 != 0 {
		return h, batch.Corrupt
	}
	dictionary, flag, windowBytes := 1<<(descriptor&3)>>1, descriptor>>6, 1
	sizeBytes := 1 << flag
	if flag == 0 && !single {
		sizeBytes = 0
	}
	if single {
		windowBytes = 0
	}
	if s.left() < windowBytes+dictionary+sizeBytes {
		return h, batch.Truncated
	}
	window := int64(maxBlock)
	if !single {
		w := s.src[s.at]
		window = 1 << (10 + w>>3)
		window += window / 8 * int64(w&7)
		s.at++
	}
	if s.little(s.at, dictionary) != 0 {
		return h, batch.Unsupported
	}
	s.at += dictionary
	h.content = -1
	if sizeBytes > 0 {
		h.content = int64(s.little(s.at, sizeBytes))
		if sizeBytes == 2 {
			h.content += 256
		}
		if h.content < 0 || h.content > s.item.DstSize {
			return h, batch.TooLarge
		}
	}
	s.at += sizeBytes
	if single {
		window = h.content
	}
	h.most = uint32(min(window, maxBlock))
	return h, batch.OK
}

// frame reads the header of a frame and the headers of its blocks.
func (s *scan) frame() batch.Status {
	h, status := s.header()
	if status != batch.OK {
		return status
	}
	s.huffman, s.tables = -1, [3]int64{-1, -1, -1}
	for first, last := true, false; !last; first = false {
		if s.left() < 3 {
			return batch.Truncated
		}
		header := uint32(s.little(s.at, 3))
		s.at += 3
		last = header&1 == 1
		size := header >> 3
		b := block{src: s.item.Src + int64(s.at), kind: uint8(header >> 1 & 3), srcSize: size, literals: size, sequences: 1,
			frameBegins: first, frameEnds: last, checked: h.checked, contentSize: h.content, item: s.index}
		if b.kind > codedBlock || size > h.most {
			return batch.Corrupt
		}
		if b.kind == rleBlock {
			b.srcSize = 1
		}
		if int(b.srcSize) > s.left() {
			return batch.Truncated
		}
		if b.kind == codedBlock {
			if status := s.coded(&b, h.most); status != batch.OK {
				return status
			}
		}
		s.at += int(b.srcSize)
		if last && h.checked {
			if s.left() < 4 {
				return batch.Truncated
			}
			b.checksum = uint32(s.little(s.at, 4))
			s.at += 4
		}
		s.smallest += int64(b.literals) + 3*int64(b.sequences-1)
		if b.kind == codedBlock {
			s.largest += maxBlock
		} else {
			s.largest += int64(b.literals)
		}
		if s.smallest > s.item.DstSize {
			return batch.TooLarge
		}
		b.firstLiteral, b.firstSequence = s.counts.Literals, s.counts.Sequences
		if s.blocks != nil {
			s.blocks[s.counts.Blocks] = b
		}
		s.counts.Blocks++
		if b.hasCodedLiterals() {
			s.counts.Literals += int64(b.literals)
		}
		s.counts.Sequences += int64(b.sequences)
	}
	return batch.OK
}

// coded reads the headers of the two sections of a block whose content has at most most
// bytes.
func (s *scan) coded(b *block, most uint32) batch.Status {
	if !s.literalsHeader(b, most) || !s.sequencesHeader(b, most) {
		return batch.Corrupt
	}
	return batch.OK
}

// literalsHeader reads the header of a literals section. It reports whether it is valid.
func (s *scan) literalsHeader(b *block, most uint32) bool {
	end, p := s.at+int(b.srcSize), s.at
	if end-p < 2 {
		return false
	}
	first, form := s.src[p], s.src[p]>>2&3
	b.literalsKind = first & 3
	if b.literalsKind <= rleLiterals {
		n := 1
		if form&1 == 1 {
			n += int(form+1) / 2
		}
		if end-p < n {
			return false
		}
		b.literals = uint32(first >> 3)
		if n > 1 {
			b.literals = uint32(s.little(p, n) >> 4)
		}
		b.literalsSrcSize = b.literals
		if b.literalsKind == rleLiterals {
			b.literalsSrcSize = 1
		}
		p += n
	} else {
		n := [4]int{3, 3, 4, 5}[form]
		width := literalsWidths[form]
		if end-p < n {
			return false
		}
		v := s.little(p, n) >> 4
		b.literals = uint32(v & (1<<width - 1))
		b.literalsSrcSize = uint32(v >> width & (1<<width - 1))
		b.streams = 4
		if form == 0 {
			b.streams = 1
		}
		p += n
		if b.literalsKind == huffman {
			s.huffman = s.counts.Blocks
		}
		if s.huffman < 0 {
			return false
		}
		b.huffman = int32(s.counts.Blocks - s.huffman)
	}
	if b.literals > most || int(b.literalsSrcSize) > end-p {
		return false
	}
	b.literalsSrc = uint32(p - s.at)
	return true
}

// sequencesHeader reads the header of a sequences section, which follows the literals. It
// reports whether it is valid.
func (s *scan) sequencesHeader(b *block, most uint32) bool {
	end, p := s.at+int(b.srcSize), s.at+int(b.literalsSrc+b.literalsSrcSize)
	if end-p < 1 {
		return false
	}
	n := uint32(s.src[p])
	p++
	switch {
	case n == 255:
		if end-p < 2 {
			return false
		}
		n = uint32(s.little(p, 2)) + 0x7F00
		p += 2
	case n >= 128:
		if end-p < 1 {
			return false
		}
		n = (n-128)*256 + uint32(s.src[p])
		p++
	}
	b.sequences = n + 1
	if n == 0 {
		return p == end
	}
	if int64(b.literals)+3*int64(n) > int64(most) || end-p < 1 {
		return false
	}
	b.sequencesSrc = uint32(p - s.at)
	b.modes = s.src[p]
	if b.modes&3 != 0 {
		return false
	}
	for i := range 3 {
		if b.modes>>(6-2*i)&3 != repeated {
			s.tables[i] = s.counts.Blocks
		}
		if s.tables[i] < 0 {
			return false
		}
		b.tables[i] = int32(s.counts.Blocks - s.tables[i])
	}
	return true
}

// blocksHostKernel decodes the literals and the sequences of blocks.
func blocksHostKernel(l *cudabuf.HostLaunch) {
	n := l.Int64(5)
	if n == 0 {
		return
	}
	blocks := launch.Structs[block](l, 1, n)
	var end int64
	for _, b := range blocks {
		if b.hasCodedLiterals() {
			end = b.firstLiteral + int64(b.literals)
		}
	}
	src, literals := contents(l, 0, blocks), l.Memory(l.Pointer(2), end)
	sequences := launch.Structs[batch.Sequence](l, 3, blocks[n-1].firstSequence+int64(blocks[n-1].sequences))
	index := launch.Structs[[indexSize]uint16](l, 4, n)
	for i := range blocks {
		b := &blocks[i]
		if b.hasCodedLiterals() && !decodeLiterals(src, blocks, i, literals) {
			b.status = batch.Corrupt
		}
		found := sequences[b.firstSequence : b.firstSequence+int64(b.sequences)]
		if !decodeSequences(src, blocks, i, found) {
			b.status = batch.Corrupt
			continue
		}
		for k, at := 0, uint32(0); at < b.size; at += indexStep {
			for k+1 < len(found) && found[k+1].Out <= at {
				k++
			}
			index[i][at/indexStep] = uint16(k)
		}
	}
}

// contents returns the inputs of a launch up to the end of the last block.
func contents(l *cudabuf.HostLaunch, i int, blocks []block) []byte {
	var end int64
	for _, b := range blocks {
		end = max(end, b.src+int64(b.srcSize))
	}
	return l.Memory(l.Pointer(i), end)
}

func (b *block) contents(src []byte) []byte { return src[b.src : b.src+int64(b.srcSize)] }

func (b *block) codedLiterals(src []byte) []byte {
	return b.contents(src)[b.literalsSrc : b.literalsSrc+b.literalsSrcSize]
}

func placeHostKernel(l *cudabuf.HostLaunch) {
	n := l.Int64(7)
	items, starts := launch.Structs[batch.Item](l, 1, n), launch.Structs[counts](l, 2, n+1)
	blocks, outcomes := launch.Structs[block](l, 3, starts[n].Blocks), launch.Structs[batch.Outcome](l, 6, n)
	windows, states := launch.Structs[batch.Window](l, 4, starts[n].Windows), launch.Structs[batch.Progress](l, 5, n)
	for i := range items {
		status := batch.Status(starts[i].Status)
		var out, frame, begin int64
		var repeats [3]uint32
		skew := int64(l.Pointer(0)+uintptr(items[i].Dst)) & 15
		own := windows[starts[i].Windows:starts[i+1].Windows]
		states[i] = batch.Progress{}
		for k := starts[i].Blocks; k < starts[i+1].Blocks && status == batch.OK; k++ {
			b := &blocks[k]
			status = b.status
			if b.frameBegins {
				repeats, frame = [3]uint32{1, 4, 8}, out
			}
			b.out, b.frame = uint32(out), uint32(frame)
			after := b.repeats
			b.repeats = repeats
			for r := range after {
				after[r] = knownOffset(after[r], b.repeats)
			}
			repeats = after
			out += int64(b.size)
			if out > items[i].DstSize {
				status = batch.TooLarge
			}
			if b.frameEnds && b.contentSize >= 0 && out-frame != b.contentSize {
				status = batch.Corrupt
			}
			for status == batch.OK && begin < out {
				own[states[i].Windows] = batch.Window{First: uint32(k - starts[i].Blocks)}
				states[i].Windows++
				begin = int64(states[i].Windows)*batch.WindowBytes - skew
			}
		}
		states[i].Size = uint32(out)
		outcomes[i] = batch.Outcome{Status: status}
		if status == batch.OK {
			outcomes[i].Size = out
		} else {
			states[i].Windows = 0
		}
	}
}

// writeHostKernel writes all windows of an item when it first appears among those that are
// written.
func writeHostKernel(l *cudabuf.HostLaunch) {
	writes := launch.Structs[int32](l, 2, int64(l.Grid.X))
	n := int64(slices.Max(writes)) + 1
	items, starts := launch.Structs[batch.Item](l, 3, n), launch.Structs[counts](l, 4, n+1)
	blocks := launch.Structs[block](l, 5, starts[n].Blocks)
	src := contents(l, 1, blocks)
	sequences, literals := launch.Structs[batch.Sequence](l, 7, starts[n].Sequences), l.Memory(l.Pointer(8), starts[n].Literals)
	states, outcomes := launch.Structs[batch.Progress](l, 10, n), launch.Structs[batch.Outcome](l, 11, n)
	for _, i := range writes {
		if states[i].Next == states[i].Windows {
			continue
		}
		states[i].Next = states[i].Windows
		dst := l.Memory(l.Pointer(0)+uintptr(items[i].Dst), int64(states[i].Size))
		writeBlocks(blocks[starts[i].Blocks:starts[i+1].Blocks], dst, src, literals, sequences, &outcomes[i])
	}
}

func executeHostKernel(l *cudabuf.HostLaunch) {
	list := launch.Structs[int32](l, 2, int64(l.Grid.X))
	n := int64(slices.Max(list)) + 1
	items, starts, outcomes := launch.Structs[batch.Item](l, 3, n), launch.Structs[counts](l, 4, n+1), launch.Structs[batch.Outcome](l, 8, n)
	blocks := launch.Structs[block](l, 5, starts[n].Blocks)
	src := contents(l, 1, blocks)
	sequences, literals := launch.Structs[batch.Sequence](l, 6, starts[n].Sequences), l.Memory(l.Pointer(7), starts[n].Literals)
	for _, i := range list {
		if o := &outcomes[i]; o.Status == batch.OK {
			dst := l.Memory(l.Pointer(0)+uintptr(items[i].Dst), o.Size)
			writeBlocks(blocks[starts[i].Blocks:starts[i+1].Blocks], dst, src, literals, sequences, o)
		}
	}
}

// writeBlocks executes the sequences of the blocks of an item.
func writeBlocks(blocks []block, dst, src, literals []byte, sequences []batch.Sequence, outcome *batch.Outcome) {
	for k := range blocks {
		if !blocks[k].write(dst, src, literals, sequences) {
			*outcome = batch.Outcome{Status: batch.BadOffset}
			return
		}
	}
}

// write executes the sequences of a block. It reports whether all offsets are valid.
func (b *block) write(dst, src, literals []byte, sequences []batch.Sequence) bool {
	switch own := dst[b.out : b.out+b.size]; {
	case b.hasCodedLiterals():
		literals = literals[b.firstLiteral:]
	case b.hasSameLiterals():
		literals = bytes.Repeat(b.contents(src)[b.literalsSrc:b.literalsSrc+1], len(own))
	default:
		literals = b.contents(src)[b.literalsSrc:]
	}
	for k := range b.sequences {
		s := sequences[b.firstSequence+int64(k)]
		out := b.out + s.Out
		match := out + s.Literals
		copy(dst[out:match], literals[s.Source:])
		if k+1 == b.sequences {
			break
		}
		offset := knownOffset(s.Offset, b.repeats)
		if offset == 0 || offset > match-b.frame {
			return false
		}
		for p := match; p < b.out+sequences[b.firstSequence+int64(k)+1].Out; p++ {
			dst[p] = dst[p-offset]
		}
	}
	return true
}

func checksumHostKernel(l *cudabuf.HostLaunch) {
	n := l.Int64(5)
	items, starts := launch.Structs[batch.Item](l, 1, n), launch.Structs[counts](l, 2, n+1)
	blocks, outcomes := launch.Structs[block](l, 3, starts[n].Blocks), launch.Structs[batch.Outcome](l, 4, n)
	for i := range outcomes {
		if outcomes[i].Status != batch.OK {
			continue
		}
		dst := l.Memory(l.Pointer(0)+uintptr(items[i].Dst), outcomes[i].Size)
		for _, b := range blocks[starts[i].Blocks:starts[i+1].Blocks] {
			if b.frameEnds && b.checked && uint32(xxhash.Sum64(dst[b.frame:b.out+b.size])) != b.checksum {
				outcomes[i] = batch.Outcome{Status: batch.BadChecksum}
			}
		}
	}
}
