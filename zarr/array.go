package zarr

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/internal/grid"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// Array is an array in a store. Its methods may be called concurrently. Of two writes
// to the same chunk one happens after the other, whole, but only if both use the same
// Array: two of them, or two processes, must not write to one chunk at once. The
// exported fields must not change after the first call.
//
// An Array caches the indices of shards that it has read in part, at most 16 MiB of
// them. Replacing a shard by another Array or program makes no read wrong: a chunk counts
// only if the shard still had the version of the index or, in a store without versions, if the
// cached index is the same after the chunk was read. This holds for stores that replace values
// whole, as all stores of package store do. Without versions, a shard must not be replaced
// between the first read of its index and that of a chunk. A shard that another program
// overwrites in place may be read wrong while that goes on.
type Array struct {
	// WriteEmptyChunks also stores chunks whose elements all equal the fill value. By
	// default they are omitted.
	WriteEmptyChunks bool
	// RequireChunks makes it an error to read a chunk that is not stored, or a shard of a
	// sharded array. The error wraps store.ErrNotFound. By default such chunks have the fill
	// value, as chunks that a stored shard lacks always have.
	RequireChunks bool
	// ChunkCache is the most memory in bytes for decoded chunks that were read in part; 0
	// caches none. Of a chunk in zstd or Blosc the first read decodes no more than up to the
	// part, and a later one that needs more the whole. A cached chunk counts only while the store returns the version that its
	// value had, so it has an effect only on a store.RangeReader with versions.
	ChunkCache int64
	// Trace, if not nil, receives the duration of each stage of writing.
	Trace *Trace
	// Stats, if not nil, counts the chunks that codecs encode and decode, and where.
	Stats *codec.Stats

	store       store.Store
	path        string
	readOnly    bool
	dataType    element.Type
	chunkShape  []int64 // the largest along each axis, if the grid is rectilinear
	regular     bool    // all chunks have chunkShape
	keyEncoding ChunkKeyEncoding
	chain       *codec.Chain // of chunks of chunkShape
	chains      sync.Map     // of chunks of other shapes: *codec.Chain by the shape's text
	writing     keyedMutex   // by chunk key
	shards      shardCache
	chunks      chunkCache

	resizing sync.Mutex                // of Resize and Append
	grid     atomic.Pointer[grid.Grid] // which Resize may extend
	mu       sync.Mutex
	meta     ArrayMetadata
}

// New returns an array without accessing the store. Chunks can be written before the
// metadata is, even while the shape is unknown; see [Array.WriteMetadata]. It returns an
// error wrapping [ErrInvalidName] if path is invalid.
func New(s store.Store, path string, meta *ArrayMetadata) (*Array, error) {
	if meta == nil {
		return nil, fmt.Errorf("zarr.New: array %q: nil metadata", path)
	}
	if s == nil {
		return nil, fmt.Errorf("zarr.New: array %q: %w", path, errNilStore)
	}
	if err := checkPath(path); err != nil {
		return nil, err
	}
	chain, err := meta.compile()
	if err != nil {
		return nil, fmt.Errorf("array %q: %w", path, err)
	}
	chunks, err := meta.grid()
	if err != nil {
		return nil, fmt.Errorf("array %q: %w", path, err)
	}
	_, regular := chunks.Regular()
	a := &Array{regular: regular, store: s, path: path, dataType: meta.DataType, chunkShape: slices.Clone(meta.ChunkShape),
		keyEncoding: meta.ChunkKeyEncoding, chain: chain, meta: *meta}
	a.grid.Store(&chunks)
	return a, nil
}

// chunkGrid returns the chunk grid, which covers the shape of the array and all earlier
// shapes.
func (a *Array) chunkGrid() grid.Grid { return *a.grid.Load() }

// Path returns the path of the array in its store.
func (a *Array) Path() string { return a.path }

// Metadata returns a shallow copy of the metadata. The caller must not modify the
// slices and maps in it.
func (a *Array) Metadata() *ArrayMetadata {
	a.mu.Lock()
	defer a.mu.Unlock()
	meta := a.meta
	return &meta
}

