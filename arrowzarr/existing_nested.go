package arrowzarr

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
)

// streamRange is elements of an array that are read back, since the chunk or the shard that
// has them is written again.
type streamRange struct {
	stream   int
	array    *zarr.Array
	from, to int64
}

// attach makes the arrays of nested columns continue those of the table.
func (t *existingTable) attach(ctx context.Context, nested []*nestedWriter) error {
	if t == nil {
		return nil
	}
	t.load = make([][]streamRange, len(t.columns))
	for i, w := range nested {
		if w == nil {
			continue
		}
		if err := arrowdata.CatchPanic(func() error { return t.attachNested(ctx, i, w) }); err != nil {
			return fmt.Errorf("column %q: %w", t.table.columns[i].column.field.Name, err)
		}
	}
	return nil
}

// attachNested is attach for one column. Each array keeps its grid, unless it has one
// chunk.
func (t *existingTable) attachNested(ctx context.Context, column int, w *nestedWriter) error {
	c, e := t.table.columns[column], t.columns[column]
	for i, s := range w.streams {
		m := e.arrays[s.name]
		if m == nil || s.unused {
			continue
		}
		array, err := c.require(ctx, s.name)
		if err != nil {
			return err
		}
		if m.Shape[0] != s.length {
			return fmt.Errorf("%s has %d elements, expected %d: %w", s.name, m.Shape[0], s.length, arrowdata.ErrMalformed)
		}
		s.existing = m
		if grid := gridOf(m); isOneChunk(grid, s.length) && grid != s.grid {
			s.existing = withOtherKeys(m)
		} else {
			s.grid, s.gridFixed = grid, true
		}
		from := int64(0)
		if s.gridFixed {
			from = s.length / s.grid.unit() * s.grid.unit()
		}
		t.load[column] = append(t.load[column], streamRange{i, array, from, s.length})
		s.length = from
	}
	var failed error
	w.root.nodes(func(n *nodeWriter) {
		if n.categories != nil && failed == nil {
			failed = t.loadCategories(ctx, c, n)
		}
	})
	return failed
}

// loadCategories adds the values of a dictionary inside of a nested column.
func (t *existingTable) loadCategories(ctx context.Context, c *tableColumn, w *nodeWriter) error {
	n := nodeOf(c.column.nested, w.node.key)
	count, err := t.countNode(ctx, c, n.children[0])
	if err != nil {
		return err
	}
	if count < 0 { // nothing is stored of the values, so only the codes tell
		if count, err = t.maxValue(ctx, c, n.key+"-"+bufferIndex, indexType(n)); err != nil {
			return err
		}
		count++
	}
	values, err := c.readChild(ctx, n, 0, 0, count)
	if err != nil {
		return err
	}
	defer values.Release()
	g := w.categories
	var key []byte
	for i := range values.Len() {
		if key, err = appendValueKey(key[:0], values, i); err != nil {
			return err
		}
		if _, err := g.codeOf.number(key); err != nil {
			return err
		}
	}
	g.saved = g.codeOf.len()
	return nil
}

// nodeOf returns the node of a key among a node and those below it.
func nodeOf(n *node, key string) *node {
	if n.key == key {
		return n
	}
	for _, child := range n.children {
		if found := nodeOf(child, key); found != nil {
			return found
		}
	}
	return nil
}

// nestedStateOf returns the state of a nested column after the rows of the table.
func (t *existingTable) nestedStateOf(ctx context.Context, column int) (*nestedState, error) {
	c := t.table.columns[column]
	group, ok := t.nodes[c.column.name].(*zarr.GroupMetadata)
	if !ok {
		return nil, fmt.Errorf("%s is no group: %w", c.column.name, arrowdata.ErrMalformed)
	}
	text, _ := group.Attributes["form"].(string)
	var form any
	if err := json.Unmarshal([]byte(text), &form); err != nil {
		return nil, fmt.Errorf("attribute form: %w", err)
	}
	optional := map[string]bool{}
	findOptions(form, optional)
	w := newNestedWriter(c.column.nested, &streamSink{counting: true, writer: &columnWriter{column: c.column}}, nil)
	if err := t.setLengths(ctx, c, w.root, t.rows, optional); err != nil {
		return nil, err
	}
	return w.state(), nil
}

// findOptions marks the keys of the nodes whose elements can be missing.
func findOptions(form any, optional map[string]bool) {
	switch form := form.(type) {
	case map[string]any:
		if class := form["class"]; class == "ByteMaskedArray" || class == "IndexedOptionArray" {
			if key, ok := form["form_key"].(string); ok {
				optional[key] = true
			}
		}
		for _, inner := range form {
			findOptions(inner, optional)
		}
	case []any:
		for _, inner := range form {
			findOptions(inner, optional)
		}
	}
}

