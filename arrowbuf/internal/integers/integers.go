// Package integers reads and writes the signed integers of several widths in Arrow's
// buffers: offsets, sizes, type ids and run ends.
package integers

import "encoding/binary"

// Slice is a sequence of little-endian signed integers of Width bytes each: 1, 2, 4
// or 8.
type Slice struct {
	Bytes []byte
	Width int
}

// Len returns the number of integers.
func (s Slice) Len() int { return len(s.Bytes) / s.Width }

// At returns integer i.
func (s Slice) At(i int) int64 {
	b := s.Bytes[i*s.Width:]
	switch s.Width {
	case 1:
		return int64(int8(b[0]))
	case 2:
		return int64(int16(binary.LittleEndian.Uint16(b)))
	case 4:
		return int64(int32(binary.LittleEndian.Uint32(b)))
	default:
		return int64(binary.LittleEndian.Uint64(b))
	}
}

// Put sets integer i to n, truncated to the width.
func (s Slice) Put(i int, n int64) {
	b := s.Bytes[i*s.Width:]
	switch s.Width {
	case 1:
		b[0] = byte(n)
	case 2:
		binary.LittleEndian.PutUint16(b, uint16(n))
	case 4:
		binary.LittleEndian.PutUint32(b, uint32(n))
	default:
		binary.LittleEndian.PutUint64(b, uint64(n))
	}
}

// Subtract returns a new Slice in which n is subtracted from each integer.
func (s Slice) Subtract(n int64) Slice {
	out := Slice{make([]byte, len(s.Bytes)), s.Width}
	for i := range s.Len() {
		out.Put(i, s.At(i)-n)
	}
	return out
}
