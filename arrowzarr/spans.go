package arrowzarr

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// spans are the stretches of memory that hold the values of a part, and will
// hardly be read again once it is written. A stretch that is not easily told,
// such as the bytes of string views, is left out: it goes with its batch.
func (p part) spans() [][]byte {
	data := p.values.Data()
	from, to := int64(data.Offset())+p.from, int64(data.Offset())+p.to
	switch storage(data.DataType()).(type) {
	case *arrow.StringType, *arrow.BinaryType:
		return offsetSpans(data.Buffers(), from, to, 4)
	case *arrow.LargeStringType, *arrow.LargeBinaryType:
		return offsetSpans(data.Buffers(), from, to, 8)
	}
	layout, ok := fixedLayoutOf(data.DataType())
	if !ok {
		return nil
	}
	elements, at, err := leaf(data, p.from)
	if err != nil || len(elements.Buffers()) < 2 {
		return nil
	}
	start, n := at*layout.limbs, p.rows()*layout.elements()
	if elements.DataType().ID() == arrow.BOOL { // bits
		return [][]byte{cut(elements.Buffers()[1], start/8, (n+7)/8)}
	}
	return [][]byte{cut(elements.Buffers()[1], start*layout.source.Size(), n*layout.source.Size())}
}

// offsetSpans are the offsets of values [from, to), and the bytes between the
// first and the last.
func offsetSpans(buffers []*memory.Buffer, from, to, width int64) [][]byte {
	if len(buffers) < 3 || buffers[1] == nil || int64(buffers[1].Len()) < (to+1)*width {
		return nil
	}
	var first, last int64
	if width == 4 {
		offsets := arrow.Int32Traits.CastFromBytes(buffers[1].Bytes())
		first, last = int64(offsets[from]), int64(offsets[to])
	} else {
		offsets := arrow.Int64Traits.CastFromBytes(buffers[1].Bytes())
		first, last = offsets[from], offsets[to]
	}
	return [][]byte{cut(buffers[1], from*width, (to-from)*width), cut(buffers[2], first, last-first)}
}

// cut is a part of a buffer, as far as there is one.
func cut(b *memory.Buffer, start, n int64) []byte {
	if b == nil || start < 0 || n <= 0 || start >= int64(b.Len()) {
		return nil
	}
	return b.Bytes()[start:min(start+n, int64(b.Len()))]
}

// eachSpan calls f with all memory of an array.
func eachSpan(data arrow.ArrayData, f func(span []byte)) {
	for _, b := range data.Buffers() {
		if b != nil && b.Len() > 0 {
			f(b.Bytes())
		}
	}
	for _, child := range data.Children() {
		eachSpan(child, f)
	}
}
