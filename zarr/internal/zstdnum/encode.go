// Package zstdnum compresses arrays of numbers to Zstandard frames (RFC 8878),
// for speed.
//
// A general encoder looks for repetitions byte by byte. In an array of numbers
// they come at known places: a number repeats an earlier one, or shares its
// high bytes with the number before it. Looking only there takes one step a
// number, and then the entropy coding is most of the work. On most columns that
// is faster than the fastest level of a general encoder, for about the same size
// or less. Frames are ordinary ones, for any decoder.
package zstdnum

import (
	"encoding/binary"
	"slices"
	"sync"
)

const (
	magic      = 0xFD2FB528
	blockSize  = 128 << 10 // the most that the format allows
	windowLog  = 22
	windowSize = 1 << windowLog
	tableBits  = 14 // of the number of places remembered
	// maxSource keeps positions within the 32 bits of the match table.
	maxSource = 1<<32 - 1
)

// Takes tells whether Encode compresses numbers of a width, in n bytes of them.
func Takes(width, n int64) bool {
	return (width == 2 || width == 4 || width == 8) && n <= maxSource
}

// Encode appends a frame of the numbers in src, each of width bytes, least
// significant first, to dst.
func Encode(dst, src []byte, width int) []byte {
	e := encoders.Get().(*encoder)
	defer encoders.Put(e)
	return e.encode(dst, src, width)
}

var encoders = sync.Pool{New: func() any { return new(encoder) }}

// encoder is the state of one frame and the memory for one block.
type encoder struct {
	src      []byte
	reps     [3]uint32 // the last offsets (RFC 8878, 3.1.1.5)
	table    [1 << tableBits]uint32
	literals []byte
	entropy  entropy
}

func (e *encoder) encode(dst, src []byte, width int) []byte {
	e.src, e.reps = src, [3]uint32{1, 4, 8}
	clear(e.table[:])
	dst = appendFrameHeader(dst, len(src))
	for start := 0; ; start += blockSize {
		end := min(start+blockSize, len(src))
		dst = e.block(dst, start, end, width)
		if end == len(src) {
			break
		}
	}
	e.src = nil
	return dst
}

// appendFrameHeader writes the magic number, what the header has, and the size
// of the content; frames that are larger than the window say so.
func appendFrameHeader(dst []byte, n int) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, magic)
	const single = 1 << 5
	switch {
	case n < 256:
		return append(dst, single, byte(n))
	case n < 256+1<<16:
		return binary.LittleEndian.AppendUint16(append(dst, 1<<6|single), uint16(n-256))
	case n <= windowSize:
		return binary.LittleEndian.AppendUint32(append(dst, 2<<6|single), uint32(n))
	default: // Takes keeps n within 32 bits
		return binary.LittleEndian.AppendUint32(append(dst, 2<<6, (windowLog-10)<<3), uint32(n))
	}
}

// The types of a block.
const (
	rawBlock        = 0
	compressedBlock = 2
)

// block appends bytes [start, end) of the source, compressed where that makes
// them fewer.
func (e *encoder) block(dst []byte, start, end, width int) []byte {
	reps, header := e.reps, len(dst)
	dst = append(dst, 0, 0, 0)
	e.literals = slices.Grow(e.literals[:0], blockSize+8)
	e.entropy.reset()
	switch width {
	case 8:
		find[uint64](e, start, end, 8)
	case 4:
		find[uint32](e, start, end, 4)
	default:
		find[uint64](e, start, end, 2)
	}
	dst = e.entropy.appendLiterals(dst, e.literals)
	dst = e.entropy.appendSequences(dst)

	kind, size := compressedBlock, len(dst)-header-3
	if size >= end-start {
		kind, size = rawBlock, end-start
		dst = append(dst[:header+3], e.src[start:end]...)
		e.reps = reps // the decoder sees none of the sequences
	}
	last := 0
	if end == len(e.src) {
		last = 1
	}
	head := last | kind<<1 | size<<3
	dst[header], dst[header+1], dst[header+2] = byte(head), byte(head>>8), byte(head>>16)
	return dst
}
