package codec

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
	"github.com/ulikunitz/xz"
	"github.com/ulikunitz/xz/lzma"
)

// LZMA compresses with LZMA (numcodecs, "lzma").
type LZMA struct {
	// Format is LZMAFormatXZ or LZMAFormatAlone; 0 means LZMAFormatXZ.
	Format int
	// Check is the kind of checksum in the xz format: -1 for the default, CRC-64; 0 for
	// none, 1 for CRC-32, 4 for CRC-64, 10 for SHA-256. The zero value of LZMA therefore
	// has no checksum.
	Check int
	// Preset is 0 to 9; -1 means the default, 6. It sets the size of the dictionary.
	Preset int
}

// The formats of [LZMA]. Raw LZMA streams, format 3, are not supported.
const (
	LZMAFormatXZ    = 1
	LZMAFormatAlone = 2
)

// Name returns "numcodecs.lzma".
func (LZMA) Name() string { return numcodecs + "lzma" }

// Configuration returns all parameters of numcodecs.
func (c LZMA) Configuration() any {
	var preset any // null for the default
	if c.Preset >= 0 {
		preset = c.Preset
	}
	return metajson.Members{
		{Key: "format", Value: max(c.Format, LZMAFormatXZ)}, {Key: "check", Value: c.Check},
		{Key: "preset", Value: preset}, {Key: "filters", Value: nil},
	}
}

func parseLZMA(config *metajson.Object) (Codec, error) {
	c := LZMA{Format: LZMAFormatXZ, Check: -1, Preset: -1}
	if raw, ok := config.Take("filters"); ok && string(raw) != "null" {
		return nil, fmt.Errorf("LZMA filters: %w", errors.ErrUnsupported)
	}
	if raw, ok := config.Take("preset"); ok && string(raw) != "null" {
		if err := json.Unmarshal(raw, &c.Preset); err != nil {
			return nil, fmt.Errorf("preset: %w", err)
		}
		if c.Preset &^= 1 << 31; c.Preset < 0 { // a flag for more effort
			return nil, fmt.Errorf("preset %d is negative", c.Preset)
		}
	}
	if _, err := config.DecodeOptional("format", &c.Format); err != nil {
		return nil, err
	}
	if _, err := config.DecodeOptional("check", &c.Check); err != nil {
		return nil, err
	}
	if c.Format == 0 {
		return nil, errors.New("format 0, want 1 or 2")
	}
	return c, c.check()
}

func (c LZMA) check() error {
	switch {
	case c.Format == 3:
		return fmt.Errorf("lzma: raw streams, format 3: %w", errors.ErrUnsupported)
	case c.Format < 0 || c.Format > LZMAFormatAlone:
		return fmt.Errorf("lzma: format %d, want 1 or 2", c.Format)
	case c.Preset < -1 || c.Preset > 9:
		return fmt.Errorf("lzma: preset %d is not within -1 to 9", c.Preset)
	case c.Check != -1 && c.Check != xzNoCheck && c.Check != int(xz.CRC32) && c.Check != int(xz.CRC64) && c.Check != int(xz.SHA256):
		return fmt.Errorf("lzma: unknown check %d", c.Check)
	}
	return nil
}

const xzNoCheck = 0

// dictCap returns the size of the dictionary: that of the preset, but no more than
// useful for n bytes.
func (c LZMA) dictCap(n int) int {
	preset := c.Preset
	if preset < 0 {
		preset = 6
	}
	ofPreset := [10]int{18, 20, 21, 22, 22, 23, 23, 24, 25, 26} // powers of 2
	return max(min(1<<ofPreset[preset], n), lzma.MinDictCap)
}

// Encode appends the encoding of src to dst.
func (c LZMA) Encode(dst, src []byte) ([]byte, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	out := bytes.NewBuffer(dst)
	var w interface {
		Write([]byte) (int, error)
		Close() error
	}
	var err error
	if c.Format == LZMAFormatAlone {
		w, err = lzma.WriterConfig{DictCap: c.dictCap(len(src)), SizeInHeader: true, Size: int64(len(src))}.NewWriter(out)
	} else {
		check := xz.CRC64
		if c.Check > 0 {
			check = byte(c.Check)
		}
		w, err = xz.WriterConfig{DictCap: c.dictCap(len(src)), CheckSum: check, NoCheckSum: c.Check == xzNoCheck}.NewWriter(out)
	}
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

// Decode returns the decoding of src, in either format: at most limit bytes.
func (c LZMA) Decode(dst, src []byte, limit int64) ([]byte, error) {
	if c.Format == LZMAFormatAlone {
		return decodeAlone(dst, src, limit)
	}
	src = bytes.Clone(src)
	if err := shrinkDictionaries(src, limit); err != nil {
		return nil, err
	}
	r, err := xz.ReaderConfig{DictCap: lzma.MinDictCap}.NewReader(bytes.NewReader(src))
	if err != nil {
		return nil, err
	}
	return readAll(r, dst, limit)
}

// decodeAlone decodes the format of .lzma files: properties, the size of the dictionary
// in 4 bytes, that of the result in 8, the stream.
func decodeAlone(dst, src []byte, limit int64) ([]byte, error) {
	const header = 13
	if len(src) < header {
		return nil, fmt.Errorf("%d bytes are less than a header", len(src))
	}
	if size := binary.LittleEndian.Uint64(src[5:]); size != math.MaxUint64 && size > uint64(limit) {
		return nil, errTooLong(limit)
	}
	// Matches do not reach before the result, so a larger dictionary is useless.
	src = bytes.Clone(src)
	dict := min(int64(binary.LittleEndian.Uint32(src[1:])), max(limit, lzma.MinDictCap))
	binary.LittleEndian.PutUint32(src[1:], uint32(dict))
	in := bytes.NewReader(src)
	r, err := lzma.NewReader(in)
	if err != nil {
		return nil, err
	}
	if dst, err = readAll(r, dst, limit); err != nil {
		return nil, err
	}
	if in.Len() > 0 {
		return nil, fmt.Errorf("%d bytes after the LZMA stream", in.Len())
	}
	return dst, nil
}

// readAll reads a stream to its end into dst[:0], which it grows. It returns an error if
// the stream has more than limit bytes.
func readAll(r io.Reader, dst []byte, limit int64) ([]byte, error) {
	dst = dst[:0]
	for int64(len(dst)) < limit {
		if len(dst) == cap(dst) {
			dst = slices.Grow(dst, 512)
		}
		n, err := r.Read(dst[len(dst):min(int64(cap(dst)), limit)])
		dst = dst[:len(dst)+n]
		if errors.Is(err, io.EOF) {
			return dst, nil
		}
		if err != nil {
			return nil, err
		}
	}
	// Reading to the end of a stream verifies its checksum.
	if n, err := io.ReadFull(r, make([]byte, 1)); n > 0 {
		return nil, errTooLong(limit)
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}
	return dst, nil
}
