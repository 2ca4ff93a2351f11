package arrowbuf

import "encoding/binary"

// ints are signed integers, width bytes each: 1, 2, 4 or 8.
type ints struct {
	b     []byte
	width int
}

func (v ints) len() int { return len(v.b) / v.width }

func (v ints) at(i int) int64 {
	b := v.b[i*v.width:]
	switch v.width {
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

func (v ints) put(i int, n int64) {
	b := v.b[i*v.width:]
	switch v.width {
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

// less returns the same integers, n less each.
func (v ints) less(n int64) ints {
	out := ints{make([]byte, len(v.b)), v.width}
	for i := range v.len() {
		out.put(i, v.at(i)-n)
	}
	return out
}

// reach is a range [from, to) that grows to what is seen.
type reach struct{ from, to int64 }

func (r *reach) see(from, to int64) {
	if r.to == r.from {
		*r = reach{from, to}
		return
	}
	r.from, r.to = min(r.from, from), max(r.to, to)
}
