package parquetcolumn

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/parquet"

	"github.com/quiver-gpu/quiver/compress/shuffle"
)

// Pages in the delta encodings and in BYTE_STREAM_SPLIT are decoded to plain values as a
// whole (Encodings.md of the Parquet format). arrow-go reads them too, but not
// DELTA_BYTE_ARRAY of fixed length.

// readsEncoding reports whether values of a physical type can be in an encoding.
func readsEncoding(e parquet.Encoding, t parquet.Type) bool {
	isInteger := t == parquet.Types.Int32 || t == parquet.Types.Int64
	isFixed := t == parquet.Types.FixedLenByteArray
	switch e {
	case parquet.Encodings.Plain, parquet.Encodings.PlainDict, parquet.Encodings.RLE, parquet.Encodings.RLEDict:
		return true
	case parquet.Encodings.BitPacked: // parquet-mr says so of repetition levels that are not there
		return true
	case parquet.Encodings.DeltaBinaryPacked:
		return isInteger
	case parquet.Encodings.DeltaLengthByteArray:
		return t == parquet.Types.ByteArray
	case parquet.Encodings.DeltaByteArray:
		return t == parquet.Types.ByteArray || isFixed
	case parquet.Encodings.ByteStreamSplit:
		return isInteger || isFixed || t == parquet.Types.Float || t == parquet.Types.Double
	}
	return false
}

// toPlain returns the values of a page as plain ones, in memory of the column.
func (l *leaf) toPlain(found page) ([]byte, error) {
	m := l.pages.memory
	in, width := found.values, l.form.width
	isText := l.form.isBytes()
	var err error
	switch {
	case found.encoding == encodingByteStreamSplit && width > 0:
		if len(in)%width != 0 {
			return nil, fmt.Errorf("%d bytes of values of %d: %w", len(in), width, ErrMalformed)
		}
		m.plain = resize(m.plain, len(in)+spare)[:len(in)]
		if width == 1 {
			copy(m.plain, in)
		} else {
			err = shuffle.UnshuffleBytes(m.plain, in, width)
		}
	case found.encoding == encodingDeltaBinaryPacked && (width == 4 || width == 8):
		var deltas []int64
		if deltas, _, err = l.deltas(found, in); err == nil {
			m.plain = appendIntegers(m.plain[:0], deltas, width)
		}
	case found.encoding == encodingDeltaLengthByteArray && isText:
		var lengths []int64
		if lengths, in, err = l.deltas(found, in); err == nil {
			m.plain, err = appendTexts(m.plain[:0], lengths, in)
		}
	case found.encoding == encodingDeltaByteArray && (isText || width > 0):
		m.plain, err = l.joinPrefixes(found, m.plain[:0])
	default:
		err = fmt.Errorf("values in encoding %d: %w", found.encoding, errors.ErrUnsupported)
	}
	return m.plain, err
}

// deltas decodes integers in DELTA_BINARY_PACKED, no more than the page has values. It
// returns what follows them.
func (l *leaf) deltas(found page, in []byte) (values []int64, rest []byte, err error) {
	n := int(found.pageHeader.values)
	if err := l.checkLevels(n); err != nil {
		return nil, nil, err
	}
	return decodeDeltas(in, n)
}

