package blosc

import (
	"errors"
	"fmt"
	"sync"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/quiver-gpu/quiver/compress/gzip"
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
		n, err := lz4.UncompressBlock(src, dst)
		return checkLength(n, dst, err)
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
func (o Options) compress(dst, src []byte) (int, error) {
	switch o.Compressor {
	case LZ4:
		return compressLZ4(dst, src, lz4.CompressBlock)
	case LZ4HC:
		level := lz4.CompressionLevel(1 << (8 + o.Level)) // Level1 to Level9
		return compressLZ4(dst, src, func(src, dst []byte, _ []int) (int, error) {
			return lz4.CompressBlockHC(src, dst, level, nil, nil)
		})
	case Snappy:
		return fit(dst, snappy.Encode(nil, src)), nil
	case Zlib:
		return compressZlib(dst, src, o.Level)
	case Zstd:
		return compressZstd(dst, src, o.Level)
	default:
		return compressBloscLZ(dst, src), nil
	}
}

// compressLZ4 uses a buffer of the size at which the library never fails.
func compressLZ4(dst, src []byte, compress func(src, dst []byte, _ []int) (int, error)) (int, error) {
	buf := make([]byte, lz4.CompressBlockBound(len(src)))
	n, err := compress(src, buf, nil)
	if err != nil {
		return 0, err
	}
	return fit(dst, buf[:n]), nil
}

// fit copies an encoding if it fits, and returns the number of bytes.
func fit(dst, encoding []byte) int {
	if len(encoding) > len(dst) {
		return 0
	}
	return copy(dst, encoding)
}

var (
	zstdDecoders sync.Pool     // of *zstd.Decoder
	zstdEncoders [10]sync.Pool // of *zstd.Encoder, by level
)

func decompressZlib(dst, src []byte) error {
	out, err := gzip.DecodeZlib(dst, src, int64(len(dst)))
	return checkLength(len(out), dst, err)
}

func compressZlib(dst, src []byte, level int) (int, error) {
	out, err := gzip.EncodeZlib(nil, src, level)
	if err != nil {
		return 0, err
	}
	return fit(dst, out), nil
}

func decompressZstd(dst, src []byte) error {
	d, ok := zstdDecoders.Get().(*zstd.Decoder)
	if !ok {
		var err error
		if d, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true)); err != nil {
			return err
		}
	}
	defer zstdDecoders.Put(d)
	// The decoder writes no more than the capacity.
	out, err := d.DecodeAll(src, dst[:0:len(dst)])
	return checkLength(len(out), dst, err)
}

func compressZstd(dst, src []byte, level int) (int, error) {
	e, ok := zstdEncoders[level].Get().(*zstd.Encoder)
	if !ok {
		reference := 2*level - 1 // what c-blosc uses
		if level == 9 {
			reference = 22
		}
		var err error
		if e, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(reference)),
			zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false), zstd.WithZeroFrames(true)); err != nil {
			return 0, err
		}
	}
	defer zstdEncoders[level].Put(e)
	return fit(dst, e.EncodeAll(src, nil)), nil
}
