package zstdnum

import (
	"errors"

	"github.com/klauspost/compress/huff0"
)

// The types of a literals section (RFC 8878, 3.1.1.3.1.1).
const (
	rawLiterals        = 0
	rleLiterals        = 1
	compressedLiterals = 2
)

// appendLiterals appends the literals section of a block: Huffman coded where that
// makes it shorter.
func (e *entropy) appendLiterals(dst, literals []byte) []byte {
	if len(literals) < 64 {
		return append(appendPlainHeader(dst, rawLiterals, len(literals)), literals...)
	}
	e.huffman.Reuse = huff0.ReusePolicyNone // each block brings its table
	compress, streams := huff0.Compress4X, 4
	if len(literals) < 1024 {
		compress, streams = huff0.Compress1X, 1
	}
	out, _, err := compress(literals, &e.huffman)
	switch {
	case errors.Is(err, huff0.ErrUseRLE):
		return append(appendPlainHeader(dst, rleLiterals, len(literals)), literals[0])
	case err != nil || len(out) >= len(literals): // not worth it
		return append(appendPlainHeader(dst, rawLiterals, len(literals)), literals...)
	}
	return append(appendHuffmanHeader(dst, streams, len(literals), len(out)), out...)
}

func appendPlainHeader(dst []byte, kind, n int) []byte {
	switch {
	case n < 1<<5:
		return append(dst, byte(kind|n<<3))
	case n < 1<<12:
		return append(dst, byte(kind|1<<2|n<<4), byte(n>>4))
	default:
		return append(dst, byte(kind|3<<2|n<<4), byte(n>>4), byte(n>>12))
	}
}

func appendHuffmanHeader(dst []byte, streams, n, encoded int) []byte {
	format, width, size := 0, 10, 3
	switch {
	case streams == 1: // both sizes below 1024
	case n < 1<<10:
		format = 1
	case n < 1<<14:
		format, width, size = 2, 14, 4
	default:
		format, width, size = 3, 18, 5
	}
	header := uint64(compressedLiterals|format<<2|n<<4) | uint64(encoded)<<(4+width)
	for range size {
		dst = append(dst, byte(header))
		header >>= 8
	}
	return dst
}
