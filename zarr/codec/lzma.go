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
	"github.com/ulikunitz/xz/lzma"
)

// LZMA compresses with LZMA (numcodecs, "lzma").
type LZMA struct {
	// Format is LZMAFormatXZ, LZMAFormatAlone or LZMAFormatRaw; 0 means LZMAFormatXZ.
	Format int
	// Check is the kind of checksum in the xz format: -1 for the default, CRC-64; 0 for
	// none, 1 for CRC-32, 4 for CRC-64, 10 for SHA-256. The zero value of LZMA therefore
	// has no checksum.
	Check int
	// Preset is 0 to 9; -1 means the default, 6. It sets the size of the dictionary.
	Preset int
	// Filters are up to three delta filters, then LZMA2. LZMAFormatRaw needs them,
	// LZMAFormatAlone cannot have them.
	Filters []LZMAFilter
}

// The formats of [LZMA].
const (
	LZMAFormatXZ    = 1
	LZMAFormatAlone = 2
	LZMAFormatRaw   = 3 // an LZMA2 stream without a container
)

// LZMAFilter is a step of [LZMA].
type LZMAFilter struct {
	// ID is LZMAFilterDelta or LZMAFilterLZMA2.
	ID int
	// Dist is the distance of LZMAFilterDelta in bytes: 1 to 256, 0 means 1.
	Dist int
	// Preset is that of LZMA, for LZMAFilterLZMA2.
	Preset int
}

// The filters of [LZMA].
const (
	LZMAFilterDelta = 0x03
	LZMAFilterLZMA2 = 0x21
)

// MarshalJSON returns the form of Python's module lzma.
func (f LZMAFilter) MarshalJSON() ([]byte, error) {
	m := metajson.Members{{Key: "id", Value: f.ID}}
	switch {
	case f.ID == LZMAFilterDelta:
		m = append(m, metajson.Member{Key: "dist", Value: f.distance()})
	case f.Preset >= 0:
		m = append(m, metajson.Member{Key: "preset", Value: f.Preset})
	}
	return m.MarshalJSON()
}

// parseLZMAFilter ignores parameters that only affect the size of the encoding.
func parseLZMAFilter(raw json.RawMessage) (LZMAFilter, error) {
	f := LZMAFilter{Preset: -1}
	var keys struct {
		ID     uint64
		Dist   int
		Preset *int
	}
	if err := json.Unmarshal(raw, &keys); err != nil {
		return f, err
	}
	if keys.ID != LZMAFilterDelta && keys.ID != LZMAFilterLZMA2 {
		return f, fmt.Errorf("filter %#x: %w", keys.ID, errors.ErrUnsupported)
	}
	f.ID, f.Dist = int(keys.ID), keys.Dist
	if keys.Preset != nil {
		f.Preset = *keys.Preset &^ lzmaExtreme
	}
	return f, nil
}

func (f LZMAFilter) distance() int { return max(f.Dist, 1) }

// deltas returns the distances of the delta filters.
func (c LZMA) deltas() []int {
	var out []int
	for _, f := range c.Filters {
		if f.ID == LZMAFilterDelta {
			out = append(out, f.distance())
		}
	}
	return out
}

// lzmaExtreme is a flag of presets for more effort.
const lzmaExtreme = 1 << 31

// Name returns "numcodecs.lzma".
func (LZMA) Name() string { return numcodecs + "lzma" }

// Configuration returns all parameters of numcodecs.
func (c LZMA) Configuration() any {
	var preset, filters any // null for the default
	if c.Preset >= 0 {
		preset = c.Preset
	}
	if len(c.Filters) > 0 {
		filters = c.Filters
	}
	return metajson.Members{
		{Key: "format", Value: max(c.Format, LZMAFormatXZ)}, {Key: "check", Value: c.Check},
		{Key: "preset", Value: preset}, {Key: "filters", Value: filters},
	}
}

