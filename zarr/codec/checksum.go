package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"hash/crc32"
	"math"
	"math/bits"

	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
)

// The codecs in this file add a checksum of 4 bytes, little-endian, before or after the
// data. Decoding verifies it.

// CRC32C adds the CRC-32C (Castagnoli) checksum (Zarr core 3.1, "crc32c codec").
type CRC32C struct {
	// Location is End if empty. Start makes it the codec of numcodecs.
	Location Location

	sumBounds
}

// CRC32 adds the CRC-32 (IEEE) checksum (numcodecs, "crc32").
type CRC32 struct {
	// Location is Start if empty.
	Location Location

	sumBounds
}

// Adler32 adds the Adler-32 checksum (RFC 1950; numcodecs, "adler32").
type Adler32 struct {
	// Location is Start if empty.
	Location Location

	sumBounds
}

// Fletcher32 adds the Fletcher checksum of HDF5 after the data (numcodecs,
// "fletcher32").
type Fletcher32 struct{ sumBounds }

// JenkinsLookup3 adds the checksum lookup3 of Bob Jenkins after the data (numcodecs,
// "jenkins_lookup3").
type JenkinsLookup3 struct {
	InitVal uint32

	sumBounds
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Name returns "crc32c", or "numcodecs.crc32c" if the checksum is before the data.
func (c CRC32C) Name() string {
	if c.Location == Start {
		return numcodecs + "crc32c"
	}
	return "crc32c"
}

// Name returns "numcodecs.crc32".
func (CRC32) Name() string { return numcodecs + "crc32" }

// Name returns "numcodecs.adler32".
func (Adler32) Name() string { return numcodecs + "adler32" }

// Name returns "numcodecs.fletcher32".
func (Fletcher32) Name() string { return numcodecs + "fletcher32" }

// Name returns "numcodecs.jenkins_lookup3".
func (JenkinsLookup3) Name() string { return numcodecs + "jenkins_lookup3" }

// Configuration returns the location unless it is the default.
func (c CRC32C) Configuration() any { return c.Location.configuration(End) }

// Configuration returns the location unless it is the default.
func (c CRC32) Configuration() any { return c.Location.configuration(Start) }

// Configuration returns the location unless it is the default.
func (c Adler32) Configuration() any { return c.Location.configuration(Start) }

// Configuration returns nil.
func (Fletcher32) Configuration() any { return nil }

// Configuration returns the initial value unless it is 0.
func (c JenkinsLookup3) Configuration() any {
	if c.InitVal == 0 {
		return nil
	}
	return metajson.Members{{Key: "initval", Value: c.InitVal}}
}

func (c CRC32C) v2() (string, metajson.Members) {
	config, _ := c.Configuration().(metajson.Members)
	return "crc32c", config
}

func (l Location) configuration(byDefault Location) any {
	if l == "" || l == byDefault {
		return nil
	}
	return metajson.Members{{Key: "location", Value: l}}
}

func (l Location) check() error {
	if l != "" && l != Start && l != End {
		return fmt.Errorf("location %q is neither %q nor %q", l, Start, End)
	}
	return nil
}

func (c CRC32C) check() error  { return c.Location.check() }
func (c CRC32) check() error   { return c.Location.check() }
func (c Adler32) check() error { return c.Location.check() }

// parseLocation returns the parser of a codec whose configuration is a location.
func parseLocation(of func(Location) Codec) parser {
	return withConfig(func(config *metajson.Object) (Codec, error) {
		var l Location
		given, err := config.DecodeOptional("location", &l)
		if err == nil && given && l == "" {
			err = errors.New("location is empty")
		}
		if err == nil {
			err = l.check()
		}
		return of(l), err
	})
}

func parseJenkins(config *metajson.Object) (Codec, error) {
	var c JenkinsLookup3
	if raw, ok := config.Take("prefix"); ok && string(raw) != "null" {
		return nil, fmt.Errorf("prefix: %w", errors.ErrUnsupported)
	}
	_, err := config.DecodeOptional("initval", &c.InitVal)
	return c, err
}

// Encode appends the encoding of src to dst.
func (c CRC32C) Encode(dst, src []byte) ([]byte, error) {
	return appendSum(dst, src, crc32.Checksum(src, castagnoli), c.Location == Start), nil
}

// Encode appends the encoding of src to dst.
func (c CRC32) Encode(dst, src []byte) ([]byte, error) {
	return appendSum(dst, src, crc32.ChecksumIEEE(src), c.Location != End), nil
}

// Encode appends the encoding of src to dst.
func (c Adler32) Encode(dst, src []byte) ([]byte, error) {
	return appendSum(dst, src, adler32.Checksum(src), c.Location != End), nil
}

// Encode appends the encoding of src to dst.
func (Fletcher32) Encode(dst, src []byte) ([]byte, error) {
	return appendSum(dst, src, fletcher32(src), false), nil
}

// Encode appends the encoding of src to dst.
func (c JenkinsLookup3) Encode(dst, src []byte) ([]byte, error) {
	return appendSum(dst, src, lookup3(src, c.InitVal), false), nil
}

// Decode returns the data in src: at most limit bytes.
func (c CRC32C) Decode(_, src []byte, limit int64) ([]byte, error) {
	return checkSum(src, limit, c.Location == Start, func(b []byte) uint32 { return crc32.Checksum(b, castagnoli) })
}

// Decode returns the data in src: at most limit bytes.
func (c CRC32) Decode(_, src []byte, limit int64) ([]byte, error) {
	return checkSum(src, limit, c.Location != End, crc32.ChecksumIEEE)
}

// Decode returns the data in src: at most limit bytes.
func (c Adler32) Decode(_, src []byte, limit int64) ([]byte, error) {
	return checkSum(src, limit, c.Location != End, adler32.Checksum)
}

// Decode returns the data in src: at most limit bytes.
func (Fletcher32) Decode(_, src []byte, limit int64) ([]byte, error) {
	return checkSum(src, limit, false, fletcher32)
}

// Decode returns the data in src: at most limit bytes.
func (c JenkinsLookup3) Decode(_, src []byte, limit int64) ([]byte, error) {
	return checkSum(src, limit, false, func(b []byte) uint32 { return lookup3(b, c.InitVal) })
}

const sumSize = 4

func appendSum(dst, src []byte, sum uint32, first bool) []byte {
	if first {
		return append(binary.LittleEndian.AppendUint32(dst, sum), src...)
	}
	return binary.LittleEndian.AppendUint32(append(dst, src...), sum)
}

func checkSum(src []byte, limit int64, first bool, sum func([]byte) uint32) ([]byte, error) {
	n := len(src) - sumSize
	if n < 0 {
		return nil, fmt.Errorf("%d bytes are too few for a checksum", len(src))
	}
	if int64(n) > limit {
		return nil, errTooLong(limit)
	}
	stored, data := src[n:], src[:n:n]
	if first {
		stored, data = src[:sumSize], src[sumSize:]
	}
	if want, got := binary.LittleEndian.Uint32(stored), sum(data); got != want {
		return nil, fmt.Errorf("checksum %08x, want %08x", got, want)
	}
	return data, nil
}

// sumBounds implements the size bounds of all checksums.
type sumBounds struct{}

// EncodedSize returns n + 4, exactly.
func (sumBounds) EncodedSize(n int64) (int64, bool) { return n + min(sumSize, math.MaxInt64-n), true }

// MaxRatio returns 1.
func (sumBounds) MaxRatio() int64 { return 1 }

// fletcher32 returns the sum of big-endian 16-bit words and, in its upper half, the sum
// of its intermediate values. Both are modulo 65535, where a multiple of 65535 other
// than 0 is 65535. An odd last byte is the upper half of a word.
func fletcher32(b []byte) uint32 {
	const perBlock = 1 << 16 // sums of a block fit 64 bits
	var low, high uint64
	for len(b) > 0 {
		block := b[:min(len(b), 2*perBlock)]
		b = b[len(block):]
		for ; len(block) >= 2; block = block[2:] {
			low += uint64(binary.BigEndian.Uint16(block))
			high += low
		}
		if len(block) == 1 {
			low += uint64(block[0]) << 8
			high += low
		}
		low, high = foldSum(low), foldSum(high)
	}
	return uint32(high)<<16 | uint32(low)
}

func foldSum(x uint64) uint64 {
	if x == 0 {
		return 0
	}
	return (x-1)%65535 + 1
}

// lookup3 is the function hashlittle of Bob Jenkins' lookup3.
func lookup3(key []byte, initVal uint32) uint32 {
	a := 0xdeadbeef + uint32(len(key)) + initVal
	b, c := a, a
	for ; len(key) > 12; key = key[12:] {
		a += binary.LittleEndian.Uint32(key)
		b += binary.LittleEndian.Uint32(key[4:])
		c += binary.LittleEndian.Uint32(key[8:])
		a = (a - c) ^ bits.RotateLeft32(c, 4)
		c += b
		b = (b - a) ^ bits.RotateLeft32(a, 6)
		a += c
		c = (c - b) ^ bits.RotateLeft32(b, 8)
		b += a
		a = (a - c) ^ bits.RotateLeft32(c, 16)
		c += b
		b = (b - a) ^ bits.RotateLeft32(a, 19)
		a += c
		c = (c - b) ^ bits.RotateLeft32(b, 4)
		b += a
	}
	if len(key) == 0 {
		return c
	}
	var last [12]byte
	copy(last[:], key)
	a += binary.LittleEndian.Uint32(last[:])
	b += binary.LittleEndian.Uint32(last[4:])
	c += binary.LittleEndian.Uint32(last[8:])
	c = (c ^ b) - bits.RotateLeft32(b, 14)
	a = (a ^ c) - bits.RotateLeft32(c, 11)
	b = (b ^ a) - bits.RotateLeft32(a, 25)
	c = (c ^ b) - bits.RotateLeft32(b, 16)
	a = (a ^ c) - bits.RotateLeft32(c, 4)
	b = (b ^ a) - bits.RotateLeft32(a, 14)
	return (c ^ b) - bits.RotateLeft32(b, 24)
}
