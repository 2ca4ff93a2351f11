package arrowzarr

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// categoryDelta is the values of a dictionary that were found since the last delta. Their
// codes depend on all rows before, so a conversion that goes on there needs them.
type categoryDelta struct {
	column   int
	node     int // of a nested column, among its nodes; -1 for the column's own
	table    *valueTable
	from, to int64 // the values
}

// takeDeltas returns what was found since the last call.
func takeDeltas(all []*categories, nested []*nestedWriter) []categoryDelta {
	var deltas []categoryDelta
	for i, g := range all {
		if g != nil && g.codeOf.len() > g.saved {
			deltas = append(deltas, categoryDelta{column: i, node: -1, table: g.codeOf, from: g.saved, to: g.codeOf.len()})
			g.saved = g.codeOf.len()
		}
	}
	for i, n := range nested {
		if n == nil {
			continue
		}
		node := 0
		n.root.nodes(func(w *nodeWriter) {
			if g := w.categories; g != nil && g.codeOf.len() > g.saved {
				deltas = append(deltas, categoryDelta{column: i, node: node, table: g.codeOf, from: g.saved, to: g.codeOf.len()})
				g.saved = g.codeOf.len()
			}
			node++
		})
	}
	return deltas
}

// deltaBytes is about the size of an object of a delta.
const deltaBytes = 1 << 20

// write writes the delta as objects, and returns the keys of all: those before, and its
// own. An object has the bytes of values, each after their length.
func (d categoryDelta) write(ctx context.Context, work store.Store, keys []string) ([]string, error) {
	for from := d.from; from < d.to; {
		content, next, err := d.table.appendKeys(nil, from, d.to, deltaBytes)
		if err != nil {
			return keys, err
		}
		key := fmt.Sprintf("%s/categories/%d/%d/%d", workPrefix, d.column, d.node+1, len(keys))
		if err := work.Set(ctx, key, content); err != nil {
			return keys, err
		}
		keys, from = append(keys, key), next
	}
	return keys, nil
}

// loadDeltas adds the values of deltas to categories that have none yet. Of a nested
// column, only as many as its state has are added: those that are written before.
func loadDeltas(ctx context.Context, work store.Store, keys []string, all []*categories, nested []*nestedWriter, states []*nestedState) error {
	for _, key := range keys {
		var column, node, number int
		if _, err := fmt.Sscanf(key, workPrefix+"/categories/%d/%d/%d", &column, &node, &number); err != nil || column < 0 || column >= len(all) {
			return fmt.Errorf("%q is not the key of categories: %w", key, arrowdata.ErrMalformed)
		}
		content, err := work.Get(ctx, key, store.Range{})
		if err == nil {
			err = arrowdata.CatchPanic(func() error {
				if node == 0 {
					err := loadKeys(all[column].codeOf, content, maxTableKeys)
					all[column].saved = all[column].codeOf.len()
					return err
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
		return fmt.Errorf("node %d has no dictionary: %w", node, arrowdata.ErrMalformed)
	}
	err := loadKeys(g.codeOf, content, limit)
	g.saved = g.codeOf.len()
	return err
}

// loadKeys adds the keys of an object of a delta to a table, until it has a number of them.
func loadKeys(table *valueTable, content []byte, limit int64) error {
	for len(content) > 0 && table.len() < limit {
		size, n := binary.Uvarint(content)
		if n <= 0 || size > uint64(len(content)-n) {
			return fmt.Errorf("a key of %d bytes in %d: %w", size, len(content), arrowdata.ErrMalformed)
		}
		if _, err := table.number(content[n : n+int(size)]); err != nil {
			return err
		}
		content = content[n+int(size):]
	}
	return nil
}
