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
	"runtime"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// RestoreOptions are the options of Restore.
type RestoreOptions struct {
	// Jobs is the number of chunks that are decoded at once. 0 means GOMAXPROCS.
	Jobs int
	// BatchRows is the most rows of a record batch. 0 means as many as take about 64
	// MiB, at most DefaultChunkRows.
	BatchRows int64
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
	if options.Jobs == 0 {
		options.Jobs = runtime.GOMAXPROCS(0)
	}
	if options.Jobs < 0 || options.BatchRows < 0 {
		return nil, partErrorf(PartUsage, "jobs %d and batch rows %d, expected at least 1", options.Jobs, options.BatchRows)
	}
	table, closeTable, err := openTableAt(ctx, input, options.Jobs)
	if err != nil {
		return nil, markPart(PartInput, err)
	}
	err = writeOutput(output, options, func(w io.Writer) error {
		return writeTable(ctx, table, format, w, options)
	})
	if err = errors.Join(err, closeTable()); err != nil {
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

// openTableAt opens the table at a location.
func openTableAt(ctx context.Context, location string, jobs int) (*zarrTable, func() error, error) {
	s, err := openLocation(ctx, location)
	if err != nil {
		return nil, nil, err
	}
	table, err := openTable(ctx, s, jobs)
	if err != nil {
		if errors.Is(err, store.ErrNotFound) {
			err = fmt.Errorf("no Zarr group: %w", err)
		}
		return nil, nil, errors.Join(fmt.Errorf("%s: %w", location, err), store.Close(s))
	}
	return table, func() error { table.release(); return store.Close(s) }, nil
}

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
	err = write(struct{ io.Writer }{file}) // pqarrow would close the file
	err = errors.Join(err, file.Close())
	if err == nil {
		err = os.Rename(partial, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(partial))
	}
	return nil
}

// tableWriter is what ipc.Writer, ipc.FileWriter and pqarrow.FileWriter share.
type tableWriter interface {
	Write(arrow.RecordBatch) error
	Close() error
}

func newTableWriter(schema *arrow.Schema, format string, w io.Writer) (tableWriter, error) {
	switch format {
	case formatFile:
		return ipc.NewFileWriter(w, ipc.WithSchema(schema), ipc.WithAllocator(memory.DefaultAllocator))
	case formatStream:
		return ipc.NewWriter(w, ipc.WithSchema(schema), ipc.WithAllocator(memory.DefaultAllocator)), nil
	}
	properties := parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Zstd))
	return pqarrow.NewFileWriter(schema, w, properties, pqarrow.NewArrowWriterProperties(pqarrow.WithStoreSchema()))
}

// writeTable writes all rows of a table.
func writeTable(ctx context.Context, t *zarrTable, format string, w io.Writer, options RestoreOptions) error {
	var out tableWriter
	err := catchPanic(func() (err error) {
		out, err = newTableWriter(t.schema, format, w)
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", format, err)
	}
	err = t.forEachBatch(ctx, 0, t.rows, options.BatchRows, func(batch arrow.RecordBatch) error {
		return catchPanic(func() error { return out.Write(batch) })
	})
	return errors.Join(err, catchPanic(out.Close))
}

// forEachBatch calls f with the batches of rows [from, to), of at most a number of rows;
// 0 means as many as batchRows says.
func (t *zarrTable) forEachBatch(ctx context.Context, from, to, rows int64, f func(arrow.RecordBatch) error) error {
	if rows == 0 {
		rows = t.targetRows()
	}
	rows = t.batchRows(rows)
	for from < to {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		batch, err := t.read(ctx, from, min(from+rows, to))
		if err != nil {
			return markPart(PartInput, err)
		}
		from += batch.NumRows()
		err = f(batch)
		batch.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// targetBytes is about the memory of a batch that is read.
const targetBytes = 64 << 20

// targetRows is the rows of a batch that takes about targetBytes, by the sizes of the
// table's arrays, and at most one chunk of text, whose size is unknown.
func (t *zarrTable) targetRows() int64 {
	rows := int64(DefaultChunkRows)
	if len(t.columns) == 0 {
		return max(t.rows, 1)
	}
	var total float64
	for path, node := range t.columns[0].group.Metadata().Consolidated {
		m, ok := node.(*zarr.ArrayMetadata)
		if !ok || len(m.Shape) == 0 {
			continue
		}
		if m.DataType.IsVLen() && !strings.HasSuffix(path, "/categories") {
			rows = min(rows, max(chunkRowsOf(m), 1))
		}
		size := float64(max(m.DataType.Size(), 1))
		for _, d := range m.Shape {
			size *= float64(d)
		}
		total += size
	}
	if perRow := total / float64(max(t.rows, 1)); perRow > 0 {
		rows = min(rows, max(int64(targetBytes/perRow), 1))
	}
	return rows
}
