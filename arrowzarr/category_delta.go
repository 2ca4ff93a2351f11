package arrowzarr

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/quiver-gpu/quiver/zarr/store"
)

// categoryDelta is the values of a dictionary that were found since the last delta. Their
// codes depend on all rows before, so a conversion that goes on there needs them.
type categoryDelta struct {
	column int
	node   int           // of a nested column, among its nodes; -1 for the column's own
	values []arrow.Array // of the column's own
	keys   []byte        // of a node, whose values are written already: each after its length
}

// takeDeltas returns what was found since the last call.
func takeDeltas(all []*categories, nested []*nestedWriter) []categoryDelta {
	var deltas []categoryDelta
	for i, g := range all {
		if g != nil && len(g.values) > g.saved {
			d := categoryDelta{column: i, node: -1, values: slices.Clone(g.values[g.saved:])}
			for _, v := range d.values {
				v.Retain()
			}
			g.saved = len(g.values)
			deltas = append(deltas, d)
		}
	}
	for i, n := range nested {
		if n == nil {
			continue
		}
		node := 0
		n.root.nodes(func(w *nodeWriter) {
			if g := w.categories; g != nil && g.codeOf.len() > g.saved {
				d := categoryDelta{column: i, node: node}
				for ; g.saved < g.codeOf.len(); g.saved++ {
					key := g.codeOf.key(g.saved)
					d.keys = append(binary.AppendUvarint(d.keys, uint64(len(key))), key...)
				}
				deltas = append(deltas, d)
			}
			node++
		})
	}
	return deltas
}

func (d categoryDelta) release() {
	for _, v := range d.values {
		v.Release()
	}
}

// write writes the delta, and returns its key. The number is that of all deltas before.
func (d categoryDelta) write(ctx context.Context, work store.Store, number int) (string, error) {
	key := fmt.Sprintf("%s/categories/%d/%d/%d", workPrefix, d.column, d.node+1, number)
	content, err := d.encode()
	if err == nil {
		err = work.Set(ctx, key, content)
	}
	return key, err
}

// encode returns an IPC stream of the values, or the keys.
func (d categoryDelta) encode() ([]byte, error) {
	if d.node >= 0 {
		return d.keys, nil
	}
	var content bytes.Buffer
	schema := arrow.NewSchema([]arrow.Field{{Name: "values", Type: d.values[0].DataType(), Nullable: true}}, nil)
	w := ipc.NewWriter(&content, ipc.WithSchema(schema))
	for _, v := range d.values {
		batch := array.NewRecordBatch(schema, []arrow.Array{v}, int64(v.Len()))
		err := w.Write(batch)
		batch.Release()
		if err != nil {
			return nil, err
		}
	}
	return content.Bytes(), w.Close()
}

// loadDeltas adds the values of deltas to categories that have none yet. Of a nested
// column, only as many as its state has are added: those that are written before.
func loadDeltas(ctx context.Context, work store.Store, keys []string, all []*categories, nested []*nestedWriter, states []*nestedState) error {
	for _, key := range keys {
		var column, node, number int
		if _, err := fmt.Sscanf(key, workPrefix+"/categories/%d/%d/%d", &column, &node, &number); err != nil || column < 0 || column >= len(all) {
			return fmt.Errorf("%q is not the key of categories: %w", key, errMalformed)
		}
		content, err := work.Get(ctx, key, store.Range{})
		if err == nil {
			err = catchPanic(func() error {
				if node == 0 {
					return all[column].load(content)
				}
				return nested[column].loadCategories(node-1, content, states[column])
			})
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

// load adds the values of an encoded delta.
func (g *categories) load(content []byte) error {
	r, err := ipc.NewReader(bytes.NewReader(content))
	if err != nil {
		return err
	}
	defer r.Release()
	for r.Next() {
		values := r.RecordBatch().Column(0)
		key, err := newKeyFunc(values)
		if err != nil {
			return err
		}
		for i := range values.Len() {
			k := key(i)
			if err := g.memory.reserve(len(k)); err != nil {
				return err
			}
			if _, known, place := g.codeOf.find(k); !known {
				g.codeOf.add(k, place)
			}
		}
		values.Retain()
		g.values = append(g.values, values)
	}
	g.saved = len(g.values)
	return r.Err()
}

// loadCategories adds the keys of an encoded delta to a node's dictionary, up to the number
// that a state has.
func (n *nestedWriter) loadCategories(node int, content []byte, state *nestedState) error {
	var g *nodeCategories
	limit := int64(-1)
	at, dictionary := 0, 0
	n.root.nodes(func(w *nodeWriter) {
		if w.categories != nil {
			if at == node && state != nil && dictionary < len(state.Categories) {
				g, limit = w.categories, state.Categories[dictionary]
			}
			dictionary++
		}
		at++
	})
	if g == nil {
		return fmt.Errorf("node %d has no dictionary: %w", node, errMalformed)
	}
	for len(content) > 0 && g.codeOf.len() < limit {
		size, n := binary.Uvarint(content)
		if n <= 0 || size > uint64(len(content)-n) {
			return fmt.Errorf("a key of %d bytes in %d: %w", size, len(content), errMalformed)
		}
		if err := g.memory.reserve(int(size)); err != nil {
			return err
		}
		key := content[n : n+int(size)]
		if _, known, place := g.codeOf.find(key); !known {
			g.codeOf.add(key, place)
		}
		content = content[n+int(size):]
	}
	g.saved = g.codeOf.len()
	return nil
}
