package arrowipc

import (
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
)

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
