package arrowbuf

import (
	"fmt"
	"math"
	"sort"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowbuf/internal/integers"
)

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
