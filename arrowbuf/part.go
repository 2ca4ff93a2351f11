package arrowbuf

import (
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf/internal/integers"
)

// part is bytes [from, to) of an arrow buffer, on the host or on a device, that
// an array shows. On the host its address is to be a multiple of align, a power
// of two up to 8.
type part struct {
	src      *memory.Buffer
	from, to int64
	align    int64
}

// hostPart is a part of memory that was computed on the host.
func hostPart(b []byte, align int) part {
	return part{src: memory.NewBufferBytes(b), to: int64(len(b)), align: int64(align)}
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

func (p part) isWhole() bool { return p.from == 0 && p.to == int64(p.src.Len()) }

// bytes returns the part: in place where the host reaches it, else copied.
// Nobody may write to it.
func (p part) bytes() ([]byte, error) { return p.read(0, p.to-p.from) }

// ints returns the part as integers, under the rules of bytes.
func (p part) ints(width int) (integers.Slice, error) {
	b, err := p.bytes()
	return integers.Slice{Bytes: b, Width: width}, err
}

// read returns bytes [from, to) of the part, under the rules of bytes.
func (p part) read(from, to int64) ([]byte, error) {
	from, to = p.from+from, p.from+to
	if err := CheckRange(from, to-from, int64(p.src.Len())); err != nil {
		return nil, err
	}
	if OnHost(p.src) {
		return p.src.Bytes()[from:to], nil
	}
	src, err := BufferOf(p.src)
	if err != nil {
		return nil, err
	}
	defer src.Release()
	b := make([]byte, to-from)
	_, err = src.CopyToHost(b, from)
	return b, err
}

// ends reads the first and the last of a part of offsets.
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
	return integers.Slice{Bytes: head, Width: width}.At(0), integers.Slice{Bytes: tail, Width: width}.At(0), nil
}