func parseLZMA(config *metajson.Object) (Codec, error) {
	c := LZMA{Format: LZMAFormatXZ, Check: -1, Preset: -1}
	var filters []json.RawMessage
	if raw, ok := config.Take("filters"); ok {
		if err := json.Unmarshal(raw, &filters); err != nil {
			return nil, fmt.Errorf("filters: %w", err)
		}
	}
	for i, raw := range filters {
		f, err := parseLZMAFilter(raw)
		if err != nil {
			return nil, fmt.Errorf("filters[%d]: %w", i, err)
		}
		c.Filters = append(c.Filters, f)
	}
	if raw, ok := config.Take("preset"); ok && string(raw) != "null" {
		if err := json.Unmarshal(raw, &c.Preset); err != nil {
			return nil, fmt.Errorf("preset: %w", err)
		}
		if c.Preset &^= lzmaExtreme; c.Preset < 0 {
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
	if c.Preset < -1 || c.Preset > 9 {
		return fmt.Errorf("lzma: preset %d is not within -1 to 9", c.Preset)
	}
	if _, ok := xzSum(c.Check, nil); !ok && c.Check != -1 {
		return fmt.Errorf("lzma: unknown check %d", c.Check)
	}
	last := len(c.Filters) - 1
	switch {
	case c.Format < 0 || c.Format > LZMAFormatRaw:
		return fmt.Errorf("lzma: format %d, want 1 to 3", c.Format)
	case c.Format == LZMAFormatRaw && last < 0:
		return errors.New("lzma: a raw stream without filters")
	case c.Format == LZMAFormatAlone && last >= 0:
		return errors.New("lzma: filters in the format of .lzma files")
	case last > 3:
		return fmt.Errorf("lzma: %d filters, want at most 4", last+1)
	}
	for i, f := range c.Filters {
		switch {
		case i < last && f.ID != LZMAFilterDelta || i == last && f.ID != LZMAFilterLZMA2:
			return fmt.Errorf("lzma: filter %d is %#x, want delta filters, then LZMA2: %w", i, f.ID, errors.ErrUnsupported)
		case f.ID == LZMAFilterDelta && (f.Dist < 0 || f.Dist > 256):
			return fmt.Errorf("lzma: delta of distance %d, want 1 to 256", f.Dist)
		case f.ID == LZMAFilterLZMA2 && (f.Preset < -1 || f.Preset > 9):
			return fmt.Errorf("lzma: preset %d is not within -1 to 9", f.Preset)
		}
	}
	return nil
}

// dictCap returns the size of the dictionary: that of the preset, but no more than
// useful for n bytes.
func (c LZMA) dictCap(n int) int {
	preset := c.Preset
	if last := len(c.Filters) - 1; last >= 0 {
		preset = c.Filters[last].Preset
	}
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
	dictionary := c.dictCap(len(src))
	switch {
	case c.Format == LZMAFormatRaw:
		return encodeLZMA2(dst, src, dictionary, c.deltas())
	case c.Format != LZMAFormatAlone:
		check := xzCRC64
		if c.Check >= 0 {
			check = c.Check
		}
		return encodeXZ(dst, src, check, dictionary, c.deltas())
	}
	out := bytes.NewBuffer(dst)
	w, err := lzma.WriterConfig{DictCap: dictionary, SizeInHeader: true, Size: int64(len(src))}.NewWriter(out)
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

// Decode returns the decoding of src: at most limit bytes. The filters of an xz file are
// those that it names.
func (c LZMA) Decode(dst, src []byte, limit int64) ([]byte, error) {
	switch c.Format {
	case LZMAFormatAlone:
		return decodeAlone(dst, src, limit)
	case LZMAFormatRaw:
		x := xzScanner{rest: src, limit: limit}
		out := x.lzma2(dst[:0], math.MaxUint32)
		if x.err == nil && len(x.rest) > 0 {
			x.err = fmt.Errorf("%d bytes after the LZMA2 stream", len(x.rest))
		}
		if x.err != nil {
			return nil, x.err
		}
		deltas := c.deltas()
		for i := len(deltas) - 1; i >= 0; i-- {
			undoDelta(out, deltas[i])
		}
		return out, nil
	default:
		out, err := decodeXZ(dst, src, limit)
		if err != nil {
			return nil, err
		}
		return out, nil
	}
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
	return appendAll(r, dst[:0], limit)
}

// appendAll appends a stream to dst. It returns an error if the result has more than
// limit bytes.
func appendAll(r io.Reader, dst []byte, limit int64) ([]byte, error) {
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
