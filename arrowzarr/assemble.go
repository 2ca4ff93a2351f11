package arrowzarr

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/element"
)

// columnSlice is a run of rows of one column in one batch.
type columnSlice struct {
	values   arrow.Array
	from, to int64
	codes    codeMap // of a dictionary column
}

func (p columnSlice) rows() int64 { return p.to - p.from }

// chunkArrays is the rows of one column that make up one chunk of its arrays.
type chunkArrays struct {
	values element.Values
	// mask has one element a row; nil where no row is missing.
	mask *ndview.NDBuffer
	// elementMask has the shape of values; nil where no element is missing.
	elementMask *ndview.NDBuffer
}

func (c *chunkArrays) release() {
	if c.values != nil {
		c.values.Release()
	}
	if c.mask != nil {
		c.mask.Release()
	}
	if c.elementMask != nil {
		c.elementMask.Release()
	}
}

// assembler makes chunks of a column's parts.
type assembler struct {
	device  arrowbuf.Device // where columns of fixed width are put together
	kernels *stageStats
}

// assemble puts the parts of a column together. The caller releases the chunk.
func (a *assembler) assemble(c *column, parts []columnSlice, rows int64) (*chunkArrays, error) {
	switch c.kind {
	case kindText, kindBinary:
		return assembleText(parts, rows)
	case kindDictionary:
		return assembleCodes(c, parts, rows)
	case kindNull:
		return &chunkArrays{}, nil
	default:
		return a.assembleFixed(c.layout, parts, rows)
	}
}

func (a *assembler) assembleFixed(l fixedLayout, parts []columnSlice, rows int64) (_ *chunkArrays, err error) {
	out := &chunkArrays{}
	defer func() {
		if err != nil {
			out.release()
		}
	}()
	if out.mask, err = a.mask(parts, rows); err != nil {
		return nil, err
	}
	missing, err := hasMissingElements(parts)
	if err != nil {
		return nil, err
	}
	if len(parts) == 1 && out.mask == nil && !missing && l.viewable() {
		view, err := l.view(parts[0])
		if err != nil {
			return nil, err
		}
		out.values = view
		return out, nil
	}
	whole, err := ndview.Empty(a.device, l.dtype, append([]int64{rows}, l.row...)...)
	if err != nil {
		return nil, markPart(PartDevice, err)
	}
	out.values = whole
	if err = forEachSlice(whole, parts, func(dst *ndview.NDBuffer, p columnSlice) error { return a.copySlice(l, dst, p) }); err != nil {
		return nil, err
	}
	if missing {
		if out.elementMask, err = a.elementMask(l, parts, rows); err != nil {
			return nil, err
		}
		if err = a.fillElements(whole, out.elementMask, l.fill); err != nil {
			return nil, err
		}
	}
	if out.mask != nil {
		err = a.runKernel(whole.NBytes(), func() error { return whole.FillWhere(out.mask, l.fill) })
	}
	return out, err
}

// viewable tells whether Arrow's buffer holds the elements as Zarr wants them.
func (l fixedLayout) viewable() bool { return l.source == l.dtype && l.dtype != ndview.Bool }

// view looks at the values of a part, without a copy, as elements of the
// source's dtype.
func (l fixedLayout) view(p columnSlice) (*ndview.NDBuffer, error) {
	data, at, err := leaf(p.values.Data(), p.from)
	if err != nil {
		return nil, err
	}
	buf, err := valuesBuffer(data, p.rows()*l.elements())
	if err != nil {
		return nil, err
	}
	defer buf.Release()
	dtype := l.source
	if dtype.Size() == l.dtype.Size() {
		dtype = l.dtype
	}
	start := at * l.limbs * dtype.Size()
	return ndview.FromBuffer(buf, dtype, start, append([]int64{p.rows()}, l.row...), nil)
}

// valuesBuffer is the second buffer of an array of fixed width. One without
// values may lack it.
func valuesBuffer(data arrow.ArrayData, elements int64) (arrowbuf.Buffer, error) {
	if len(data.Buffers()) < 2 || data.Buffers()[1] == nil {
		if elements > 0 {
			return nil, fmt.Errorf("%s array without a buffer of values", data.DataType())
		}
		return arrowbuf.CPU().Alloc(0)
	}
	return arrowbuf.BufferOf(data.Buffers()[1])
}

// copySlice copies a part to its rows of a chunk.
func (a *assembler) copySlice(l fixedLayout, dst *ndview.NDBuffer, p columnSlice) error {
	if l.dtype == ndview.Bool {
		data, at, err := leaf(p.values.Data(), p.from)
		if err != nil {
			return err
		}
		bits, err := valuesBuffer(data, dst.Size())
		if err != nil {
			return err
		}
		defer bits.Release()
		return a.runKernel(dst.NBytes(), func() error { return dst.UnpackBits(bits, at, false) })
	}
	src, err := l.view(p)
	if err != nil {
		return err
	}
	defer src.Release()
	if l.source.Size() != l.dtype.Size() {
		return a.runKernel(dst.NBytes(), func() error { return dst.Assign(src) })
	}
	return a.runKernel(dst.NBytes(), func() error { return dst.CopyFrom(src) })
}

