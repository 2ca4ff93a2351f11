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
	if err := h.decodeRange(dst, src, 0); err != nil {
		return nil, fmt.Errorf("blosc.DecodeChunk: %w", err)
	}
	return dst, nil
}

// DecodeRange fills dst with the bytes from a position on of the decoding of a chunk. src and
// dst must not overlap. size is that of the whole decoding: it is an error if the chunk has
// another. Only the blocks that have bytes of the range are decoded, so an error in others
// is not found.
func DecodeRange(dst, src []byte, from, size int64) error {
	h, err := parseHeader(src, int64(len(src)))
	if err == nil && h.size != size {
		err = fmt.Errorf("%w: chunk of %d bytes, want %d", ErrCorrupt, h.size, size)
	}
	if err == nil && (from < 0 || int64(len(dst)) > size-from) {
		err = fmt.Errorf("%d bytes from %d of %d", len(dst), from, size)
	}
	if err == nil && h.stored() {
		copy(dst, src[headerSize+from:])
	} else if err == nil {
		err = h.decodeRange(dst, src, from)
	}
	if err != nil {
		return fmt.Errorf("blosc.DecodeRange: %w", err)
	}
	return nil
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

// decodeRange fills dst with the bytes from a position on of the decoding of a chunk that is
// not stored.
func (h *header) decodeRange(dst, src []byte, from int64) error {
	var shuffled []byte
	if h.shuffle() != NoShuffle {
		buf := getMemory(h.blockSize)
		defer memories.Put(buf)
		shuffled = *buf
	}
	pastCaches := len(dst) >= uncachedSize
	for len(dst) > 0 {
		i := int(from / int64(h.blockSize))
		block := h.block(i)
		start := int64(binary.LittleEndian.Uint32(src[headerSize+4*i:]))
		if start > int64(len(src)) {
			return fmt.Errorf("%w: block %d is at %d of %d bytes", ErrCorrupt, i, start, len(src))
		}
		skip := from - block.Offset
		n := min(block.Length-skip, int64(len(dst)))
		out, part := dst[:n], (*[]byte)(nil)
		if n < block.Length {
			part = getMemory(int(block.Length))
			out = *part
		}
		err := h.decodeBlock(out, shuffled, src[start:], pastCaches)
		if part != nil {
			copy(dst[:n], out[skip:])
			memories.Put(part)
		}
		if err != nil {
			return fmt.Errorf("%w: block %d: %w", ErrCorrupt, i, err)
		}
		dst, from = dst[n:], from+n
	}
	return nil
}

// uncachedSize is the size from which decoded bytes are written past the caches: that of a
// core's cache.
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
// is not shuffled. If the block is not needed in the caches, it is written past them.
func (h *header) decodeBlock(block, shuffled, src []byte, pastCaches bool) error {
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
		return shuffle.UnshufflePlanes(block, planes, pastCaches)
	case mode == ByteShuffle:
		if pastCaches {
			return shuffle.UnshuffleBytesUncached(block, out, h.typeSize)
		}
		return shuffle.UnshuffleBytes(block, out, h.typeSize)
	case mode == BitShuffle:
		return shuffle.UnshuffleBits(block, out, h.typeSize)
	}
	return nil
}
