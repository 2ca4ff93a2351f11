package arrowzarr

import (
	"encoding/binary"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/columns"
	"github.com/quiver-gpu/quiver/zarr/element"
)

// nodeWriter appends Arrow arrays to the arrays of a node. Only one goroutine may use
// the writers of a column.
type nodeWriter struct {
	plan     *node
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
	w := &nodeWriter{plan: n}
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
	return w.plan.key
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
	if a.DataType().ID() != w.plan.typ.ID() {
		return fmt.Errorf("an array of type %s, expected %s: %w", a.DataType(), w.plan.typ, arrowdata.ErrMalformed)
	}
	if w.mask != nil {
		if err := w.appendMask(a, from, to); err != nil {
			return err
		}
	}
	switch w.plan.kind {
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
		start := (int64(a.Data().Offset()) + from) * w.plan.size
		return w.children[0].append(list.ListValues(), start, start+(to-from)*w.plan.size)
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
	l, data := w.plan.layout, a.Data()
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
	size, fields := intervalFieldsOf(w.plan.typ)
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

// ranges are the elements, or the bytes, that lists or texts show: offset i to offset i+1
// of their values.
type ranges[O int32 | int64] struct {
	offsets []O // one more than there are lists
	valid   arrowdata.ValidBits
	first   int64 // the position of the first list in valid
	most    int64 // elements of the values
}

// appendRanges appends offsets to the stream o, and calls show for each run of elements.
// Null lists are empty.
func appendRanges[O int32 | int64](o *arrayStream, r ranges[O], show func(start, end int64) error) error {
	total := o.sum
	var start, end int64 // a run of elements that are not shown yet
	for i := 0; i < len(r.offsets)-1; {
		room, err := o.room(int64(len(r.offsets) - 1 - i))
		if err != nil {
			return err
		}
		if first := int64(r.offsets[i]); r.valid.Bits == nil && (first == end || start == end) {
			if n := contiguous(r.offsets[i:], room, total, r.most); n > 0 {
				if start == end {
					start = first
				}
				total += int64(r.offsets[i+n]) - first
				end, room = int64(r.offsets[i+n]), room[8*n:]
				i += n
			}
		}
		for ; len(room) > 0; room = room[8:] {
			if s, e := int64(r.offsets[i]), int64(r.offsets[i+1]); s != e && !r.valid.IsNull(r.first+int64(i)) {
				if s < 0 || e < s || e > r.most {
					return fmt.Errorf("a list of elements [%d, %d) of %d: %w", s, e, r.most, arrowdata.ErrMalformed)
				}
				if s != end {
					if err := showRun(start, end, show); err != nil {
						return err
					}
					start = s
				}
				end = e
				if total += e - s; total < 0 {
					return fmt.Errorf("more elements than can be counted: %w", arrowdata.ErrMalformed)
				}
			}
			binary.LittleEndian.PutUint64(room, uint64(total))
			i++
		}
	}
	o.sum = total
	return showRun(start, end, show)
}

// contiguous sets the new offsets of as many lists as room has, after total elements, and
// returns their number. It returns 0 if the offsets are not in order and within most.
func contiguous[O int32 | int64](offsets []O, room []byte, total, most int64) int {
	n := len(room) / 8
	last := offsets[0]
	shift := total - int64(last)
	var bad O
	for i, o := range offsets[1 : n+1] {
		bad |= (o - last) | o // negative if an offset is, or is less than the one before
		last = o
		binary.LittleEndian.PutUint64(room[8*i:], uint64(int64(o)+shift))
	}
	if bad < 0 || offsets[0] < 0 || int64(last) > most || total > math.MaxInt64-most {
		return 0
	}
	return n
}

func showRun(start, end int64, show func(start, end int64) error) error {
	if start == end {
		return nil
	}
	return show(start, end)
}

// offsetsOf returns the offsets of elements [from, to) and the last one's end, of an array
// of a type with offsets of 32 or of 64 bits; nil for other arrays.
func offsetsOf(a arrow.Array, from, to int64) (narrow []int32, wide []int64) {
	buffers, start := a.Data().Buffers(), int64(a.Data().Offset())
	if len(buffers) < 2 || buffers[1] == nil {
		return nil, nil
	}
	from, to = start+from, start+to+1
	switch a.DataType().ID() {
	case arrow.STRING, arrow.BINARY, arrow.LIST, arrow.MAP:
		if offsets := arrow.Int32Traits.CastFromBytes(buffers[1].Bytes()); int64(len(offsets)) >= to {
			return offsets[from:to], nil
		}
	case arrow.LARGE_STRING, arrow.LARGE_BINARY, arrow.LARGE_LIST:
		if offsets := arrow.Int64Traits.CastFromBytes(buffers[1].Bytes()); int64(len(offsets)) >= to {
			return nil, offsets[from:to]
		}
	}
	return nil, nil
}

// appendByOffsets appends elements of an array with offsets, and reports whether it has
// those.
func (w *nodeWriter) appendByOffsets(a arrow.Array, from, to, most int64, show func(start, end int64) error) (done bool, err error) {
	valid, err := validityBits(a)
	if err != nil {
		return false, err
	}
	narrow, wide := offsetsOf(a, from, to)
	switch {
	case narrow != nil:
		return true, appendRanges(w.offsets, ranges[int32]{narrow, valid, from, most}, show)
	case wide != nil:
		return true, appendRanges(w.offsets, ranges[int64]{wide, valid, from, most}, show)
	}
	return false, nil
}

// appendText appends the bytes of text or binary values. Null ones are empty.
func (w *nodeWriter) appendText(a arrow.Array, from, to int64) error {
	var bytes []byte
	if buffers := a.Data().Buffers(); len(buffers) == 3 && buffers[2] != nil {
		bytes = buffers[2].Bytes()
	}
	check := arrowdata.IsText(w.plan.typ)
	done, err := w.appendByOffsets(a, from, to, int64(len(bytes)), func(start, end int64) error {
		if check && !onlyASCII(bytes[start:end]) {
			if err := checkText(a, from, to); err != nil {
				return err
			}
			check = false
		}
		return w.data.append(bytes[start:end])
	})
	if done || err != nil {
		return err
	}
	if check {
		if err := checkText(a, from, to); err != nil {
			return err
		}
	}
	value, err := valueReader(a)
	if err != nil {
		return err
	}
	for i := from; i < to; i++ {
		if a.IsValid(int(i)) {
			if err := w.data.append(value(int(i))); err != nil {
				return err
			}
		}
		if err := w.appendOffset(w.data.length); err != nil {
			return err
		}
	}
	return nil
}

// checkText returns an error unless the values that are not null are UTF-8.
func checkText(a arrow.Array, from, to int64) error {
	value, err := valueReader(a)
	if err != nil {
		return err
	}
	for i := from; i < to; i++ {
		if a.IsValid(int(i)) && !utf8.Valid(value(int(i))) {
			return fmt.Errorf("%.40q: %w", value(int(i)), element.ErrInvalidUTF8)
		}
	}
	return nil
}

// onlyASCII reports whether no byte has its highest bit set.
func onlyASCII(b []byte) bool {
	var bits uint64
	for ; len(b) >= 8; b = b[8:] {
		bits |= binary.NativeEndian.Uint64(b)
	}
	for _, c := range b {
		bits |= uint64(c)
	}
	return bits&0x8080808080808080 == 0
}

// appendOffset appends the end of one list.
func (w *nodeWriter) appendOffset(end int64) error {
	room, err := w.offsets.room(1)
	if err == nil {
		binary.LittleEndian.PutUint64(room, uint64(end))
		w.offsets.sum = end
	}
	return err
}

// appendLists appends lists and the elements that they show.
func (w *nodeWriter) appendLists(a arrow.Array, from, to int64) error {
	lists, ok := a.(array.ListLike)
	if !ok {
		return fmt.Errorf("array of %T: %w", a, arrowdata.ErrMalformed)
	}
	values := lists.ListValues()
	show := func(start, end int64) error { return w.children[0].append(values, start, end) }
	if done, err := w.appendByOffsets(a, from, to, int64(values.Len()), show); done || err != nil {
		return err
	}
	var start, end int64 // a run of elements that are not appended yet
	for i := from; i < to; i++ {
		total := w.offsets.sum
		if a.IsValid(int(i)) {
			s, e := lists.ValueOffsets(int(i))
			if s < 0 || e < s || e > int64(values.Len()) {
				return fmt.Errorf("a list of elements [%d, %d) of %d: %w", s, e, values.Len(), arrowdata.ErrMalformed)
			}
			if s != end && s != e {
				if err := showRun(start, end, show); err != nil {
					return err
				}
				start = s
			}
			if s != e {
				end = e
			}
			if total > math.MaxInt64-(e-s) {
				return fmt.Errorf("more elements than can be counted: %w", arrowdata.ErrMalformed)
			}
			total += e - s
		}
		if err := w.appendOffset(total); err != nil {
			return err
		}
	}
	return showRun(start, end, show)
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

// nodeCategories are the distinct values of a dictionary inside a nested column. The
// values themselves are written at once, so only their keys are kept.
type nodeCategories struct {
	codeOf *valueTable
	saved  int64           // how many of them a categoryDelta has
	last   arrow.ArrayData // of which lastMap is the map
	codes  codeMap
}

// appendDictionary appends the codes of a dictionary array, and the values that are new.
func (w *nodeWriter) appendDictionary(a arrow.Array, from, to int64) error {
	d, ok := a.(*array.Dictionary)
	if !ok {
		return fmt.Errorf("array of %T: %w", a, arrowdata.ErrMalformed)
	}
	if err := w.mapDictionary(d.Dictionary()); err != nil {
		return err
	}
	codes, indices := w.categories.codes, d.Indices()
	index, err := indexReader(indices)
	if err != nil {
		return err
	}
	block := make([]byte, 0, (to-from)*w.index.width)
	for i := from; i < to; i++ {
		code := int64(-1)
		if !indices.IsNull(int(i)) {
			if code, err = codes.code(index(int(i))); err != nil {
				return err
			}
		}
		w.missing = w.missing || code < 0
		if w.plan.wide {
			block = binary.LittleEndian.AppendUint64(block, uint64(code))
		} else {
			block = binary.LittleEndian.AppendUint32(block, uint32(code))
		}
	}
	return w.index.append(block)
}

// mapDictionary sets the codes of a dictionary's values, and appends the new ones.
func (w *nodeWriter) mapDictionary(values arrow.Array) error {
	g := w.categories
	if g.last != nil && sameData(g.last, values.Data()) {
		return nil
	}
	codes := make(codeMap, values.Len())
	var fresh []int64
	var key []byte
	g.codeOf.mu.Lock()
	defer g.codeOf.mu.Unlock()
	for i := range codes {
		if isNullValue(values, i) {
			codes[i] = noCode
			continue
		}
		var err error
		if key, err = appendValueKey(key[:0], values, i); err != nil {
			return err
		}
		code, place, err := g.codeOf.find(key)
		if err != nil {
			return err
		}
		if code < 0 {
			most := int64(maxTableKeys)
			if !w.plan.wide {
				most = math.MaxInt32
			}
			if g.codeOf.len() >= most {
				return fmt.Errorf("dictionaries of more than %d different values", most)
			}
			if code, err = g.codeOf.add(key, place); err != nil {
				return err
			}
			fresh = append(fresh, int64(i))
		}
		codes[i] = uint32(code)
	}
	if err := w.children[0].appendPicked(values, fresh); err != nil {
		return err
	}
	if g.last != nil {
		g.last.Release()
	}
	g.last, g.codes = values.Data(), codes
	g.last.Retain()
	return nil
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
