package arrowipc

import (
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/ipc"
)

// A planner walks over types, and assigns to each array its entries of a message's
// metadata: a field node and buffers. It does not read the body.
type planner struct {
	batch   recordBatch
	version ipc.MetadataVersion
	ids     []int64 // of the dictionaries that follow, in walking order
	depth   int

	column                 int // the current column
	node, buffer, variadic int // the next entries
	requirements           []requirement
}

// arrayNode describes an array without its memory.
type arrayNode struct {
	dtype    arrow.DataType
	length   int
	nulls    int
	buffers  []int // indices of the message's buffers, or noBuffer
	children []*arrayNode
	// dictionary is the id of the dictionary that the values are indices of, or nil.
	dictionary *int64
	emptyLists bool // the offsets are not in the message
}

const noBuffer = -1

// requirement is what an array requires of a buffer of the message.
type requirement struct {
	bytes  int64    // minimum length
	swap   swapKind // how its byte order is swapped
	column int
}

// planArrays assigns all nodes and buffers of a record batch or a dictionary to
// arrays of the given types. name returns the name of array i for errors. planArrays
// returns an error wrapping arrow.ErrInvalid if the metadata does not match the
// types.
func (h *header) planArrays(types []arrow.DataType, ids []int64, name func(i int) string) ([]*arrayNode, []requirement, error) {
	p := planner{batch: h.batch, version: h.version, ids: ids, requirements: make([]requirement, len(h.batch.buffers))}
	for _, b := range p.batch.buffers {
		if b.Offset < 0 || b.Length < 0 || b.Length > h.bodyLength || b.Offset > h.bodyLength-b.Length {
			return nil, nil, fmt.Errorf("a buffer of %d bytes at %d exceeds the body of %d: %w", b.Length, b.Offset, h.bodyLength, arrow.ErrInvalid)
		}
		if b.Length > 0 && b.Offset%8 != 0 {
			return nil, nil, fmt.Errorf("a buffer at %d, want a multiple of 8: %w", b.Offset, arrow.ErrInvalid)
		}
	}
	if h.batch.length < 0 || h.batch.length > math.MaxInt {
		return nil, nil, fmt.Errorf("%d rows: %w", h.batch.length, arrow.ErrInvalid)
	}
	nodes := make([]*arrayNode, len(types))
	for i, dtype := range types {
		var err error
		p.column = i
		if nodes[i], err = p.planArray(dtype); err != nil {
			return nil, nil, fmt.Errorf("%s of type %s: %w", name(i), dtype, err)
		}
		if int64(nodes[i].length) < h.batch.length {
			return nil, nil, fmt.Errorf("%s has %d rows, want %d: %w", name(i), nodes[i].length, h.batch.length, arrow.ErrInvalid)
		}
	}
	if p.node != len(p.batch.nodes) || p.buffer != len(p.batch.buffers) {
		return nil, nil, fmt.Errorf("got %d arrays and %d buffers, want %d and %d: %w", len(p.batch.nodes), len(p.batch.buffers), p.node, p.buffer, arrow.ErrInvalid)
	}
	return nodes, p.requirements, nil
}

// planArray assigns the next entries to an array of a type.
func (p *planner) planArray(dtype arrow.DataType) (*arrayNode, error) {
	if p.depth > maxDepth {
		return nil, fmt.Errorf("types are nested deeper than %d: %w", maxDepth, arrow.ErrInvalid)
	}
	if p.node >= len(p.batch.nodes) {
		return nil, fmt.Errorf("the message has only %d arrays: %w", len(p.batch.nodes), arrow.ErrInvalid)
	}
	claimed := p.batch.nodes[p.node]
	p.node++
	if claimed.length < 0 || claimed.length > math.MaxInt64/64 || claimed.nulls < 0 || claimed.nulls > claimed.length {
		return nil, fmt.Errorf("%d nulls of %d elements: %w", claimed.nulls, claimed.length, arrow.ErrInvalid)
	}
	n := &arrayNode{dtype: dtype, length: int(claimed.length), nulls: int(claimed.nulls)}
	storage := storageOf(dtype)
	if err := p.planValidity(n, storage.ID()); err != nil {
		return nil, fmt.Errorf("validity bitmap: %w", err)
	}
	if t := emptyListOf(dtype); t != nil {
		return n, p.planEmptyLists(n, t)
	}
	return n, p.planLayout(n, storage)
}

