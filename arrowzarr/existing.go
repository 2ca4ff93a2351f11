package arrowzarr

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// existingTable is a table to which rows are appended. The consolidated metadata of its
// root say what it is: they change at once, and last. Until then, what is written is of no
// effect:
//
//   - A chunk that is not full is written again, with the rows that it has. Readers of the
//     old metadata ignore the rest.
//   - An array of one chunk may get longer ones. They have other keys: c.0 instead of c/0,
//     or the reverse.
//   - A column of one array in which the first value is missing becomes a group. Its chunks
//     are copied there.
//
// The methods of a nil existingTable are those of a new output.
type existingTable struct {
	table      *Table
	attributes map[string]any       // of the root
	nodes      map[string]zarr.Node // all others
	grid       rowGrid              // of the rows; chunkRows is 0 if it is chosen again
	from       int64                // the first row that is written again
	rows       int64
	columns    []existingColumn
	load       [][]streamRange // by column: elements of streams that are written again
}

// existingColumn is what a table has of a column.
type existingColumn struct {
	name    string // of the node
	grouped bool   // it is a group of arrays
	// arrays are by name. Those that get another grid have other keys of chunks.
	arrays map[string]*zarr.ArrayMetadata
}

// openExisting returns the table in a store.
func openExisting(ctx context.Context, s store.Store, jobs int) (*existingTable, error) {
	group, err := zarr.OpenGroup(ctx, s, "")
	if err != nil {
		return nil, err
	}
	m := group.Metadata()
	text, ok := m.Attributes[attrSchema].(string)
	if !ok || m.Consolidated == nil {
		return nil, fmt.Errorf("a Zarr group without %s or without consolidated metadata: convert has not written it", attrSchema)
	}
	table, err := openConverted(group, text, jobs)
	if err != nil {
		return nil, err
	}
	if table.options, err = (TableOptions{Jobs: jobs}).withDefaults(); err != nil {
		return nil, err
	}
	t := &existingTable{table: table, attributes: m.Attributes, nodes: m.Consolidated, rows: table.rows}
	for _, c := range table.columns {
		column, err := t.column(c.column)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", c.column.field.Name, err)
		}
		t.columns = append(t.columns, column)
	}
	return t, t.setGrid()
}

// arrayNames returns the names that arrays of a column may have, by their paths below it.
func arrayNames(c *column) map[string]string {
	names := map[string]string{}
	switch c.kind {
	case kindNested:
		_ = newNodeWriter(c.nested, nil, nil).streams(func(s *arrayStream) error { // the function returns no error
			names[s.name] = s.name
			return nil
		})
	case kindDictionary:
		names["codes"], names[arrayCategories] = arrayValues, arrayCategories
	default:
		for _, name := range []string{arrayValues, arrayMask, arrayElements} {
			names[name] = name
		}
	}
	return names
}

func (t *existingTable) column(c *column) (existingColumn, error) {
	e := existingColumn{name: c.name, arrays: map[string]*zarr.ArrayMetadata{}}
	add := func(path, name string) error {
		m, ok := t.nodes[path].(*zarr.ArrayMetadata)
		if !ok {
			return nil
		}
		if m.Format == 2 || m.ChunkRuns != nil || len(m.Shape) == 0 {
			return fmt.Errorf("%s: Zarr format 2, chunks of different lengths or no axis, which convert does not write", path)
		}
		e.arrays[name] = m
		return nil
	}
	switch node := t.nodes[c.name].(type) {
	case *zarr.ArrayMetadata:
		return e, add(c.name, arrayValues)
	case *zarr.GroupMetadata:
		e.grouped = true
	default:
		return e, fmt.Errorf("%s is %T, expected an array or a group: %w", c.name, node, arrowdata.ErrMalformed)
	}
	for path, name := range arrayNames(c) {
		if err := add(c.name+"/"+path, name); err != nil {
			return e, err
		}
	}
	return e, nil
}

