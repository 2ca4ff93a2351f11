package arrowzarr

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
)

// regions returns the memory of the values of the slice. Little of it is read
// again when the slice is written. Malformed buffers have no region here; the error
// comes when they are read.
func (s columnSlice) regions() [][]byte {
	data := s.values.Data()
	buffers := data.Buffers()
	from, to := int64(data.Offset())+s.from, int64(data.Offset())+s.to
	if len(buffers) == 0 {
		return nil
	}
	regions := [][]byte{bitRegion(buffers[0], from, to-from)}
	switch arrowdata.StorageType(data.DataType()).(type) {
	case *arrow.StringType, *arrow.BinaryType:
		return append(regions, offsetRegions(buffers, from, to, 4)...)
	case *arrow.LargeStringType, *arrow.LargeBinaryType:
		return append(regions, offsetRegions(buffers, from, to, 8)...)
	case *arrow.StringViewType, *arrow.BinaryViewType:
		return append(regions, viewRegions(buffers, from, to)...)
	}
	layout, ok := fixedLayoutOf(data.DataType())
	if !ok {
		return regions
	}
	elements, at, err := leaf(data, s.from)
	if err != nil || len(elements.Buffers()) < 2 {
		return regions
	}
	start, n := at*layout.limbs, s.rows()*layout.elements()
	if elements != data {
		regions = append(regions, bitRegion(elements.Buffers()[0], at, n/max(layout.limbs, 1)))
	}
	if elements.DataType().ID() == arrow.BOOL {
		return append(regions, bitRegion(elements.Buffers()[1], start, n))
	}
	return append(regions, bufferRegion(elements.Buffers()[1], start*layout.source.Size(), n*layout.source.Size()))
}

// bitRegion returns the bytes of n bits.
func bitRegion(b *memory.Buffer, from, n int64) []byte {
	return bufferRegion(b, from/8, (from%8+n+7)/8)
}

// viewRegions returns the headers of views [from, to), and of each buffer the bytes
// from the first to the last that they refer to.
func viewRegions(buffers []*memory.Buffer, from, to int64) [][]byte {
	const width = int64(arrow.ViewHeaderSizeBytes)
	if len(buffers) < 2 || buffers[1] == nil || int64(buffers[1].Len()) < to*width {
		return nil
	}
	type byteRange struct{ start, end int64 }
	shown := make([]byteRange, len(buffers)-2)
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
	regions := [][]byte{bufferRegion(buffers[1], from*width, (to-from)*width)}
	for i, s := range shown {
		regions = append(regions, bufferRegion(buffers[2+i], s.start, s.end-s.start))
	}
	return regions
}

// offsetRegions returns the offsets of values [from, to), and the bytes of the
// values.
func offsetRegions(buffers []*memory.Buffer, from, to, width int64) [][]byte {
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
	return [][]byte{bufferRegion(buffers[1], from*width, (to-from)*width), bufferRegion(buffers[2], first, last-first)}
}

// bufferRegion returns n bytes of a buffer, or fewer at its end. It returns nil if
// start is outside of the buffer.
func bufferRegion(b *memory.Buffer, start, n int64) []byte {
	if b == nil || start < 0 || n <= 0 || start >= int64(b.Len()) {
		return nil
	}
	return b.Bytes()[start:min(start+n, int64(b.Len()))]
}

// forEachRegion calls f with each buffer of an array.
func forEachRegion(data arrow.ArrayData, f func(region []byte)) {
	for _, b := range data.Buffers() {
		if b != nil && b.Len() > 0 {
			f(b.Bytes())
		}
	}
	for _, child := range data.Children() {
		forEachRegion(child, f)
	}
}
