package blosc

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// BloscLZ is a stream of literal runs and matches. It begins with a run.
//
//	000lllll, data             l+1 literals
//	lllooooo [ext...] oooooooo l+2 bytes from o+1 bytes back; l = 7 adds the bytes ext,
//	                           which end at the first that is not 255
//	lll11111 [ext...] 11111111 hhhhhhhh llllllll
//	                           the same from hl+8192 bytes back
const (
	maxRun      = 32
	nearOffsets = 8191 // offsets, less 1, that fit the short form
	maxOffset   = nearOffsets + 1<<16
)

var errTruncated = errors.New("unexpected end of BloscLZ stream")

func decompressBloscLZ(dst, src []byte) error {
	if len(src) == 0 {
		return errTruncated
	}
	out, ctrl := 0, int(src[0]&31)
	src = src[1:]
	for {
		if ctrl < maxRun {
			n := ctrl + 1
			if n > len(src) || n > len(dst)-out {
				return errTruncated
			}
			out += copy(dst[out:], src[:n])
			src = src[n:]
		} else {
			var length, back int
			var err error
			if length, back, src, err = parseMatch(ctrl, src); err != nil {
				return err
			}
			if back > out || length > len(dst)-out {
				return fmt.Errorf("match of %d bytes from %d back at %d of %d", length, back, out, len(dst))
			}
			copyMatch(dst[out-back:out+length], back)
			out += length
		}
		if len(src) == 0 {
			return checkLength(out, dst, nil)
		}
		ctrl, src = int(src[0]), src[1:]
	}
}

// parseMatch returns the length and the distance of a match, and the bytes after it.
func parseMatch(ctrl int, src []byte) (length, back int, rest []byte, err error) {
	length = ctrl>>5 + 2
	if ctrl>>5 == 7 {
		for more := byte(255); more == 255; {
			if len(src) == 0 {
				return 0, 0, nil, errTruncated
			}
			more, src = src[0], src[1:]
			length += int(more)
		}
	}
	if len(src) == 0 {
		return 0, 0, nil, errTruncated
	}
	back = ctrl&31<<8 | int(src[0])
	src = src[1:]
	if back == nearOffsets {
		if len(src) < 2 {
			return 0, 0, nil, errTruncated
		}
		back += int(binary.BigEndian.Uint16(src))
		src = src[2:]
	}
	return length, back + 1, src, nil
}

// copyMatch repeats the first back bytes of b over the rest.
func copyMatch(b []byte, back int) {
	for at := back; at < len(b); {
		at += copy(b[at:], b[:at])
	}
}

const (
	hashBits = 13
	// tail is the number of last bytes that are literals. Decoders of c-blosc do not
	// accept a match at the end.
	tail = 12
)

// compressBloscLZ fills the start of dst and returns the size, or 0 if dst is too
// small. It takes the last position with equal 4 bytes as a match.
func compressBloscLZ(dst, src []byte) int {
	var table [1 << hashBits]int32 // position + 1, by hash of 4 bytes
	w := bloscLZWriter{dst: dst}
	literals, at := 0, 0 // src[literals:at] is not written
	for at < len(src)-tail {
		word := binary.LittleEndian.Uint32(src[at:])
		slot := &table[word*2654435761>>(32-hashBits)]
		back := at + 1 - int(*slot)
		*slot = int32(at + 1)
		// The first bytes are a run, since a stream begins with one.
		if at == 0 || back > at || back > maxOffset || binary.LittleEndian.Uint32(src[at-back:]) != word {
			at++
			continue
		}
		length := 4
		for at+length < len(src)-tail && src[at+length] == src[at+length-back] {
			length++
		}
		if back > nearOffsets && length < 6 { // takes as many bytes as literals
			at++
			continue
		}
		w.literals(src[literals:at])
		w.match(length, back)
		at += length
		literals = at
		if w.full {
			return 0
		}
	}
	w.literals(src[literals:])
	if w.full {
		return 0
	}
	return w.n
}

// bloscLZWriter writes to dst[n:]. full reports that dst was too small.
type bloscLZWriter struct {
	dst  []byte
	n    int
	full bool
}

func (w *bloscLZWriter) literals(src []byte) {
	for len(src) > 0 {
		n := min(len(src), maxRun)
		if len(w.dst)-w.n < n+1 {
			w.full = true
			return
		}
		w.dst[w.n] = byte(n - 1)
		copy(w.dst[w.n+1:], src[:n])
		w.n += n + 1
		src = src[n:]
	}
}

func (w *bloscLZWriter) match(length, back int) {
	code, offset := length-2, back-1
	if w.full || len(w.dst)-w.n < 5+code/255 {
		w.full = true
		return
	}
	short := min(offset, nearOffsets)
	w.put(byte(min(code, 7)<<5 | short>>8))
	if code >= 7 {
		for code -= 7; code >= 255; code -= 255 {
			w.put(255)
		}
		w.put(byte(code))
	}
	w.put(byte(short))
	if short == nearOffsets {
		binary.BigEndian.PutUint16(w.dst[w.n:], uint16(offset-nearOffsets))
		w.n += 2
	}
}

func (w *bloscLZWriter) put(b byte) {
	w.dst[w.n] = b
	w.n++
}