// setGrid finds how the rows are divided, and which are written again.
func (t *existingTable) setGrid() error {
	t.from = t.rows
	found := false
	for i, c := range t.table.columns {
		if c.column.kind == kindNested {
			continue
		}
		for name, m := range t.columns[i].arrays {
			if name == arrayCategories {
				continue
			}
			grid := gridOf(m)
			if found && grid != t.grid || m.Shape[0] != t.rows {
				return fmt.Errorf("column %q: %s has %d rows in chunks and shards of %+v, expected %d in %+v: %w", c.column.field.Name, name, m.Shape[0], grid, t.rows, t.grid, arrowdata.ErrMalformed)
			}
			t.grid, found = grid, true
		}
	}
	if found {
		t.from = t.rows / t.grid.unit() * t.grid.unit()
	}
	return nil
}

// gridOf returns how the first axis of an array is divided.
func gridOf(m *zarr.ArrayMetadata) rowGrid {
	g := rowGrid{chunkRows: chunkRowsOf(m)}
	if m.ChunkShape[0] != g.chunkRows || isSharded(m) {
		g.shardRows = m.ChunkShape[0]
	}
	return g
}

func isSharded(m *zarr.ArrayMetadata) bool {
	if len(m.Codecs) != 1 {
		return false
	}
	_, ok := m.Codecs[0].(codec.Sharding)
	return ok
}

// isOneChunk reports whether an array of a length has exactly one chunk, as short arrays
// have.
func isOneChunk(g rowGrid, length int64) bool {
	return g.shardRows == 0 && max(length, 1) == g.chunkRows
}

// chooseGrid makes the rows of a table of one chunk get the grid that convert would choose,
// or chunks of a number of rows.
func (t *existingTable) chooseGrid(chunkRows int64) error {
	if chunkRows == t.grid.chunkRows || t.grid.chunkRows == 0 {
		return nil
	}
	if !isOneChunk(t.grid, t.rows) {
		if chunkRows > 0 {
			return partErrorf(PartUsage, "chunk rows: %d, but the table has several chunks of %d", chunkRows, t.grid.chunkRows)
		}
		return nil
	}
	t.grid.chunkRows, t.from = chunkRows, 0
	for i, c := range t.table.columns {
		if c.column.kind == kindNested {
			continue
		}
		for name, m := range t.columns[i].arrays {
			t.columns[i].arrays[name] = withOtherKeys(m)
		}
	}
	return nil
}

// withOtherKeys returns metadata whose chunks have keys that those of m cannot have.
func withOtherKeys(m *zarr.ArrayMetadata) *zarr.ArrayMetadata {
	other := *m
	other.ChunkKeyEncoding = otherKeys(m.ChunkKeyEncoding)
	return &other
}

func otherKeys(k zarr.ChunkKeyEncoding) zarr.ChunkKeyEncoding {
	if k.V2 || k.Suffix != "" || k.Separator == "." {
		return zarr.ChunkKeyEncoding{Separator: "/"}
	}
	return zarr.ChunkKeyEncoding{Separator: "."}
}

// reuse returns the metadata of an array of a column, which are those of a new one or of
// the one that exists.
func (t *existingTable) reuse(column int, name string, fresh *zarr.ArrayMetadata) *zarr.ArrayMetadata {
	if t == nil {
		return fresh
	}
	return reuseMetadata(t.columns[column].arrays[name], fresh)
}

// reuseMetadata returns the metadata of an existing array with the shape and the grid of a
// new one. It returns the new one's if the other is nil.
func reuseMetadata(existing, fresh *zarr.ArrayMetadata) *zarr.ArrayMetadata {
	if existing == nil {
		return fresh
	}
	m := *existing
	m.Shape, m.ChunkShape = fresh.Shape, fresh.ChunkShape
	if isSharded(fresh) && !isSharded(existing) {
		sharding := fresh.Codecs[0].(codec.Sharding)
		sharding.Codecs = existing.Codecs
		m.Codecs = codec.List{sharding}
	}
	return &m
}

