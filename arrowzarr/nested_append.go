package arrowzarr

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/columns"
)

// nodeWriter appends Arrow arrays to the arrays of a node. Only one goroutine may use
// the writers of a column.
type nodeWriter struct {
	node     *node
	children []*nodeWriter

	mask    *arrayStream // true is missing; nil for dictionaries and nulls
	offsets *arrayStream
	data    *arrayStream
	index   *arrayStream
	tags    *arrayStream

	missing    bool // some element is null
	categories *nodeCategories
}

// newNodeWriter returns the writer of a node and those of its children.
func newNodeWriter(n *node, sink *streamSink, m *categoryMemory) *nodeWriter {
	w := &nodeWriter{node: n}
	stream := func(buffer string, dtype ndview.DType, row ...int64) *arrayStream {
		s := newArrayStream(sink, n.key+"-"+buffer, dtype, row...)
		s.class = n.bufferClass(buffer)
		return s
	}
	if n.kind != nodeDictionary && n.kind != nodeNull {
		w.mask = stream(bufferMask, ndview.Bool)
	}
	switch n.kind {
	case nodeFixed:
		w.data = stream(bufferData, n.layout.dtype, n.layout.row...)
	case nodeText:
		w.offsets, w.data = stream(bufferOffsets, ndview.Int64), stream(bufferData, ndview.Uint8)
		w.offsets.length = 1 // the first offset is the fill value, 0
	case nodeList:
		w.offsets = stream(bufferOffsets, ndview.Int64)
		w.offsets.length = 1
	case nodeUnion:
		w.tags, w.index = stream(bufferTags, ndview.Int8), stream(bufferIndex, ndview.Int32)
		w.tags.unused = len(n.children) < 2 // the form is that of the child
		w.index.unused = w.tags.unused
	case nodeDictionary:
		dtype := ndview.Int32
		if n.wide {
			dtype = ndview.Int64
		}
		w.index = stream(bufferIndex, dtype)
		w.categories = &nodeCategories{codeOf: newValueTable(m)}
	case nodeNull:
		w.index = stream(bufferIndex, ndview.Int64)
		w.index.fill = binary.LittleEndian.AppendUint64(nil, math.MaxUint64) // -1
	}
	for _, child := range n.children {
		w.children = append(w.children, newNodeWriter(child, sink, m))
	}
	return w
}

// streams calls f with each stream of the node and of its children.
func (w *nodeWriter) streams(f func(s *arrayStream) error) error {
	for _, s := range []*arrayStream{w.mask, w.offsets, w.data, w.index, w.tags} {
		if s != nil {
			if err := f(s); err != nil {
				return err
			}
		}
	}
	for _, child := range w.children {
		if err := child.streams(f); err != nil {
			return err
		}
	}
	return nil
}

// nodes calls f with the writer of the node and those of its children.
func (w *nodeWriter) nodes(f func(w *nodeWriter)) {
	f(w)
	for _, child := range w.children {
		child.nodes(f)
	}
}

// keep marks an array as part of the output, and returns the node's key.
func (w *nodeWriter) keep(s *arrayStream) string {
	s.kept = true
	return w.node.key
}

// append appends elements [from, to) of an array of the node's type.
func (w *nodeWriter) append(a arrow.Array, from, to int64) (err error) {
	a = arrowdata.Unwrap(a)
	if from < 0 || to < from || to > int64(a.Len()) {
		return fmt.Errorf("elements [%d, %d) of an array of %d: %w", from, to, a.Len(), arrowdata.ErrMalformed)
	}
	if runs, ok := a.(*array.RunEndEncoded); ok {
		return w.appendRuns(runs, from, to)
	}
	if a.DataType().ID() != w.node.typ.ID() {
		return fmt.Errorf("an array of type %s, expected %s: %w", a.DataType(), w.node.typ, arrowdata.ErrMalformed)
	}
	if w.mask != nil {
		if err := w.appendMask(a, from, to); err != nil {
			return err
		}
	}
	switch w.node.kind {
	case nodeFixed:
		return w.appendFixed(a, from, to)
	case nodeText:
		return w.appendText(a, from, to)
	case nodeList:
		return w.appendLists(a, from, to)
	case nodeFixedList:
		list, ok := a.(*array.FixedSizeList)
		if !ok {
			return fmt.Errorf("array of %T: %w", a, arrowdata.ErrMalformed)
		}
		start := (int64(a.Data().Offset()) + from) * w.node.size
		return w.children[0].append(list.ListValues(), start, start+(to-from)*w.node.size)
	case nodeRecord:
		if structs, ok := a.(*array.Struct); ok {
			for i, child := range w.children {
				if err := child.append(structs.Field(i), from, to); err != nil {
					return err
				}
			}
			return nil
		}
		return w.appendIntervals(a, from, to)
	case nodeDictionary:
		return w.appendDictionary(a, from, to)
	case nodeUnion:
		return w.appendUnion(a, from, to)
	default:
		w.missing = w.missing || to > from
		return w.index.skip(to - from)
	}
}