// Shape returns the number of elements along each axis. The caller must not modify it.
func (a *Array) Shape() []int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.meta.Shape
}

// WriteMetadata writes the metadata document of the array. Arrays of [New] need it;
// other methods that change the metadata write it themselves.
func (a *Array) WriteMetadata(ctx context.Context) error {
	return a.update(ctx, func(*ArrayMetadata) {})
}

// SetAttributes replaces the attributes and writes the metadata.
func (a *Array) SetAttributes(ctx context.Context, attributes map[string]any) error {
	return a.update(ctx, func(m *ArrayMetadata) { m.Attributes = attributes })
}

// UpdateAttributes sets some attributes, keeps the others and writes the metadata.
func (a *Array) UpdateAttributes(ctx context.Context, attributes map[string]any) error {
	return a.update(ctx, func(m *ArrayMetadata) { m.Attributes = mergedAttributes(m.Attributes, attributes) })
}

func mergedAttributes(old, changes map[string]any) map[string]any {
	merged := map[string]any{}
	maps.Copy(merged, old)
	maps.Copy(merged, changes)
	return merged
}

// update changes a copy of the metadata and keeps it if the store has accepted it.
func (a *Array) update(ctx context.Context, change func(*ArrayMetadata)) error {
	if err := a.checkWritable(); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	meta := a.meta
	change(&meta)
	if err := meta.Check(); err != nil {
		return fmt.Errorf("array %q: %w", a.path, err)
	}
	chunks, err := meta.grid()
	if err != nil {
		return fmt.Errorf("array %q: %w", a.path, err)
	}
	if err := writeNode(ctx, a.store, a.path, &meta); err != nil {
		return err
	}
	a.grid.Store(&chunks) // before the shape that it covers
	a.meta = meta
	return nil
}

// Resize changes the shape, whose number of axes stays the same, and writes the
// metadata. Chunks wholly outside the new shape are deleted. The stored elements of
// other chunks stay, even those outside the new shape, until the chunk is written. New
// elements in new chunks have the fill value. If the chunks of a rectilinear grid end
// before the new shape, one chunk is added that covers the rest, as in zarr-python.
func (a *Array) Resize(ctx context.Context, shape ...int64) error {
	a.resizing.Lock()
	defer a.resizing.Unlock()
	return a.resize(ctx, shape)
}

func (a *Array) resize(ctx context.Context, shape []int64) error {
	meta := a.Metadata()
	meta.setShape(shape)
	if err := errors.Join(a.checkWritable(), meta.Check()); err != nil {
		return fmt.Errorf("zarr.Array.Resize: array %q: %w", a.path, err)
	}
	// Deleting first: a failure must not leave chunks that a later growth would show.
	if err := a.deleteOutside(ctx, meta); err != nil {
		return fmt.Errorf("zarr.Array.Resize: array %q: %w", a.path, err)
	}
	return a.update(ctx, func(m *ArrayMetadata) { m.setShape(meta.Shape) })
}

// maxProbes is the number of chunks that Resize deletes without asking which are
// stored. A listing of the array costs about as much.
const maxProbes = 1000

// deleteOutside deletes the chunks that are wholly outside the shape of new metadata.
func (a *Array) deleteOutside(ctx context.Context, meta *ArrayMetadata) error {
	old, err := a.chunkGrid().Counts(a.Shape())
	if err != nil {
		return err
	}
	chunks, err := meta.grid()
	if err != nil {
		return err
	}
	kept, err := chunks.Counts(meta.Shape)
	if err != nil {
		return err
	}
	var indices [][]int64
	if n, err := grid.ByteSize(old, 1); err != nil || n-grid.Size(minima(old, kept)) > maxProbes {
		indices, err = a.storedChunks(ctx)
		if err != nil {
			return err
		}
		indices = slices.DeleteFunc(indices, func(index []int64) bool { return isBelow(index, kept) })
	} else {
		indices = indicesOutside(old, kept)
	}
	return forEachParallel(ctx, a.goroutines(0, 0, 0), slices.Values(indices), func(ctx context.Context, index []int64) error {
		return a.deleteChunk(ctx, index)
	})
}