// forEachSlice calls f with each part and its rows of whole.
func forEachSlice(whole *ndview.NDBuffer, parts []columnSlice, f func(dst *ndview.NDBuffer, p columnSlice) error) error {
	at := int64(0)
	for _, p := range parts {
		dst, err := whole.Slice(0, at, at+p.rows())
		if err != nil {
			return err
		}
		err = f(dst, p)
		dst.Release()
		if err != nil {
			return err
		}
		at += p.rows()
	}
	return nil
}

// runKernel does one piece of work on the device, and counts it.
func (a *assembler) runKernel(n int64, work func() error) error {
	start := time.Now()
	err := work()
	a.kernels.record(n, time.Since(start))
	return err
}

// do makes and writes one chunk of one column.
func (c *conversion) do(ctx context.Context, j job) error {
	defer func() {
		c.work.end(j.bytes + int64(c.src.mapping().release(j.spans))*outside(windowBytes))
		if j.rows.done() {
			c.progress.rows.Add(j.rows.rows)
		}
	}()
	w, parts := c.writers[j.column], j.rows.parts(j.column)
	var made *chunkArrays
	err := catchPanic(func() (err error) {
		a := assembler{device: c.deviceOf(w.plan), kernels: &c.stages.kernels}
		made, err = a.assemble(w.plan, parts, j.rows.rows)
		return err
	})
	if err != nil {
		return partErrorf(partOf(err, PartInput), "column %q: %w", w.plan.name, err)
	}
	defer made.release()
	// Encoding reads the input's memory, so it is protected too.
	err = catchPanic(func() error { return w.write(ctx, j.rows.index, made) })
	if err != nil {
		return partErrorf(partOf(err, PartOutput), "column %q: %w", w.plan.name, err)
	}
	c.progress.raw.Add(rawBytes(made))
	return nil
}

func (c *conversion) deviceOf(plan *column) arrowbuf.Device {
	if plan.onDevice() {
		return c.options.Device
	}
	return arrowbuf.CPU()
}

// rawBytes is the size of a chunk's arrays without compression.
func rawBytes(c *chunkArrays) int64 {
	var n int64
	switch v := c.values.(type) {
	case *ndview.NDBuffer:
		n = v.NBytes()
	case *element.VLen:
		n = v.NBytes() + 4*v.Len() // as vlen-utf8 writes it, a length before each
	}
	for _, mask := range []*ndview.NDBuffer{c.mask, c.elementMask} {
		if mask != nil {
			n += mask.NBytes()
		}
	}
	return n
}

// asValues keeps a nil mask from becoming values that are not nil.
func asValues(mask *ndview.NDBuffer) element.Values {
	if mask == nil {
		return nil
	}
	return mask
}

// mask unpacks the parts' validity bitmaps, inverted; nil where all is valid.
func (a *assembler) mask(parts []columnSlice, rows int64) (*ndview.NDBuffer, error) {
	if !slices.ContainsFunc(parts, func(p columnSlice) bool { return p.values.NullN() != 0 }) {
		return nil, nil
	}
	return a.newMask(parts, []int64{rows}, func(dst *ndview.NDBuffer, p columnSlice) error {
		data := p.values.Data()
		return a.unpackMissing(dst, data, int64(data.Offset())+p.from)
	})
}

// elementMask has the shape of the values. A list that is missing inside a list
// is a list of missing elements.
func (a *assembler) elementMask(l fixedLayout, parts []columnSlice, rows int64) (*ndview.NDBuffer, error) {
	return a.newMask(parts, append([]int64{rows}, l.row...), func(dst *ndview.NDBuffer, p columnSlice) error {
		data, at, err := leaf(p.values.Data(), p.from)
		if err != nil {
			return err
		}
		if err := a.unpackMissing(dst, data, at); err != nil {
			return err
		}
		_, _, err = walkLists(p.values.Data(), p.from, func(lists arrow.ArrayData, at, perRow int64) error {
			if lists.NullN() == 0 || dst.Size() == 0 {
				return nil
			}
			return a.setMissingLists(dst, lists, at, p.rows()*perRow)
		})
		return err
	})
}

// setMissingLists sets the elements of missing lists in the mask of a part's elements.
func (a *assembler) setMissingLists(elements *ndview.NDBuffer, lists arrow.ArrayData, at, n int64) error {
	missing, err := ndview.Empty(a.device, ndview.Bool, n)
	if err != nil {
		return markPart(PartDevice, err)
	}
	defer missing.Release()
	if err := a.unpackMissing(missing, lists, at); err != nil {
		return err
	}
	byList, err := elements.Reshape(n, elements.Size()/n)
	if err != nil {
		return err
	}
	defer byList.Release()
	const allTrue = 0x0101010101010101
	return a.runKernel(byList.NBytes(), func() error { return byList.FillWhere(missing, allTrue) })
}

