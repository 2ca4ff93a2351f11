package arrowzarr

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/columns"
)

// readNode returns elements [from, to) of a node, in its storage type.
func (c *tableColumn) readNode(ctx context.Context, n *node, from, to int64) (arrow.Array, error) {
	if n.kind == nodeNull {
		return array.NewNull(int(to - from)), nil
	}
	var missing []byte
	var err error
	if n.kind != nodeDictionary {
		if missing, err = c.mask(ctx, n.key+"-"+bufferMask, from, to); err != nil {
			return nil, err
		}
	}
	rows := int(to - from)
	switch n.kind {
	case nodeFixed:
		a, err := c.require(ctx, n.key+"-"+bufferData)
		if err != nil {
			return nil, err
		}
		raw, err := c.fixed(ctx, a, n.layout.dtype, from, to)
		if err != nil {
			return nil, err
		}
		return fixedArray(n.typ, n.layout, raw, rows, missing)
	case nodeText:
		offsets, err := c.readOffsets(ctx, n, from, to)
		if err != nil {
			return nil, err
		}
		a, err := c.require(ctx, n.key+"-"+bufferData)
		if err != nil {
			return nil, err
		}
		first := offsets[0]
		bytes, err := c.fixed(ctx, a, ndview.Uint8, first, offsets[rows])
		if err != nil {
			return nil, err
		}
		for i := range offsets {
			offsets[i] -= first
		}
		return stringArray(n.typ, offsets, bytes, missing)
	case nodeList:
		return c.readLists(ctx, n, missing, from, to)
	case nodeFixedList:
		if n.size > 0 && to > math.MaxInt64/n.size {
			return nil, fmt.Errorf("%d lists of %d elements: %w", to, n.size, arrowdata.ErrMalformed)
		}
		child, err := c.readChild(ctx, n, 0, from*n.size, to*n.size)
		if err != nil {
			return nil, err
		}
		defer child.Release()
		return nestedArray(n.typ, rows, missing, nil, child)
	case nodeRecord:
		return c.readRecord(ctx, n, missing, from, to)
	case nodeDictionary:
		return c.readDictionary(ctx, n, from, to)
	default:
		return c.readUnion(ctx, n, from, to)
	}
}

// readChild returns elements of child i in the type that its parent declares.
func (c *tableColumn) readChild(ctx context.Context, n *node, i int, from, to int64) (arrow.Array, error) {
	values, err := c.readNode(ctx, n.children[i], from, to)
	if err != nil {
		return nil, err
	}
	return restoreType(values, childType(n.typ, i))
}

// readOffsets returns offsets [from, to] of a node.
func (c *tableColumn) readOffsets(ctx context.Context, n *node, from, to int64) ([]int64, error) {
	offsets, err := c.integers(ctx, n.key+"-"+bufferOffsets, ndview.Int64, from, to+1)
	if err != nil {
		return nil, err
	}
	for i, o := range offsets {
		if o < 0 || i > 0 && o < offsets[i-1] {
			return nil, fmt.Errorf("%s-%s: offset %d at row %d: %w", n.key, bufferOffsets, o, from+int64(i), arrowdata.ErrMalformed)
		}
	}
	return offsets, nil
}

func (c *tableColumn) readLists(ctx context.Context, n *node, missing []byte, from, to int64) (arrow.Array, error) {
	offsets, err := c.readOffsets(ctx, n, from, to)
	if err != nil {
		return nil, err
	}
	rows := len(offsets) - 1
	var buffers []*memory.Buffer
	sizes := make([]int64, rows)
	for i := range sizes {
		sizes[i] = offsets[i+1] - offsets[i]
	}
	switch n.typ.ID() {
	case arrow.LARGE_LIST:
		buffers = append(buffers, memory.NewBufferBytes(offsets64(offsets)))
	case arrow.LARGE_LIST_VIEW:
		buffers = append(buffers, memory.NewBufferBytes(offsets64(offsets)[:8*rows]))
		raw := make([]byte, 0, 8*rows)
		for _, s := range sizes {
			raw = binary.LittleEndian.AppendUint64(raw, uint64(s))
		}
		buffers = append(buffers, memory.NewBufferBytes(raw))
	default:
		narrow, err := offsets32(offsets)
		if err != nil {
			return nil, err
		}
		buffers = append(buffers, memory.NewBufferBytes(narrow))
		if n.typ.ID() == arrow.LIST_VIEW {
			buffers[0] = memory.NewBufferBytes(narrow[:4*rows])
			raw := make([]byte, 0, 4*rows)
			for _, s := range sizes {
				raw = binary.LittleEndian.AppendUint32(raw, uint32(s))
			}
			buffers = append(buffers, memory.NewBufferBytes(raw))
		}
	}
	if limit := runLimit(n.children[0].typ); offsets[rows]-offsets[0] > limit {
		return nil, arrowdata.ErrTooLong
	}
	child, err := c.readChild(ctx, n, 0, offsets[0], offsets[rows])
	if err != nil {
		return nil, err
	}
	defer child.Release()
	return nestedArray(n.typ, rows, missing, buffers, child)
}

func (c *tableColumn) readRecord(ctx context.Context, n *node, missing []byte, from, to int64) (arrow.Array, error) {
	children := make([]arrow.Array, len(n.children))
	defer func() { arrowdata.ReleaseArrays(children) }()
	interval := n.typ.ID() != arrow.STRUCT
	for i := range n.children {
		var err error
		if interval {
			children[i], err = c.readNode(ctx, n.children[i], from, to)
		} else {
			children[i], err = c.readChild(ctx, n, i, from, to)
		}
		if err != nil {
			return nil, err
		}
	}
	rows := int(to - from)
	if !interval {
		return nestedArray(n.typ, rows, missing, nil, children...)
	}
	size, fields := intervalFieldsOf(n.typ)
	raw := make([]byte, rows*size)
	for f, field := range fields {
		values := children[f].Data().Buffers()[1].Bytes()
		for i := range rows {
			copy(raw[i*size+field.offset:], values[i*field.size:(i+1)*field.size])
		}
	}
	return nestedArray(n.typ, rows, missing, []*memory.Buffer{memory.NewBufferBytes(raw)})
}