// setLengths sets the lengths of the streams of a node of n elements, and of those below.
func (t *existingTable) setLengths(ctx context.Context, c *tableColumn, w *nodeWriter, n int64, optional map[string]bool) error {
	p := w.node
	w.missing = optional[p.key] && p.kind != nodeUnion // whose key is also that of a record around it
	for _, s := range []*arrayStream{w.mask, w.index, w.tags} {
		if s != nil {
			s.length = n
		}
	}
	counts := make([]int64, len(w.children))
	for i := range counts {
		counts[i] = n
	}
	var err error
	switch p.kind {
	case nodeFixed:
		w.data.length = n
	case nodeText:
		w.offsets.length = n + 1
		w.data.length, err = t.lastOffset(ctx, c, p, n)
	case nodeList:
		w.offsets.length = n + 1
		counts[0], err = t.lastOffset(ctx, c, p, n)
	case nodeFixedList:
		counts[0] = n * p.size
	case nodeDictionary:
		if counts[0], err = t.countNode(ctx, c, p.children[0]); err == nil && counts[0] < 0 {
			counts[0], err = t.maxValue(ctx, c, p.key+"-"+bufferIndex, indexType(p))
			counts[0]++
		}
	case nodeUnion:
		if len(p.children) > 1 {
			counts, err = t.countUnion(ctx, c, p)
		}
	}
	if err != nil {
		return err
	}
	for i, child := range w.children {
		if err := t.setLengths(ctx, c, child, counts[i], optional); err != nil {
			return err
		}
	}
	return nil
}

func (t *existingTable) lastOffset(ctx context.Context, c *tableColumn, n *node, count int64) (int64, error) {
	offsets, err := c.integers(ctx, n.key+"-"+bufferOffsets, ndview.Int64, count, count+1)
	if err != nil {
		return 0, err
	}
	return offsets[0], nil
}

// countUnion returns the number of values of each type of a union.
func (t *existingTable) countUnion(ctx context.Context, c *tableColumn, n *node) ([]int64, error) {
	counts := make([]int64, len(n.children))
	unknown := false
	for i, child := range n.children {
		var err error
		if counts[i], err = t.countNode(ctx, c, child); err != nil {
			return nil, err
		}
		unknown = unknown || counts[i] < 0
	}
	if !unknown {
		return counts, nil
	}
	clear(counts)
	err := t.forEachBlock(ctx, c, n.key+"-"+bufferTags, ndview.Int8, func(tags []int64) error {
		for _, tag := range tags {
			if tag < 0 || tag >= int64(len(counts)) {
				return fmt.Errorf("tag %d of %d types: %w", tag, len(counts), arrowdata.ErrMalformed)
			}
			counts[tag]++
		}
		return nil
	})
	return counts, err
}

// countNode returns the number of elements of a node by the lengths of its arrays; -1 if
// none is stored.
func (t *existingTable) countNode(ctx context.Context, c *tableColumn, n *node) (int64, error) {
	lengths := []struct {
		buffer string
		more   int64
	}{{bufferMask, 0}, {bufferIndex, 0}, {bufferOffsets, 1}, {bufferData, 0}}
	for _, l := range lengths {
		if n.kind == nodeText && l.buffer == bufferData {
			continue // of bytes
		}
		a, err := c.open(ctx, n.key+"-"+l.buffer)
		if err != nil {
			return 0, err
		}
		if a != nil {
			return firstAxisLen(a.Shape()) - l.more, nil
		}
	}
	switch {
	case n.kind == nodeFixedList && n.size > 0:
		count, err := t.countNode(ctx, c, n.children[0])
		if count > 0 {
			count /= n.size
		}
		return count, err
	case n.kind == nodeRecord || n.kind == nodeUnion && len(n.children) == 1:
		for _, child := range n.children {
			if count, err := t.countNode(ctx, c, child); count >= 0 || err != nil {
				return count, err
			}
		}
	}
	return -1, nil
}

// maxValue returns the largest integer of an array, at least -1.
func (t *existingTable) maxValue(ctx context.Context, c *tableColumn, name string, dtype ndview.DType) (int64, error) {
	last := int64(-1)
	err := t.forEachBlock(ctx, c, name, dtype, func(values []int64) error {
		last = max(last, slices.Max(values))
		return nil
	})
	return last, err
}

// forEachBlock calls f with the integers of an array, in blocks.
func (t *existingTable) forEachBlock(ctx context.Context, c *tableColumn, name string, dtype ndview.DType, f func([]int64) error) error {
	a, err := c.require(ctx, name)
	if err != nil {
		return err
	}
	const block = 1 << 20
	for at, all := int64(0), firstAxisLen(a.Shape()); at < all; at += block {
		values, err := c.integers(ctx, name, dtype, at, min(at+block, all))
		if err != nil {
			return err
		}
		if err := f(values); err != nil {
			return err
		}
	}
	return nil
}

// loadNested reads back the elements of nested columns whose chunks are written again. The
// stages after must run.
func (t *existingTable) loadNested(ctx context.Context, nested []*nestedWriter) error {
	if t == nil {
		return nil
	}
	for column, ranges := range t.load {
		for _, r := range ranges {
			w := nested[column]
			w.sink.ctx = ctx
			s := w.streams[r.stream]
			if err := t.loadStream(ctx, &t.table.columns[column].zarrReader, s, r); err != nil {
				return partErrorf(partOf(err, PartOutput), "column %q: %s: %w", w.sink.writer.column.field.Name, s.name, err)
			}
		}
	}
	return nil
}

func (t *existingTable) loadStream(ctx context.Context, z *zarrReader, s *arrayStream, r streamRange) error {
	if s.width == 0 {
		return s.skip(r.to - r.from)
	}
	block := max(smallBytes*16/s.width, 1)
	for at := r.from; at < r.to; at += block {
		elements, err := z.fixed(ctx, r.array, s.dtype, at, min(at+block, r.to))
		if err == nil {
			err = s.append(elements)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