// planValidity assigns the bitmap, if arrays of the type have one.
func (p *planner) planValidity(n *arrayNode, id arrow.Type) error {
	switch id {
	case arrow.NULL:
		n.buffers, n.nulls = []int{noBuffer}, n.length
		return nil
	case arrow.SPARSE_UNION, arrow.DENSE_UNION, arrow.RUN_END_ENCODED:
		n.buffers = []int{noBuffer}
		if p.version >= ipc.MetadataV5 {
			n.nulls = 0
			return nil
		}
		if n.nulls != 0 {
			return fmt.Errorf("a union with nulls, from before Arrow 1.0: %w", arrow.ErrNotImplemented)
		}
		p.buffer++
		return nil
	}
	if n.nulls == 0 {
		n.buffers = []int{noBuffer}
		p.buffer++
		return p.checkBufferCount()
	}
	return p.planBuffer(n, bitutil.BytesForBits(int64(n.length)), 0)
}

// planBuffer assigns the next buffer, which must have at least n bytes.
func (p *planner) planBuffer(n *arrayNode, bytes int64, o swapKind) error {
	at := p.buffer
	p.buffer++
	if err := p.checkBufferCount(); err != nil {
		return err
	}
	if n.length == 0 {
		bytes = 0 // the buffer may be absent
	}
	n.buffers = append(n.buffers, at)
	p.requirements[at] = requirement{bytes, o, p.column}
	return nil
}

// checkBufferCount returns an error if more buffers were assigned than the message
// has.
func (p *planner) checkBufferCount() error {
	if p.buffer > len(p.batch.buffers) {
		return fmt.Errorf("the message has only %d buffers: %w", len(p.batch.buffers), arrow.ErrInvalid)
	}
	return nil
}

// planFixed assigns the next buffer, which must have count values of width bytes.
func (p *planner) planFixed(n *arrayNode, count, width int, o swapKind) error {
	if width < 0 || width > 0 && int64(count) > math.MaxInt64/int64(width) {
		return fmt.Errorf("%d values of %d bytes: %w", count, width, arrow.ErrInvalid)
	}
	return p.planBuffer(n, int64(count)*int64(width), o)
}

// planLayout assigns the buffers after the validity bitmap, and the children.
func (p *planner) planLayout(n *arrayNode, dtype arrow.DataType) error {
	switch t := dtype.(type) {
	case *arrow.NullType:
		return nil
	case *arrow.BooleanType:
		return p.planBuffer(n, bitutil.BytesForBits(int64(n.length)), 0)
	case *arrow.DictionaryType:
		return p.planIndices(n, t)
	case *arrow.StringType, *arrow.BinaryType:
		return p.planBinary(n, 4)
	case *arrow.LargeStringType, *arrow.LargeBinaryType:
		return p.planBinary(n, 8)
	case arrow.BinaryViewDataType:
		return p.planViews(n)
	case *arrow.ListType, *arrow.MapType:
		return p.planList(n, t.(arrow.NestedType), 4)
	case *arrow.LargeListType:
		return p.planList(n, t, 8)
	case *arrow.ListViewType:
		return p.planListViews(n, t, 4)
	case *arrow.LargeListViewType:
		return p.planListViews(n, t, 8)
	case *arrow.FixedSizeListType:
		return p.planFixedSizeList(n, t)
	case *arrow.StructType:
		return p.planChildren(n, t, n.length)
	case *arrow.SparseUnionType:
		if err := p.planFixed(n, n.length, 1, 0); err != nil {
			return err
		}
		return p.planChildren(n, t, n.length)
	case *arrow.DenseUnionType:
		if err := p.planFixed(n, n.length, 1, 0); err != nil {
			return err
		}
		if err := p.planFixed(n, n.length, 4, 4); err != nil {
			return err
		}
		return p.planChildren(n, t, 0)
	case *arrow.RunEndEncodedType:
		return p.planRuns(n, t)
	case arrow.FixedWidthDataType:
		return p.planFixed(n, n.length, t.Bytes(), swapKindOf(t))
	default:
		return fmt.Errorf("unknown layout: %w", arrow.ErrNotImplemented)
	}
}