// indicesOutside returns the indices below old that are not below kept along all axes. It
// visits no others: there may be any number of them.
func indicesOutside(old, kept []int64) [][]int64 {
	var indices [][]int64
	box := slices.Clone(old) // below kept along the axes before axis
	for axis := range box {
		if box[axis] = old[axis] - kept[axis]; box[axis] > 0 {
			for index := range grid.Indices(box) {
				index[axis] += kept[axis]
				indices = append(indices, index)
			}
		}
		box[axis] = min(old[axis], kept[axis])
	}
	return indices
}

// isBelow reports whether an index of a chunk is below the counts along all axes.
func isBelow(index, counts []int64) bool {
	for i := range index {
		if index[i] >= counts[i] {
			return false
		}
	}
	return true
}

func minima(a, b []int64) []int64 {
	out := make([]int64, len(a))
	for i := range a {
		out[i] = min(a[i], b[i])
	}
	return out
}

// storedChunks returns the indices of the chunks, or shards, that are stored. It returns
// an error wrapping errors.ErrUnsupported if the store cannot list.
func (a *Array) storedChunks(ctx context.Context) ([][]int64, error) {
	keys, err := a.store.List(ctx, a.path)
	if err != nil {
		return nil, err
	}
	var indices [][]int64
	for _, key := range keys {
		if a.path != "" {
			key = strings.TrimPrefix(key, a.path+"/")
		}
		if index, ok := a.keyEncoding.Index(key, len(a.chunkGrid())); ok && a.chunkGrid().Has(index) {
			indices = append(indices, index)
		}
	}
	return indices, nil
}

// deleteChunk deletes a chunk or a shard.
func (a *Array) deleteChunk(ctx context.Context, index []int64) error {
	key := a.chunkKey(index)
	unlock, err := a.writing.lock(ctx, key)
	if err != nil {
		return err
	}
	defer unlock()
	return a.shards.replace(key, func() error { return a.store.Delete(ctx, key) })
}

// DropCache releases the memory of cached shard indices and chunks.
func (a *Array) DropCache() {
	a.shards.drop()
	a.chunks.drop()
}

func (a *Array) checkWritable() error {
	if a.readOnly {
		return fmt.Errorf("array %q: opened with mode %q: %w", a.path, ModeRead, store.ErrReadOnly)
	}
	return nil
}

func (a *Array) checkIndex(index []int64) error {
	if len(index) != len(a.chunkGrid()) {
		return fmt.Errorf("array %q: chunk %v has %d indices, want %d", a.path, index, len(index), len(a.chunkGrid()))
	}
	if !a.chunkGrid().Has(index) {
		return fmt.Errorf("array %q: chunk %v is outside any grid", a.path, index)
	}
	return nil
}

func (a *Array) chunkKey(index []int64) string {
	return joinPath(a.path, a.keyEncoding.Key(index))
}

// chainFor returns the codec chain of a chunk of the grid.
func (a *Array) chainFor(index []int64) (*codec.Chain, error) {
	if a.regular {
		return a.chain, nil
	}
	shape := a.chunkGrid().Box(index).Shape
	if slices.Equal(shape, a.chunkShape) {
		return a.chain, nil
	}
	key := fmt.Sprint(shape)
	if chain, ok := a.chains.Load(key); ok {
		return chain.(*codec.Chain), nil
	}
	chain, err := a.Metadata().compileFor(shape)
	if err != nil {
		return nil, fmt.Errorf("chunk %v: %w", index, err)
	}
	a.chains.Store(key, chain)
	return chain, nil
}

func (a *Array) scratch() *codec.Scratch {
	s := codec.GetScratch()
	s.KeepEmpty, s.Stats = a.WriteEmptyChunks, a.Stats
	return s
}
