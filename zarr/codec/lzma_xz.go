package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/ulikunitz/xz/lzma"
)

// shrinkDictionaries lowers the sizes of dictionaries in an xz file to what limit bytes
// need. A decoder allocates a dictionary as its header claims, up to 4 GB, although
// matches cannot reach before the result. It also returns an error if the file claims to
// hold more than limit bytes (the .xz file format 1.2, sections 2 to 5).
func shrinkDictionaries(file []byte, limit int64) error {
	x := xzScanner{rest: file, limit: limit}
	for len(x.rest) > 0 {
		if x.rest[0] == 0 { // padding between streams
			x.take(4)
		} else {
			x.stream()
		}
		if x.err != nil {
			return x.err
		}
	}
	return nil
}

// xzScanner visits the parts of an xz file. After an error its methods do nothing.
type xzScanner struct {
	rest  []byte
	limit int64
	err   error
}

var errTruncatedXZ = errors.New("unexpected end of xz file")

// take returns the next n bytes, or n zero bytes after an error.
func (x *xzScanner) take(n int) []byte {
	if x.err == nil && n > len(x.rest) {
		x.err = errTruncatedXZ
	}
	if x.err != nil {
		return make([]byte, min(n, 16))
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

func (x *xzScanner) stream() {
	const headerSize, footerSize = 12, 12
	header := x.take(headerSize)
	if x.err == nil && string(header[:6]) != "\xfd7zXZ\x00" {
		x.err = errors.New("no xz file")
	}
	sizes := [16]int{0, 4, 4, 4, 8, 8, 8, 16, 16, 16, 32, 32, 32, 64, 64, 64}
	check := sizes[header[7]&15]
	for x.err == nil && len(x.rest) > 0 && x.rest[0] != 0 {
		x.block(check)
	}
	index := len(x.rest)
	x.take(1)
	for records := x.number(); records > 0 && x.err == nil; records-- {
		x.number() // the size of a block
		x.number() // that of its decoding
	}
	x.pad(index)
	x.take(4) // checksum
	x.take(footerSize)
}

// pad skips padding after a part that began where start bytes remained.
func (x *xzScanner) pad(start int) { x.take(-(start - len(x.rest)) & 3) }

func (x *xzScanner) block(check int) {
	start := len(x.rest)
	header := x.take(4 * (int(x.rest[0]) + 1))
	if x.err != nil {
		return
	}
	x.err = shrinkDictionary(header, x.limit)
	for x.err == nil {
		control := x.take(1)[0]
		if control == 0 {
			break
		}
		x.chunk(control)
	}
	x.pad(start)
	x.take(check)
}

// chunk skips one chunk of LZMA2.
func (x *xzScanner) chunk(control byte) {
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
		x.err = fmt.Errorf("LZMA2 control byte %#x", control)
	}
	if x.limit -= size; x.limit < 0 && x.err == nil {
		x.err = errors.New("xz file holds more bytes than expected")
	}
}

// shrinkDictionary changes the header of a block.
func shrinkDictionary(header []byte, limit int64) error {
	const (
		moreFilters    = 0x03
		hasPacked      = 0x40
		hasUnpacked    = 0x80
		filterLZMA2    = 0x21
		checksumLength = 4
	)
	body, sum := header[:len(header)-checksumLength], header[len(header)-checksumLength:]
	if crc32.ChecksumIEEE(body) != binary.LittleEndian.Uint32(sum) {
		return errors.New("checksum of an xz block header differs")
	}
	x := xzScanner{rest: body}
	flags := x.take(2)[1]
	for _, flag := range []byte{hasPacked, hasUnpacked} {
		if flags&flag != 0 {
			x.number()
		}
	}
	if id := x.number(); x.err == nil && (id != filterLZMA2 || flags&moreFilters != 0) {
		return fmt.Errorf("xz filter %#x: %w", id, errors.ErrUnsupported)
	}
	if length := x.number(); x.err == nil && length != 1 {
		return fmt.Errorf("LZMA2 properties of %d bytes, want 1", length)
	}
	dictionary := x.take(1)
	if x.err != nil {
		return x.err
	}
	if enough := lzma.EncodeDictCap(max(limit, lzma.MinDictCap)); enough < dictionary[0] {
		dictionary[0] = enough
	}
	binary.LittleEndian.PutUint32(sum, crc32.ChecksumIEEE(body))
	return nil
}
