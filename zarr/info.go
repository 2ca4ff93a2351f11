package zarr

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/internal/grid"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// Info describes an array and what of it is stored.
type Info struct {
	Metadata *ArrayMetadata
	// Store names the store.
	Store string
	// ReadOnly means that the array was opened with [ModeRead].
	ReadOnly bool
	// InnerChunk is the shape of the chunks in a shard; nil if the array is not sharded.
	InnerChunk []int64
	// Bytes is the size of all elements; 0 for elements of variable length.
	Bytes int64
	// StoredBytes is the size of all values below the path of the array, metadata
	// included.
	StoredBytes int64
	// Chunks is the number of chunks along each axis, or of shards.
	Chunks []int64
	// StoredChunks is the number of those that are stored. The others have the fill
	// value.
	StoredChunks int64
}

// Info lists the values of the array. It returns an error wrapping errors.ErrUnsupported
// if the store cannot list.
func (a *Array) Info(ctx context.Context) (*Info, error) {
	fail := func(err error) (*Info, error) {
		return nil, fmt.Errorf("zarr.Array.Info: array %q: %w", a.path, err)
	}
	info := &Info{Metadata: a.Metadata(), Store: nameOf(a.store), ReadOnly: a.readOnly}
	if layout, ok := a.chain.ShardLayout(); ok {
		info.InnerChunk = layout.ChunkShape()
	}
	var err error
	if info.Bytes, err = grid.ByteSize(info.Metadata.Shape, a.dataType.Size()); err != nil {
		return fail(err)
	}
	if info.Chunks, err = a.chunkGrid().Counts(info.Metadata.Shape); err != nil {
		return fail(err)
	}
	if info.StoredBytes, err = store.TotalSize(ctx, a.store, a.path); err != nil {
		return fail(err)
	}
	stored, err := a.storedChunks(ctx)
	if err != nil {
		return fail(err)
	}
	for _, index := range stored {
		if isBelow(index, info.Chunks) {
			info.StoredChunks++
		}
	}
	return info, nil
}

// String returns the description in one line per property.
func (i *Info) String() string {
	var out strings.Builder
	line := func(name string, value any) { fmt.Fprintf(&out, "%-14s: %v\n", name, value) }
	m := i.Metadata
	line("Zarr format", formatOf(m))
	line("Data type", m.DataType)
	line("Fill value", fillText(m))
	line("Shape", m.Shape)
	var shape any = m.ChunkShape
	if slices.ContainsFunc(m.ChunkRuns, func(runs []ChunkRun) bool { return runs != nil }) {
		shape = "variable"
	}
	if i.InnerChunk != nil {
		line("Shard shape", shape)
		shape = i.InnerChunk
	}
	line("Chunk shape", shape)
	line("Codecs", codecNames(m.Codecs))
	line("Store", i.Store)
	line("Read-only", i.ReadOnly)
	if i.Bytes > 0 {
		line("Bytes", i.Bytes)
	}
	line("Stored bytes", i.StoredBytes)
	if i.Bytes > 0 && i.StoredBytes > 0 {
		line("Storage ratio", fmt.Sprintf("%.1f", float64(i.Bytes)/float64(i.StoredBytes)))
	}
	line("Stored chunks", fmt.Sprintf("%d of %v", i.StoredChunks, i.Chunks))
	return out.String()
}

// fillText returns the fill value as metadata have it.
func fillText(m *ArrayMetadata) string {
	fill := m.FillValue
	if fill == nil {
		fill = m.DataType.DefaultFill()
	}
	text, err := m.DataType.FormatFill(fill)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// codecNames returns the names of codecs, of those in shards in parentheses.
func codecNames(list codec.List) string {
	names := make([]string, len(list))
	for i, c := range list {
		names[i] = c.Name()
		if shards, ok := c.(codec.Sharding); ok {
			names[i] += " (" + codecNames(shards.Codecs) + ")"
		}
	}
	return strings.Join(names, ", ")
}

// nameOf returns the text of a store, or its type if it has none.
func nameOf(s store.Store) string {
	if named, ok := s.(fmt.Stringer); ok {
		return named.String()
	}
	return fmt.Sprintf("%T", s)
}

// GroupInfo describes a group and counts all nodes below it.
type GroupInfo struct {
	Metadata *GroupMetadata
	// Path is that of the group in its store.
	Path string
	// Store names the store.
	Store string
	// ReadOnly means that the group was opened with [ModeRead].
	ReadOnly bool
	// Arrays, Groups and Unreadable are the numbers of nodes of each kind below the group.
	Arrays, Groups, Unreadable int
}

// Info counts the nodes below the group. It uses consolidated metadata if the group has it.
func (g *Group) Info(ctx context.Context) (*GroupInfo, error) {
	info := &GroupInfo{Metadata: g.Metadata(), Path: g.path, Store: nameOf(g.store), ReadOnly: g.readOnly}
	for child, err := range g.Members(ctx, 0) {
		if err != nil {
			return nil, fmt.Errorf("zarr.Group.Info: %w", err)
		}
		switch child.Node.(type) {
		case *ArrayMetadata:
			info.Arrays++
		case *GroupMetadata:
			info.Groups++
		default:
			info.Unreadable++
		}
	}
	return info, nil
}

// String returns the description in one line per property.
func (i *GroupInfo) String() string {
	var out strings.Builder
	line := func(name string, value any) { fmt.Fprintf(&out, "%-14s: %v\n", name, value) }
	line("Path", "/"+i.Path)
	line("Zarr format", formatOf(i.Metadata))
	line("Store", i.Store)
	line("Read-only", i.ReadOnly)
	line("Consolidated", i.Metadata.Consolidated != nil)
	line("Arrays", i.Arrays)
	line("Groups", i.Groups)
	if i.Unreadable > 0 {
		line("Unreadable", i.Unreadable)
	}
	return out.String()
}
