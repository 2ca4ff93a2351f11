package arrowzarr

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"golang.org/x/sync/errgroup"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// tableState is what is known of the rows that are written. When all are, it decides the
// nodes of the output.
type tableState struct {
	Rows      int64         `json:"rows"`
	ChunkRows int64         `json:"chunk_rows"`
	ShardRows int64         `json:"shard_rows,omitempty"`
	RawBytes  int64         `json:"raw_bytes"`
	Stored    int64         `json:"stored_bytes"`
	Columns   []columnState `json:"columns"`
}

func (s *tableState) grid() rowGrid { return rowGrid{chunkRows: s.ChunkRows, shardRows: s.ShardRows} }

// columnState is what is known of the rows of a column that are written.
type columnState struct {
	Missing        bool         `json:"missing,omitempty"`         // some row is missing
	ElementMissing bool         `json:"element_missing,omitempty"` // some element of a row is missing
	Nested         *nestedState `json:"nested,omitempty"`
	// Codecs are those that a sample decided, by array.
	Codecs map[string]Codec `json:"codecs,omitempty"`
}

// hierarchyWriter writes the nodes of the output and collects their metadata. It can do so
// again if it was interrupted.
type hierarchyWriter struct {
	*writer
	documents store.Store // of the metadata
	grid      rowGrid
	rows      int64
	jobs      int
	memory    int64 // bytes, for chunks that are made at the end
	index     bool  // the root is a data frame, with an index
	numbered  int64 // rows whose numbers are written before the end
	nodes     map[string]zarr.Node
	delayed   []string // paths of nodes whose documents are not written yet
}

// finalize gives every array its path and writes the metadata, the root's last. The
// schema is that of the columns. The categories are by column.
func (h *hierarchyWriter) finalize(ctx context.Context, schema *arrow.Schema, state *tableState, categories []*categories) error {
	h.rows, h.grid, h.nodes = state.Rows, state.grid(), h.existing.copyNodes()
	columns := make([]*column, len(h.columns))
	for i, c := range h.columns {
		columns[i] = c.column
		if err := h.column(ctx, c, state.Columns[i], categories[i]); err != nil {
			return failedColumn(c.column.field, PartOutput, err)
		}
	}
	attributes, err := rootAttributes(schema, columns, h.rows)
	if err == nil {
		err = h.frame(ctx, schema, attributes)
	}
	if err == nil {
		err = flushStore(ctx, h.store)
	}
	if err == nil {
		err = h.writeDelayed(ctx)
	}
	if err != nil {
		return markPart(PartOutput, err)
	}
	root := &zarr.GroupMetadata{Attributes: h.existing.keepRoot(attributes), Consolidated: h.nodes}
	return markPart(PartOutput, zarr.WriteNode(ctx, h.documents, "", root))
}

// column gives the arrays of a column their paths, and writes their metadata.
func (h *hierarchyWriter) column(ctx context.Context, w *columnWriter, state columnState, g *categories) error {
	missing := state.Missing || w.column.kind == kindNull
	if h.layout.building == "" && h.layout.grouped[w.number] && !state.ElementMissing {
		missing = true // a group needs a mask, even if no value turned out to be missing
	}
	attributes := w.column.attributes(missing || state.ElementMissing)
	name := w.column.name
	if w.nested != nil {
		return h.finishNested(ctx, w, attributes)
	}
	arrays := map[string]columnArray{}
	for _, a := range (arrayBuilder{writer: h.writer, grid: h.grid}).columnArrays(w) {
		arrays[a.name] = a
	}
	values := arrays[arrayValues]
	if w.column.kind == kindDictionary {
		unique, err := g.isUniqueIndex()
		if err != nil {
			return err
		}
		if !unique {
			delete(attributes, attrEncType)
			delete(attributes, attrEncVer)
		}
		return errors.Join(
			h.group(ctx, name, attributes),
			h.array(ctx, w, values, finalPath(w.column, arrayValues, true), h.rows, w.column.dims[:1], nil),
			h.categories(ctx, g, name+"/categories"))
	}
	if !missing && !state.ElementMissing {
		return h.array(ctx, w, values, name, h.rows, w.column.valueDims(), attributes)
	}
	err := errors.Join(h.group(ctx, name, attributes), h.array(ctx, w, values, finalPath(w.column, arrayValues, true), h.rows, w.column.valueDims(), nil))
	if missing {
		err = errors.Join(err, h.array(ctx, w, arrays[arrayMask], finalPath(w.column, arrayMask, true), h.rows, w.column.dims[:1], nil))
	}
	if state.ElementMissing {
		err = errors.Join(err, h.array(ctx, w, arrays[arrayElements], finalPath(w.column, arrayElements, true), h.rows, w.column.valueDims(), nil))
	}
	return err
}

