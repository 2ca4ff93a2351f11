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
	// Filters are up to three delta filters, then LZMA2, or LZMA1 in LZMAFormatRaw.
	// LZMAFormatRaw needs them, LZMAFormatAlone cannot have them.
	Filters []LZMAFilter
}

// The formats of [LZMA].
const (
	LZMAFormatXZ    = 1
	LZMAFormatAlone = 2
	LZMAFormatRaw   = 3 // an LZMA2 or LZMA1 stream without a container
)

// LZMAFilter is a step of [LZMA].
type LZMAFilter struct {
	// ID is LZMAFilterDelta, LZMAFilterLZMA2 or LZMAFilterLZMA1.
	ID uint64
	// Dist is the distance of LZMAFilterDelta in bytes: 1 to 256, 0 means 1.
	Dist int
	// Preset is that of LZMA, for the other filters.
	Preset int
	// DictSize is the size of the dictionary in bytes, for the other filters; 0 means
	// that of the preset.
	DictSize uint32
	// LC, LP and PB are the properties of LZMAFilterLZMA1. Its default ones are 3, 0, 2.
	LC, LP, PB int
}

// The filters of [LZMA].
const (
	LZMAFilterDelta = 0x03
	LZMAFilterLZMA2 = 0x21
	LZMAFilterLZMA1 = 1<<62 + 1
)

// MarshalJSON returns the form of Python's module lzma.
func (f LZMAFilter) MarshalJSON() ([]byte, error) {
	m := metajson.Members{{Key: "id", Value: f.ID}}
	if f.ID == LZMAFilterDelta {
		return append(m, metajson.Member{Key: "dist", Value: f.distance()}).MarshalJSON()
	}
	if f.Preset >= 0 {
		m = append(m, metajson.Member{Key: "preset", Value: f.Preset})
	}
	if f.DictSize > 0 {
		m = append(m, metajson.Member{Key: "dict_size", Value: f.DictSize})
	}
	if f.ID == LZMAFilterLZMA1 {
		m = append(m, metajson.Member{Key: "lc", Value: f.LC}, metajson.Member{Key: "lp", Value: f.LP}, metajson.Member{Key: "pb", Value: f.PB})
	}
	return m.MarshalJSON()
}

// branchFilters are filters of machine code in liblzma, which no array needs.
var branchFilters = map[uint64]string{4: "x86", 5: "PowerPC", 6: "IA-64", 7: "ARM", 8: "ARM-Thumb", 9: "SPARC", 10: "ARM64", 11: "RISC-V"}

// parseLZMAFilter ignores parameters that only affect the size of the encoding.
func parseLZMAFilter(raw json.RawMessage) (LZMAFilter, error) {
	f := LZMAFilter{Preset: -1}
	keys := struct {
		ID         uint64
		Dist       int
		Preset     *int
		Size       uint32 `json:"dict_size"`
		LC, LP, PB int
	}{LC: 3, PB: 2}
	if err := json.Unmarshal(raw, &keys); err != nil {
		return f, err
	}
	switch f.ID = keys.ID; f.ID {
	case LZMAFilterDelta:
		f.Dist = keys.Dist
	case LZMAFilterLZMA2:
		f.DictSize = keys.Size
	case LZMAFilterLZMA1:
		f.DictSize, f.LC, f.LP, f.PB = keys.Size, keys.LC, keys.LP, keys.PB
	default:
		if name := branchFilters[f.ID]; name != "" {
			return f, fmt.Errorf("filter of %s code: %w", name, errors.ErrUnsupported)
		}
		return f, fmt.Errorf("filter %#x: %w", f.ID, errors.ErrUnsupported)
	}
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
		case i < last && f.ID != LZMAFilterDelta || i == last && f.ID != LZMAFilterLZMA2 && !c.isRawLZMA1():
			return fmt.Errorf("lzma: filter %d is %#x, want delta filters, then LZMA2: %w", i, f.ID, errors.ErrUnsupported)
		case f.ID == LZMAFilterDelta && (f.Dist < 0 || f.Dist > 256):
			return fmt.Errorf("lzma: delta of distance %d, want 1 to 256", f.Dist)
		case f.ID != LZMAFilterDelta && (f.Preset < -1 || f.Preset > 9):
			return fmt.Errorf("lzma: preset %d is not within -1 to 9", f.Preset)
		case f.ID == LZMAFilterLZMA1 && (min(f.LC, f.LP, f.PB) < 0 || max(f.LC, f.LP, f.PB) > 4 || f.LC+f.LP > 4):
			return fmt.Errorf("lzma: LZMA1 with lc %d, lp %d, pb %d, want lc + lp and pb of 0 to 4", f.LC, f.LP, f.PB)
		}
	}
	return nil
}

