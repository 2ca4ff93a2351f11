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

// Array is an array in a store. Its methods may be called from any goroutine;
// two that write the same chunk are the caller's to order. The fields are set
// before the first call.
type Array struct {
	// WriteEmptyChunks stores chunks whose elements all equal the fill value,
	// which are left out otherwise.
	WriteEmptyChunks bool
	// Trace, where set, is told how long writing takes.
	Trace *Trace

	store      store.Store
	path       string
	dataType   element.Type
	chunkShape []int64
	chunkKeys  ChunkKeys
	chain      *codec.Chain

	mu   sync.Mutex
	meta ArrayMetadata
}

// New returns an array of a store without writing or reading anything. Its
// chunks can be written before its metadata is, even while its shape is not
// known: see SetShape and WriteMetadata.
func New(s store.Store, path string, meta *ArrayMetadata) (*Array, error) {
	if err := checkPath(path); err != nil {
		return nil, err
	}
	chain, err := meta.compile()
	if err != nil {
		return nil, fmt.Errorf("array %q: %w", path, err)
	}
	return &Array{store: s, path: path, dataType: meta.DataType,
		chunkShape: slices.Clone(meta.ChunkShape), chunkKeys: meta.ChunkKeys, chain: chain, meta: *meta}, nil
}

// Create returns a new array, whose metadata it writes. Chunks that are stored
// under the path already become its chunks.
func Create(ctx context.Context, s store.Store, path string, meta *ArrayMetadata) (*Array, error) {
	a, err := New(s, path, meta)
	if err != nil {
		return nil, err
	}
	return a, a.WriteMetadata(ctx)
}

// Open returns the array under a path. Where there is nothing the error is
// store.ErrNotFound, where there is a group ErrNodeType.
func Open(ctx context.Context, s store.Store, path string) (*Array, error) {
	node, err := readNode(ctx, s, path)
	if err != nil {
		return nil, err
	}
	return arrayOf(s, path, node)
}

func arrayOf(s store.Store, path string, node Node) (*Array, error) {
	meta, err := nodeAs[*ArrayMetadata](node)
	if err != nil {
		return nil, fmt.Errorf("opening array %q: %w", path, err)
	}
	return New(s, path, meta)
}

// Path is where the array is in its store.
func (a *Array) Path() string { return a.path }

// Metadata returns a copy of the metadata. What it points to is not to be
// changed.
func (a *Array) Metadata() *ArrayMetadata {
	a.mu.Lock()
	defer a.mu.Unlock()
	meta := a.meta
	return &meta
}

// SetShape changes the shape, though not the number of axes, as WriteMetadata
// will write it. Chunks beyond it stay stored.
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

// SetAttributes changes the attributes as WriteMetadata will write them.
func (a *Array) SetAttributes(attributes map[string]any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.meta.Attributes = attributes
}

// WriteMetadata writes the metadata.
func (a *Array) WriteMetadata(ctx context.Context) error {
	return writeNode(ctx, a.store, a.path, a.Metadata())
}

func (a *Array) checkIndex(index []int64) error {
	if len(index) != len(a.chunkShape) {
		return fmt.Errorf("array %q: chunk %v of a grid of %d axes", a.path, index, len(a.chunkShape))
	}
	for k, i := range index {
		if i < 0 || i > math.MaxInt64/a.chunkShape[k]-1 {
			return fmt.Errorf("array %q: chunk %v is outside of any grid", a.path, index)
		}
	}
	return nil
}

func (a *Array) chunkKey(index []int64) string {
	return join(a.path, a.chunkKeys.Key(index))
}

func (a *Array) scratch() *codec.Scratch {
	s := codec.GetScratch()
	s.KeepEmpty = a.WriteEmptyChunks
	return s
}

// workers is how many goroutines a number of jobs means: as many as there are
// cores when it is not positive.
func workers(jobs int) int {
	if jobs < 1 {
		return runtime.GOMAXPROCS(0)
	}
	return jobs
}