// newMask makes a mask and fills it part by part.
func (a *assembler) newMask(parts []columnSlice, shape []int64, fill func(dst *ndview.NDBuffer, p columnSlice) error) (*ndview.NDBuffer, error) {
	mask, err := ndview.Empty(a.device, ndview.Bool, shape...)
	if err != nil {
		return nil, markPart(PartDevice, err)
	}
	if err := forEachSlice(mask, parts, fill); err != nil {
		mask.Release()
		return nil, err
	}
	return mask, nil
}

// unpackMissing writes which elements from a position on are missing.
func (a *assembler) unpackMissing(dst *ndview.NDBuffer, data arrow.ArrayData, at int64) error {
	if data.NullN() == 0 || len(data.Buffers()) == 0 || data.Buffers()[0] == nil || data.Buffers()[0].Len() == 0 {
		return a.runKernel(dst.NBytes(), dst.Zero)
	}
	bits, err := arrowbuf.BufferOf(data.Buffers()[0])
	if err != nil {
		return err
	}
	defer bits.Release()
	return a.runKernel(dst.NBytes(), func() error { return dst.UnpackBits(bits, at, true) })
}

// hasMissingElements tells whether elements of lists may be missing.
func hasMissingElements(parts []columnSlice) (bool, error) {
	found := false
	for _, p := range parts {
		if _, isList := storageType(p.values.DataType()).(*arrow.FixedSizeListType); !isList {
			return false, nil
		}
		data, _, err := walkLists(p.values.Data(), p.from, func(lists arrow.ArrayData, _, _ int64) error {
			found = found || lists.NullN() != 0
			return nil
		})
		if err != nil {
			return false, err
		}
		found = found || data.NullN() != 0
	}
	return found, nil
}

func (a *assembler) fillElements(values, mask *ndview.NDBuffer, fill uint64) error {
	flatValues, err := values.Reshape(values.Size())
	if err != nil {
		return err
	}
	defer flatValues.Release()
	flatMask, err := mask.Reshape(mask.Size())
	if err != nil {
		return err
	}
	defer flatMask.Release()
	return a.runKernel(values.NBytes(), func() error { return flatValues.FillWhere(flatMask, fill) })
}

// regions are the stretches of memory that hold the values of a part, and will
// hardly be read again once it is written.
func (p columnSlice) regions() [][]byte {
	data := p.values.Data()
	buffers := data.Buffers()
	from, to := int64(data.Offset())+p.from, int64(data.Offset())+p.to
	if len(buffers) == 0 {
		return nil
	}
	spans := [][]byte{bitRegion(buffers[0], from, to-from)}
	switch storageType(data.DataType()).(type) {
	case *arrow.StringType, *arrow.BinaryType:
		return append(spans, offsetRegions(buffers, from, to, 4)...)
	case *arrow.LargeStringType, *arrow.LargeBinaryType:
		return append(spans, offsetRegions(buffers, from, to, 8)...)
	case *arrow.StringViewType, *arrow.BinaryViewType:
		return append(spans, viewRegions(buffers, from, to)...)
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
		spans = append(spans, bitRegion(elements.Buffers()[0], at, n/max(layout.limbs, 1)))
	}
	if elements.DataType().ID() == arrow.BOOL {
		return append(spans, bitRegion(elements.Buffers()[1], start, n))
	}
	return append(spans, bufferRegion(elements.Buffers()[1], start*layout.source.Size(), n*layout.source.Size()))
}

// bitRegion is the bytes of n bits.
func bitRegion(b *memory.Buffer, from, n int64) []byte {
	return bufferRegion(b, from/8, (from%8+n+7)/8)
}

// viewRegions are views [from, to), and of each buffer what lies between the first
// byte and the last that they show. What they show wrongly is found by who reads
// it.
func viewRegions(buffers []*memory.Buffer, from, to int64) [][]byte {
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
	spans := [][]byte{bufferRegion(buffers[1], from*width, (to-from)*width)}
	for i, s := range shown {
		spans = append(spans, bufferRegion(buffers[2+i], s.start, s.end-s.start))
	}
	return spans
}

// offsetRegions are the offsets of values [from, to), and the bytes between the
// first and the last.
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

// bufferRegion is a part of a buffer, as far as there is one.
func bufferRegion(b *memory.Buffer, start, n int64) []byte {
	if b == nil || start < 0 || n <= 0 || start >= int64(b.Len()) {
		return nil
	}
	return b.Bytes()[start:min(start+n, int64(b.Len()))]
}

// forEachRegion calls f with all memory of an array.
func forEachRegion(data arrow.ArrayData, f func(span []byte)) {
	for _, b := range data.Buffers() {
		if b != nil && b.Len() > 0 {
			f(b.Bytes())
		}
	}
	for _, child := range data.Children() {
		forEachRegion(child, f)
	}
}