// storedUnits returns the number of chunks, or of shards, of an array that are stored under
// the keys of m.
func (t *existingTable) storedUnits(path string, m *zarr.ArrayMetadata) int64 {
	if t == nil {
		return 0
	}
	old, ok := t.nodes[path].(*zarr.ArrayMetadata)
	if !ok || old.ChunkKeyEncoding != m.ChunkKeyEncoding {
		return 0
	}
	return (old.Shape[0] + old.ChunkShape[0] - 1) / old.ChunkShape[0]
}

func (t *existingTable) copyNodes() map[string]zarr.Node {
	if t == nil {
		return map[string]zarr.Node{}
	}
	return maps.Clone(t.nodes)
}

// ownAttributes are the attributes that convert may write.
var ownAttributes = []string{
	attrSchema, attrRows, attrType, attrName, attrColumns, attrOrder, attrEncType, attrEncVer, attrIndex,
	"timezone", "precision", "scale", "ordered", "permutation", "na-value", "form", "length",
}

// keep returns the attributes of a node with those that others have added to it.
func (t *existingTable) keep(path string, attributes map[string]any) map[string]any {
	if t == nil {
		return attributes
	}
	switch node := t.nodes[path].(type) {
	case *zarr.ArrayMetadata:
		return mergeAttributes(node.Attributes, attributes)
	case *zarr.GroupMetadata:
		return mergeAttributes(node.Attributes, attributes)
	}
	return attributes
}

// keepRoot is keep for the root.
func (t *existingTable) keepRoot(attributes map[string]any) map[string]any {
	if t == nil {
		return attributes
	}
	return mergeAttributes(t.attributes, attributes)
}

func mergeAttributes(old, own map[string]any) map[string]any {
	merged := maps.Clone(own)
	for name, value := range old {
		if slices.Contains(ownAttributes, name) {
			continue
		}
		if merged == nil {
			merged = map[string]any{}
		}
		merged[name] = value
	}
	return merged
}

// reuseCategories reports whether the categories of a dictionary column are stored already.
// Otherwise m gets the codecs of those that are, and other keys.
func (t *existingTable) reuseCategories(path string, m *zarr.ArrayMetadata) bool {
	if t == nil {
		return false
	}
	old, ok := t.nodes[path].(*zarr.ArrayMetadata)
	if !ok || old.Shape[0] == m.Shape[0] {
		return ok
	}
	m.Codecs, m.ChunkKeyEncoding, m.Attributes = old.Codecs, otherKeys(old.ChunkKeyEncoding), t.keep(path, m.Attributes)
	return false
}

// reuseIndex gives the row numbers the codecs of those that are stored, and returns the
// first that is written again.
func (t *existingTable) reuseIndex(path string, m *zarr.ArrayMetadata) int64 {
	if t == nil {
		return 0
	}
	old, ok := t.nodes[path].(*zarr.ArrayMetadata)
	if !ok {
		return 0
	}
	m.Codecs, m.ChunkKeyEncoding, m.Attributes = old.Codecs, old.ChunkKeyEncoding, t.keep(path, m.Attributes)
	if old.ChunkShape[0] != m.ChunkShape[0] {
		m.ChunkKeyEncoding = otherKeys(old.ChunkKeyEncoding)
		return 0
	}
	return old.Shape[0] / m.ChunkShape[0] * m.ChunkShape[0]
}

// dropIndex deletes the row numbers from the nodes, if the table is a data frame no more.
func (t *existingTable) dropIndex(nodes map[string]zarr.Node) {
	if t == nil {
		return
	}
	index, ok := t.attributes[attrIndex].(string)
	if ok && !slices.ContainsFunc(t.columns, func(c existingColumn) bool { return c.name == index }) {
		delete(nodes, index)
	}
}

// skipRows returns slices of rows, of which the first is row start, without those that
// nested columns have.
func (t *existingTable) skipRows(slices []columnSlice, start int64) []columnSlice {
	if t == nil {
		return slices
	}
	for skip := t.rows - start; skip > 0 && len(slices) > 0; {
		n := min(skip, slices[0].rows())
		slices[0].from += n
		skip -= n
		if slices[0].rows() == 0 {
			slices = slices[1:]
		}
	}
	return slices
}

