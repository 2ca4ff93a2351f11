package codec

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
)

// CRC32C appends the CRC-32C (Castagnoli) checksum in 4 bytes, little-endian. Decoding
// verifies it (Zarr core 3.1, "crc32c codec").
type CRC32C struct{}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Name returns "crc32c".
func (CRC32C) Name() string { return "crc32c" }

// Configuration returns nil.
func (CRC32C) Configuration() any { return nil }

// Encode appends the encoding of src to dst.
//
//nolint:unparam // implements BytesCodec
func (CRC32C) Encode(dst, src []byte) ([]byte, error) {
	return binary.LittleEndian.AppendUint32(append(dst, src...), crc32.Checksum(src, castagnoli)), nil
}

// Decode returns the decoding of src: at most limit bytes.
func (CRC32C) Decode(_, src []byte, limit int64) ([]byte, error) {
	n := len(src) - 4
	if n < 0 {
		return nil, fmt.Errorf("%d bytes are too few for a checksum", len(src))
	}
	if int64(n) > limit {
		return nil, errTooLong(limit)
	}
	want, got := binary.LittleEndian.Uint32(src[n:]), crc32.Checksum(src[:n], castagnoli)
	if got != want {
		return nil, fmt.Errorf("checksum %08x, want %08x", got, want)
	}
	return src[:n:n], nil
}

// EncodedSize bounds the encoding of n bytes by any encoder.
func (CRC32C) EncodedSize(n int64) (int64, bool) { return n + min(4, math.MaxInt64-n), true }

// MaxRatio returns 1.
func (CRC32C) MaxRatio() int64 { return 1 }
