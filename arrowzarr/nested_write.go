package arrowzarr

import (
	"context"
	"encoding/json"
	"fmt"
)

// nestedWriter writes one nested column: it appends rows to the arrays of the nodes.
type nestedWriter struct {
	root *nodeWriter
	sink *streamSink
	rows int64
}

// append appends the rows of slices, in order, on the host.
func (n *nestedWriter) append(ctx context.Context, slices []columnSlice) error {
	n.sink.ctx = ctx
	err := catchPanic(func() error {
		for _, s := range slices {
			if err := n.root.append(s.values, s.from, s.to); err != nil {
				return err
			}
			n.rows += s.rows()
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		err = partErrorf(partOf(err, PartInput), "column %q: %w", n.sink.column.plan.field.Name, err)
	}
	return err
}

// streamRows returns the elements of a chunk of the arrays of nested columns: those of
// the options, or as many as fit into the memory. Every array has one chunk that is
// filled, and each job one that is encoded.
func streamRows(columns []*column, options Options, shares memoryShares) int64 {
	if options.ChunkRows > 0 {
		return options.ChunkRows
	}
	var filled, widest int64
	for _, c := range columns {
		if c.kind != kindNested {
			continue
		}
		w := newNodeWriter(c.nested, nil, nil)
		_ = w.streams(func(s *arrayStream) error { // the function returns no error
			filled += s.width
			widest = max(widest, s.width)
			return nil
		})
	}
	rows := int64(DefaultChunkRows)
	for rows > 1 && (rows*filled > shares.total/16 || 3*rows*widest*int64(options.Jobs) > shares.chunks) {
		rows /= 2
	}
	return rows
}

// finishNested writes the last chunks and the metadata of a nested column.
func (h *hierarchyWriter) finishNested(ctx context.Context, w *columnWriter, attributes map[string]any) error {
	n, name := w.nested, w.plan.name
	form, err := json.Marshal(n.root.form(false))
	if err != nil {
		return err
	}
	attributes[attrEncType], attributes[attrEncVer] = "awkward-array", "0.1.0"
	attributes["form"], attributes["length"] = string(form), n.rows
	if err := h.group(ctx, name, attributes); err != nil {
		return err
	}
	return n.root.streams(func(s *arrayStream) error {
		if !s.kept {
			return nil
		}
		if err := s.finish(ctx); err != nil {
			return err
		}
		return h.array(ctx, s.array, name+"/"+s.name, s.length, streamDimensions(name, s), map[string]any{attrEncType: "array", attrEncVer: "0.2.0"})
	})
}

// streamDimensions are the names of the axes of a nested column's array, which has a
// length of its own.
func streamDimensions(column string, s *arrayStream) []string {
	names := []string{column + "." + s.name}
	for i := range s.row {
		names = append(names, fmt.Sprintf("%s.%s_%d", column, s.name, i+1))
	}
	return names
}

// abort drops the shards that are open.
func (n *nestedWriter) abort() {
	_ = n.root.streams(func(s *arrayStream) error { // the function returns no error
		if s.array != nil {
			s.array.abort()
		}
		return nil
	})
}