// documentWrites is the number of metadata documents that are written at once, and of
// chunks that are copied.
const documentWrites = 16

// copyChunks copies the chunks of an array to another path.
func (h *hierarchyWriter) copyChunks(ctx context.Context, from, to string, m *zarr.ArrayMetadata) error {
	keys, err := h.documents.List(ctx, from)
	if err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(documentWrites)
	for _, key := range keys {
		rest := strings.TrimPrefix(key, from+"/")
		if !isStoredChunk(m, rest) {
			continue
		}
		group.Go(func() error {
			value, err := h.documents.Get(groupCtx, key, store.Range{})
			if err != nil {
				return err
			}
			return h.documents.Set(groupCtx, to+"/"+rest, value)
		})
	}
	return group.Wait()
}

// isStoredChunk reports whether a key below an array is that of one of its chunks.
func isStoredChunk(m *zarr.ArrayMetadata, key string) bool {
	index, ok := m.ChunkKeyEncoding.Index(key, len(m.Shape))
	for i, at := range index {
		ok = ok && at < (m.Shape[i]+m.ChunkShape[i]-1)/m.ChunkShape[i]
	}
	return ok
}

// paths returns the paths of all arrays that the table may have, and of its groups.
func (t *existingTable) paths() []string {
	var paths []string
	for _, c := range t.table.columns {
		paths = append(paths, c.column.name)
		for path := range arrayNames(c.column) {
			paths = append(paths, c.column.name+"/"+path)
		}
	}
	if index, ok := t.attributes[attrIndex].(string); ok && !slices.Contains(paths, index) {
		paths = append(paths, index)
	}
	return paths
}

// restore deletes what an append has written that did not end, and what one has left that
// did: all chunks that are not of the table that the root says. It writes the metadata of
// the nodes again.
func (t *existingTable) restore(ctx context.Context, s store.Store) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(documentWrites)
	for _, path := range t.paths() {
		group.Go(func() error {
			if node := t.nodes[path]; node != nil {
				if err := zarr.WriteNode(groupCtx, s, path, node); err != nil {
					return err
				}
			}
			return t.deleteStale(groupCtx, s, path)
		})
	}
	return group.Wait()
}

// deleteStale deletes the chunks at a path that are not of the array there, and the
// document if there is no node.
func (t *existingTable) deleteStale(ctx context.Context, s store.Store, path string) error {
	if t.nodes[path] == nil {
		if err := s.Delete(ctx, path+"/zarr.json"); err != nil {
			return err
		}
	}
	keys, err := s.List(ctx, path)
	if err != nil {
		return err
	}
	m, isArray := t.nodes[path].(*zarr.ArrayMetadata)
	var failed error
	for _, key := range keys {
		rest := strings.TrimPrefix(key, path+"/")
		if chunkKey.MatchString(rest) && !t.isOfMember(key, path) && !(isArray && isStoredChunk(m, rest)) {
			failed = errors.Join(failed, s.Delete(ctx, key))
		}
	}
	return failed
}

// isOfMember reports whether a key is below a node that is below a path. The name of such a
// node may look like the index of a chunk.
func (t *existingTable) isOfMember(key, path string) bool {
	for end := strings.LastIndexByte(key, '/'); end > len(path); end = strings.LastIndexByte(key[:end], '/') {
		if t.nodes[key[:end]] != nil {
			return true
		}
	}
	return false
}

// changedPaths returns the paths whose chunks have other keys, or are copied, in what now
// replaces the table.
func (t *existingTable) changedPaths(now *existingTable) []string {
	var changed []string
	for path, node := range t.nodes {
		old, ok := node.(*zarr.ArrayMetadata)
		if !ok {
			continue
		}
		if m, ok := now.nodes[path].(*zarr.ArrayMetadata); !ok || m.ChunkKeyEncoding != old.ChunkKeyEncoding {
			changed = append(changed, path)
		}
	}
	return changed
}
