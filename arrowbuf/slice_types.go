package arrowbuf

import (
	"encoding/binary"
	"fmt"
	"math"
	"sort"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/quiver-gpu/quiver/arrowbuf/internal/integers"
)

// What says where in another buffer or array the elements lie: offsets, views
// and indices. An array that shows the whole of them is taken as it is; of a
// slice they come to the host, which finds what they reach and rebases them.

// binary cuts the bytes of strings and their offsets.
func (c *cutter) binary(out *cut, s span, dtype arrow.DataType, width int) error {
	values := s.buffer(2)
	first, last, err := c.offsets(out, s, width, values.Len())
	if err != nil {
		return fmt.Errorf("offsets: %w", err)
	}
	bytes := c.part(values, first, last, 1)
	if text, ok := dtype.(arrow.BinaryDataType); ok && text.IsUtf8() {
		return out.add(bytes, nil)
	}
	return out.add(c.anything(bytes, nil))
}

// offsets cuts the offsets of the elements, so that they start at 0, and
// returns which values they enclose.
func (c *cutter) offsets(out *cut, s span, width, values int) (first, last int, err error) {
	if s.length == 0 {
		c.parts = append(c.parts, hostPart(make([]byte, width), width))
		return 0, 0, out.add(len(c.parts)-1, nil)
	}
	s.length++
	at, err := c.fixed(s, 1, width)
	if err != nil {
		return 0, 0, err
	}
	out.buffers = append(out.buffers, at)
	if p := c.parts[at]; p.isWhole() && !OnHost(p.src) && !c.check && !c.blank {
		// The array shows all, so the device need not be asked where its
		// values end.
		return 0, values, nil
	}
	from, to, err := c.parts[at].ends(width)
	if err != nil {
		return 0, 0, err
	}
	if from < 0 || to < from || to > int64(values) {
		return 0, 0, fmt.Errorf("from %d to %d into %d values: %w", from, to, values, arrow.ErrInvalid)
	}
	if from != 0 && !c.check {
		old, err := c.parts[at].ints(width)
		if err != nil {
			return 0, 0, err
		}
		c.parts[at] = hostPart(old.Less(from).Bytes, width)
	}
	return int(from), int(to), nil
}

// views cuts 16-byte views and the buffers that they point into.
func (c *cutter) views(out *cut, s span) error {
	at, err := c.fixed(s, 1, arrow.ViewHeaderSizeBytes)
	if err != nil {
		return err
	}
	out.buffers = append(out.buffers, at)
	buffers := s.data.Buffers()[min(2, len(s.data.Buffers())):]
	reached := make([]reach, len(buffers))
	for i, b := range buffers {
		reached[i] = reach{0, int64(orEmpty(b).Len())}
	}
	if c.look || c.isSlice(at) {
		if err := c.narrowViews(out, at, reached); err != nil {
			return fmt.Errorf("views: %w", err)
		}
	}
	for i, b := range buffers {
		out.buffers = append(out.buffers, c.part(orEmpty(b), int(reached[i].from), int(reached[i].to), 1))
	}
	return nil
}

// narrowViews narrows the ranges of the buffers to what the views reach. Of null
// elements, which may hold anything, it makes empty views.
func (c *cutter) narrowViews(out *cut, at int, buffers []reach) error {
	const size, inline = arrow.ViewHeaderSizeBytes, 12 // bytes that a view holds itself
	old, err := c.parts[at].bytes()
	if err != nil {
		return err
	}
	isNull, err := c.nulls(out)
	if err != nil {
		return err
	}
	views := append([]byte(nil), old...)
	reached := make([]reach, len(buffers))
	outside := func(yield func(view []byte, buffer uint32, from, to int64) error) error {
		for i := range out.length {
			view := views[i*size : (i+1)*size]
			if isNull(i) {
				clear(view)
			}
			length := int64(int32(binary.LittleEndian.Uint32(view)))
			if length >= 0 && length <= inline {
				continue
			}
			from := int64(int32(binary.LittleEndian.Uint32(view[12:])))
			if err := yield(view, binary.LittleEndian.Uint32(view[8:]), from, from+length); err != nil {
				return err
			}
		}
		return nil
	}
	err = outside(func(_ []byte, buffer uint32, from, to int64) error {
		if int64(buffer) >= int64(len(buffers)) || from < 0 || to < from || to > buffers[buffer].to {
			return fmt.Errorf("bytes [%d, %d) of buffer %d of %d: %w", from, to, buffer, len(buffers), arrow.ErrInvalid)
		}
		reached[buffer].see(from, to)
		return nil
	})
	if err != nil {
		return err
	}
	_ = outside(func(view []byte, buffer uint32, from, _ int64) error {
		binary.LittleEndian.PutUint32(view[12:], uint32(from-reached[buffer].from))
		return nil
	})
	copy(buffers, reached)
	c.parts[at] = hostPart(views, 8)
	return nil
}

