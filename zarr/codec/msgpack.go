package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// msgpackReader reads MessagePack. It is the rest of the input.
type msgpackReader struct{ rest []byte }

var errTruncatedMsgPack = errors.New("unexpected end of MessagePack")

func (r *msgpackReader) take(n uint64) ([]byte, error) {
	if n > uint64(len(r.rest)) {
		return nil, errTruncatedMsgPack
	}
	out := r.rest[:n]
	r.rest = r.rest[n:]
	return out, nil
}

func (r *msgpackReader) tag() (byte, error) {
	b, err := r.take(1)
	if err != nil {
		return 0, err
	}
	return b[0], nil
}

// number returns a big-endian integer of n bytes.
func (r *msgpackReader) number(n int) (uint64, error) {
	b, err := r.take(uint64(n))
	if err != nil {
		return 0, err
	}
	var whole [8]byte
	copy(whole[8-n:], b)
	return binary.BigEndian.Uint64(whole[:]), nil
}

func (r *msgpackReader) list() (int64, error) {
	tag, err := r.tag()
	if err != nil {
		return 0, err
	}
	var n uint64
	switch {
	case tag&0xf0 == 0x90:
		return int64(tag & 0x0f), nil
	case tag == 0xdc || tag == 0xdd:
		n, err = r.number(2 << (tag - 0xdc))
	default:
		err = fmt.Errorf("tag %#x in place of a list: %w", tag, errItems)
	}
	return int64(n), err
}

func (*msgpackReader) endList() error { return nil }

func (r *msgpackReader) text(dst []byte) ([]byte, error) {
	tag, err := r.tag()
	if err != nil {
		return nil, err
	}
	var n uint64
	switch {
	case tag == 0xc0 || tag == 0: // null and the number 0
		return dst, nil
	case tag&0xe0 == 0xa0:
		n = uint64(tag & 0x1f)
	case tag >= 0xd9 && tag <= 0xdb: // text
		n, err = r.number(1 << (tag - 0xd9))
	case tag >= 0xc4 && tag <= 0xc6: // bytes
		n, err = r.number(1 << (tag - 0xc4))
	default:
		err = fmt.Errorf("object with tag %#x is no string: %w", tag, errors.ErrUnsupported)
	}
	if err != nil {
		return nil, err
	}
	b, err := r.take(n)
	return append(dst, b...), err
}

func (r *msgpackReader) size() (int64, error) {
	tag, err := r.tag()
	if err != nil {
		return 0, err
	}
	if tag < 0x80 {
		return int64(tag), nil
	}
	if tag < 0xcc || tag > 0xcf {
		return 0, fmt.Errorf("tag %#x in place of a size: %w", tag, errItems)
	}
	n, err := r.number(1 << (tag - 0xcc))
	if err == nil && n > math.MaxInt64 {
		err = errItems
	}
	return int64(n), err
}

func (r *msgpackReader) end() error {
	if len(r.rest) > 0 {
		return fmt.Errorf("%d bytes after the list", len(r.rest))
	}
	return nil
}

func msgpackWriter(isText bool) itemWriter {
	same := func(dst []byte) []byte { return dst }
	be := binary.BigEndian
	return itemWriter{
		next: same, endList: same,
		list: func(dst []byte, n int) []byte {
			switch {
			case n < 16:
				return append(dst, 0x90|byte(n))
			case n <= math.MaxUint16:
				return be.AppendUint16(append(dst, 0xdc), uint16(n))
			default:
				return be.AppendUint32(append(dst, 0xdd), uint32(n))
			}
		},
		text: func(dst, s []byte) ([]byte, error) {
			first := byte(0xc4)
			if isText {
				first = 0xd9
			}
			switch n := len(s); {
			case first == 0xd9 && n < 32:
				dst = append(dst, 0xa0|byte(n))
			case n <= math.MaxUint8:
				dst = append(dst, first, byte(n))
			case n <= math.MaxUint16:
				dst = be.AppendUint16(append(dst, first+1), uint16(n))
			case int64(n) <= math.MaxUint32:
				dst = be.AppendUint32(append(dst, first+2), uint32(n))
			default:
				return nil, fmt.Errorf("string of %d bytes, want less than 2^32", n)
			}
			return append(dst, s...), nil
		},
		dtype: []byte("\xa2|O"),
		size: func(dst []byte, n int64) []byte {
			if n < 0x80 {
				return append(dst, byte(n))
			}
			return be.AppendUint64(append(dst, 0xcf), uint64(n))
		},
	}
}
