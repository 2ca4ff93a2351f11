package codec

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/crc64"
	"io"
	"math"

	"github.com/ulikunitz/xz/lzma"
)

// The checks of xz files.
const (
	xzNone   = 0
	xzCRC32  = 1
	xzCRC64  = 4
	xzSHA256 = 10
)

var crc64Table = crc64.MakeTable(crc64.ECMA)

// xzSum returns the check of a block, or false for an unknown kind.
func xzSum(check int, data []byte) ([]byte, bool) {
	switch check {
	case xzNone:
		return nil, true
	case xzCRC32:
		return binary.LittleEndian.AppendUint32(nil, crc32.ChecksumIEEE(data)), true
	case xzCRC64:
		return binary.LittleEndian.AppendUint64(nil, crc64.Checksum(data, crc64Table)), true
	case xzSHA256:
		sum := sha256.Sum256(data)
		return sum[:], true
	}
	return nil, false
}

const (
	xzMagic, xzEnd   = "\xfd7zXZ\x00", "YZ"
	xzHeader         = len(xzMagic) + 2 + 4 // magic, flags, checksum of the flags
	xzFooter         = 4 + 4 + 2 + len(xzEnd)
	xzHasPacked      = 0x40
	xzHasUnpacked    = 0x80
	xzReserved       = 0x3c
	xzFilters        = 0x03 // their number less 1
	xzMaxDictionary  = 40   // the largest property byte of LZMA2
	lzma2EndOfStream = 0
)

// decodeXZ decodes an xz file (the .xz file format 1.2) into dst[:0]: at most limit
// bytes. As in Python's module lzma, bytes after it that begin no stream are ignored.
func decodeXZ(dst, src []byte, limit int64) ([]byte, error) {
	x := xzScanner{rest: src, out: dst[:0], limit: limit}
	for first := true; first || len(x.rest) > 0 && x.err == nil; first = false {
		if !first && x.rest[0] == 0 { // padding between streams
			if !bytes.Equal(x.take(4), make([]byte, 4)) {
				x.fail(errors.New("malformed padding between xz streams"))
			}
			continue
		}
		if !first && !bytes.HasPrefix(x.rest, []byte(xzMagic)) {
			break
		}
		x.stream()
	}
	return x.out, x.err
}

// xzScanner decodes the parts of an xz file. After an error its methods do nothing.
type xzScanner struct {
	rest  []byte
	out   []byte
	limit int64
	err   error
}

// xzBlock has the sizes of a block that the index repeats.
type xzBlock struct{ unpadded, unpacked uint64 }

var errTruncatedXZ = errors.New("unexpected end of xz file")

func (x *xzScanner) fail(err error) {
	if x.err == nil {
		x.err = err
	}
}

// take returns the next n bytes, or zero bytes after an error.
func (x *xzScanner) take(n int) []byte {
	if n > len(x.rest) {
		x.fail(errTruncatedXZ)
	}
	if x.err != nil {
		return make([]byte, min(n, 64))
	}
	out := x.rest[:n]
	x.rest = x.rest[n:]
	return out
}

// number returns a number of variable length: 7 bits per byte, lowest first.
func (x *xzScanner) number() uint64 {
	n, size := binary.Uvarint(x.rest)
	if size <= 0 {
		size = len(x.rest) + 1
	}
	x.take(size)
	return n
}

// sum fails unless the next 4 bytes are the checksum of data.
func (x *xzScanner) sum(data []byte, what string) {
	if binary.LittleEndian.Uint32(x.take(4)) != crc32.ChecksumIEEE(data) {
		x.fail(fmt.Errorf("checksum of an xz %s differs", what))
	}
}

// pad skips padding after a part that began where start bytes remained.
func (x *xzScanner) pad(start int) {
	for _, b := range x.take(-(start - len(x.rest)) & 3) {
		if b != 0 {
			x.fail(errors.New("malformed padding in an xz file"))
		}
	}
}

