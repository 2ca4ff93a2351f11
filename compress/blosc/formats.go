package blosc

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/klauspost/compress/snappy"
	pierrec "github.com/pierrec/lz4/v4"
	"github.com/quiver-gpu/quiver/compress/gzip"
	"github.com/quiver-gpu/quiver/compress/lz4"
	"github.com/quiver-gpu/quiver/compress/zstd"
)

var errLength = errors.New("decoded length differs")

// decompress fills dst, whose size is known. A part of that size is stored.
func decompress(format int, dst, src []byte) error {
	if len(src) == len(dst) {
		copy(dst, src)
		return nil
	}
	switch format {
	case formatBloscLZ:
		return decompressBloscLZ(dst, src)
	case formatLZ4:
		return lz4.DecodeBlock(dst, src)
	case formatSnappy:
		n, err := snappy.DecodedLen(src)
		if err := checkLength(n, dst, err); err != nil {
			return err
		}
		out, err := snappy.Decode(dst, src)
		return checkLength(len(out), dst, err)
	case formatZlib:
		return decompressZlib(dst, src)
	case formatZstd:
		return decompressZstd(dst, src)
	}
	return fmt.Errorf("format %d", format)
}

func checkLength(n int, dst []byte, err error) error {
	if err == nil && n != len(dst) {
		return fmt.Errorf("%w: got %d, want %d", errLength, n, len(dst))
	}
	return err
}

// compress fills the start of dst and returns the size, or 0 if dst is too small.
func (e *encoder) compress(dst, src []byte) (int, error) {
	switch e.Compressor {
	case LZ4:
		return lz4.EncodeBlock(dst, src, 10-e.Level) // the acceleration of c-blosc
	case LZ4HC:
		return compressLZ4HC(dst, src, e.Level)
	case Snappy:
		buf := getMemory(max(snappy.MaxEncodedLen(len(src)), 0))
		defer memories.Put(buf)
		return fit(dst, snappy.Encode(*buf, src)), nil
	case Zlib:
		return compressZlib(dst, src, e.Level)
	case Zstd:
		return e.compressZstd(dst, src)
	default:
		return compressBloscLZ(dst, src), nil
	}
}

// compressLZ4HC uses a buffer of the size at which the library never fails.
func compressLZ4HC(dst, src []byte, level int) (int, error) {
	buf := getMemory(pierrec.CompressBlockBound(len(src)))
	defer memories.Put(buf)
	n, err := pierrec.CompressBlockHC(src, *buf, pierrec.CompressionLevel(1<<(8+level)), nil, nil) // Level1 to Level9
	if err != nil {
		return 0, err
	}
	return fit(dst, (*buf)[:n]), nil
}

// memories holds memory for one block, as *[]byte.
var memories = sync.Pool{New: func() any { return new([]byte) }}

// getMemory returns n undefined bytes. The caller puts them into memories.
func getMemory(n int) *[]byte {
	buf := memories.Get().(*[]byte)
	*buf = slices.Grow((*buf)[:0], n)[:n]
	return buf
}

// fit copies an encoding if it fits, and returns the number of bytes.
func fit(dst, encoding []byte) int {
	if len(encoding) > len(dst) {
		return 0
	}
	return copy(dst, encoding)
}

func decompressZlib(dst, src []byte) error {
	out, err := gzip.DecodeZlib(dst, src, int64(len(dst)))
	return checkLength(len(out), dst, err)
}

func compressZlib(dst, src []byte, level int) (int, error) {
	buf := getMemory(len(src))
	defer memories.Put(buf)
	out, err := gzip.EncodeZlib((*buf)[:0], src, level)
	if err != nil {
		return 0, err
	}
	*buf = out
	return fit(dst, out), nil
}

func decompressZstd(dst, src []byte) error {
	out, err := zstd.DecodeFrames(dst, src, int64(len(dst)))
	return checkLength(len(out), dst, err)
}

// ZstdLevel returns the level of Zstandard that c-blosc uses for its own level.
func ZstdLevel(level int) int {
	if level == 9 {
		return 22
	}
	return 2*level - 1
}

// zstdCompareEvery is the distance of blocks that are encoded at two levels.
const zstdCompareEvery = 16

// compressZstd encodes at the level of c-blosc only where that pays: on elements whose
// bytes are shuffled, level 1 is often as small, and several times as fast. Samples
// smaller than a block do not tell, since libzstd chooses its parameters by the size.
func (e *encoder) compressZstd(dst, src []byte) (int, error) {
	buf := getMemory(len(src))
	defer memories.Put(buf)
	frame := func(level int) (out []byte, err error) {
		out, err = zstd.EncodeFrame((*buf)[:0], src, zstd.EncodeOptions{Level: level})
		*buf = out
		return out, err
	}
	block := e.zstdBlock
	e.zstdBlock++
	high := ZstdLevel(e.Level)
	if block%zstdCompareEvery != 0 || block == e.blocks-1 || high == 1 {
		out, err := frame(e.zstdLevel)
		return fit(dst, out), err
	}
	fast, err := frame(1)
	if err != nil {
		return 0, err
	}
	fastSize, n := len(fast), fit(dst, fast)
	small, err := frame(high)
	if err != nil {
		return 0, err
	}
	if len(small) < fastSize {
		n = fit(dst, small)
	}
	e.zstdLevel = high
	if fastSize*100 <= len(small)*101 {
		e.zstdLevel = 1
	}
	return n, nil
}
