package arrowzarr

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
)

// nestedWriter writes one nested column: it appends rows to the arrays of the nodes.
type nestedWriter struct {
	root    *nodeWriter
	sink    *streamSink
	streams []*arrayStream // of all nodes
}

func newNestedWriter(n *node, sink *streamSink, m *categoryMemory) *nestedWriter {
	w := &nestedWriter{root: newNodeWriter(n, sink, m), sink: sink}
	_ = w.root.streams(func(s *arrayStream) error { // the function returns no error
		s.index = len(w.streams)
		w.streams = append(w.streams, s)
		return nil
	})
	return w
}

// append appends the rows of slices, in order, on the host.
func (n *nestedWriter) append(ctx context.Context, slices []columnSlice) error {
	n.sink.ctx = ctx
	err := arrowdata.CatchPanic(func() error {
		for _, s := range slices {
			if err := n.root.append(s.values, s.from, s.to); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		err = failedColumn(n.sink.writer.column.field, PartInput, err)
	}
	return err
}

// nestedState is what is known of the rows of a nested column that are written.
type nestedState struct {
	Lengths    []int64 `json:"lengths"`              // of the arrays
	Missing    []bool  `json:"missing"`              // whether a node has null elements
	Categories []int64 `json:"categories,omitempty"` // the number of values of each dictionary
}

// state returns the state after the rows that were appended.
func (n *nestedWriter) state() *nestedState {
	state := &nestedState{}
	for _, s := range n.streams {
		state.Lengths = append(state.Lengths, s.length)
	}
	n.root.nodes(func(w *nodeWriter) {
		state.Missing = append(state.Missing, w.missing)
		if w.categories != nil {
			state.Categories = append(state.Categories, w.categories.codeOf.len())
		}
	})
	return state
}

// restore makes the writer continue after the rows of a state. If to is not nil, it is
// the state at the end of a partition: the writer writes only the elements between both.
func (n *nestedWriter) restore(state, to *nestedState) error {
	nodes := 0
	n.root.nodes(func(*nodeWriter) { nodes++ })
	for _, s := range []*nestedState{state, to} {
		if s != nil && (len(s.Lengths) != len(n.streams) || len(s.Missing) != nodes) {
			return fmt.Errorf("a state of %d arrays and %d nodes, expected %d and %d: %w", len(s.Lengths), len(s.Missing), len(n.streams), nodes, arrowdata.ErrMalformed)
		}
	}
	for i, s := range n.streams {
		first := state.Lengths[i] == s.length // the first partition has the first offset, too
		s.length = state.Lengths[i]
		if to != nil {
			s.to = to.Lengths[i]
			if !first {
				s.from = s.length
			}
		}
	}
	i := 0
	n.root.nodes(func(w *nodeWriter) {
		w.missing = state.Missing[i]
		switch w.node.kind {
		case nodeList:
			w.offsets.sum = w.children[0].count()
		case nodeText:
			w.offsets.sum = w.data.length
		}
		i++
	})
	return nil
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

// finishNested writes the metadata of a nested column.
func (h *hierarchyWriter) finishNested(ctx context.Context, w *columnWriter, attributes map[string]any) error {
	n, name := w.nested, w.column.name
	form, err := json.Marshal(n.root.form(false))
	if err != nil {
		return err
	}
	attributes[attrEncType], attributes[attrEncVer] = "awkward-array", "0.1.0"
	attributes["form"], attributes["length"] = string(form), h.rows
	if err := h.group(ctx, name, attributes); err != nil {
		return err
	}
	return n.root.streams(func(s *arrayStream) error {
		if !s.kept {
			return nil
		}
		m := s.metadata(s.finalGrid())
		return h.array(ctx, w, columnArray{s.name, m}, name+"/"+s.name, s.length, streamDimensions(name, s), map[string]any{attrEncType: "array", attrEncVer: "0.2.0"})
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
	for _, s := range n.streams {
		if s.array != nil {
			s.array.abort()
		}
	}
}