// dictionary cuts indices; the dictionary stays whole, since other batches
// share it, unless few elements are looked at.
func (c *cutter) dictionary(out *cut, s span, t *arrow.DictionaryType) error {
	values, ok := s.data.Dictionary().(*array.Data)
	if !ok || values == nil {
		return fmt.Errorf("a dictionary array without its dictionary: %w", arrow.ErrInvalid)
	}
	at, err := c.fixed(s, 1, t.Bytes())
	if err != nil {
		return err
	}
	out.buffers = append(out.buffers, at)
	used := reach{0, int64(values.Len())}
	if c.look {
		if used, err = c.narrowIndices(out, at, t.Bytes(), values.Len()); err != nil {
			return fmt.Errorf("indices: %w", err)
		}
	}
	if copied, ok := c.there[values]; ok {
		out.dictionary = &cut{source: values, built: copied}
		return nil
	}
	dictionary, err := c.array(values, int(used.from), int(used.to-used.from))
	if err != nil {
		return fmt.Errorf("dictionary: %w", err)
	}
	dictionary.source = values
	out.dictionary = &dictionary
	return nil
}

// narrowIndices returns which of n values the indices name, and rebases them.
func (c *cutter) narrowIndices(out *cut, at, width, n int) (used reach, err error) {
	old, err := c.parts[at].ints(width)
	if err != nil {
		return used, err
	}
	isNull, err := c.nulls(out)
	if err != nil {
		return used, err
	}
	// Arrow's indices are never negative, so all read as unsigned.
	index := func(i int) int64 { return old.At(i) & (math.MaxInt64>>(64-8*width)<<1 | 1) }
	for i := range out.length {
		if isNull(i) {
			continue
		}
		if at := index(i); at < 0 || at >= int64(n) {
			return used, fmt.Errorf("%d of %d values: %w", at, n, arrow.ErrInvalid)
		}
		used.see(index(i), index(i)+1)
	}
	rebased := integers.Slice{Bytes: make([]byte, len(old.Bytes)), Width: width}
	for i := range out.length {
		if !isNull(i) {
			rebased.Put(i, index(i)-used.from)
		}
	}
	c.parts[at] = hostPart(rebased.Bytes, width)
	return used, nil
}

