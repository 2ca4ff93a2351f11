package arrowzarr

import (
	"context"
	"errors"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// finish gives every array its place and writes the metadata, the root's last.
func (c *conversion) finish(ctx context.Context) error {
	h := hierarchy{conversion: c, nodes: map[string]zarr.Node{}}
	for _, w := range c.writers {
		if err := h.column(ctx, w); err != nil {
			return failedf(partOf(err, PartOutput), "column %q: %w", w.plan.name, err)
		}
	}
	if err := c.store.DeleteAll(ctx, c.building()); err != nil {
		return failed(PartOutput, err)
	}
	attributes, err := rootAttributes(selectFields(c.src.schema(), c.fields), c.columns, c.cutter.taken)
	if err != nil {
		return failed(PartOutput, err)
	}
	root := &zarr.GroupMetadata{Attributes: attributes, Consolidated: h.nodes}
	_, err = zarr.CreateGroup(ctx, c.store, "", root)
	return failed(PartOutput, err)
}

// hierarchy gathers the nodes of the output.
type hierarchy struct {
	*conversion
	nodes map[string]zarr.Node
}

// column writes a column's metadata, and moves its chunks there.
func (h *hierarchy) column(ctx context.Context, w *columnWriter) error {
	for _, a := range w.arrays() {
		if err := a.finish(ctx); err != nil {
			return err
		}
	}
	missing := w.missing.Load() || w.plan.form == formNull
	attributes := w.plan.attributes(missing || w.elementGap.Load())
	name := w.plan.name
	if w.plan.form == formDictionary {
		if !w.categories.isIndex() {
			delete(attributes, attrEncType)
			delete(attributes, attrEncVer)
		}
		return errors.Join(
			h.group(ctx, name, attributes),
			h.array(ctx, w.values, name+"/codes", nil),
			h.categories(ctx, w.categories, name+"/categories"))
	}
	if !missing && !w.elementGap.Load() {
		return h.array(ctx, w.values, name, attributes)
	}
	err := errors.Join(h.group(ctx, name, attributes), h.array(ctx, w.values, name+"/values", nil))
	if missing {
		err = errors.Join(err, h.array(ctx, w.mask, name+"/mask", nil))
	}
	if w.elementGap.Load() {
		err = errors.Join(err, h.array(ctx, w.elements, name+"/element_mask", nil))
	}
	return err
}

func (h *hierarchy) group(ctx context.Context, at string, attributes map[string]any) error {
	m := &zarr.GroupMetadata{Attributes: attributes}
	h.nodes[at] = m
	_, err := zarr.CreateGroup(ctx, h.store, at, m)
	return err
}

// array moves the chunks of an array to its place and writes its metadata.
func (h *hierarchy) array(ctx context.Context, w *arrayWriter, at string, attributes map[string]any) error {
	m := w.array.Metadata()
	m.Shape = append([]int64{h.cutter.taken}, m.Shape[1:]...)
	m.Attributes = attributes
	// An array of fill values has no chunks to move.
	if err := h.store.Move(ctx, w.array.Path(), at); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	h.nodes[at] = m
	_, err := zarr.Create(ctx, h.store, at, m)
	return err
}

// categories writes the values of a dictionary column.
func (h *hierarchy) categories(ctx context.Context, g *categories, at string) error {
	plan, err := planColumn(categoriesField(g.column.kind.(*arrow.DictionaryType)))
	if err != nil {
		return err
	}
	m := &zarr.ArrayMetadata{
		Shape:      append([]int64{g.count}, plan.layout.row...),
		DataType:   plan.dataType(),
		ChunkShape: chunkShape(max(min(g.count, DefaultChunkRows), 1), plan.layout.row),
		Codecs:     zarr.DefaultCodecs(plan.dataType(), h.options.Codec.codecs()...),
	}
	m.Attributes = plan.attributes(false)
	array, err := zarr.Create(ctx, h.store, at, m)
	if err != nil {
		return err
	}
	h.nodes[at] = m
	if g.count == 0 {
		return nil
	}
	parts := make([]part, len(g.pieces))
	for i, p := range g.pieces {
		parts[i] = part{values: p, to: int64(p.Len())}
	}
	a := assembler{device: h.deviceOf(g.column), kernels: &h.stages.kernels}
	made, err := a.assemble(plan, parts, g.count)
	if err != nil {
		return err
	}
	defer made.release()
	return array.Write(ctx, made.values, h.options.Jobs)
}

// abort drops shards that are open, and what is held.
func (c *conversion) abort() {
	for _, w := range c.writers {
		for _, a := range w.arrays() {
			a.abort()
		}
	}
}

// close gives back what the conversion took.
func (c *conversion) close() error {
	for _, w := range c.writers {
		if w.categories != nil {
			w.categories.release()
		}
	}
	if c.reading == nil {
		return c.src.close()
	}
	select {
	case <-c.reading.stopped:
		return c.src.close()
	default:
	}
	if c.src.interrupt() {
		<-c.reading.stopped
		return c.src.close()
	}
	go func() { // that a pipe which nobody waits for cannot be closed is no failure
		<-c.reading.stopped
		_ = c.src.close()
	}()
	return nil
}
