package zarr

import (
	"context"
	"fmt"
	"strings"

	"github.com/quiver-gpu/quiver/zarr/internal/grid"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// Info describes an array and what of it is stored.
type Info struct {
	Metadata *ArrayMetadata
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
	info := &Info{Metadata: a.Metadata()}
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
	line("Data type", m.DataType)
	line("Shape", m.Shape)
	line("Chunk shape", m.ChunkShape)
	names := make([]string, len(m.Codecs))
	for k, c := range m.Codecs {
		names[k] = c.Name()
	}
	line("Codecs", strings.Join(names, ", "))
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
