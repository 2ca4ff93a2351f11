package arrowzarr

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"golang.org/x/sync/errgroup"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress/blosc"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// The root opens as a table in two readers: anndata reads a data frame of the columns
// that pandas can hold, by attributes, and xarray a dataset, by the names of dimensions.

const (
	attrIndex     = "_index"
	rowNumbers    = "_index" // of the array of row numbers
	frameEncoding = "dataframe"
	frameVersion  = "0.2.0"
)

// nameDimensions gives the axes of all columns names: that of the rows one name, and each
// other a name of its own column, since a name must have one length in a group. A
// tensor's own names are used where that holds.
func nameDimensions(columns []*column) {
	taken := map[string]bool{}
	for _, c := range columns {
		taken[c.name] = true
	}
	row := uniqueName("row", taken, maxNameBytes)
	lengths := map[string]int64{}
	for _, c := range columns {
		c.dims = []string{row}
		var own []string
		if c.tensor != nil && len(c.tensor.DimNames()) == len(c.layout.row) {
			own = c.tensor.DimNames()
		}
		for i, n := range c.layout.row {
			name := fmt.Sprintf("%s_%d", c.name, i+1)
			if own != nil && own[i] != "" && own[i] != c.name && !slices.Contains(c.dims, own[i]) {
				if length, used := lengths[own[i]]; !used || length == n {
					name = own[i]
				}
			}
			lengths[name] = n
			c.dims = append(c.dims, name)
		}
	}
}

// fitsFrame reports whether pandas can hold the column as anndata reads it. Others
// would become NaN without an error, or make the whole frame fail.
func (c *column) fitsFrame(encoding string, missing bool) bool {
	switch {
	case c.kind == kindDictionary, c.kind == kindText:
		return encoding != ""
	case c.kind != kindFixed || len(c.layout.row) > 0:
		return false
	case missing:
		return encoding == "nullable-integer" || encoding == "nullable-boolean"
	}
	id := c.storage.ID()
	return isPlainArray(id) || c.layout.fill == natMin
}

// frameColumns returns the names of the columns that a data frame can hold, and the
// column that the pandas metadata of the schema names as the index; "" for none.
func (h *hierarchyWriter) frameColumns(schema *arrow.Schema) (order []string, index string) {
	order = []string{}
	wanted := pandasIndex(schema)
	for _, w := range h.columns {
		attributes := h.attributesOf(w.column.name)
		encoding, _ := attributes[attrEncType].(string)
		_, isGroup := h.nodes[w.column.name].(*zarr.GroupMetadata)
		if !w.column.fitsFrame(encoding, isGroup) {
			continue
		}
		order = append(order, w.column.name)
		if wanted != "" && w.column.field.Name == wanted && !isGroup {
			index = w.column.name
		}
	}
	return order, index
}

func (h *hierarchyWriter) attributesOf(path string) map[string]any {
	switch node := h.nodes[path].(type) {
	case *zarr.ArrayMetadata:
		return node.Attributes
	case *zarr.GroupMetadata:
		return node.Attributes
	}
	return nil
}

// pandasIndex returns the column that pandas stored its index in; "" for none, a range,
// or an index of several columns.
func pandasIndex(schema *arrow.Schema) string {
	text, ok := schema.Metadata().GetValue("pandas")
	if !ok {
		return ""
	}
	var pandas struct {
		Columns []any `json:"index_columns"`
	}
	if json.Unmarshal([]byte(text), &pandas) != nil || len(pandas.Columns) != 1 {
		return ""
	}
	name, _ := pandas.Columns[0].(string)
	return name
}

// frame adds the attributes of a data frame, and writes the array of row numbers if no
// column is the index. A group without columns for a frame is none.
func (h *hierarchyWriter) frame(ctx context.Context, schema *arrow.Schema, attributes map[string]any) error {
	order, index := h.frameColumns(schema)
	attributes[attrOrder] = order
	if len(order) == 0 || !h.index {
		h.existing.dropIndex(h.nodes)
		return nil
	}
	if index == "" {
		index = h.indexName()
		if err := h.writeIndex(ctx, index); err != nil {
			return fmt.Errorf("%s: %w", index, err)
		}
	}
	attributes[attrEncType], attributes[attrEncVer], attributes[attrIndex] = frameEncoding, frameVersion, index
	return nil
}

// indexName returns the name of the array of row numbers.
func (h *hierarchyWriter) indexName() string {
	taken := map[string]bool{}
	for _, w := range h.columns {
		taken[w.column.name] = true
	}
	return uniqueName(rowNumbers, taken, maxNameBytes)
}

