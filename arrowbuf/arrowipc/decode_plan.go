package arrowipc

import (
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/ipc"
)

// A planner walks over types and takes for each array what the metadata of a
// message says of it: a node and buffers. Nothing of the body is looked at.
type planner struct {
	rows    rows
	version ipc.MetadataVersion
	ids     []int64 // of dictionaries, as they are met
	depth   int

	column                 int // of which the arrays are
	node, buffer, variadic int // that come next
	needs                  []need
}

// node is an array without its memory.
type node struct {
	dtype    arrow.DataType
	length   int
	nulls    int
	buffers  []int // of the message, or absent
	children []*node
	// dictionary is the id of the dictionary that the values are indices into.
	dictionary *int64
}

const absent = -1

// need is what a buffer of a message must have.
type need struct {
	bytes  int64
	order  order // how its bytes are turned around
	column int
}

// plan reads the nodes of some types from the metadata of a record batch or a
// dictionary, all of it. What does not fit together is an error that is
// arrow.ErrInvalid.
func (h *header) plan(types []arrow.DataType, ids []int64, name func(i int) string) ([]*node, []need, error) {
	p := planner{rows: h.rows, version: h.version, ids: ids, needs: make([]need, len(h.rows.buffers))}
	for _, b := range p.rows.buffers {
		if b.Offset < 0 || b.Length < 0 || b.Length > h.bodyLength || b.Offset > h.bodyLength-b.Length {
			return nil, nil, fmt.Errorf("a buffer of %d bytes at %d in a body of %d: %w", b.Length, b.Offset, h.bodyLength, arrow.ErrInvalid)
		}
		if b.Length > 0 && b.Offset%8 != 0 {
			return nil, nil, fmt.Errorf("a buffer at %d, which is no multiple of 8: %w", b.Offset, arrow.ErrInvalid)
		}
	}
	if h.rows.length < 0 || h.rows.length > math.MaxInt {
		return nil, nil, fmt.Errorf("%d rows: %w", h.rows.length, arrow.ErrInvalid)
	}
	nodes := make([]*node, len(types))
	for i, dtype := range types {
		var err error
		p.column = i
		if nodes[i], err = p.array(dtype); err != nil {
			return nil, nil, fmt.Errorf("%s of type %s: %w", name(i), dtype, err)
		}
		if int64(nodes[i].length) < h.rows.length {
			return nil, nil, fmt.Errorf("%s has %d rows, the batch %d: %w", name(i), nodes[i].length, h.rows.length, arrow.ErrInvalid)
		}
	}
	if p.node != len(p.rows.nodes) || p.buffer != len(p.rows.buffers) {
		return nil, nil, fmt.Errorf("%d arrays and %d buffers, the schema has %d and %d: %w", len(p.rows.nodes), len(p.rows.buffers), p.node, p.buffer, arrow.ErrInvalid)
	}
	return nodes, p.needs, nil
}

// array takes what comes next for an array.
func (p *planner) array(dtype arrow.DataType) (*node, error) {
	if p.depth > maxDepth {
		return nil, fmt.Errorf("nested deeper than %d: %w", maxDepth, arrow.ErrInvalid)
	}
	if p.node >= len(p.rows.nodes) {
		return nil, fmt.Errorf("the message has %d arrays only: %w", len(p.rows.nodes), arrow.ErrInvalid)
	}
	said := p.rows.nodes[p.node]
	p.node++
	if said.length < 0 || said.length > math.MaxInt64/64 || said.nulls < 0 || said.nulls > said.length {
		return nil, fmt.Errorf("%d nulls of %d elements: %w", said.nulls, said.length, arrow.ErrInvalid)
	}
	n := &node{dtype: dtype, length: int(said.length), nulls: int(said.nulls)}
	storage := storageOf(dtype)
	if err := p.validity(n, storage.ID()); err != nil {
		return nil, fmt.Errorf("validity bitmap: %w", err)
	}
	return n, p.layout(n, storage)
}

// validity takes the bitmap, where arrays of the type have one.
func (p *planner) validity(n *node, id arrow.Type) error {
	switch id {
	case arrow.NULL:
		n.buffers, n.nulls = []int{absent}, n.length
		return nil
	case arrow.SPARSE_UNION, arrow.DENSE_UNION, arrow.RUN_END_ENCODED:
		n.buffers = []int{absent}
		if p.version >= ipc.MetadataV5 {
			n.nulls = 0
			return nil
		}
		if n.nulls != 0 {
			return fmt.Errorf("of a union, from before Arrow 1.0: %w", arrow.ErrNotImplemented)
		}
		p.buffer++
		return nil
	}
	if n.nulls == 0 {
		n.buffers = []int{absent}
		p.buffer++
		return p.counted()
	}
	return p.take(n, bitutil.BytesForBits(int64(n.length)), 0)
}

// take takes a buffer of at least so many bytes.
func (p *planner) take(n *node, bytes int64, o order) error {
	at := p.buffer
	p.buffer++
	if err := p.counted(); err != nil {
		return err
	}
	if n.length == 0 {
		bytes = 0 // it may be absent
	}
	n.buffers = append(n.buffers, at)
	p.needs[at] = need{bytes, o, p.column}
	return nil
}

func (p *planner) counted() error {
	if p.buffer > len(p.rows.buffers) {
		return fmt.Errorf("the message has %d buffers only: %w", len(p.rows.buffers), arrow.ErrInvalid)
	}
	return nil
}

// fixed takes a buffer of so many values of a width.
func (p *planner) fixed(n *node, count, width int, o order) error {
	if width < 0 || width > 0 && int64(count) > math.MaxInt64/int64(width) {
		return fmt.Errorf("%d values of %d bytes: %w", count, width, arrow.ErrInvalid)
	}
	return p.take(n, int64(count)*int64(width), o)
}

