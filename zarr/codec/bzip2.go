package codec

import (
	"bytes"
	"compress/bzip2"
	"encoding/binary"
	"fmt"

	encoder "github.com/dsnet/compress/bzip2"
	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
)

// BZ2 compresses with bzip2 (numcodecs, "bz2"). Level is 1 to 9: the size of a block in
// units of 100 kB.
type BZ2 struct {
	Level int
}

// Name returns "numcodecs.bz2".
func (BZ2) Name() string { return numcodecs + "bz2" }

// Configuration returns the level.
func (c BZ2) Configuration() any { return metajson.Members{{Key: "level", Value: c.Level}} }

func parseBZ2(config *metajson.Object) (Codec, error) {
	c := BZ2{Level: 1}
	if _, err := config.DecodeOptional("level", &c.Level); err != nil {
		return nil, err
	}
	return c, c.check()
}

func (c BZ2) check() error {
	if c.Level < 1 || c.Level > 9 {
		return fmt.Errorf("bz2: level %d is not within 1 to 9", c.Level)
	}
	return nil
}

// Encode appends the encoding of src to dst.
func (c BZ2) Encode(dst, src []byte) ([]byte, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	out := bytes.NewBuffer(dst)
	w, err := encoder.NewWriter(out, &encoder.WriterConfig{Level: c.Level})
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(src); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// Decode returns the decoding of src, one or more streams: at most limit bytes. Beside
// these it needs up to 4 MB. As in Python's module bz2, bytes after the streams are ignored,
// unless they begin as a stream does.
func (BZ2) Decode(dst, src []byte, limit int64) ([]byte, error) {
	in := bytes.NewReader(src)
	out, err := readAll(bzip2.NewReader(in), dst, limit)
	if err == nil {
		return out, nil
	}
	// After a stream, the decoder reads 2 bytes of the next one, or a single last byte.
	for read, after := len(src)-in.Len(), 1; after <= 2 && after < read; after++ {
		if streams := src[:read-after]; endsBZ2(streams) {
			if out, prefixErr := readAll(bzip2.NewReader(bytes.NewReader(streams)), dst, limit); prefixErr == nil {
				return out, nil
			}
		}
	}
	return nil, err
}

// endsBZ2 reports whether src ends as a stream does: with a mark of 48 bits, a checksum of 32
// bits, and up to 7 bits of padding. A decoder takes 4 MB, so few inputs get a second one.
func endsBZ2(src []byte) bool {
	const mark, markBits, bytesOfEnd = 0x177245385090, 48, 11
	if len(src) < bytesOfEnd {
		return false
	}
	end := src[len(src)-bytesOfEnd:]
	bits := binary.BigEndian.Uint64(end)
	for padding := range 8 {
		if bits>>(8+padding)&(1<<markBits-1) == mark {
			return true
		}
	}
	return false
}

// EncodedSize bounds the encoding of n bytes by any encoder.
func (BZ2) EncodedSize(n int64) (int64, bool) { return looseBound(n), false }

// MaxRatio is that of a long run: about 47 MB in a block of 32 bytes.
func (BZ2) MaxRatio() int64 { return 2 << 20 }
