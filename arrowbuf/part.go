package arrowbuf

import (
	"encoding/binary"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// part is bytes [from, to) of an arrow buffer, on the host or on a device, that
// an array shows. Its address is to be a multiple of align.
type part struct {
	src      *memory.Buffer
	from, to int64
	align    uintptr
}

// spot is a part as a range of the root buffer. Only what shares a root is
// known to be one piece of memory, whose gaps may be read: two buffers whose
// addresses happen to be close are not.
type spot struct {
	root     *memory.Buffer
	from, to int64
	order    int // of the root among the roots
	part     int // index
}

func (p part) locate() spot {
	root := rootOf(p.src)
	base := int64(sliceAddress(p.src.Buf())) - int64(sliceAddress(root.Buf()))
	if base < 0 || base+p.to > int64(root.Len()) {
		// The parent was given other memory after the slice was cut.
		root, base = p.src, 0
	}
	return spot{root: root, from: base + p.from, to: base + p.to}
}

func (s spot) address() uintptr { return sliceAddress(s.root.Buf()) + uintptr(s.from) }

func (p part) isWhole() bool { return p.from == 0 && p.to == int64(p.src.Len()) }

// read returns bytes [from, to) of the part.
func (p part) read(from, to int64) ([]byte, error) {
	return readBuffer(p.src, p.from+from, to-from)
}

// readBuffer returns n bytes of an arrow buffer: in place where the host
// reaches them, else copied. Nobody may write to them.
func readBuffer(b *memory.Buffer, from, n int64) ([]byte, error) {
	src, err := BufferOf(b)
	if err != nil {
		return nil, err
	}
	defer src.Release()
	if err := CheckRange(from, n, src.Len()); err != nil {
		return nil, err
	}
	if host, ok := HostBytes(src); ok {
		return host[from : from+n], nil
	}
	bytes := make([]byte, n)
	_, err = src.CopyToHost(bytes, from)
	return bytes, err
}

// ends reads the first and the last offset of a part that holds offsets of
// width bytes.
func (p part) ends(width int) (first, last int64, err error) {
	w, n := int64(width), p.to-p.from
	head, err := p.read(0, w)
	if err != nil {
		return 0, 0, err
	}
	tail, err := p.read(n-w, n)
	if err != nil {
		return 0, 0, err
	}
	return readOffset(head, width), readOffset(tail, width), nil
}

// rebased returns a part of host memory with the same offsets less first.
func (p part) rebased(first int64, width int) (part, error) {
	old, err := p.read(0, p.to-p.from)
	if err != nil {
		return part{}, err
	}
	offsets := make([]byte, len(old))
	for i := 0; i < len(old); i += width {
		if width == 4 {
			binary.LittleEndian.PutUint32(offsets[i:], binary.LittleEndian.Uint32(old[i:])-uint32(first))
		} else {
			binary.LittleEndian.PutUint64(offsets[i:], binary.LittleEndian.Uint64(old[i:])-uint64(first))
		}
	}
	return part{src: memory.NewBufferBytes(offsets), to: int64(len(offsets)), align: p.align}, nil
}

func readOffset(b []byte, width int) int64 {
	if width == 4 {
		return int64(int32(binary.LittleEndian.Uint32(b)))
	}
	return int64(binary.LittleEndian.Uint64(b))
}
