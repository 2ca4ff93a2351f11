package arrowzarr

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/codec"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// zarrReader opens and reads the arrays of a column.
type zarrReader struct {
	group  *zarr.Group
	path   string
	jobs   int
	arrays map[string]*zarr.Array // by name below the column; nil if the array does not exist
}

// open returns the array of a name below the column, or nil if it does not exist. The
// name "" is the column itself.
func (r *zarrReader) open(ctx context.Context, name string) (*zarr.Array, error) {
	if a, ok := r.arrays[name]; ok {
		return a, nil
	}
	path := r.path
	if name != "" {
		path += "/" + name
	}
	a, err := r.group.OpenArray(ctx, path)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, zarr.ErrNodeType) {
		a, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	r.arrays[name] = a
	return a, nil
}

// require is open that fails if the array does not exist.
func (r *zarrReader) require(ctx context.Context, name string) (*zarr.Array, error) {
	a, err := r.open(ctx, name)
	if err == nil && a == nil {
		err = fmt.Errorf("no array %q: %w", name, store.ErrNotFound)
	}
	return a, err
}

// buffer returns rows [from, to) of an array of elements of a dtype where the prototype
// says, without a copy. The caller must release them.
func (r *zarrReader) buffer(ctx context.Context, where zarr.Prototype, a *zarr.Array, dtype ndview.DType, from, to int64) (*memory.Buffer, error) {
	if err := checkRows(a, dtype, from, to); err != nil {
		return nil, err
	}
	values, err := a.ReadRows(ctx, where, from, to, r.jobs)
	if err != nil {
		return nil, err
	}
	defer values.Release()
	nd, ok := values.(*ndview.NDBuffer)
	if !ok || !nd.IsContiguous() {
		return nil, fmt.Errorf("%s: %T, expected contiguous numbers: %w", a.Path(), values, arrowdata.ErrMalformed)
	}
	part, err := nd.Buffer().Slice(nd.Offset(), nd.NBytes())
	if err != nil {
		return nil, err
	}
	defer part.Release()
	return part.Arrow(), nil
}

// fixed returns the bytes of rows [from, to) of an array of elements of a dtype.
func (r *zarrReader) fixed(ctx context.Context, a *zarr.Array, dtype ndview.DType, from, to int64) ([]byte, error) {
	if err := checkRows(a, dtype, from, to); err != nil {
		return nil, err
	}
	values, err := a.ReadRows(ctx, zarr.Prototype{}, from, to, r.jobs)
	if err != nil {
		return nil, err
	}
	defer values.Release()
	nd, ok := values.(*ndview.NDBuffer)
	if !ok {
		return nil, fmt.Errorf("%s: %T, expected numbers: %w", a.Path(), values, arrowdata.ErrMalformed)
	}
	raw := make([]byte, nd.NBytes())
	return raw, nd.CopyToHost(raw)
}

// checkRows returns an error unless an array has rows [from, to) of a dtype.
func checkRows(a *zarr.Array, dtype ndview.DType, from, to int64) error {
	if n := firstAxisLen(a.Shape()); from < 0 || to < from || to > n {
		return fmt.Errorf("%s: rows [%d, %d) of %d: %w", a.Path(), from, to, n, arrowdata.ErrMalformed)
	}
	if stored, ok := a.Metadata().DataType.DType(); !ok || stored != dtype {
		return fmt.Errorf("%s: data type %s, expected %s: %w", a.Path(), a.Metadata().DataType, dtype, arrowdata.ErrMalformed)
	}
	return nil
}

// mask returns which rows are missing; nil if there is no array of the name.
func (r *zarrReader) mask(ctx context.Context, name string, from, to int64) ([]byte, error) {
	a, err := r.open(ctx, name)
	if err != nil || a == nil {
		return nil, err
	}
	return r.fixed(ctx, a, ndview.Bool, from, to)
}

// integers returns rows of an array of signed integers.
func (r *zarrReader) integers(ctx context.Context, name string, dtype ndview.DType, from, to int64) ([]int64, error) {
	a, err := r.require(ctx, name)
	if err != nil {
		return nil, err
	}
	raw, err := r.fixed(ctx, a, dtype, from, to)
	if err != nil {
		return nil, err
	}
	return widen(raw, dtype.Size()), nil
}

// widen returns signed integers of a width in bytes.
func widen(raw []byte, width int64) []int64 {
	values := make([]int64, int64(len(raw))/width)
	for i := range values {
		at := raw[int64(i)*width:]
		switch width {
		case 1:
			values[i] = int64(int8(at[0]))
		case 2:
			values[i] = int64(int16(binary.LittleEndian.Uint16(at)))
		case 4:
			values[i] = int64(int32(binary.LittleEndian.Uint32(at)))
		default:
			values[i] = int64(binary.LittleEndian.Uint64(at))
		}
	}
	return values
}

// chunkRowsOf is the extent of a chunk along the first axis; that of the chunks in
// shards, if the array is sharded.
func chunkRowsOf(m *zarr.ArrayMetadata) int64 {
	if len(m.Codecs) == 1 {
		if sharding, ok := m.Codecs[0].(codec.Sharding); ok {
			return sharding.ChunkShape[0]
		}
	}
	return m.ChunkShape[0]
}
