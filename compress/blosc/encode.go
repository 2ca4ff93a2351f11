package blosc

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/quiver-gpu/quiver/compress/shuffle"
)

// EncodeChunk appends the chunk of src to dst: at most len(src) + [Overhead] bytes. src and
// dst must not overlap. It returns an error for invalid options, and if src has more
// than [MaxSize] bytes.
func EncodeChunk(dst, src []byte, o Options) ([]byte, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("blosc.EncodeChunk: %w", err)
	}
	if int64(len(src)) > MaxSize {
		return nil, fmt.Errorf("blosc.EncodeChunk: %d bytes, want at most %d", len(src), MaxSize)
	}
	if o.TypeSize > 255 {
		o.TypeSize = 1
	}
	start := len(dst)
	dst = slices.Grow(dst, len(src)+Overhead)
	out := dst[start : start+len(src)+Overhead]
	n := 0
	if o.Level > 0 && len(src) >= minSplitSize {
		var err error
		if n, err = o.encodeBlocks(out, src); err != nil {
			return nil, fmt.Errorf("blosc.EncodeChunk: %w", err)
		}
	}
	if n == 0 {
		o.putHeader(out, o.flags()|flagMemcpy, len(src), max(o.blockSize(len(src)), 1))
		n = headerSize + copy(out[headerSize:], src)
	}
	binary.LittleEndian.PutUint32(out[12:], uint32(n))
	return dst[:start+n], nil
}

// check returns an error if [EncodeChunk] does not accept the options.
func (o Options) check() error {
	switch {
	case o.Compressor >= compressors:
		return fmt.Errorf("unknown compressor %d", o.Compressor)
	case o.Level < 0 || o.Level > 9:
		return fmt.Errorf("level %d is not within 0 to 9", o.Level)
	case o.Shuffle > BitShuffle:
		return fmt.Errorf("unknown shuffle %d", o.Shuffle)
	case o.TypeSize < 1:
		return fmt.Errorf("elements of %d bytes, want at least 1", o.TypeSize)
	case o.BlockSize < 0:
		return fmt.Errorf("blocks of %d bytes", o.BlockSize)
	}
	return nil
}

// flags returns the flags of a compressed chunk. c-blosc splits the blocks of all
// formats but Zstandard, which finds patterns in whole blocks itself.
func (o Options) flags() byte {
	flags := byte(o.Compressor.format() << formatShift)
	switch o.Shuffle {
	case ByteShuffle:
		flags |= flagByteShuffle
	case BitShuffle:
		flags |= flagBitShuffle
	}
	if o.Compressor == Zstd {
		flags |= flagNoSplit
	}
	return flags
}

func (o Options) putHeader(out []byte, flags byte, size, blockSize int) {
	out[0], out[1], out[2], out[3] = 2, 1, flags, byte(o.TypeSize)
	binary.LittleEndian.PutUint32(out[4:], uint32(size))
	binary.LittleEndian.PutUint32(out[8:], uint32(blockSize))
}

// blockSize returns the size of blocks for an input of n bytes: a multiple of the
// element size unless n is smaller. The sizes are those of c-blosc, which fit the caches
// of a core.
func (o Options) blockSize(n int) int {
	size := o.BlockSize
	if size == 0 {
		size = o.automaticBlockSize()
	}
	size = min(size, n)
	if size < o.TypeSize {
		return min(o.TypeSize, n)
	}
	return size / o.TypeSize * o.TypeSize
}

func (o Options) automaticBlockSize() int {
	const kib = 1 << 10
	size := 32 * kib
	if o.Compressor == Zlib || o.Compressor == Zstd || o.Compressor == LZ4HC {
		size = 64 * kib
	}
	switch o.Level {
	case 0:
		size /= 4
	case 1:
		size /= 2
	case 2:
	case 3:
		size *= 2
	case 4, 5:
		size *= 4
	default:
		size *= 8
	}
	if o.Level == 9 && (o.Compressor == Zlib || o.Compressor == Zstd || o.Compressor == LZ4HC) {
		size *= 2
	}
	if o.flags()&flagNoSplit == 0 && o.TypeSize <= maxSplits && size/o.TypeSize >= minSplitSize {
		size = min(max(min(size, 256*kib)*o.TypeSize, 64*kib), 1024*kib)
	}
	return size
}

// encodeBlocks fills out and returns the size of the chunk, or 0 if it does not become
// smaller than a stored one.
func (o Options) encodeBlocks(out, src []byte) (int, error) {
	h := &header{flags: o.flags(), typeSize: o.TypeSize, size: int64(len(src)), blockSize: o.blockSize(len(src))}
	o.putHeader(out, h.flags, len(src), h.blockSize)
	at := headerSize + 4*h.blocks()
	var shuffled []byte
	if h.shuffle() != NoShuffle {
		buf := getMemory(h.blockSize)
		defer memories.Put(buf)
		shuffled = *buf
	}
	e := encoder{Options: o, blocks: h.blocks(), zstdLevel: ZstdLevel(o.Level)}
	for i := range h.blocks() {
		block := src[i*h.blockSize : min((i+1)*h.blockSize, len(src))]
		if at >= len(out) {
			return 0, nil
		}
		binary.LittleEndian.PutUint32(out[headerSize+4*i:], uint32(at))
		n, err := e.encodeBlock(h, out[at:], block, shuffled)
		if err != nil || n == 0 {
			return 0, err
		}
		at += n
	}
	if at >= len(out) {
		return 0, nil
	}
	return at, nil
}

// encoder encodes the blocks of one chunk, in their order.
type encoder struct {
	Options
	zstdLevel int // of the next block
	zstdBlock int // number of blocks that Zstandard encoded
	blocks    int
}

// encodeBlock fills the start of out and returns the size, or 0 if out is too small.
func (e *encoder) encodeBlock(h *header, out, block, shuffled []byte) (int, error) {
	var err error
	switch h.shuffle() {
	case ByteShuffle:
		err = shuffle.Bytes(shuffled[:len(block)], block, e.TypeSize)
		block = shuffled[:len(block)]
	case BitShuffle:
		err = shuffle.Bits(shuffled[:len(block)], block, e.TypeSize)
		block = shuffled[:len(block)]
	}
	if err != nil {
		return 0, err
	}
	n := splits(h.flags, h.typeSize, h.blockSize, len(block) != h.blockSize)
	if len(block)%n != 0 {
		return 0, fmt.Errorf("block of %d bytes for elements of %d", len(block), n)
	}
	size, at := len(block)/n, 0
	for i := range n {
		if len(out)-at < 4 {
			return 0, nil
		}
		part := block[i*size : (i+1)*size]
		room := out[at+4:]
		if len(room) > size-1 {
			room = room[:size-1] // a part of full size is stored
		}
		length, err := e.compress(room, part)
		if err != nil {
			return 0, err
		}
		if length == 0 {
			if len(out)-at-4 < size {
				return 0, nil
			}
			length = copy(out[at+4:], part)
		}
		binary.LittleEndian.PutUint32(out[at:], uint32(length))
		at += 4 + length
	}
	return at, nil
}