// nulls returns which elements of a cut are null.
func (c *cutter) nulls(out *cut) (isNull func(i int) bool, err error) {
	if out.buffers[0] == absent {
		return func(int) bool { return false }, nil
	}
	bits, err := c.parts[out.buffers[0]].bytes()
	return func(i int) bool { return bitutil.BitIsNotSet(bits, i) }, err
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

// list cuts lists that follow one another: offsets and the values that they
// enclose.
func (c *cutter) list(out *cut, s span, width int) error {
	children, err := s.children(1)
	if err != nil {
		return err
	}
	first, last, err := c.offsets(out, s, width, children[0].Len())
	if err != nil {
		return fmt.Errorf("offsets: %w", err)
	}
	return c.child(out, children[0], first, last-first, "list values")
}

// entries cuts a map: a list of pairs. arrow-go makes no map without knowing
// that neither entries nor keys are null.
func (c *cutter) entries(out *cut, s span) error {
	if err := c.list(out, s, 4); err != nil {
		return err
	}
	pairs := &out.children[0]
	if len(pairs.children) != 2 {
		return fmt.Errorf("map entries of %d fields: %w", len(pairs.children), arrow.ErrInvalid)
	}
	for _, never := range []*cut{pairs, &pairs.children[0]} {
		if err := c.settle(never); err != nil {
			return fmt.Errorf("map entries: %w", err)
		}
		if never.nulls != 0 {
			return fmt.Errorf("%d map entries or keys are null: %w", never.nulls, arrow.ErrInvalid)
		}
	}
	return nil
}

// listViews cuts lists that lie anywhere in their values.
func (c *cutter) listViews(out *cut, s span, width int) error {
	children, err := s.children(1)
	if err != nil {
		return err
	}
	offsets, err := c.fixed(s, 1, width)
	if err != nil {
		return fmt.Errorf("offsets: %w", err)
	}
	sizes, err := c.fixed(s, 2, width)
	if err != nil {
		return fmt.Errorf("sizes: %w", err)
	}
	out.buffers = append(out.buffers, offsets, sizes)
	used := reach{0, int64(children[0].Len())}
	if s.length == 0 || c.isSlice(offsets, sizes) {
		if used, err = c.narrowLists(offsets, sizes, width, used.to); err != nil {
			return fmt.Errorf("list views: %w", err)
		}
	}
	return c.child(out, children[0], int(used.from), int(used.to-used.from), "list values")
}

// narrowLists returns which of n values the lists reach, and rebases their
// offsets. A list of no values may lie anywhere.
func (c *cutter) narrowLists(offsets, sizes, width int, n int64) (used reach, err error) {
	from, err := c.parts[offsets].ints(width)
	if err != nil {
		return used, err
	}
	size, err := c.parts[sizes].ints(width)
	if err != nil {
		return used, err
	}
	for i := range from.Len() {
		at, length := from.At(i), size.At(i)
		if length == 0 {
			continue
		}
		if at < 0 || length < 0 || at > n || length > n-at {
			return used, fmt.Errorf("%d values at %d of %d: %w", length, at, n, arrow.ErrInvalid)
		}
		used.see(at, at+length)
	}
	rebased := integers.Slice{Bytes: make([]byte, len(from.Bytes)), Width: width}
	for i := range from.Len() {
		if size.At(i) != 0 {
			rebased.Put(i, from.At(i)-used.from)
		}
	}
	c.parts[offsets] = hostPart(rebased.Bytes, width)
	return used, nil
}

func (c *cutter) fixedSizeList(out *cut, s span, n int) error {
	children, err := s.children(1)
	if err != nil {
		return err
	}
	if n < 0 || n > 0 && s.first+s.length > children[0].Len()/n {
		return fmt.Errorf("fixed-size list of %d elements without values for each: %w", s.first+s.length, arrow.ErrInvalid)
	}
	return c.child(out, children[0], s.first*n, s.length*n, "list values")
}

func (c *cutter) fields(out *cut, s span, t *arrow.StructType) error {
	children, err := s.children(t.NumFields())
	if err != nil {
		return err
	}
	for i, child := range children {
		if s.first+s.length > child.Len() {
			return fmt.Errorf("field %q has %d elements, the array needs %d: %w", t.Field(i).Name, child.Len(), s.first+s.length, arrow.ErrInvalid)
		}
		if err := c.child(out, child, s.first, s.length, fmt.Sprintf("field %q", t.Field(i).Name)); err != nil {
			return err
		}
	}
	return nil
}

func (c *cutter) sparseUnion(out *cut, s span, t *arrow.SparseUnionType) error {
	if err := out.add(c.fixed(s, 1, 1)); err != nil {
		return fmt.Errorf("type ids: %w", err)
	}
	return c.fields(out, s, arrow.StructOf(t.Fields()...))
}

// denseUnion cuts type ids, offsets, and of each child what the offsets reach.
func (c *cutter) denseUnion(out *cut, s span, t *arrow.DenseUnionType) error {
	children, err := s.children(t.NumFields())
	if err != nil {
		return err
	}
	ids, err := c.fixed(s, 1, 1)
	if err != nil {
		return fmt.Errorf("type ids: %w", err)
	}
	offsets, err := c.fixed(s, 2, 4)
	if err != nil {
		return fmt.Errorf("offsets: %w", err)
	}
	out.buffers = append(out.buffers, ids, offsets)
	used := make([]reach, len(children))
	for i, child := range children {
		used[i] = reach{0, int64(child.Len())}
	}
	if s.length == 0 || c.isSlice(ids, offsets) {
		if err := c.narrowUnion(ids, offsets, t, used); err != nil {
			return fmt.Errorf("dense union: %w", err)
		}
	}
	for i, child := range children {
		if err := c.child(out, child, int(used[i].from), int(used[i].to-used[i].from), fmt.Sprintf("field %q", t.Fields()[i].Name)); err != nil {
			return err
		}
	}
	return nil
}

// narrowUnion narrows the ranges of the children to what the elements reach.
func (c *cutter) narrowUnion(ids, offsets int, t *arrow.DenseUnionType, children []reach) error {
	id, err := c.parts[ids].ints(1)
	if err != nil {
		return err
	}
	at, err := c.parts[offsets].ints(4)
	if err != nil {
		return err
	}
	used := make([]reach, len(children))
	childOf := t.ChildIDs()
	for i := range id.Len() {
		code := id.At(i)
		if code < 0 || code >= int64(len(childOf)) || childOf[code] == arrow.InvalidUnionChildID {
			return fmt.Errorf("type id %d: %w", code, arrow.ErrInvalid)
		}
		child := childOf[code]
		if at.At(i) < 0 || at.At(i) >= children[child].to {
			return fmt.Errorf("element %d of %d of child %d: %w", at.At(i), children[child].to, child, arrow.ErrInvalid)
		}
		used[child].see(at.At(i), at.At(i)+1)
	}
	rebased := integers.Slice{Bytes: make([]byte, len(at.Bytes)), Width: 4}
	for i := range id.Len() {
		rebased.Put(i, at.At(i)-used[childOf[id.At(i)]].from)
	}
	c.parts[offsets] = hostPart(rebased.Bytes, 4)
	copy(children, used)
	return nil
}

// runs cuts the runs that the elements lie in. The last may end behind them, as
// it does in a slice.
func (c *cutter) runs(out *cut, s span, t *arrow.RunEndEncodedType) error {
	children, err := s.children(2)
	if err != nil {
		return err
	}
	ends, values := children[0], children[1]
	width, ok := ends.DataType().(arrow.FixedWidthDataType)
	if !ok || !t.ValidRunEndsType(ends.DataType()) || ends.Len() != values.Len() {
		return fmt.Errorf("%d run ends of type %s for %d values: %w", ends.Len(), ends.DataType(), values.Len(), arrow.ErrInvalid)
	}
	at, err := c.fixed(span{data: ends, first: ends.Offset(), length: ends.Len()}, 1, width.Bytes())
	if err != nil {
		return fmt.Errorf("run ends: %w", err)
	}
	first, last, err := c.parts[at].findRuns(s, width.Bytes())
	if err != nil {
		return fmt.Errorf("run ends: %w", err)
	}
	p := &c.parts[at]
	p.from, p.to = p.from+int64(first*width.Bytes()), p.from+int64(last*width.Bytes())
	if s.first != 0 {
		old, err := p.ints(width.Bytes())
		if err != nil {
			return fmt.Errorf("run ends: %w", err)
		}
		*p = hostPart(old.Less(int64(s.first)).Bytes, width.Bytes())
	}
	out.children = []cut{{dtype: ends.DataType(), length: last - first, buffers: []int{absent, at}}}
	return c.child(out, values, first, last-first, "run values")
}

// findRuns returns which runs the elements of a span lie in. It reads few run
// ends one by one, or all where they are few.
func (p part) findRuns(s span, width int) (first, last int, err error) {
	if s.length == 0 {
		return 0, 0, nil
	}
	const few = 64 << 10
	n := int(p.to-p.from) / width
	end := func(i int) int64 {
		one, failed := p.read(int64(i*width), int64((i+1)*width))
		if failed != nil {
			err = failed
			return math.MaxInt64
		}
		return integers.Slice{Bytes: one, Width: width}.At(0)
	}
	if p.to-p.from <= few || OnHost(p.src) {
		all, err := p.ints(width)
		if err != nil {
			return 0, 0, err
		}
		end = all.At
	}
	first = sort.Search(n, func(i int) bool { return end(i) > int64(s.first) })
	last = first + sort.Search(n-first, func(i int) bool { return end(first+i) >= int64(s.first+s.length) }) + 1
	if err == nil && last > n {
		err = fmt.Errorf("%d runs do not reach element %d: %w", n, s.first+s.length, arrow.ErrInvalid)
	}
	return first, last, err
}
