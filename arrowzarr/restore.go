package arrowzarr

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/parquetwrite"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// RestoreOptions are the options of Restore.
type RestoreOptions struct {
	// Jobs is the number of chunks that are read and decoded at once, as that of TableOptions.
	Jobs int
	// BatchRows is the most rows of a record batch. 0 means as many as take about a
	// sixteenth of MaxMemory, and at most 64 MiB, in whole chunks unless those are far
	// larger.
	BatchRows int64
	// MaxMemory is about the most memory to use, at least 256 MiB. 0 means
	// DefaultMaxMemory. The values of dictionaries and a chunk of text per column must
	// fit. A program that only restores should pass GoMemoryLimit of Options with this
	// MaxMemory to [runtime/debug.SetMemoryLimit].
	MaxMemory int64
	// Columns and Exclude choose columns as those of [Options] do.
	Columns, Exclude []string
	// Overwrite replaces an existing file.
	Overwrite bool
	// Stdout is where the output "-" goes. Nil is os.Stdout.
	Stdout io.Writer
}

// RestoreReport describes a finished Restore.
type RestoreReport struct {
	Input   string  `json:"input"`
	Output  string  `json:"output"`
	Format  string  `json:"format"`
	Rows    int64   `json:"rows"`
	Columns int     `json:"columns"`
	Seconds float64 `json:"seconds"`
}

// Restore writes the table in a Zarr group as Arrow or Parquet. The format depends on
// the extension of the output: .arrow or .feather is an Arrow IPC file, .arrows an IPC
// stream, and .parquet Parquet. The output "-" is an IPC stream on standard output.
//
// The table of a group that Convert wrote equals the converted one by Arrow's
// comparison, with its schema and metadata. Of any other group, each array of one length
// along its first axis is a column, and so are anndata's nullable and categorical
// groups. The input is a directory or a location of [store.Open].
//
// A file appears at its path only when it is complete. The error is an *Error, or the
// cause of the context.
func Restore(ctx context.Context, input, output string, options RestoreOptions) (*RestoreReport, error) {
	start := time.Now()
	format, err := restoreFormat(output)
	if err != nil {
		return nil, markPart(PartUsage, err)
	}
	if options.MaxMemory == 0 {
		options.MaxMemory = DefaultMaxMemory
	}
	if options.MaxMemory < minMemory {
		return nil, partErrorf(PartUsage, "max memory %d, expected at least %d", options.MaxMemory, minMemory)
	}
	table, err := OpenTable(ctx, input, TableOptions{
		Jobs: options.Jobs, BatchRows: options.BatchRows, BatchBytes: min(targetBytes, options.MaxMemory/16),
		Columns: options.Columns, Exclude: options.Exclude,
	})
	if err != nil {
		return nil, err
	}
	err = writeOutput(output, options, func(w io.Writer) error {
		return writeTable(ctx, table, format, w)
	})
	if err = errors.Join(err, table.Close()); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, markPart(PartOutput, err)
	}
	return &RestoreReport{
		Input: input, Output: output, Format: format, Rows: table.rows,
		Columns: len(table.columns), Seconds: time.Since(start).Seconds(),
	}, nil
}

// Formats of Restore.
const (
	formatFile    = "Arrow IPC file"
	formatStream  = "Arrow IPC stream"
	formatParquet = "Parquet"
)

func restoreFormat(output string) (string, error) {
	if output == "-" {
		return formatStream, nil
	}
	switch ext := strings.ToLower(filepath.Ext(output)); ext {
	case ".arrow", ".feather", ".ipc":
		return formatFile, nil
	case ".arrows":
		return formatStream, nil
	case ".parquet", ".pq":
		return formatParquet, nil
	}
	return "", fmt.Errorf("%s: expected a name that ends in .arrow, .arrows or .parquet, or - for standard output", output)
}

// openLocation opens the store at a location that exists.
func openLocation(ctx context.Context, location string) (store.Store, error) {
	info, err := os.Stat(location)
	switch {
	case err == nil && info.IsDir():
		return store.NewLocal(location), nil
	case errors.Is(err, fs.ErrNotExist) && !strings.Contains(location, "://"):
		return nil, fmt.Errorf("%s does not exist", location)
	}
	return store.Open(ctx, location)
}

// writeOutput calls write with a file that appears at the path when write has succeeded.
func writeOutput(path string, options RestoreOptions, write func(w io.Writer) error) error {
	if path == "-" {
		if options.Stdout != nil {
			return write(options.Stdout)
		}
		return write(os.Stdout)
	}
	if _, err := os.Lstat(path); err == nil && !options.Overwrite {
		return partErrorf(PartOutput, "%s exists already (--overwrite replaces it)", path)
	}
	partial := filepath.Join(filepath.Dir(path), fmt.Sprintf(".%.100s.partial-%d-%08x", filepath.Base(path), os.Getpid(), rand.Uint32()))
	file, err := os.OpenFile(partial, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		return markPart(PartOutput, err)
	}
	err = write(file)
	err = errors.Join(err, file.Close())
	if err == nil {
		err = os.Rename(partial, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(partial))
	}
	return nil
}

// tableWriter is what arrowipc.Writer and arrowipc.FileWriter share.
type tableWriter interface {
	Write(arrow.RecordBatch) error
	Close() error
}

func newTableWriter(schema *arrow.Schema, format string, w io.Writer) (tableWriter, error) {
	if format == formatFile {
		return arrowipc.NewFileWriter(w, schema)
	}
	return arrowipc.NewWriter(w, schema)
}

// writeTable writes all rows of a table.
func writeTable(ctx context.Context, t *Table, format string, w io.Writer) error {
	if format == formatParquet {
		return t.writeParquet(ctx, w)
	}
	var out tableWriter
	err := arrowdata.CatchPanic(func() (err error) {
		out, err = newTableWriter(t.schema, format, w)
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", format, err)
	}
	err = t.forEachBatch(ctx, 0, t.rows, t.options.BatchRows, func(batch arrow.RecordBatch) error {
		return arrowdata.CatchPanic(func() error { return out.Write(batch) })
	})
	return errors.Join(err, arrowdata.CatchPanic(out.Close))
}

// parquetwrite.Write writes the table as Parquet.
func (t *Table) writeParquet(ctx context.Context, w io.Writer) error {
	rows, err := t.rowsPerBatch(ctx, t.options.BatchRows)
	if err != nil {
		return tableError(ctx, err)
	}
	requests, err := t.shareRequests(ctx)
	if err != nil {
		return tableError(ctx, err)
	}
	err = parquetwrite.Write(ctx, columnReader{t}, w, parquetwrite.Options{GroupRows: rows, GroupBytes: t.options.BatchBytes, Jobs: requests})
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return markPart(partOf(err, PartOutput), err)
}

// columnReader is a table that is read column by column.
type columnReader struct{ *Table }

func (r columnReader) ReadColumn(ctx context.Context, i int, from, to int64) (arrow.Array, error) {
	values, err := r.columns[i].read(ctx, from, to)
	if err != nil {
		return nil, markPart(partOf(err, PartInput), err)
	}
	return values, nil
}
