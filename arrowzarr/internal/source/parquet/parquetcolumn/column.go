package parquetcolumn

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
)

// Options are the options of the columns of a file. Columns of one file must share them.
type Options struct {
	// Source is the file, and Size its size in bytes.
	Source io.ReaderAt
	Size   int64
	// Memory allocates the buffers of arrays. They need not be zeroed.
	Memory memory.Allocator
	// MaxPage is the largest page, in bytes.
	MaxPage int64
	// Buffer is how many bytes of a column are read at once.
	Buffer int
	// Release makes a column release its memory after each batch. The next batch decodes
	// the page on which the last has ended again.
	Release bool

	memories pageMemories
}

// Column reads one field of an Arrow schema: one or more columns of Parquet.
type Column struct {
	options *Options
	root    node
	leaves  []*leaf
}

// node is a field, or one inside of it.
type node struct {
	pqarrow.SchemaField
	children []node
	leaf     *leaf // its column, or the first one inside of it
}

// New returns the column of a field that pqarrow has inferred. Its error wraps
// errors.ErrUnsupported if this package does not read the field.
func New(field pqarrow.SchemaField, footer *metadata.FileMetaData, groups []int, options *Options) (*Column, error) {
	c := &Column{options: options}
	var err error
	c.root, err = c.newNode(field, footer, groups)
	return c, err
}

func (c *Column) newNode(field pqarrow.SchemaField, footer *metadata.FileMetaData, groups []int) (node, error) {
	n := node{SchemaField: field}
	if field.IsLeaf() {
		var err error
		if n.leaf, err = newLeaf(field, footer, groups, c.options); err != nil {
			return n, err
		}
		c.leaves = append(c.leaves, n.leaf)
		return n, nil
	}
	switch arrowdata.StorageType(field.Field.Type).ID() {
	case arrow.STRUCT:
	case arrow.LIST, arrow.LARGE_LIST, arrow.MAP:
		if len(field.Children) != 1 {
			return n, fmt.Errorf("%s of %d fields: %w", field.Field.Type, len(field.Children), errors.ErrUnsupported)
		}
	default:
		return n, fmt.Errorf("%s: %w", field.Field.Type, errors.ErrUnsupported)
	}
	for _, child := range field.Children {
		made, err := c.newNode(child, footer, groups)
		if err != nil {
			return n, err
		}
		n.children = append(n.children, made)
	}
	if len(n.children) == 0 {
		return n, fmt.Errorf("%s without fields: %w", field.Field.Type, errors.ErrUnsupported)
	}
	n.leaf = n.children[0].leaf
	for _, child := range n.children { // one outside of lists has the fewest levels
		if child.leaf.maxRep < n.leaf.maxRep {
			n.leaf = child.leaf
		}
	}
	n.leaf.keepLevels = true
	return n, nil
}

// Leaves returns the number of Parquet columns.
func (c *Column) Leaves() int { return len(c.leaves) }

// ReadLeaf reads the next rows of a Parquet column. They must be of one row group. Each
// leaf may be read in a goroutine of its own.
func (c *Column) ReadLeaf(i int, rows int64) error {
	l := c.leaves[i]
	err := l.read(rows)
	if err != nil {
		return fmt.Errorf("Parquet column %d: %w", l.index, err)
	}
	return nil
}

// Array returns the rows that ReadLeaf has read of each leaf. The caller owns it.
func (c *Column) Array() (arrow.Array, error) {
	data, err := c.root.build()
	for _, l := range c.leaves {
		l.out.release()
		if c.options.Release {
			l.release()
		}
	}
	if err != nil {
		return nil, err
	}
	defer data.Release()
	return array.MakeFromData(data), nil
}

// Close releases the memory of the column.
func (c *Column) Close() {
	for _, l := range c.leaves {
		l.release()
	}
}

// build returns the array of a node. The caller owns it.
func (n *node) build() (arrow.ArrayData, error) {
	t := n.Field.Type
	if n.IsLeaf() {
		return n.leaf.array(t)
	}
	children := make([]arrow.ArrayData, len(n.children))
	defer func() {
		for _, child := range children {
			if child != nil {
				child.Release()
			}
		}
	}()
	for i := range n.children {
		var err error
		if children[i], err = n.children[i].build(); err != nil {
			return nil, err
		}
	}
	if arrowdata.StorageType(t).ID() == arrow.STRUCT {
		slots, validity := n.structSlots(children[0].Len())
		for i, child := range children {
			if child.Len() != slots {
				return nil, fmt.Errorf("struct of %d slots whose field %d has %d: %w", slots, i, child.Len(), ErrMalformed)
			}
		}
		bitmap, nulls := makeBitmap(validity, n.leaf.options.Memory)
		if bitmap != nil {
			defer bitmap.Release()
		}
		return array.NewData(t, slots, []*memory.Buffer{bitmap}, children, nulls, 0), nil
	}
	return n.buildLists(children)
}

// buildLists returns the array of a list or map.
func (n *node) buildLists(children []arrow.ArrayData) (arrow.ArrayData, error) {
	mem := n.leaf.options.Memory
	lists := countBelow(n.leaf.out.reps, byte(n.LevelInfo.RepLevel))
	buffer := memory.NewResizableBuffer(mem)
	defer buffer.Release()
	valid := resize(n.leaf.valid, lists+1)
	n.leaf.valid = valid
	var elements int64
	if arrowdata.StorageType(n.Field.Type).ID() == arrow.LARGE_LIST {
		buffer.Resize(8 * (lists + 1))
		lists, elements = fillLists(n, view[uint64](buffer.Bytes(), lists+1), valid)
		buffer.Resize(8 * (lists + 1))
	} else {
		buffer.Resize(4 * (lists + 1))
		lists, elements = fillLists(n, view[uint32](buffer.Bytes(), lists+1), valid)
		buffer.Resize(4 * (lists + 1))
		if elements > math.MaxInt32 {
			return nil, fmt.Errorf("lists of %d elements in one batch: %w", elements, errors.ErrUnsupported)
		}
	}
	if int64(children[0].Len()) != elements {
		return nil, fmt.Errorf("lists of %d elements, of which there are %d: %w", elements, children[0].Len(), ErrMalformed)
	}
	bitmap, nulls := makeBitmap(valid[:lists], mem)
	if bitmap != nil {
		defer bitmap.Release()
	}
	return array.NewData(n.Field.Type, lists, []*memory.Buffer{bitmap, buffer}, children, nulls, 0), nil
}

// makeBitmap returns a bitmap of bytes that are 0 or 1, or nil if none is 0.
func makeBitmap(valid []byte, mem memory.Allocator) (*memory.Buffer, int) {
	nulls := len(valid) - countOnes(valid)
	if nulls == 0 {
		return nil, 0
	}
	b := memory.NewResizableBuffer(mem)
	b.Resize(int(bitutil.BytesForBits(int64(len(valid)))))
	packBits(b.Bytes(), 0, valid)
	return b, nulls
}
