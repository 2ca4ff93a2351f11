package parquetcolumn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
)

// ErrMalformed is the error of a file that contradicts the format or itself. It is that of
// all inputs of a conversion.
var ErrMalformed = arrowdata.ErrMalformed

// Kinds of pages, from parquet.thrift.
const (
	dataPage       = 0
	indexPage      = 1
	dictionaryPage = 2
	dataPageV2     = 3
)

// Encodings, from parquet.thrift.
const (
	encodingPlain                = 0
	encodingPlainDictionary      = 2
	encodingRLE                  = 3
	encodingDeltaBinaryPacked    = 5
	encodingDeltaLengthByteArray = 6
	encodingDeltaByteArray       = 7
	encodingRLEDictionary        = 8
	encodingByteStreamSplit      = 9
)

// pageHeader is the PageHeader of parquet.thrift with the header of its kind.
type pageHeader struct {
	kind                     int32
	uncompressed, compressed int32 // bytes of the body
	values                   int32 // with nulls
	encoding                 int32
	defEncoding, repEncoding int32 // of the levels of a dataPage
	defBytes, repBytes       int32 // of the levels of a dataPageV2
	rawValues                bool  // the values of a dataPageV2 are not compressed
}

// errShort reports that the input ends inside of a header.
var errShort = errors.New("page header is cut off")

// parsePageHeader parses the header at the start of b, and returns its length.
func parsePageHeader(b []byte) (h pageHeader, n int, err error) {
	c := compact{b: b}
	body := func(set func(id int16, kind byte)) { c.structure(set) }
	c.structure(func(id int16, kind byte) {
		switch {
		case id == 1 && kind == compactInt32:
			h.kind = c.int32()
		case id == 2 && kind == compactInt32:
			h.uncompressed = c.int32()
		case id == 3 && kind == compactInt32:
			h.compressed = c.int32()
		case id == 5 && kind == compactStruct:
			body(func(id int16, kind byte) {
				c.field(id, kind, &h.values, &h.encoding, &h.defEncoding, &h.repEncoding)
			})
		case id == 7 && kind == compactStruct:
			body(func(id int16, kind byte) { c.field(id, kind, &h.values, &h.encoding) })
		case id == 8 && kind == compactStruct:
			body(func(id int16, kind byte) {
				var nulls, rows int32
				if id == 7 && kind == compactFalse {
					h.rawValues = true
				}
				c.field(id, kind, &h.values, &nulls, &rows, &h.encoding, &h.defBytes, &h.repBytes)
			})
		default:
			c.skip(kind, 0)
		}
	})
	switch {
	case c.err != nil:
		return h, 0, c.err
	case h.uncompressed < 0 || h.compressed < 0 || h.values < 0 || h.defBytes < 0 || h.repBytes < 0:
		return h, 0, fmt.Errorf("page header with a negative size: %w", ErrMalformed)
	}
	return h, c.at, nil
}

// Types of Thrift's compact protocol. A Boolean field has its value in its type.
const (
	compactTrue   = 1
	compactFalse  = 2
	compactByte   = 3
	compactInt16  = 4
	compactInt32  = 5
	compactInt64  = 6
	compactDouble = 7
	compactBinary = 8
	compactList   = 9
	compactSet    = 10
	compactMap    = 11
	compactStruct = 12
)

// maxDepth is the most structures inside of each other that compact skips.
const maxDepth = 16

// compact reads Thrift's compact protocol. After an error it reads zeros.
type compact struct {
	b       []byte
	at      int
	fieldAt int // where the field begins that structure visits
	err     error
}

func (c *compact) fail(err error) {
	if c.err == nil {
		c.err = err
	}
	c.at = len(c.b)
}

func (c *compact) byte() byte {
	if c.at >= len(c.b) {
		c.fail(errShort)
		return 0
	}
	c.at++
	return c.b[c.at-1]
}

func (c *compact) uvarint() uint64 {
	v, n := binary.Uvarint(c.b[c.at:])
	switch {
	case n == 0:
		c.fail(errShort)
		return 0
	case n < 0:
		c.fail(fmt.Errorf("page header with a number of more than 64 bits: %w", ErrMalformed))
		return 0
	}
	c.at += n
	return v
}

func (c *compact) int64() int64 {
	v := c.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

func (c *compact) int32() int32 {
	v := c.int64()
	if v != int64(int32(v)) {
		c.fail(fmt.Errorf("page header with %d where a number of 32 bits was expected: %w", v, ErrMalformed))
	}
	return int32(v)
}

// discard skips n bytes.
func (c *compact) discard(n uint64) {
	if n > uint64(len(c.b)-c.at) {
		c.fail(errShort)
		return
	}
	c.at += int(n)
}

// structure calls visit for each field of a structure, which must read its value.
func (c *compact) structure(visit func(id int16, kind byte)) {
	var id int16
	for c.err == nil {
		c.fieldAt = c.at
		head := c.byte()
		if head == 0 {
			return
		}
		if delta := head >> 4; delta != 0 {
			id += int16(delta)
		} else {
			id = int16(c.int64())
		}
		visit(id, head&15)
	}
}

// field reads field id of a structure into into[id-1], or skips it.
func (c *compact) field(id int16, kind byte, into ...*int32) {
	if kind == compactInt32 && id >= 1 && int(id) <= len(into) {
		*into[id-1] = c.int32()
		return
	}
	c.skip(kind, 0)
}

// skip skips a value.
func (c *compact) skip(kind byte, depth int) {
	if depth > maxDepth {
		c.fail(fmt.Errorf("page header of more than %d levels: %w", maxDepth, ErrMalformed))
		return
	}
	switch kind {
	case compactTrue, compactFalse:
	case compactByte:
		c.byte()
	case compactInt16, compactInt32, compactInt64:
		c.uvarint()
	case compactDouble:
		c.discard(8)
	case compactBinary:
		c.discard(c.uvarint())
	case compactList, compactSet:
		n, kind := c.list()
		c.skipElements(n, depth, kind)
	case compactMap:
		if n := c.uvarint(); n > 0 {
			kinds := c.byte()
			c.skipElements(n, depth, kinds>>4, kinds&15)
		}
	case compactStruct:
		c.structure(func(_ int16, kind byte) { c.skip(kind, depth+1) })
	default:
		c.fail(fmt.Errorf("page header with a value of type %d: %w", kind, ErrMalformed))
	}
}

// list reads the head of a list: the number and the type of its elements.
func (c *compact) list() (n uint64, kind byte) {
	head := c.byte()
	if n = uint64(head >> 4); n == 15 {
		n = c.uvarint()
	}
	return n, head & 15
}

// skipElements skips n elements, each of some values. Booleans take a byte here.
func (c *compact) skipElements(n uint64, depth int, kinds ...byte) {
	if n > math.MaxInt32 {
		c.fail(fmt.Errorf("page header with a list of %d elements: %w", n, ErrMalformed))
		return
	}
	for ; n > 0 && c.err == nil; n-- {
		for _, kind := range kinds {
			if kind == compactTrue || kind == compactFalse {
				kind = compactByte
			}
			c.skip(kind, depth+1)
		}
	}
}
