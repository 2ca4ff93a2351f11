package arrowzarr

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// Contents is what Inspect finds. A number that the format does not tell is -1.
type Contents struct {
	Path        string        `json:"path"`
	Format      string        `json:"format"`
	Rows        int64         `json:"rows"`
	StoredBytes int64         `json:"stored_bytes"`
	RawBytes    int64         `json:"raw_bytes"`
	Columns     []ColumnStats `json:"columns"`
}

// ColumnStats describes one column of Arrow or Parquet, or one array of Zarr.
type ColumnStats struct {
	Name        string   `json:"name"` // of an array, its path
	Type        string   `json:"type"`
	Shape       []int64  `json:"shape"`
	Nulls       int64    `json:"nulls"`
	Chunks      []int64  `json:"chunks"` // the chunk shape of an array
	Shards      []int64  `json:"shards,omitempty"`
	Codecs      []string `json:"codecs"`
	StoredBytes int64    `json:"stored_bytes"`
	RawBytes    int64    `json:"raw_bytes"`
}

// Inspect describes an Arrow IPC file or stream, a Parquet file or a Zarr v3
// hierarchy in a directory. "-" is an Arrow IPC stream on standard input. Of
// Parquet and Zarr only metadata is read; Arrow's inputs are read through. The
// error is an *Error, or the context's.
func Inspect(ctx context.Context, path string) (*Contents, error) {
	if path != "-" {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			c, err := inspectZarr(ctx, path)
			return c, failed(PartInput, err)
		}
	}
	var c *Contents
	err := unlessDone(ctx, func() (err error) { c, err = inspectFile(ctx, path); return err }, func() {})
	if err != nil {
		return nil, err
	}
	return c, nil
}

func inspectFile(ctx context.Context, path string) (*Contents, error) {
	src, err := openSource(path, reading{mem: arrowbuf.CPU().HostAllocator(), mapped: true, limit: DefaultMaxMemory, jobs: 1})
	if err != nil {
		return nil, failed(PartInput, err)
	}
	var c *Contents
	if parquet, ok := src.(*parquetSource); ok {
		err = protect(func() (err error) { c, err = inspectParquet(parquet); return err })
	} else {
		err = protect(func() (err error) { c, err = inspectArrow(ctx, src); return err })
	}
	if err = errors.Join(err, src.close()); err != nil {
		return nil, failed(PartInput, err)
	}
	c.Path, c.Format = path, src.format()
	return c, nil
}

// storedIn is the size of the files below a directory.
func storedIn(root string) (int64, error) {
	var total int64
	err := filepath.WalkDir(root, func(_ string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		total += info.Size()
		return nil
	})
	return total, err
}
