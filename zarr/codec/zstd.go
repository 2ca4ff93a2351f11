package codec

import (
	"fmt"

	"github.com/quiver-gpu/quiver/compress/zstd"
	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
)

// Zstd compresses a chunk into one Zstandard frame (RFC 8878). Level is that of the
// reference implementation, -131072 to 22; 0 means its default, 3. Checksum adds a
// checksum to the frame. Decoding verifies a checksum if the frame has one.
//
// With libzstd, a read of a part of a chunk on the host decodes a frame without a checksum
// only up to the end of the part.
//
// If the system has libzstd, it compresses and decompresses, otherwise Go does; see
// [ZstdImplementation]. The Go implementation has four levels; see
// [zstd.EncodeOptions].
type Zstd struct {
	Level    int
	Checksum bool
}

// Name returns "zstd".
func (Zstd) Name() string { return "zstd" }

// Configuration returns the level and whether frames have a checksum.
func (z Zstd) Configuration() any {
	return metajson.Members{{Key: "level", Value: z.Level}, {Key: "checksum", Value: z.Checksum}}
}

// v2 omits a checksum of false, which old versions of numcodecs do not know.
func (z Zstd) v2() (string, metajson.Members) {
	config := metajson.Members{{Key: "level", Value: z.Level}}
	if z.Checksum {
		config = append(config, metajson.Member{Key: "checksum", Value: true})
	}
	return "zstd", config
}

// parseZstd tolerates a missing level: it is 0.
func parseZstd(config *metajson.Object) (Codec, error) {
	var z Zstd
	if _, err := config.DecodeOptional("level", &z.Level); err != nil {
		return nil, err
	}
	if _, err := config.DecodeOptional("checksum", &z.Checksum); err != nil {
		return nil, err
	}
	return z, z.check()
}

// parseNumcodecsZstd moves levels into the range, as the library does for numcodecs.
func parseNumcodecsZstd(config *metajson.Object) (Codec, error) {
	var z Zstd
	if _, err := config.DecodeOptional("level", &z.Level); err != nil {
		return nil, err
	}
	z.Level = min(max(z.Level, zstd.MinLevel), zstd.MaxLevel)
	_, err := config.DecodeOptional("checksum", &z.Checksum)
	return z, err
}

func (z Zstd) check() error {
	if z.Level < zstd.MinLevel || z.Level > zstd.MaxLevel {
		return fmt.Errorf("zstd: level %d is not within %d to %d", z.Level, zstd.MinLevel, zstd.MaxLevel)
	}
	return nil
}

// ZstdImplementation returns what compresses Zstandard in this process: the version of
// the system's library, such as "libzstd 1.5.4", or "Go".
func ZstdImplementation() string { return zstd.Implementation() }

// Encode appends the encoding of src to dst.
func (z Zstd) Encode(dst, src []byte) ([]byte, error) {
	return zstd.EncodeFrame(dst, src, zstd.EncodeOptions{Level: z.Level, Checksum: z.Checksum})
}

// Decode returns the decoding of src: at most limit bytes.
func (Zstd) Decode(dst, src []byte, limit int64) ([]byte, error) {
	return zstd.DecodeFrames(dst, src, limit)
}

// decodeRange decodes src up to the end of the range, or a frame with a checksum whole.
func (Zstd) decodeRange(dst, src []byte, from, size int64) error {
	return zstd.DecodeRange(dst, src, from, size)
}

// EncodedSize is generous, since other encoders may split incompressible data into many small
// blocks.
func (Zstd) EncodedSize(n int64) (int64, bool) { return looseBound(n), false }

// MaxRatio returns 32768: a block of up to 128 KiB takes at least 4 bytes (RFC 8878, section 3.1.1.2).
func (Zstd) MaxRatio() int64 { return 128 << 10 / 4 }
