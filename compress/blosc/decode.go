package blosc

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/compress/shuffle"
)

// DecodeChunk returns the decoding of a chunk in dst[:0], which it grows if needed. src and
// dst must not overlap. It returns ErrCorrupt if src is not exactly one chunk, and an
// error if the result exceeds limit bytes.
func DecodeChunk(dst, src []byte, limit int64) ([]byte, error) {
	h, err := parseHeader(src, int64(len(src)))
	if err != nil {
		return nil, fmt.Errorf("blosc.DecodeChunk: %w", err)
	}
	if h.size > limit {
		return nil, fmt.Errorf("blosc.DecodeChunk: %w: chunk of %d bytes, want at most %d", compress.ErrTooLarge, h.size, limit)
	}
	dst = slices.Grow(dst[:0], int(h.size))[:h.size]
	if h.size == 0 || h.stored() {
		copy(dst, src[headerSize:])
		return dst, nil
	}
	var shuffled []byte
	if h.shuffle() != NoShuffle {
		buf := getMemory(h.blockSize)
		defer memories.Put(buf)
		shuffled = *buf
	}
	for i := range h.blocks() {
		block := dst[i*h.blockSize : min(int64(i+1)*int64(h.blockSize), h.size)]
		start := int64(binary.LittleEndian.Uint32(src[headerSize+4*i:]))
		if start > int64(len(src)) {
			return nil, fmt.Errorf("blosc.DecodeChunk: %w: block %d is at %d of %d bytes", ErrCorrupt, i, start, len(src))
		}
		if err := h.decodeBlock(block, shuffled, src[start:]); err != nil {
			return nil, fmt.Errorf("blosc.DecodeChunk: %w: block %d: %w", ErrCorrupt, i, err)
		}
	}
	return dst, nil
}

// ChunkSize returns the size of the chunk with which src begins, as its header has it: at
// most that of src. It serves callers that allow other bytes after a chunk.
func ChunkSize(src []byte) (int64, error) {
	if len(src) < headerSize {
		return 0, fmt.Errorf("blosc.ChunkSize: %w: %d bytes are less than a header", ErrCorrupt, len(src))
	}
	size := int64(binary.LittleEndian.Uint32(src[12:]))
	if size > int64(len(src)) {
		return 0, fmt.Errorf("blosc.ChunkSize: %w: %d bytes, header has %d", ErrCorrupt, len(src), size)
	}
	return size, nil
}

// uncachedSize is the size from which a decoded chunk is written past the caches: that of
// a core's cache.
const uncachedSize = 1 << 20

// shuffle returns what is to be undone.
func (h *header) shuffle() Shuffle {
	switch {
	case h.flags&flagByteShuffle != 0 && h.typeSize > 1:
		return ByteShuffle
	case h.flags&flagBitShuffle != 0:
		return BitShuffle
	default:
		return NoShuffle
	}
}

// decodeBlock fills a block. shuffled is memory of at least its size, unless the chunk
// is not shuffled.
func (h *header) decodeBlock(block, shuffled, src []byte) error {
	mode, out := h.shuffle(), block[:len(block):len(block)]
	if mode != NoShuffle {
		out = shuffled[:len(block)]
	}
	n := splits(h.flags, h.typeSize, h.blockSize, len(block) != h.blockSize)
	if len(block)%n != 0 {
		return fmt.Errorf("%d bytes are not a multiple of %d", len(block), n)
	}
	size := len(block) / n
	var parts [maxSplits][]byte
	var planes [][]byte // the parts, if they are the planes of the byte shuffle
	if mode == ByteShuffle && n == h.typeSize {
		planes = parts[:n]
	}
	for i := range n {
		if len(src) < 4 {
			return fmt.Errorf("part %d: unexpected end of chunk", i)
		}
		length := binary.LittleEndian.Uint32(src)
		src = src[4:]
		if int64(length) > int64(len(src)) {
			return fmt.Errorf("part %d: %d bytes, but only %d remain", i, length, len(src))
		}
		part := out[i*size : (i+1)*size]
		if planes != nil && int(length) == size {
			part = src[:length] // stored: it need not be copied
		} else if err := decompress(h.format(), part, src[:length]); err != nil {
			return fmt.Errorf("part %d: %w", i, err)
		}
		if planes != nil {
			planes[i] = part
		}
		src = src[length:]
	}
	switch {
	case planes != nil:
		return shuffle.UnshufflePlanes(block, planes, h.size >= uncachedSize)
	case mode == ByteShuffle:
		if h.size >= uncachedSize {
			return shuffle.UnshuffleBytesUncached(block, out, h.typeSize)
		}
		return shuffle.UnshuffleBytes(block, out, h.typeSize)
	case mode == BitShuffle:
		return shuffle.UnshuffleBits(block, out, h.typeSize)
	}
	return nil
}