// layout takes what lies behind the validity bitmap.
func (p *planner) layout(n *node, dtype arrow.DataType) error {
	switch t := dtype.(type) {
	case *arrow.NullType:
		return nil
	case *arrow.BooleanType:
		return p.take(n, bitutil.BytesForBits(int64(n.length)), 0)
	case *arrow.DictionaryType:
		return p.indices(n, t)
	case *arrow.StringType, *arrow.BinaryType:
		return p.binary(n, 4)
	case *arrow.LargeStringType, *arrow.LargeBinaryType:
		return p.binary(n, 8)
	case arrow.BinaryViewDataType:
		return p.views(n)
	case *arrow.ListType, *arrow.MapType:
		return p.list(n, t.(arrow.NestedType), 4)
	case *arrow.LargeListType:
		return p.list(n, t, 8)
	case *arrow.ListViewType:
		return p.listViews(n, t, 4)
	case *arrow.LargeListViewType:
		return p.listViews(n, t, 8)
	case *arrow.FixedSizeListType:
		return p.fixedSizeList(n, t)
	case *arrow.StructType:
		return p.children(n, t, n.length)
	case *arrow.SparseUnionType:
		if err := p.fixed(n, n.length, 1, 0); err != nil {
			return err
		}
		return p.children(n, t, n.length)
	case *arrow.DenseUnionType:
		if err := p.fixed(n, n.length, 1, 0); err != nil {
			return err
		}
		if err := p.fixed(n, n.length, 4, 4); err != nil {
			return err
		}
		return p.children(n, t, 0)
	case *arrow.RunEndEncodedType:
		return p.runs(n, t)
	case arrow.FixedWidthDataType:
		return p.fixed(n, n.length, t.Bytes(), orderOf(t))
	default:
		return fmt.Errorf("a layout that is not known: %w", arrow.ErrNotImplemented)
	}
}

func (p *planner) binary(n *node, width int) error {
	if err := p.fixed(n, n.length+1, width, order(width)); err != nil {
		return fmt.Errorf("offsets: %w", err)
	}
	return p.take(n, 0, 0)
}

func (p *planner) views(n *node) error {
	if p.variadic >= len(p.rows.variadic) {
		return fmt.Errorf("the message has counts of buffers for %d arrays of views only: %w", len(p.rows.variadic), arrow.ErrInvalid)
	}
	count := p.rows.variadic[p.variadic]
	p.variadic++
	if count < 0 || count > int64(len(p.rows.buffers)-p.buffer) {
		return fmt.Errorf("%d buffers of views of %d: %w", count, len(p.rows.buffers), arrow.ErrInvalid)
	}
	if err := p.fixed(n, n.length, arrow.ViewHeaderSizeBytes, orderViews); err != nil {
		return err
	}
	for range count {
		if err := p.take(n, 0, 0); err != nil {
			return err
		}
	}
	return nil
}

// indices are those of a dictionary array, whose values come in messages of
// their own.
func (p *planner) indices(n *node, t *arrow.DictionaryType) error {
	if len(p.ids) == 0 {
		return fmt.Errorf("a dictionary without an id: %w", arrow.ErrInvalid)
	}
	n.dictionary = &p.ids[0]
	p.ids = p.ids[1+countDictionaries(t.ValueType):]
	return p.fixed(n, n.length, t.Bytes(), orderOf(t))
}

func countDictionaries(dtype arrow.DataType) (count int) {
	dtype = storageOf(dtype)
	if t, ok := dtype.(*arrow.DictionaryType); ok {
		return 1 + countDictionaries(t.ValueType)
	}
	if nested, ok := dtype.(arrow.NestedType); ok {
		for _, field := range nested.Fields() {
			count += countDictionaries(field.Type)
		}
	}
	return count
}

func (p *planner) list(n *node, t arrow.NestedType, width int) error {
	if err := p.fixed(n, n.length+1, width, order(width)); err != nil {
		return fmt.Errorf("offsets: %w", err)
	}
	return p.children(n, t, 0)
}

func (p *planner) listViews(n *node, t arrow.NestedType, width int) error {
	for range 2 { // offsets, sizes
		if err := p.fixed(n, n.length, width, order(width)); err != nil {
			return err
		}
	}
	return p.children(n, t, 0)
}

func (p *planner) fixedSizeList(n *node, t *arrow.FixedSizeListType) error {
	size := int(t.Len())
	if size < 0 || size > 0 && n.length > math.MaxInt/size {
		return fmt.Errorf("%d lists of %d values: %w", n.length, size, arrow.ErrInvalid)
	}
	return p.children(n, t, n.length*size)
}

func (p *planner) runs(n *node, t *arrow.RunEndEncodedType) error {
	if err := p.children(n, t, 0); err != nil {
		return err
	}
	ends, values := n.children[0], n.children[1]
	if ends.nulls != 0 || ends.length != values.length || ends.length == 0 && n.length > 0 {
		return fmt.Errorf("%d run ends, %d of them null, for %d values: %w", ends.length, ends.nulls, values.length, arrow.ErrInvalid)
	}
	return nil
}

// children takes the arrays inside an array, which have so many elements at
// least.
func (p *planner) children(n *node, t arrow.NestedType, least int) error {
	p.depth++
	defer func() { p.depth-- }()
	for _, field := range t.Fields() {
		child, err := p.array(field.Type)
		if err == nil && child.length < least {
			err = fmt.Errorf("%d elements, the array needs %d: %w", child.length, least, arrow.ErrInvalid)
		}
		if err != nil {
			return fmt.Errorf("field %q: %w", field.Name, err)
		}
		n.children = append(n.children, child)
	}
	return nil
}