// readDictionary returns elements of a dictionary inside a nested column, with all of
// its values.
func (c *tableColumn) readDictionary(ctx context.Context, n *node, from, to int64) (arrow.Array, error) {
	name := n.key + "-" + bufferIndex
	if c.dictionaries == nil {
		c.dictionaries = map[*node]arrow.Array{}
	}
	if c.dictionaries[n] == nil {
		a, err := c.require(ctx, name)
		if err != nil {
			return nil, err
		}
		last := int64(-1)
		const block = 1 << 20
		for at, all := int64(0), firstAxisLen(a.Shape()); at < all; at += block {
			codes, err := c.integers(ctx, name, indexType(n), at, min(at+block, all))
			if err != nil {
				return nil, err
			}
			last = max(last, slices.Max(codes))
		}
		values, err := c.readChild(ctx, n, 0, 0, last+1)
		if err != nil {
			return nil, err
		}
		c.dictionaries[n] = values
	}
	codes, err := c.integers(ctx, name, indexType(n), from, to)
	if err != nil {
		return nil, err
	}
	return dictionaryArray(n.typ.(*arrow.DictionaryType), codes, c.dictionaries[n])
}

func indexType(n *node) ndview.DType {
	if n.kind == nodeDictionary && n.wide {
		return ndview.Int64
	}
	return ndview.Int32
}

// readUnion returns elements of a union. The values of each type are stored in the
// order of the rows, so those of a range of rows follow each other.
func (c *tableColumn) readUnion(ctx context.Context, n *node, from, to int64) (arrow.Array, error) {
	t := n.typ.(arrow.UnionType)
	rows, err := c.readUnionRows(ctx, n, from, to)
	if err != nil {
		return nil, err
	}
	children := make([]arrow.Array, len(n.children))
	defer func() { arrowdata.ReleaseArrays(children) }()
	sparse := t.Mode() == arrow.SparseMode
	for i := range n.children {
		if children[i], err = c.readChild(ctx, n, i, rows.first[i], rows.first[i]+rows.count[i]); err != nil {
			return nil, err
		}
		if !sparse {
			continue
		}
		// The slots that other types select hold any value.
		var spread arrow.Array
		if rows.count[i] == 0 {
			spread, err = nullArray(children[i].DataType(), len(rows.codes))
		} else {
			spread, err = columns.Take(children[i], columns.Indices(rows.positions[i]...))
		}
		if err != nil {
			return nil, err
		}
		children[i].Release()
		children[i] = spread
	}
	buffers := []*memory.Buffer{nil, memory.NewBufferBytes(rows.codes)}
	if !sparse {
		buffers = append(buffers, memory.NewBufferBytes(rows.offsets))
	}
	data := make([]arrow.ArrayData, len(children))
	for i, child := range children {
		data[i] = child.Data()
	}
	whole := array.NewData(n.typ, len(rows.codes), buffers, data, 0, 0)
	defer whole.Release()
	return array.MakeFromData(whole), nil
}

// unionRows says where the values of rows of a union are.
type unionRows struct {
	codes        []byte    // the type code of each row
	offsets      []byte    // 32-bit offsets of a dense union, from the first value of each type
	first, count []int64   // the stored values of each type
	positions    [][]int64 // of a sparse union: for each type, the value of each row
}

// readUnionRows returns where the values of rows [from, to) are.
func (c *tableColumn) readUnionRows(ctx context.Context, n *node, from, to int64) (*unionRows, error) {
	tags, index := make([]int64, to-from), make([]int64, to-from)
	var err error
	if len(n.children) == 1 { // awkward has no union of one type, so it is not stored
		for i := range index {
			index[i] = from + int64(i)
		}
	} else {
		if tags, err = c.integers(ctx, n.key+"-"+bufferTags, ndview.Int8, from, to); err != nil {
			return nil, err
		}
		if index, err = c.integers(ctx, n.key+"-"+bufferIndex, ndview.Int32, from, to); err != nil {
			return nil, err
		}
	}
	typeCodes := n.typ.(arrow.UnionType).TypeCodes()
	rows := &unionRows{
		codes:     make([]byte, 0, len(tags)),
		offsets:   make([]byte, 0, 4*len(tags)),
		first:     make([]int64, len(n.children)),
		count:     make([]int64, len(n.children)),
		positions: make([][]int64, len(n.children)),
	}
	for i, tag := range tags {
		if tag < 0 || tag >= int64(len(n.children)) {
			return nil, fmt.Errorf("tag %d of %d types: %w", tag, len(n.children), arrowdata.ErrMalformed)
		}
		if rows.count[tag] == 0 {
			rows.first[tag] = index[i]
		}
		if want := rows.first[tag] + rows.count[tag]; index[i] != want {
			return nil, fmt.Errorf("%s-%s: %d at row %d, expected %d: %w", n.key, bufferIndex, index[i], from+int64(i), want, arrowdata.ErrMalformed)
		}
		rows.codes = append(rows.codes, byte(typeCodes[tag]))
		rows.offsets = binary.LittleEndian.AppendUint32(rows.offsets, uint32(rows.count[tag]))
		rows.count[tag]++
		for child := range rows.positions {
			rows.positions[child] = append(rows.positions[child], max(rows.count[child]-1, 0))
		}
	}
	return rows, nil
}
