package zarr

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// Array is an array in a store. Its methods may be called concurrently, except that the
// caller must serialize writes to the same chunk. The exported fields must not change
// after the first call.
type Array struct {
	// WriteEmptyChunks also stores chunks whose elements all equal the fill value. By
	// default they are omitted.
	WriteEmptyChunks bool
	// Trace, if not nil, receives the duration of each stage of writing.
	Trace *Trace

	store       store.Store
	path        string
	dataType    element.Type
	chunkShape  []int64
	keyEncoding ChunkKeyEncoding
	chain       *codec.Chain

	mu   sync.Mutex
	meta ArrayMetadata
}

// New returns an array without accessing the store. Chunks can be written before the
// metadata is, even while the shape is unknown; see [Array.SetShape] and
// [Array.WriteMetadata]. It returns an error wrapping [ErrInvalidName] if path is
// invalid.
func New(s store.Store, path string, meta *ArrayMetadata) (*Array, error) {
	if err := checkPath(path); err != nil {
		return nil, err
	}
	chain, err := meta.compile()
	if err != nil {
		return nil, fmt.Errorf("array %q: %w", path, err)
	}
	return &Array{store: s, path: path, dataType: meta.DataType,
		chunkShape: slices.Clone(meta.ChunkShape), keyEncoding: meta.ChunkKeyEncoding, chain: chain, meta: *meta}, nil
}

// Create writes the metadata of a new array and returns the array. Chunks that are
// stored under path already become chunks of the array.
func Create(ctx context.Context, s store.Store, path string, meta *ArrayMetadata) (*Array, error) {
	a, err := New(s, path, meta)
	if err != nil {
		return nil, err
	}
	return a, a.WriteMetadata(ctx)
}

// Open returns the array at path. It returns an error wrapping store.ErrNotFound if
// path has no node, [ErrNodeType] if the node is a group, and errors.ErrUnsupported if
// the array needs a feature that this package lacks.
func Open(ctx context.Context, s store.Store, path string) (*Array, error) {
	node, err := readNode(ctx, s, path)
	if err != nil {
		return nil, err
	}
	return newArrayOfNode(s, path, node)
}

func newArrayOfNode(s store.Store, path string, node Node) (*Array, error) {
	meta, err := nodeAs[*ArrayMetadata](node)
	if err != nil {
		return nil, fmt.Errorf("zarr.Open: array %q: %w", path, err)
	}
	return New(s, path, meta)
}

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

// SetShape changes the shape that [Array.WriteMetadata] writes. The number of axes must
// stay the same. Chunks outside the new shape stay stored.
func (a *Array) SetShape(shape ...int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	meta := a.meta
	meta.Shape = slices.Clone(shape)
	if err := meta.Check(); err != nil {
		return fmt.Errorf("array %q: %w", a.path, err)
	}
	a.meta = meta
	return nil
}

// SetAttributes changes the attributes that [Array.WriteMetadata] writes.
func (a *Array) SetAttributes(attributes map[string]any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.meta.Attributes = attributes
}

// WriteMetadata writes the metadata document of the array.
func (a *Array) WriteMetadata(ctx context.Context) error {
	return writeNode(ctx, a.store, a.path, a.Metadata())
}

func (a *Array) checkIndex(index []int64) error {
	if len(index) != len(a.chunkShape) {
		return fmt.Errorf("array %q: chunk %v has %d indices, want %d", a.path, index, len(index), len(a.chunkShape))
	}
	for k, i := range index {
		if i < 0 || i > math.MaxInt64/a.chunkShape[k]-1 {
			return fmt.Errorf("array %q: chunk %v is outside any grid", a.path, index)
		}
	}
	return nil
}

func (a *Array) chunkKey(index []int64) string {
	return joinPath(a.path, a.keyEncoding.Key(index))
}

func (a *Array) scratch() *codec.Scratch {
	s := codec.GetScratch()
	s.KeepEmpty = a.WriteEmptyChunks
	return s
}

// parallelism returns the number of goroutines for a jobs argument: GOMAXPROCS if jobs
// is not positive.
func parallelism(jobs int) int {
	if jobs < 1 {
		return runtime.GOMAXPROCS(0)
	}
	return jobs
}
