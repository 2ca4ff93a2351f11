package arrowipc

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Codec is how each buffer of a body is compressed.
type Codec int8

// The codecs of Arrow's IPC format.
const (
	Uncompressed Codec = iota
	LZ4                // an LZ4 frame
	Zstd
)

// prefixLength is what a compressed buffer begins with: its length before it was
// compressed, or -1 where it was not.
const prefixLength = 8

// inflated returns how long a buffer of a compressed body is, and whether its
// bytes are compressed. A length that the codec cannot reach is an error.
func (c Codec) inflated(prefix []byte, length int64) (n int64, compressed bool, err error) {
	if length == 0 {
		return 0, false, nil
	}
	if length < prefixLength {
		return 0, false, fmt.Errorf("%d bytes, expected the length and what was compressed: %w", length, arrow.ErrInvalid)
	}
	n, length = int64(binary.LittleEndian.Uint64(prefix)), length-prefixLength
	if n == -1 {
		return length, false, nil
	}
	if n < 0 || n/c.mostOf() > length {
		return 0, false, fmt.Errorf("%d bytes that were compressed to %d: %w", n, length, arrow.ErrInvalid)
	}
	return n, true, nil
}

// mostOf is how many bytes one of the codec can stand for, so that nothing is
// allocated because a few bytes say so: in LZ4 one more in the length of a match
// stands for 255, in zstd a block of 4 bytes for 128 KiB.
func (c Codec) mostOf() int64 {
	if c == LZ4 {
		return 255
	}
	return 32 << 10
}

// inflate fills dst with what was compressed to src.
func (c Codec) inflate(dst, src []byte) error {
	if len(dst) == 0 {
		return nil
	}
	switch c {
	case LZ4:
		r := lz4Readers.Get().(*lz4.Reader)
		defer lz4Readers.Put(r)
		r.Reset(bytes.NewReader(src))
		if _, err := io.ReadFull(r, dst); err != nil {
			return fmt.Errorf("LZ4: %w: %w", arrow.ErrInvalid, err)
		}
	case Zstd:
		got, err := zstdDecoder().DecodeAll(src, dst[:0])
		if err != nil {
			return fmt.Errorf("zstd: %w: %w", arrow.ErrInvalid, err)
		}
		if len(got) != len(dst) {
			return fmt.Errorf("zstd: %d bytes, expected %d: %w", len(got), len(dst), arrow.ErrInvalid)
		}
	default:
		copy(dst, src)
	}
	return nil
}

var (
	lz4Readers  = sync.Pool{New: func() any { return lz4.NewReader(nil) }}
	zstdDecoder = sync.OnceValue(func() *zstd.Decoder {
		// Its output never grows beyond the room that it is given.
		return must(zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecodeAllCapLimit(true)))
	})
)
