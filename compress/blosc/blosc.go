package blosc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/quiver-gpu/quiver/compress"
)

// Compressor is a compression format and the way to write it.
type Compressor uint8

// The compressors. LZ4HC writes the format of LZ4 with more effort.
const (
	BloscLZ Compressor = iota
	LZ4
	LZ4HC
	Snappy
	Zlib
	Zstd
	compressors // their number
)

var names = [compressors]string{"blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"}

// String returns the name that c-blosc uses, such as "lz4hc".
func (c Compressor) String() string {
	if c >= compressors {
		return fmt.Sprintf("Compressor(%d)", uint8(c))
	}
	return names[c]
}

// ParseCompressor returns the compressor of a name, such as "lz4hc".
func ParseCompressor(name string) (Compressor, error) {
	for c, s := range names {
		if s == name {
			return Compressor(c), nil
		}
	}
	return 0, fmt.Errorf("blosc.ParseCompressor: unknown compressor %q", name)
}

// Shuffle is the transposition of a block before compression.
type Shuffle uint8

// The transpositions.
const (
	NoShuffle Shuffle = iota
	ByteShuffle
	BitShuffle
)

// Options are the parameters of [EncodeChunk].
type Options struct {
	Compressor Compressor
	// Level is 0 (stored) to 9. BloscLZ and Snappy have only one other level. On the host,
	// Zstandard takes its level 1 for blocks that a higher one makes less than 1% smaller:
	// the first and each 16th block of a chunk tell that for those after them.
	Level   int
	Shuffle Shuffle
	// TypeSize is the size of an element in bytes: at least 1. Sizes above 255 count
	// as 1.
	TypeSize int
	// BlockSize is the size of a block in bytes, or 0 for a suitable one. It is rounded
	// to whole elements and to the size of the input.
	BlockSize int
}

// ErrCorrupt reports that bytes are not a valid chunk. Test with errors.Is. It wraps
// compress.ErrCorrupt.
var ErrCorrupt = fmt.Errorf("corrupt Blosc chunk: %w", compress.ErrCorrupt)

// Overhead is the largest number of bytes that [EncodeChunk] adds.
const Overhead = headerSize

// MaxSize is the size of the largest input of [EncodeChunk] in bytes.
const MaxSize = math.MaxInt32 - Overhead

const headerSize = 16

// The flags of a chunk.
const (
	flagByteShuffle = 0x01
	flagMemcpy      = 0x02 // stored, neither compressed nor shuffled
	flagBitShuffle  = 0x04
	flagReserved    = 0x08
	flagNoSplit     = 0x10
	formatShift     = 5
)

// The formats in the upper bits of the flags.
const (
	formatBloscLZ = iota
	formatLZ4
	formatSnappy
	formatZlib
	formatZstd
)

func (c Compressor) format() int {
	switch c {
	case LZ4, LZ4HC:
		return formatLZ4
	case Snappy:
		return formatSnappy
	case Zlib:
		return formatZlib
	case Zstd:
		return formatZstd
	default:
		return formatBloscLZ
	}
}

// The limits of splitting a block into one part per byte of an element.
const (
	maxSplits    = 16
	minSplitSize = 128
)

// splits returns the number of parts that a block is compressed in.
func splits(flags byte, typeSize, blockSize int, leftover bool) int {
	if flags&flagNoSplit != 0 || leftover || typeSize > maxSplits || blockSize/typeSize < minSplitSize {
		return 1
	}
	return typeSize
}

// header is the first bytes of a chunk.
type header struct {
	flags     byte
	typeSize  int
	size      int64 // of the decoded chunk
	blockSize int
}

func (h *header) blocks() int { return int((h.size + int64(h.blockSize) - 1) / int64(h.blockSize)) }

// block returns the place of a block in the decoded chunk.
func (h *header) block(i int) compress.Range {
	begin := int64(i) * int64(h.blockSize)
	return compress.Range{Offset: begin, Length: min(int64(h.blockSize), h.size-begin)}
}

func (h *header) format() int { return int(h.flags >> formatShift) }

func (h *header) stored() bool { return h.flags&flagMemcpy != 0 }

// DecodedSize returns the size of a decoded chunk in bytes. It returns ErrCorrupt unless
// src has the header and the length of a chunk.
func DecodedSize(src []byte) (int64, error) {
	h, err := parseHeader(src, int64(len(src)))
	if err != nil {
		return 0, fmt.Errorf("blosc.DecodedSize: %w", err)
	}
	return h.size, nil
}

// parseHeader parses the header of a chunk of a size, of which src has the first bytes: at
// least those of the header.
func parseHeader(src []byte, chunkSize int64) (header, error) {
	if len(src) < headerSize {
		return header{}, fmt.Errorf("%w: %d bytes are less than a header", ErrCorrupt, len(src))
	}
	if src[0] > 2 {
		return header{}, fmt.Errorf("Blosc format version %d: %w", src[0], errors.ErrUnsupported)
	}
	h := header{flags: src[2], typeSize: int(src[3]), size: int64(binary.LittleEndian.Uint32(src[4:]))}
	blockSize, length := binary.LittleEndian.Uint32(src[8:]), binary.LittleEndian.Uint32(src[12:])
	switch {
	case src[0] != 2:
		return header{}, fmt.Errorf("%w: version %d", ErrCorrupt, src[0])
	case h.flags&flagReserved != 0 || h.flags>>formatShift > formatZstd:
		return header{}, fmt.Errorf("%w: flags %#02x", ErrCorrupt, h.flags)
	case int64(length) != chunkSize:
		return header{}, fmt.Errorf("%w: %d bytes, header has %d", ErrCorrupt, chunkSize, length)
	case h.typeSize == 0:
		return header{}, fmt.Errorf("%w: elements of 0 bytes", ErrCorrupt)
	case h.size > math.MaxInt32:
		return header{}, fmt.Errorf("%w: decoded size %d", ErrCorrupt, h.size)
	case h.size == 0 || h.stored():
		if want := headerSize + h.size; int64(length) != want {
			return header{}, fmt.Errorf("%w: %d bytes for %d stored ones", ErrCorrupt, length, h.size)
		}
		return h, nil
	case blockSize == 0 || int64(blockSize) > h.size:
		return header{}, fmt.Errorf("%w: blocks of %d bytes in a chunk of %d", ErrCorrupt, blockSize, h.size)
	}
	h.blockSize = int(blockSize)
	if min := headerSize + 4*int64(h.blocks()); int64(length) < min {
		return header{}, fmt.Errorf("%w: %d bytes, want at least %d for %d blocks", ErrCorrupt, length, min, h.blocks())
	}
	return h, nil
}