func (x *xzScanner) stream() {
	if string(x.take(len(xzMagic))) != xzMagic {
		x.fail(errors.New("no xz file"))
	}
	flags := x.take(2)
	x.sum(flags, "header")
	if _, ok := xzSum(int(flags[1]), nil); x.err == nil && (flags[0] != 0 || !ok) {
		x.fail(fmt.Errorf("xz check %d: %w", flags[1], errors.ErrUnsupported))
	}
	var blocks []xzBlock
	for x.err == nil && len(x.rest) > 0 && x.rest[0] != 0 {
		blocks = append(blocks, x.block(int(flags[1])))
	}
	index := x.rest
	x.take(1)
	if n := x.number(); n != uint64(len(blocks)) {
		x.fail(fmt.Errorf("xz index of %d blocks, want %d", n, len(blocks)))
	}
	for _, b := range blocks {
		if (xzBlock{x.number(), x.number()}) != b {
			x.fail(errors.New("xz index differs from the blocks"))
		}
	}
	x.pad(len(index))
	size := len(index) - len(x.rest)
	x.sum(index[:size], "index")
	footer := x.rest
	x.take(4)
	if backward := binary.LittleEndian.Uint32(x.take(4)); 4*(int64(backward)+1) != int64(size)+4 || !bytes.Equal(x.take(2), flags) {
		x.fail(errors.New("malformed xz footer"))
	}
	if string(x.take(len(xzEnd))) != xzEnd || x.err == nil && binary.LittleEndian.Uint32(footer) != crc32.ChecksumIEEE(footer[4:10]) {
		x.fail(errors.New("malformed xz footer"))
	}
}

// block decodes a block.
func (x *xzScanner) block(check int) xzBlock {
	start, from := len(x.rest), len(x.out)
	header := x.take(4 * (int(x.rest[0]) + 1))
	if x.err != nil {
		return xzBlock{}
	}
	fields := xzScanner{rest: header[:len(header)-4]}
	if crc32.ChecksumIEEE(fields.rest) != binary.LittleEndian.Uint32(header[len(header)-4:]) {
		x.fail(errors.New("checksum of an xz block header differs"))
		return xzBlock{}
	}
	deltas, dictionary, sizes := fields.blockHeader()
	x.fail(fields.err)
	x.out = x.lzma2(x.out, dictionary)
	packed := start - len(x.rest) - len(header)
	zero, _ := xzSum(check, nil)
	unpadded := uint64(start-len(x.rest)) + uint64(len(zero))
	if x.err == nil && (sizes[0] >= 0 && sizes[0] != int64(packed) || sizes[1] >= 0 && sizes[1] != int64(len(x.out)-from)) {
		x.fail(errors.New("sizes in an xz block header differ"))
	}
	x.pad(start)
	if x.err != nil {
		return xzBlock{}
	}
	for i := len(deltas) - 1; i >= 0; i-- {
		undoDelta(x.out[from:], deltas[i])
	}
	if sum, _ := xzSum(check, x.out[from:]); !bytes.Equal(x.take(len(sum)), sum) {
		x.fail(errors.New("checksum of an xz block differs"))
	}
	return xzBlock{unpadded, uint64(len(x.out) - from)}
}

// blockHeader returns the distances of delta filters, the size of the dictionary, and the
// packed and the unpacked size of the block, -1 if they are not given.
func (x *xzScanner) blockHeader() (deltas []int, dictionary int64, sizes [2]int64) {
	flags := x.take(2)[1]
	if flags&xzReserved != 0 {
		x.fail(fmt.Errorf("xz block flags %#x", flags))
	}
	for i, flag := range []byte{xzHasPacked, xzHasUnpacked} {
		sizes[i] = -1
		if flags&flag != 0 {
			sizes[i] = int64(min(x.number(), math.MaxInt64))
		}
	}
	for left := int(flags & xzFilters); left >= 0 && x.err == nil; left-- {
		id := x.number()
		properties := x.take(int(min(x.number(), math.MaxInt32)))
		switch {
		case x.err != nil:
		case id == LZMAFilterDelta && left > 0 && len(properties) == 1:
			deltas = append(deltas, int(properties[0])+1)
		case id == LZMAFilterLZMA2 && left == 0 && len(properties) == 1 && properties[0] <= xzMaxDictionary:
			dictionary = int64(math.MaxUint32)
			if p := properties[0]; p < xzMaxDictionary {
				dictionary = int64(2|p&1) << (p/2 + 11)
			}
		default:
			x.fail(fmt.Errorf("xz filter %#x with properties %x: %w", id, properties, errors.ErrUnsupported))
		}
	}
	for _, b := range x.rest {
		if b != 0 {
			x.fail(errors.New("malformed padding in an xz block header"))
		}
	}
	return deltas, dictionary, sizes
}

// lzma2 appends the decoding of the LZMA2 stream at the start of the rest to dst.
func (x *xzScanner) lzma2(dst []byte, dictionary int64) []byte {
	from, total := x.rest, int64(0)
	for x.err == nil {
		control := x.take(1)[0]
		if control == lzma2EndOfStream {
			break
		}
		total += x.chunk(control)
		if int64(len(dst))+total > x.limit {
			x.fail(errTooLong(x.limit))
		}
	}
	if x.err != nil {
		return dst
	}
	dictionary = max(min(dictionary, total), lzma.MinDictCap) // matches do not reach before the stream
	r, err := lzma.Reader2Config{DictCap: int(dictionary)}.NewReader2(bytes.NewReader(from[:len(from)-len(x.rest)]))
	if err != nil {
		x.fail(err)
		return dst
	}
	out, err := appendAll(r, dst, int64(len(dst))+total)
	if err == nil && int64(len(out)-len(dst)) != total {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		x.fail(fmt.Errorf("LZMA2: %w", err))
	}
	return out
}