// isRawLZMA1 reports whether the encoding is an LZMA1 stream without a container.
func (c LZMA) isRawLZMA1() bool {
	last := len(c.Filters) - 1
	return c.Format == LZMAFormatRaw && last >= 0 && c.Filters[last].ID == LZMAFilterLZMA1
}

// header returns the header that makes a raw LZMA1 stream a .lzma file.
func (c LZMA) header(dictionary int64) []byte {
	f := c.Filters[len(c.Filters)-1]
	header := []byte{byte((f.PB*5+f.LP)*9 + f.LC)}
	header = binary.LittleEndian.AppendUint32(header, uint32(min(dictionary, math.MaxUint32)))
	return binary.LittleEndian.AppendUint64(header, math.MaxUint64) // a marker ends the stream
}

// dictCap returns the size of the dictionary: that of the preset, but no more than
// useful for n bytes.
func (c LZMA) dictCap(n int) int {
	preset, given := c.Preset, uint32(0)
	if last := len(c.Filters) - 1; last >= 0 {
		preset, given = c.Filters[last].Preset, c.Filters[last].DictSize
	}
	if preset < 0 {
		preset = 6
	}
	ofPreset := [10]int{18, 20, 21, 22, 22, 23, 23, 24, 25, 26} // powers of 2
	size := int64(1) << ofPreset[preset]
	if given > 0 { // decoders of raw streams have no more
		size = int64(given)
	}
	return int(max(min(size, int64(n)), lzma.MinDictCap))
}

// Encode appends the encoding of src to dst.
func (c LZMA) Encode(dst, src []byte) ([]byte, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	dictionary := c.dictCap(len(src))
	switch {
	case c.isRawLZMA1():
		return c.encodeLZMA1(dst, src, dictionary)
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

// encodeLZMA1 appends an LZMA1 stream with a marker at its end to dst.
func (c LZMA) encodeLZMA1(dst, src []byte, dictionary int) ([]byte, error) {
	f, out := c.Filters[len(c.Filters)-1], new(bytes.Buffer)
	config := lzma.WriterConfig{DictCap: dictionary, EOSMarker: true, Properties: &lzma.Properties{LC: f.LC, LP: f.LP, PB: f.PB}}
	w, err := config.NewWriter(out)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(applyDeltas(src, c.deltas())); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return append(dst, out.Bytes()[lzma.HeaderLen:]...), nil
}

// Decode returns the decoding of src: at most limit bytes. The filters of an xz file are
// those that it names. As in Python's module lzma, bytes after the encoding are ignored
// unless they begin as one does.
func (c LZMA) Decode(dst, src []byte, limit int64) ([]byte, error) {
	switch c.Format {
	case LZMAFormatAlone:
		return decodeAlone(dst, src, limit)
	case LZMAFormatRaw:
		var out []byte
		var err error
		if c.isRawLZMA1() {
			out, err = decodeAlone(dst, append(c.header(limit), src...), limit)
		} else {
			x := xzScanner{rest: src, limit: limit}
			out = x.lzma2(dst[:0], math.MaxUint32)
			err = x.err
		}
		if err != nil {
			return nil, err
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

// EncodedSize bounds the encoding of n bytes by any encoder.
func (LZMA) EncodedSize(n int64) (int64, bool) { return looseBound(n), false }

// MaxRatio is rounded up from 7085: a match of 273 bytes is 14 bits of a probability of at
// most 2017/2048, of which each takes 0.022 bits.
func (LZMA) MaxRatio() int64 { return 1 << 13 }

// decodeAlone decodes the format of .lzma files: properties, the size of the dictionary
// in 4 bytes, that of the result in 8, the stream.
func decodeAlone(dst, src []byte, limit int64) ([]byte, error) {
	if len(src) < lzma.HeaderLen {
		return nil, fmt.Errorf("%d bytes are less than a header", len(src))
	}
	if size := binary.LittleEndian.Uint64(src[5:]); size != math.MaxUint64 && size > uint64(limit) {
		return nil, errTooLong(limit)
	}
	// Matches do not reach before the result, so a larger dictionary is useless.
	src = bytes.Clone(src)
	most := max(min(limit, LZMA{}.MaxRatio()*int64(len(src)), math.MaxInt32), lzma.MinDictCap)
	dict := min(int64(binary.LittleEndian.Uint32(src[1:])), most)
	binary.LittleEndian.PutUint32(src[1:], uint32(dict))
	r, err := lzma.NewReader(bytes.NewReader(src))
	if err != nil {
		return nil, err
	}
	return readAll(r, dst, limit)
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