// runBlock is the number of elements that are decoded at a time.
const runBlock = 1 << 16

// appendRuns appends the elements of a run-end encoded array, decoded.
func (w *nodeWriter) appendRuns(a *array.RunEndEncoded, from, to int64) error {
	for ; from < to; from += runBlock {
		part := array.NewSlice(a, from, min(from+runBlock, to))
		decoded, err := columns.Decode(part)
		part.Release()
		if err != nil {
			return err
		}
		err = w.append(decoded, 0, int64(decoded.Len()))
		decoded.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// hasNulls reports whether an array of a node with a mask has nulls.
func hasNulls(a arrow.Array) bool {
	return a.NullN() != 0 && len(a.Data().Buffers()) > 0 && a.Data().Buffers()[0] != nil && a.Data().Buffers()[0].Len() > 0
}

func (w *nodeWriter) appendMask(a arrow.Array, from, to int64) error {
	if !hasNulls(a) {
		return w.mask.skip(to - from)
	}
	valid, err := validityBits(a)
	if err != nil {
		return err
	}
	var block [4096]byte
	for from < to {
		n := min(to-from, int64(len(block)))
		some := false
		for i := range n {
			block[i] = 0
			if valid.IsNull(from + i) {
				block[i], some = 1, true
			}
		}
		var err error
		if some {
			w.missing = true
			err = w.mask.append(block[:n])
		} else {
			err = w.mask.skip(n)
		}
		if err != nil {
			return err
		}
		from += n
	}
	return nil
}

// appendFixed appends values of a fixed width. Null ones get the fill value.
func (w *nodeWriter) appendFixed(a arrow.Array, from, to int64) error {
	l, data := w.node.layout, a.Data()
	at, n := int64(data.Offset())+from, to-from
	if n == 0 || w.data.width == 0 {
		return w.data.skip(n)
	}
	buffers := data.Buffers()
	if len(buffers) < 2 || buffers[1] == nil {
		return fmt.Errorf("%s array without a buffer of values: %w", a.DataType(), arrowdata.ErrMalformed)
	}
	raw := buffers[1].Bytes()
	sourceWidth := l.source.Size() * max(l.limbs, 1)
	need := (at + n) * sourceWidth
	if l.dtype == ndview.Bool {
		need = bitutil.BytesForBits(at + n)
	}
	if int64(len(raw)) < need {
		return fmt.Errorf("%s array with a buffer of %d bytes, expected %d: %w", a.DataType(), len(raw), need, arrowdata.ErrMalformed)
	}
	valid, err := validityBits(a)
	if err != nil {
		return err
	}
	if valid.Bits == nil && l.viewable() {
		return w.data.append(raw[at*sourceWidth : (at+n)*sourceWidth])
	}
	var fill []byte
	for range w.data.width / l.dtype.Size() {
		fill = binary.LittleEndian.AppendUint64(fill, l.fill)[:len(fill)+int(l.dtype.Size())]
	}
	blockRows := max(1, (64<<10)/w.data.width)
	block := make([]byte, min(blockRows, n)*w.data.width)
	for n > 0 {
		k := min(n, blockRows)
		part := block[:k*w.data.width]
		switch {
		case l.dtype == ndview.Bool:
			for i := range part {
				part[i] = 0
				if bitutil.BitIsSet(raw, int(at)+i) {
					part[i] = 1
				}
			}
		case l.source.Size() != l.dtype.Size(): // int32 times become int64
			for i := range k {
				v := int32(binary.LittleEndian.Uint32(raw[(at+i)*4:]))
				binary.LittleEndian.PutUint64(part[i*8:], uint64(int64(v)))
			}
		default:
			copy(part, raw[at*sourceWidth:])
		}
		if valid.Bits != nil {
			for i := range k {
				if valid.IsNull(from + i) {
					copy(part[i*w.data.width:(i+1)*w.data.width], fill)
				}
			}
		}
		if err := w.data.append(part); err != nil {
			return err
		}
		at, from, n = at+k, from+k, n-k
	}
	return nil
}

// appendIntervals appends the parts of interval values to their records.
func (w *nodeWriter) appendIntervals(a arrow.Array, from, to int64) error {
	if from == to {
		return nil
	}
	size, fields := intervalFieldsOf(w.node.typ)
	buffers := a.Data().Buffers()
	at := from + int64(a.Data().Offset())
	if len(buffers) < 2 || buffers[1] == nil || int64(buffers[1].Len()) < (at+to-from)*int64(size) {
		return fmt.Errorf("%s array without its values: %w", a.DataType(), arrowdata.ErrMalformed)
	}
	raw := buffers[1].Bytes()
	for f, field := range fields {
		child := w.children[f]
		values := make([]byte, 0, int(to-from)*field.size)
		for i := range int(to - from) {
			start := (int(at)+i)*size + field.offset
			if a.IsNull(int(from) + i) {
				values = append(values, make([]byte, field.size)...)
			} else {
				values = append(values, raw[start:start+field.size]...)
			}
		}
		if err := child.data.append(values); err != nil {
			return err
		}
		if err := child.mask.skip(to - from); err != nil {
			return err
		}
	}
	return nil
}

// validityBits returns the validity bits of an array of a node with a mask.
func validityBits(a arrow.Array) (arrowdata.ValidBits, error) {
	if !hasNulls(a) {
		return arrowdata.ValidBits{}, nil
	}
	return arrowdata.BitmapOf(a)
}

// appendUnion appends the values that a union shows, those of each type together.
func (w *nodeWriter) appendUnion(a arrow.Array, from, to int64) error {
	union, ok := a.(array.Union)
	if !ok {
		return fmt.Errorf("array of %T: %w", a, arrowdata.ErrMalformed)
	}
	childOf := map[arrow.UnionTypeCode]int{}
	for i, code := range union.UnionType().TypeCodes() {
		childOf[code] = i
	}
	dense, isDense := a.(*array.DenseUnion)
	for ; from < to; from += runBlock {
		end := min(from+runBlock, to)
		picked := make([][]int64, len(w.children))
		tags := make([]byte, 0, end-from)
		index := make([]byte, 0, 4*(end-from))
		next := make([]int64, len(w.children))
		for i, child := range w.children {
			next[i] = child.count()
		}
		for i := from; i < end; i++ {
			child, ok := childOf[union.TypeCode(int(i))]
			if !ok {
				return fmt.Errorf("a union's type code %d: %w", union.TypeCode(int(i)), arrowdata.ErrMalformed)
			}
			at := i
			if isDense {
				at = int64(dense.ValueOffset(int(i)))
			}
			picked[child] = append(picked[child], at)
			if next[child] > math.MaxInt32 {
				return fmt.Errorf("a union of more than %d values of one type", math.MaxInt32)
			}
			tags = append(tags, byte(child))
			index = binary.LittleEndian.AppendUint32(index, uint32(next[child]))
			next[child]++
		}
		if err := w.tags.append(tags); err != nil {
			return err
		}
		if err := w.index.append(index); err != nil {
			return err
		}
		for i, child := range w.children {
			if err := child.appendPicked(union.Field(i), picked[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// appendPicked appends the elements at these positions.
func (w *nodeWriter) appendPicked(a arrow.Array, positions []int64) error {
	n := int64(len(positions))
	if n == 0 {
		return nil
	}
	if inOrder(positions) {
		return w.append(a, positions[0], positions[0]+n)
	}
	taken, err := columns.Take(a, columns.Indices(positions...))
	if err != nil {
		return err
	}
	defer taken.Release()
	return w.append(taken, 0, n)
}

// inOrder reports whether positions follow each other.
func inOrder(positions []int64) bool {
	for i, p := range positions {
		if p != positions[0]+int64(i) {
			return false
		}
	}
	return true
}

// count returns the number of elements so far.
func (w *nodeWriter) count() int64 {
	if w.mask != nil {
		return w.mask.length
	}
	return w.index.length
}

// release releases the values of dictionaries, and those kept for comparison.
func (w *nodeWriter) release() {
	if w.categories != nil {
		w.categories.codeOf.close()
		if w.categories.last != nil {
			w.categories.last.Release()
			w.categories.last = nil
		}
	}
	for _, child := range w.children {
		child.release()
	}
}