// Row numbers are written in chunks of 1 MiB, when no other chunks are in memory.
// indexBytes is what a goroutine needs for one.
const indexChunkRows, indexBytes = 1 << 17, 4 << 20

// writeIndex writes the row numbers, unless writeIndexEarly has.
func (h *hierarchyWriter) writeIndex(ctx context.Context, name string) error {
	m := h.indexMetadata(h.rows)
	start := h.existing.reuseIndex(name, m)
	if h.numbered != h.rows {
		if h.numbered > 0 { // chunks of rows that there are not
			if err := store.DeleteAll(ctx, h.store, name); err != nil {
				return err
			}
		}
		jobs := int(min(int64(h.jobs), max(h.memory/indexBytes, 1)))
		if err := h.writeRowNumbers(ctx, name, m, start, jobs); err != nil {
			return err
		}
	}
	return h.node(ctx, name, m)
}

// writeIndexEarly writes the row numbers of an input of some rows while the columns are
// converted, by few goroutines: a GPU leaves processors idle.
func (h *hierarchyWriter) writeIndexEarly(ctx context.Context, rows int64, memory *chunkMemory) error {
	jobs := int(max(min(int64(h.jobs/4), memory.size/4/indexBytes), 1))
	held, err := memory.acquire(ctx, int64(jobs)*indexBytes, nil)
	if err != nil {
		return err
	}
	defer held.release()
	if err := h.writeRowNumbers(ctx, h.indexName(), h.indexMetadata(rows), 0, jobs); err != nil {
		return markPart(PartOutput, err)
	}
	h.numbered = rows
	return nil
}

// needsIndex reports whether it is known before the rows are that the root is a data frame
// of which row numbers are the index.
func (h *hierarchyWriter) needsIndex(schema *arrow.Schema) bool {
	return h.index && h.existing == nil && pandasIndex(schema) == "" && slices.ContainsFunc(h.columns, func(w *columnWriter) bool {
		for _, missing := range []bool{false, true} {
			if encoding, _ := w.column.encoding(missing); !w.column.fitsFrame(encoding, missing) {
				return false
			}
		}
		return true
	})
}

// indexMetadata returns the metadata of the row numbers. Shuffled, they take hardly any
// space.
func (h *hierarchyWriter) indexMetadata(rows int64) *zarr.ArrayMetadata {
	t := element.Of(ndview.Int64)
	return &zarr.ArrayMetadata{
		Shape: []int64{rows}, DataType: t, ChunkShape: []int64{max(min(rows, indexChunkRows), 1)}, DimensionNames: h.columns[0].column.dims[:1],
		Codecs:     zarr.DefaultCodecs(t, codec.Blosc{Compressor: blosc.LZ4, Level: 5, Shuffle: codec.BloscBytes, TypeSize: 8}),
		Attributes: map[string]any{attrEncType: "array", attrEncVer: "0.2.0"},
	}
}

// writeRowNumbers writes the chunks of an array of row numbers from a row on.
func (h *hierarchyWriter) writeRowNumbers(ctx context.Context, name string, m *zarr.ArrayMetadata, start int64, jobs int) error {
	array, err := zarr.New(h.store, name, m)
	if err != nil {
		return err
	}
	rows := m.ChunkShape[0]
	var next atomic.Int64 // chunk
	next.Store(start / rows)
	group, groupCtx := errgroup.WithContext(ctx)
	for range jobs {
		group.Go(func() error { return writeClaimedRows(groupCtx, array, &next, rows, m.Shape[0]) })
	}
	return group.Wait()
}

// writeClaimedRows writes the chunks of row numbers that no other goroutine has claimed, of
// some rows each and all in total.
func writeClaimedRows(ctx context.Context, array *zarr.Array, next *atomic.Int64, rows, all int64) error {
	buf, err := arrowbuf.CPU().Alloc(8 * rows)
	if err != nil {
		return err
	}
	defer buf.Release()
	raw, _ := arrowbuf.HostBytes(buf)
	numbers := arrow.Int64Traits.CastFromBytes(raw)
	for {
		chunk := next.Add(1) - 1
		n := min(rows, all-chunk*rows)
		if n <= 0 {
			return nil
		}
		for i := range numbers[:n] {
			numbers[i] = chunk*rows + int64(i)
		}
		values, err := ndview.FromBuffer(buf, ndview.Int64, 0, []int64{n}, nil)
		if err != nil {
			return err
		}
		err = array.WriteChunk(ctx, []int64{chunk}, values)
		values.Release()
		if err != nil {
			return err
		}
	}
}