func (h *hierarchyWriter) group(ctx context.Context, path string, attributes map[string]any) error {
	return h.node(ctx, path, &zarr.GroupMetadata{Attributes: h.existing.keep(path, attributes)})
}

// node writes the metadata of a node. Those of a table that exists are delayed until all
// data are written.
func (h *hierarchyWriter) node(ctx context.Context, path string, n zarr.Node) error {
	h.nodes[path] = n
	if h.existing != nil {
		h.delayed = append(h.delayed, path)
		return nil
	}
	return zarr.WriteNode(ctx, h.documents, path, n)
}

// writeDelayed writes the metadata that node has delayed.
func (h *hierarchyWriter) writeDelayed(ctx context.Context) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(documentWrites)
	for _, path := range h.delayed {
		group.Go(func() error { return zarr.WriteNode(groupCtx, h.documents, path, h.nodes[path]) })
	}
	return group.Wait()
}

// array moves the chunks of an array of a length to a path, unless they are there, and
// writes its metadata.
func (h *hierarchyWriter) array(ctx context.Context, w *columnWriter, a columnArray, path string, length int64, dims []string, attributes map[string]any) error {
	m := a.metadata
	m.Shape = append([]int64{length}, m.Shape[1:]...)
	m.DimensionNames, m.Attributes = dims, h.existing.keep(path, attributes)
	if built := h.layout.path(w, a.name); built != path {
		var err error
		if h.layout.appending {
			err = h.copyChunks(ctx, built, path, m)
		} else {
			err = h.move(ctx, built, path)
		}
		// An array of fill values has no chunks to move.
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	return h.node(ctx, path, m)
}

// move moves what was built to its path, in place of what a process has moved there that
// was killed while it published the output.
func (h *hierarchyWriter) move(ctx context.Context, built, path string) error {
	err := store.Move(ctx, h.documents, built, path)
	if errors.Is(err, store.ErrExists) {
		if err = store.DeleteAll(ctx, h.documents, path); err == nil {
			err = store.Move(ctx, h.documents, built, path)
		}
	}
	return err
}

// categories writes the values of a dictionary column.
func (h *hierarchyWriter) categories(ctx context.Context, g *categories, path string) error {
	column, err := newColumn(categoriesField(g.column.storage.(*arrow.DictionaryType)))
	if err != nil {
		return err
	}
	m := &zarr.ArrayMetadata{
		Shape:      append([]int64{g.codeOf.len()}, column.layout.row...),
		DataType:   column.dataType(),
		ChunkShape: chunkShape(h.categoryRows(g), column.layout.row),
		Codecs:     zarr.DefaultCodecs(column.dataType(), g.column.codecs.compressors(arrayCategories, column.class(), column.dataType())...),
	}
	m.Attributes = column.attributes(false)
	m.DimensionNames = []string{g.column.name + ".category"}
	for i := range column.layout.row {
		m.DimensionNames = append(m.DimensionNames, fmt.Sprintf("%s.category_%d", g.column.name, i+1))
	}
	if done := h.existing.reuseCategories(path, m); done {
		return nil
	}
	if err := h.node(ctx, path, m); err != nil || g.codeOf.len() == 0 {
		return err
	}
	array, err := zarr.New(h.store, path, m)
	if err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(h.jobs)
	all, rows := g.codeOf.reader(), m.ChunkShape[0]
	for from := int64(0); from < g.codeOf.len() && groupCtx.Err() == nil; from += rows {
		arrays, err := g.readValues(column, all, min(rows, g.codeOf.len()-from), assembler{device: arrowbuf.CPU(), kernels: &h.stats.kernels})
		if err != nil {
			return errors.Join(err, group.Wait())
		}
		index := make([]int64, len(m.Shape))
		index[0] = from / rows
		group.Go(func() error {
			defer arrays.release()
			return array.WriteChunk(groupCtx, index, arrays.values)
		})
	}
	return group.Wait()
}

// maxCategoryRows is the most values in a chunk of categories, so that several chunks are
// encoded at once.
const maxCategoryRows = 1 << 17

// categoryRows returns the values in a chunk of categories: maxCategoryRows, or as many as
// leave memory for a chunk of each job and one that is read.
func (h *hierarchyWriter) categoryRows(g *categories) int64 {
	all := max(g.codeOf.len(), 1)
	rows := min(all, maxCategoryRows)
	for rows > 1 && float64(g.codeOf.keys.length+8*all)/float64(all)*float64(rows)*3*float64(h.jobs+1) > float64(h.memory) {
		rows /= 2
	}
	return rows
}

// storedPiece is a piece and the folder that has it.
type storedPiece struct {
	piece
	folder string
}

// joinPieces makes the chunks whose elements several partitions have written. The streams
// must have their final lengths.
func (h *hierarchyWriter) joinPieces(ctx context.Context, pieces []storedPiece) error {
	slices.SortFunc(pieces, func(a, b storedPiece) int {
		return cmp.Or(cmp.Compare(a.Column, b.Column), cmp.Compare(a.Stream, b.Stream), cmp.Compare(a.Chunk, b.Chunk), cmp.Compare(a.From, b.From))
	})
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(h.jobs)
	for len(pieces) > 0 {
		first := pieces[0]
		w := h.columns[first.Column]
		s := w.nested.streams[first.Stream]
		grid := s.finalGrid()
		unit := grid.unit() / grid.chunkRows
		n := 1
		for n < len(pieces) && pieces[n].Column == first.Column && pieces[n].Stream == first.Stream && pieces[n].Chunk/unit == first.Chunk/unit {
			n++
		}
		joined := pieces[:n]
		pieces = pieces[n:]
		group.Go(func() error {
			if err := h.joinUnit(groupCtx, s, grid, joined); err != nil {
				return partErrorf(partOf(err, PartOutput), "column %q: %s: %w", w.column.field.Name, s.name, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return markPart(PartOutput, flushStore(ctx, h.store))
}

// joinUnit writes the chunks of one shard, or one chunk, from their pieces.
func (h *hierarchyWriter) joinUnit(ctx context.Context, s *arrayStream, grid rowGrid, pieces []storedPiece) error {
	array, err := arrayBuilder{writer: h.writer, grid: grid}.newArray(h.layout.path(s.sink.writer, s.name), s.metadata(grid))
	if err != nil {
		return err
	}
	for len(pieces) > 0 && err == nil {
		chunk := pieces[0].Chunk
		rows := min(grid.chunkRows, s.length-chunk*grid.chunkRows)
		elements := slices.Repeat(s.fillUnit(), int(rows))
		for len(pieces) > 0 && pieces[0].Chunk == chunk && err == nil {
			err = s.loadPiece(ctx, h.documents, pieces[0], elements)
			pieces = pieces[1:]
		}
		if err == nil {
			err = s.writeChunk(ctx, array, chunk, elements)
		}
	}
	if err != nil {
		array.abort()
		return err
	}
	return array.finish(ctx)
}

// loadPiece reads a piece to its place among the elements of its chunk.
func (s *arrayStream) loadPiece(ctx context.Context, from store.Store, p storedPiece, elements []byte) error {
	value, err := from.Get(ctx, p.key(p.folder), store.Range{})
	if err != nil {
		return err
	}
	if p.From < 0 || p.Count < 0 || int64(len(value)) != p.Count*s.width || (p.From+p.Count)*s.width > int64(len(elements)) {
		return fmt.Errorf("piece %s: %d bytes for %d elements from %d on, in a chunk of %d: %w", p.key(p.folder), len(value), p.Count, p.From, int64(len(elements))/s.width, arrowdata.ErrMalformed)
	}
	copy(elements[p.From*s.width:], value)
	return nil
}

// writeChunk writes elements as a chunk of an array.
func (s *arrayStream) writeChunk(ctx context.Context, array *arrayWriter, chunk int64, elements []byte) error {
	values, err := s.values(elements)
	if err != nil {
		return err
	}
	defer values.Release()
	return arrayChunk{array, chunk, values}.write(ctx)
}

// Finalize makes the output of the partitions that RunPartition has written: it joins the
// chunks of which several partitions have a part, and writes the metadata, the root's
// last. It is an error if partitions are missing; the error names them.
//
// Of the options only Jobs, MaxMemory, StoreConcurrency and Progress count.
func Finalize(ctx context.Context, output string, options Options) (*Report, error) {
	start := time.Now()
	t, planned, err := openPlanned(ctx, output)
	if err != nil {
		return nil, err
	}
	c := &conversion{target: t, plan: planned, input: planned.Input, format: planned.Format}
	p, err := c.finalizeAlone(ctx, options)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err = errors.Join(err, c.close()); err != nil {
		return nil, err
	}
	return c.report(p, time.Since(start)), nil
}

// finalizeAlone finalizes and publishes the output. In a directory, two processes would
// delete the files of each other. In an object store they write the same objects.
func (c *conversion) finalizeAlone(ctx context.Context, options Options) (p *pipeline, err error) {
	t := c.target
	if t.renames() {
		lock, failed := lockPlan(t.staging)
		switch {
		case errors.Is(failed, fs.ErrNotExist):
			return nil, noPlan(t.location)
		case errors.Is(failed, errLocked):
			return nil, partErrorf(PartOutput, "%s is being finalized by another process, in %s", t.location, t.staging)
		case failed != nil:
			return nil, markPart(PartOutput, failed)
		}
		defer func() { err = errors.Join(err, lock.release()) }()
	}
	if p, err = c.finalizePartitions(ctx, options); err != nil {
		return nil, err
	}
	return p, t.publish(ctx)
}

func (c *conversion) finalizePartitions(ctx context.Context, options Options) (_ *pipeline, err error) {
	options.Device = nil
	if c.options, err = options.withPlan(c.plan).withDefaults(); err != nil {
		return nil, err
	}
	if c.target.renames() {
		if err := c.target.checkLocalOutput(ctx, c.plan.Overwrite); err != nil {
			return nil, markPart(PartOutput, err)
		}
	}
	if c.schema, err = parseSchema(c.plan.Schema); err != nil {
		return nil, partErrorf(PartOutput, "the schema of the plan: %w", err)
	}
	if c.chosen, err = chooseColumns(c.schema, c.options.ofColumns(c.schema)); err != nil {
		return nil, err
	}
	done, err := doneParts(ctx, c.target)
	if err != nil {
		return nil, markPart(PartOutput, err)
	}
	n := len(c.plan.Partitions)
	if missing := missingParts(done, n); len(missing) > 0 {
		return nil, partErrorf(PartOutput, "%s: of %d partitions, %s are not written", c.target.location, n, numberRanges(missing))
	}
	state, pieces, err := c.joinResults(ctx)
	if err != nil {
		return nil, markPart(PartOutput, err)
	}
	p, err := c.newPipeline(ctx, segment{grid: state.grid(), state: state, categories: c.plan.Categories, complete: true})
	if err != nil {
		return nil, err
	}
	defer p.release()
	return p, p.finalize(ctx, c.schema, pieces)
}

// ofColumns returns the options for a schema of the columns that they have chosen.
func (o Options) ofColumns(schema *arrow.Schema) Options {
	o.Columns, o.Exclude = nil, nil
	o.ColumnCodecs = maps.Clone(o.ColumnCodecs)
	maps.DeleteFunc(o.ColumnCodecs, func(name string, _ Codec) bool { return !schema.HasField(name) })
	return o
}

// joinResults returns the state after all partitions, and their pieces.
func (c *conversion) joinResults(ctx context.Context) (*tableState, []storedPiece, error) {
	n := len(c.plan.Partitions)
	results := make([]*partitionResult, n)
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(c.options.StoreConcurrency)
	for number := range results {
		group.Go(func() (err error) {
			results[number], err = c.readResult(groupCtx, number)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, nil, err
	}
	state := &tableState{
		Rows: c.plan.Partitions[n-1].To, ChunkRows: c.plan.ChunkRows, ShardRows: c.plan.ShardRows,
		Columns: make([]columnState, len(c.chosen.columns)),
	}
	var pieces []storedPiece
	for number, r := range results {
		if len(r.Missing) != len(state.Columns) {
			return nil, nil, fmt.Errorf("%s has %d columns, expected %d: %w", resultKey(number), len(r.Missing), len(state.Columns), arrowdata.ErrMalformed)
		}
		state.RawBytes += r.RawBytes
		state.Stored += r.Stored
		for i := range state.Columns {
			s := &state.Columns[i]
			s.Missing, s.ElementMissing = s.Missing || r.Missing[i], s.ElementMissing || r.Elements[i]
			s.Nested, s.Codecs = c.plan.End[i], c.plan.codecs(i)
		}
		for _, p := range r.Pieces {
			pieces = append(pieces, storedPiece{p, piecesFolder(number)})
		}
	}
	return state, pieces, nil
}
