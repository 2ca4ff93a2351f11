package arrowzarr

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// spans are the stretches of memory that hold the values of a part, and will
// hardly be read again once it is written.
func (p part) spans() [][]byte {
	data := p.values.Data()
	buffers := data.Buffers()
	from, to := int64(data.Offset())+p.from, int64(data.Offset())+p.to
	if len(buffers) == 0 {
		return nil
	}
	spans := [][]byte{bitSpan(buffers[0], from, to-from)}
	switch storage(data.DataType()).(type) {
	case *arrow.StringType, *arrow.BinaryType:
		return append(spans, offsetSpans(buffers, from, to, 4)...)
	case *arrow.LargeStringType, *arrow.LargeBinaryType:
		return append(spans, offsetSpans(buffers, from, to, 8)...)
	case *arrow.StringViewType, *arrow.BinaryViewType:
		return append(spans, viewSpans(buffers, from, to)...)
	}
	layout, ok := fixedLayoutOf(data.DataType())
	if !ok {
		return spans
	}
	elements, at, err := leaf(data, p.from)
	if err != nil || len(elements.Buffers()) < 2 {
		return spans
	}
	start, n := at*layout.limbs, p.rows()*layout.elements()
	if elements != data {
		spans = append(spans, bitSpan(elements.Buffers()[0], at, n/max(layout.limbs, 1)))
	}
	if elements.DataType().ID() == arrow.BOOL {
		return append(spans, bitSpan(elements.Buffers()[1], start, n))
	}
	return append(spans, cut(elements.Buffers()[1], start*layout.source.Size(), n*layout.source.Size()))
}

// bitSpan is the bytes of n bits.
func bitSpan(b *memory.Buffer, from, n int64) []byte {
	return cut(b, from/8, (from%8+n+7)/8)
}

// viewSpans are views [from, to), and of each buffer what lies between the first
// byte and the last that they show. What they show wrongly is found by who reads
// it.
func viewSpans(buffers []*memory.Buffer, from, to int64) [][]byte {
	const width = int64(arrow.ViewHeaderSizeBytes)
	if len(buffers) < 2 || buffers[1] == nil || int64(buffers[1].Len()) < to*width {
		return nil
	}
	type stretch struct{ start, end int64 }
	shown := make([]stretch, len(buffers)-2)
	for _, view := range arrow.ViewHeaderTraits.CastFromBytes(buffers[1].Bytes())[from:to] {
		if view.IsInline() || int(view.BufferIndex()) >= len(shown) || view.BufferIndex() < 0 {
			continue
		}
		s, start := &shown[view.BufferIndex()], max(int64(view.BufferOffset()), 0)
		if s.end == 0 {
			s.start = start
		}
		s.start, s.end = min(s.start, start), max(s.end, start+int64(view.Len()))
	}
	spans := [][]byte{cut(buffers[1], from*width, (to-from)*width)}
	for i, s := range shown {
		spans = append(spans, cut(buffers[2+i], s.start, s.end-s.start))
	}
	return spans
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