// chunk skips one chunk of LZMA2 and returns the size of its decoding.
func (x *xzScanner) chunk(control byte) int64 {
	size := int64(binary.BigEndian.Uint16(x.take(2))) + 1
	switch {
	case control >= 0x80:
		size += int64(control&0x1f) << 16
		packed := int(binary.BigEndian.Uint16(x.take(2))) + 1
		if control >= 0xc0 {
			x.take(1) // properties
		}
		x.take(packed)
	case control <= 2: // stored
		x.take(int(size))
	default:
		x.fail(fmt.Errorf("LZMA2 control byte %#x", control))
	}
	return size
}

// encodeXZ appends an xz file of one block to dst.
func encodeXZ(dst, src []byte, check, dictionary int, deltas []int) ([]byte, error) {
	flags := []byte{0, byte(check)}
	dst = append(append(dst, xzMagic...), flags...)
	dst = binary.LittleEndian.AppendUint32(dst, crc32.ChecksumIEEE(flags))
	start := len(dst)
	dst = append(dst, 0, byte(len(deltas)))
	for _, distance := range deltas {
		dst = append(dst, LZMAFilterDelta, 1, byte(distance-1))
	}
	dst = append(dst, LZMAFilterLZMA2, 1, lzma.EncodeDictCap(int64(dictionary)))
	for (len(dst)-start)%4 != 0 {
		dst = append(dst, 0)
	}
	dst[start] = byte((len(dst) - start) / 4) // of the header with its checksum, less 1
	dst = binary.LittleEndian.AppendUint32(dst, crc32.ChecksumIEEE(dst[start:]))
	dst, err := encodeLZMA2(dst, src, dictionary, deltas)
	if err != nil {
		return nil, err
	}
	sum, _ := xzSum(check, src)
	unpadded := len(dst) - start + len(sum)
	for (len(dst)-start)%4 != 0 {
		dst = append(dst, 0)
	}
	dst = append(dst, sum...)
	index := len(dst)
	dst = append(dst, 0, 1) // the indicator, one block
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, uint64(unpadded)), uint64(len(src)))
	for (len(dst)-index)%4 != 0 {
		dst = append(dst, 0)
	}
	dst = binary.LittleEndian.AppendUint32(dst, crc32.ChecksumIEEE(dst[index:]))
	footer := append(binary.LittleEndian.AppendUint32(nil, uint32((len(dst)-index)/4-1)), flags...)
	dst = binary.LittleEndian.AppendUint32(dst, crc32.ChecksumIEEE(footer))
	return append(append(dst, footer...), xzEnd...), nil
}

// smallDictionary bounds dictionaries from which package lzma cannot copy a chunk of LZMA2
// that is stored: up to 64 KiB and a header.
const smallDictionary = 1 << 17

// encodeLZMA2 appends an LZMA2 stream to dst.
func encodeLZMA2(dst, src []byte, dictionary int, deltas []int) ([]byte, error) {
	src = applyDeltas(src, deltas)
	for len(src) > dictionary && dictionary < smallDictionary { // each piece begins with an empty dictionary
		var err error
		if dst, err = appendLZMA2(dst, src[:dictionary], dictionary); err != nil {
			return nil, err
		}
		dst, src = dst[:len(dst)-1], src[dictionary:] // without the end of the stream
	}
	return appendLZMA2(dst, src, dictionary)
}

func appendLZMA2(dst, src []byte, dictionary int) ([]byte, error) {
	out := bytes.NewBuffer(dst)
	w, err := lzma.Writer2Config{DictCap: dictionary}.NewWriter2(out)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(src); err != nil {
		return nil, err
	}
	if err := w.Flush(); err != nil { // Close does not return its error
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// applyDeltas encodes with the delta filters of some distances.
func applyDeltas(data []byte, distances []int) []byte {
	if len(distances) > 0 {
		data = bytes.Clone(data)
	}
	for _, distance := range distances {
		for i := len(data) - 1; i >= distance; i-- {
			data[i] -= data[i-distance]
		}
	}
	return data
}

// undoDelta decodes the delta filter of a distance.
func undoDelta(data []byte, distance int) {
	for i := distance; i < len(data); i++ {
		data[i] += data[i-distance]
	}
}
