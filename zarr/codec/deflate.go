package codec

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/quiver-gpu/quiver/compress/gzip"
	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
)

// Gzip compresses with gzip (RFC 1952). Level is 0 (stored) to 9 (Zarr core 3.1, "gzip
// codec").
type Gzip struct {
	Level int
}

// Name returns "gzip".
func (Gzip) Name() string { return "gzip" }

// Configuration returns the level.
func (g Gzip) Configuration() any { return metajson.Members{{Key: "level", Value: g.Level}} }

func (g Gzip) v2() (string, metajson.Members) {
	return "gzip", metajson.Members{{Key: "level", Value: g.Level}}
}

// parseNumcodecsGzip has the default level of zlib, -1, which codec "gzip" lacks.
func parseNumcodecsGzip(config *metajson.Object) (Codec, error) {
	g := Gzip{Level: 1}
	if _, err := config.DecodeOptional("level", &g.Level); err != nil {
		return nil, err
	}
	g.Level = deflateLevel(g.Level)
	return g, g.check()
}

// parseGzip tolerates a missing level, for which implementations have defaults.
func parseGzip(config *metajson.Object) (Codec, error) {
	g := Gzip{Level: 5}
	if _, err := config.DecodeOptional("level", &g.Level); err != nil {
		return nil, err
	}
	return g, g.check()
}

func (g Gzip) check() error {
	if g.Level < 0 || g.Level > 9 {
		return fmt.Errorf("gzip: level %d is not within 0 to 9", g.Level)
	}
	return nil
}

// Encode appends the encoding of src to dst.
func (g Gzip) Encode(dst, src []byte) ([]byte, error) { return gzip.EncodeMember(dst, src, g.Level) }

// Decode returns the decoding of src: at most limit bytes. As in Python's module gzip, zero
// bytes may follow a member.
func (Gzip) Decode(dst, src []byte, limit int64) ([]byte, error) {
	out, err := gzip.DecodeMembers(dst, src, limit)
	if errors.Is(err, gzip.ErrCorrupt) {
		if padded, ok := decodePaddedMembers(dst, src, limit); ok {
			return padded, nil
		}
	}
	return out, err
}

// decodePaddedMembers decodes gzip members, of which one or more have zero bytes after them.
// It returns false for other input.
func decodePaddedMembers(dst, src []byte, limit int64) ([]byte, bool) {
	dst = dst[:0]
	for first := true; first || len(src) > 0; first = false {
		out, n, err := gzip.DecodePrefix(dst[len(dst):], src, gzip.Gzip, limit-int64(len(dst)))
		if err != nil {
			return nil, false
		}
		dst, src = append(dst, out...), bytes.TrimLeft(src[n:], "\x00")
	}
	return dst, true
}

// EncodedSize bounds the encoding of n bytes by any encoder.
func (Gzip) EncodedSize(n int64) (int64, bool) { return looseBound(n), false }

// MaxRatio is the limit of deflate: 258 bytes per 2 bits.
func (Gzip) MaxRatio() int64 { return gzip.MaxRatio }

// Zlib compresses with zlib (RFC 1950; numcodecs, "zlib"). Level is 0 (stored) to 9,
// or -1 for the default.
type Zlib struct {
	Level int
}

// Name returns "numcodecs.zlib".
func (Zlib) Name() string { return numcodecs + "zlib" }

// Configuration returns the level.
func (z Zlib) Configuration() any { return metajson.Members{{Key: "level", Value: z.Level}} }

func parseZlib(config *metajson.Object) (Codec, error) {
	z := Zlib{Level: 1}
	if _, err := config.DecodeOptional("level", &z.Level); err != nil {
		return nil, err
	}
	return z, z.check()
}

func (z Zlib) check() error {
	if z.Level < -1 || z.Level > 9 {
		return fmt.Errorf("zlib: level %d is not within -1 to 9", z.Level)
	}
	return nil
}

// Encode appends the encoding of src to dst.
func (z Zlib) Encode(dst, src []byte) ([]byte, error) {
	return gzip.EncodeZlib(dst, src, deflateLevel(z.Level))
}

// deflateLevel returns the level that a level means: zlib's default is 6.
func deflateLevel(level int) int {
	if level == -1 {
		return 6
	}
	return level
}

// Decode returns the decoding of src: at most limit bytes. As in numcodecs, bytes after the
// stream are ignored.
func (Zlib) Decode(dst, src []byte, limit int64) ([]byte, error) {
	out, err := gzip.DecodeZlib(dst, src, limit)
	if errors.Is(err, gzip.ErrCorrupt) {
		if prefix, _, err := gzip.DecodePrefix(dst, src, gzip.Zlib, limit); err == nil {
			return prefix, nil
		}
	}
	return out, err
}

// EncodedSize bounds the encoding of n bytes by any encoder.
func (Zlib) EncodedSize(n int64) (int64, bool) { return looseBound(n), false }

// MaxRatio is the limit of deflate.
func (Zlib) MaxRatio() int64 { return Gzip{}.MaxRatio() }