// decodeDeltas decodes at most limit integers. Arithmetic is that of 64 bits, of which
// integers of 32 bits take the lower half.
func decodeDeltas(in []byte, limit int) (values []int64, rest []byte, err error) {
	var header [3]uint64 // block size, miniblocks of a block, and number of values
	for i := range header {
		number, n := binary.Uvarint(in)
		if n <= 0 {
			return nil, nil, errCutOff("deltas")
		}
		header[i], in = number, in[n:]
	}
	last, n := binary.Varint(in)
	if n <= 0 {
		return nil, nil, errCutOff("deltas")
	}
	in = in[n:]
	size, minis, total := header[0], header[1], header[2]
	const maxBlock = 1 << 24
	if size == 0 || size%128 != 0 || size > maxBlock || minis == 0 || minis > size || size%minis != 0 || size/minis%32 != 0 {
		return nil, nil, fmt.Errorf("deltas in blocks of %d with %d parts: %w", size, minis, ErrMalformed)
	}
	if total > uint64(limit) {
		return nil, nil, fmt.Errorf("%d deltas in a page of %d values: %w", total, limit, ErrMalformed)
	}
	if total == 0 {
		return nil, in, nil
	}
	values = append(make([]int64, 0, total), last)
	perMini := int(size / minis)
	for uint64(len(values)) < total {
		smallest, n := binary.Varint(in)
		if n <= 0 || len(in)-n < int(minis) {
			return nil, nil, errCutOff("deltas")
		}
		widths := in[n : n+int(minis)]
		in = in[n+int(minis):]
		for _, width := range widths {
			count := min(perMini, int(total)-len(values))
			if count == 0 {
				break // parts after the last value have no bytes
			}
			if width > 64 || len(in) < (count*int(width)+7)/8 {
				return nil, nil, errCutOff("deltas")
			}
			for i := range count {
				last += smallest + int64(bitsAt(in, i*int(width), int(width)))
				values = append(values, last)
			}
			in = in[min(len(in), perMini*int(width)/8):]
		}
	}
	return values, in, nil
}

// bitsAt returns the number of a width of 0 to 64 bits at a position, of which the lowest
// bits come first.
func bitsAt(in []byte, at, width int) uint64 {
	if width == 0 {
		return 0
	}
	in = in[at/8:]
	shift := uint(at % 8)
	var v uint64
	if len(in) >= 8 {
		v = binary.LittleEndian.Uint64(in) >> shift
	} else {
		for i, b := range in {
			v |= uint64(b) << (8 * i)
		}
		v >>= shift
	}
	if int(shift)+width > 64 {
		v |= uint64(in[8]) << (64 - shift)
	}
	return v & (^uint64(0) >> (64 - width))
}

func appendIntegers(out []byte, values []int64, width int) []byte {
	for _, v := range values {
		if width == 4 {
			out = binary.LittleEndian.AppendUint32(out, uint32(v))
		} else {
			out = binary.LittleEndian.AppendUint64(out, uint64(v))
		}
	}
	return out
}

// appendTexts appends plain texts whose bytes follow each other in in.
func appendTexts(out []byte, lengths []int64, in []byte) ([]byte, error) {
	for _, n := range lengths {
		if n < 0 || n > int64(len(in)) {
			return out, errCutOff("texts")
		}
		out = binary.LittleEndian.AppendUint32(out, uint32(n))
		out = append(out, in[:n]...)
		in = in[n:]
	}
	return out, nil
}

// joinPrefixes appends plain texts, or values of fixed width, of which each begins as the
// one before it.
func (l *leaf) joinPrefixes(found page, out []byte) ([]byte, error) {
	prefixes, in, err := l.deltas(found, found.values)
	if err != nil {
		return out, err
	}
	suffixes, in, err := l.deltas(found, in)
	if err != nil {
		return out, err
	}
	if len(prefixes) != len(suffixes) {
		return out, fmt.Errorf("%d prefixes and %d suffixes: %w", len(prefixes), len(suffixes), ErrMalformed)
	}
	before, had := 0, int64(0) // where the last value begins, and its length
	for i, prefix := range prefixes {
		suffix := suffixes[i]
		if prefix < 0 || prefix > had || suffix < 0 || suffix > int64(len(in)) {
			return out, fmt.Errorf("prefix of %d bytes after a value of %d, and suffix of %d of %d: %w", prefix, had, suffix, len(in), ErrMalformed)
		}
		had = prefix + suffix
		if int64(len(out))+had > l.options.MaxPage {
			return out, fmt.Errorf("page of more than %d bytes when decoded (see --max-memory)", l.options.MaxPage)
		}
		if l.form.isBytes() {
			out = binary.LittleEndian.AppendUint32(out, uint32(had))
		} else if had != int64(l.form.width) {
			return out, fmt.Errorf("value of %d bytes, expected %d: %w", had, l.form.width, ErrMalformed)
		}
		start := len(out)
		out = append(out, out[before:before+int(prefix)]...)
		out = append(out, in[:suffix]...)
		before, in = start, in[suffix:]
	}
	return out, nil
}
