package codec

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/quiver-gpu/quiver/compress/lz4"
	"github.com/quiver-gpu/quiver/compress/shuffle"
	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
)

// LZ4 compresses into one LZ4 block after its decoded size in 4 bytes, little-endian
// (numcodecs, "lz4"). The larger Acceleration is, the faster and the larger is the
// encoding; less than 1 counts as 1.
type LZ4 struct {
	Acceleration int
}

// Name returns "numcodecs.lz4".
func (LZ4) Name() string { return numcodecs + "lz4" }

// Configuration returns the acceleration: at least 1.
func (c LZ4) Configuration() any {
	return metajson.Members{{Key: "acceleration", Value: max(c.Acceleration, 1)}}
}

func parseLZ4(config *metajson.Object) (Codec, error) {
	c := LZ4{Acceleration: 1}
	_, err := config.DecodeOptional("acceleration", &c.Acceleration)
	return c, err
}

const lz4Header = 4

// Encode appends the encoding of src to dst.
func (c LZ4) Encode(dst, src []byte) ([]byte, error) {
	if len(src) > lz4.MaxSize {
		return nil, fmt.Errorf("%d bytes, want at most %d", len(src), lz4.MaxSize)
	}
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(src)))
	bound := int(lz4.Bound(int64(len(src))))
	dst = slices.Grow(dst, bound)
	n, err := lz4.EncodeBlock(dst[len(dst):len(dst)+bound], src, c.Acceleration)
	if err != nil {
		return nil, err
	}
	return dst[:len(dst)+n], nil
}

// Decode returns the decoding of src: at most limit bytes.
func (LZ4) Decode(dst, src []byte, limit int64) ([]byte, error) {
	if len(src) <= lz4Header {
		return nil, fmt.Errorf("%d bytes are too few for a block", len(src))
	}
	size := int64(binary.LittleEndian.Uint32(src))
	if size > limit {
		return nil, errTooLong(limit)
	}
	src = src[lz4Header:]
	if size == 0 {
		if len(src) != 1 || src[0] != 0 {
			return nil, fmt.Errorf("%d bytes for an empty block", len(src))
		}
		return dst[:0], nil
	}
	dst = slices.Grow(dst[:0], int(size))[:size]
	return dst, lz4.DecodeBlock(dst, src)
}

// EncodedSize bounds the encoding of n bytes by any encoder.
func (LZ4) EncodedSize(n int64) (int64, bool) { return looseBound(n), false }

// MaxRatio is the limit of the format: a byte adds at most 255 to a length.
func (LZ4) MaxRatio() int64 { return 256 }

// Shuffle moves bytes of equal significance together: first bytes of all elements, then
// second bytes, and further (numcodecs, "shuffle").
type Shuffle struct {
	// ElementSize is the size of an element in bytes. It divides that of the input. As in
	// numcodecs, bytes do not move if it is at most 1.
	ElementSize int
}

// Name returns "numcodecs.shuffle".
func (Shuffle) Name() string { return numcodecs + "shuffle" }

// Configuration returns the size of an element.
func (s Shuffle) Configuration() any {
	return metajson.Members{{Key: "elementsize", Value: s.ElementSize}}
}

func parseShuffle(config *metajson.Object) (Codec, error) {
	s := Shuffle{ElementSize: 4}
	_, err := config.DecodeOptional("elementsize", &s.ElementSize)
	return s, err
}

func (s Shuffle) size() int { return max(s.ElementSize, 1) }

// notWhole is the error of n bytes that are not whole elements.
func (s Shuffle) notWhole(n int64) error {
	return fmt.Errorf("%d bytes are not a multiple of %d", n, s.size())
}

// Encode appends the encoding of src to dst.
func (s Shuffle) Encode(dst, src []byte) ([]byte, error) {
	return s.apply(dst, src, shuffle.Bytes)
}

// Decode returns the decoding of src: at most limit bytes.
func (s Shuffle) Decode(dst, src []byte, limit int64) ([]byte, error) {
	if int64(len(src)) > limit {
		return nil, errTooLong(limit)
	}
	return s.apply(dst[:0], src, shuffle.UnshuffleBytes)
}

func (s Shuffle) apply(dst, src []byte, move func(dst, src []byte, size int) error) ([]byte, error) {
	size := s.size()
	if len(src)%size != 0 {
		return nil, s.notWhole(int64(len(src)))
	}
	start := len(dst)
	dst = slices.Grow(dst, len(src))[:start+len(src)]
	return dst, move(dst[start:], src, size)
}

// EncodedSize returns n, exactly.
func (Shuffle) EncodedSize(n int64) (int64, bool) { return n, true }

// MaxRatio returns 1.
func (Shuffle) MaxRatio() int64 { return 1 }

// Base64 encodes bytes as text (RFC 4648, section 4; numcodecs, "base64").
type Base64 struct{}

// Name returns "numcodecs.base64".
func (Base64) Name() string { return numcodecs + "base64" }

// Configuration returns nil.
func (Base64) Configuration() any { return nil }

// Encode appends the encoding of src to dst.
func (Base64) Encode(dst, src []byte) ([]byte, error) {
	return base64.StdEncoding.AppendEncode(dst, src), nil
}

// Decode returns the decoding of src: at most limit bytes.
func (Base64) Decode(dst, src []byte, limit int64) ([]byte, error) {
	if n := base64.StdEncoding.DecodedLen(len(src)); int64(n)-2 > limit { // up to 2 bytes less by padding
		return nil, errTooLong(limit)
	}
	return base64.StdEncoding.AppendDecode(dst[:0], src)
}

// EncodedSize bounds the encoding of n bytes by any encoder, which may break lines.
func (Base64) EncodedSize(n int64) (int64, bool) { return looseBound(n), false }

// MaxRatio returns 1.
func (Base64) MaxRatio() int64 { return 1 }