func (p *planner) planBinary(n *arrayNode, width int) error {
	if err := p.planFixed(n, n.length+1, width, swapKind(width)); err != nil {
		return fmt.Errorf("offsets: %w", err)
	}
	return p.planBuffer(n, 0, 0)
}

func (p *planner) planViews(n *arrayNode) error {
	if p.variadic >= len(p.batch.variadic) {
		return fmt.Errorf("the message has buffer counts for only %d view arrays: %w", len(p.batch.variadic), arrow.ErrInvalid)
	}
	count := p.batch.variadic[p.variadic]
	p.variadic++
	if count < 0 || count > int64(len(p.batch.buffers)-p.buffer) {
		return fmt.Errorf("a view array of %d buffers, but the message has %d in all: %w", count, len(p.batch.buffers), arrow.ErrInvalid)
	}
	if err := p.planFixed(n, n.length, arrow.ViewHeaderSizeBytes, swapViews); err != nil {
		return err
	}
	for range count {
		if err := p.planBuffer(n, 0, 0); err != nil {
			return err
		}
	}
	return nil
}

// planIndices assigns the indices of a dictionary array. The dictionary has messages
// of its own.
func (p *planner) planIndices(n *arrayNode, t *arrow.DictionaryType) error {
	if len(p.ids) == 0 {
		return fmt.Errorf("a dictionary type without an id: %w", arrow.ErrInvalid)
	}
	n.dictionary = &p.ids[0]
	p.ids = p.ids[1+countDictionaries(t.ValueType):]
	return p.planFixed(n, n.length, t.Bytes(), swapKindOf(t))
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

func (p *planner) planList(n *arrayNode, t arrow.NestedType, width int) error {
	if err := p.planFixed(n, n.length+1, width, swapKind(width)); err != nil {
		return fmt.Errorf("offsets: %w", err)
	}
	return p.planChildren(n, t, 0)
}

func (p *planner) planListViews(n *arrayNode, t arrow.NestedType, width int) error {
	for range 2 { // offsets, sizes
		if err := p.planFixed(n, n.length, width, swapKind(width)); err != nil {
			return err
		}
	}
	return p.planChildren(n, t, 0)
}

func (p *planner) planFixedSizeList(n *arrayNode, t *arrow.FixedSizeListType) error {
	size := int(t.Len())
	if size < 0 || size > 0 && n.length > math.MaxInt/size {
		return fmt.Errorf("%d lists of %d values: %w", n.length, size, arrow.ErrInvalid)
	}
	return p.planChildren(n, t, n.length*size)
}

func (p *planner) planRuns(n *arrayNode, t *arrow.RunEndEncodedType) error {
	if err := p.planChildren(n, t, 0); err != nil {
		return err
	}
	ends, values := n.children[0], n.children[1]
	if ends.nulls != 0 || ends.length != values.length || ends.length == 0 && n.length > 0 {
		return fmt.Errorf("%d run ends, %d of them null, for %d values: %w", ends.length, ends.nulls, values.length, arrow.ErrInvalid)
	}
	return nil
}

// planChildren assigns the entries of the children, each of which must have at least
// least elements.
func (p *planner) planChildren(n *arrayNode, t arrow.NestedType, least int) error {
	p.depth++
	defer func() { p.depth-- }()
	for _, field := range t.Fields() {
		child, err := p.planArray(field.Type)
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
