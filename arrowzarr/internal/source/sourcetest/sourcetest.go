// Package sourcetest has what tests of sources share: the files of inputs, and functions
// that read a source. [TestRanges] and [TestCounts] test what each source that can be read
// twice has to do.
package sourcetest

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source"
)

// WriteFile writes a file of a name to a new folder and returns its path.
func WriteFile(tb testing.TB, name string, content []byte) string {
	tb.Helper()
	return filepath.Join(WriteFiles(tb, map[string][]byte{name: content}), name)
}

// WriteFiles writes files, given by their paths, to a new folder and returns its path.
func WriteFiles(tb testing.TB, files map[string][]byte) string {
	tb.Helper()
	root := tb.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		require.NoError(tb, os.MkdirAll(filepath.Dir(path), 0o777))
		require.NoError(tb, os.WriteFile(path, content, 0o666))
	}
	return root
}

// InferRows is the number of rows from which Options infer the types of text.
const InferRows = 10_000

// Options returns options with which a short input has many batches.
func Options() source.Options {
	return source.Options{
		Text:      source.TextOptions{InferRows: InferRows, InferHead: true},
		Allocator: arrowbuf.CPU().HostAllocator(), AllowMapping: true, MaxBuffer: 64 << 20, BatchRows: 7, Jobs: 2,
	}
}

// LateRow returns a text: the rows from which Options infer the types, and a late one.
func LateRow(header, row, late string) string {
	return header + strings.Repeat(row, InferRows) + late
}

// Gzip returns a text in the format of gzip.
func Gzip(tb testing.TB, text string) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(text))
	require.NoError(tb, err)
	require.NoError(tb, w.Close())
	return b.Bytes()
}

// Opener opens the source that a test reads. Each call opens it once more.
type Opener func() (source.Source, error)

// Local returns an opener of a file of the file system, which a format's function opens.
func Local[S source.Source](path string, options source.Options, open func(*source.File, source.Options) (S, error)) Opener {
	return func() (source.Source, error) {
		file, err := source.OpenLocal(path)
		if err != nil {
			return nil, err
		}
		src, err := open(file, options)
		if err != nil {
			return nil, errors.Join(err, file.Close())
		}
		return src, nil
	}
}

// Info returns what a source knows of its input.
func Info(tb testing.TB, open Opener) source.Info {
	tb.Helper()
	src, err := open()
	require.NoError(tb, err)
	defer func() { require.NoError(tb, src.Close()) }()
	return src.Info()
}

// Count returns what a source counts.
func Count(open Opener) (counts source.Counts, err error) {
	src, err := open()
	if err != nil {
		return counts, err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	return src.Count(context.Background())
}

// Types returns the names and types of a source's columns as text.
func Types(tb testing.TB, open Opener) string {
	tb.Helper()
	var columns []string
	for _, f := range Info(tb, open).Schema.Fields() {
		columns = append(columns, f.Name+" "+f.Type.String())
	}
	return strings.Join(columns, ", ")
}

// Read calls visit for each batch of the rows and fields of a source, which it releases
// then. If fields is nil, it reads all.
func Read(open Opener, fields []int, rows source.RowRange, visit func(arrow.RecordBatch)) (err error) {
	src, err := open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	if fields == nil {
		fields = make([]int, src.Info().Schema.NumFields())
		for i := range fields {
			fields[i] = i
		}
	}
	if err := src.Open(context.Background(), fields, rows); err != nil {
		return err
	}
	for {
		b, err := src.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for i, c := range b.Record.Columns() {
			if int64(c.Len()) != b.Record.NumRows() {
				return fmt.Errorf("column %d has %d rows in a batch of %d", i, c.Len(), b.Record.NumRows())
			}
		}
		visit(b.Record)
		b.Record.Release()
	}
}

// ReadAll reads all rows of a source and returns its error.
func ReadAll(open Opener) error {
	return Read(open, nil, source.WholeInput, func(arrow.RecordBatch) {})
}

// Rows returns the rows of a source, each as the text of its values.
func Rows(tb testing.TB, open Opener) (rows []string) {
	tb.Helper()
	require.NoError(tb, Read(open, nil, source.WholeInput, func(b arrow.RecordBatch) {
		for i := range int(b.NumRows()) {
			var row []string
			for _, c := range b.Columns() {
				row = append(row, c.ValueStr(i))
			}
			rows = append(rows, strings.Join(row, " "))
		}
	}))
	return rows
}

// Values returns the values of some rows and fields of a source, as Read does, each as a
// text in quotes or null. nulls has the number of nulls of each field.
func Values(tb testing.TB, open Opener, fields []int, within source.RowRange) (rows [][]string, nulls []int64) {
	tb.Helper()
	require.NoError(tb, Read(open, fields, within, func(b arrow.RecordBatch) {
		for i := range int(b.NumRows()) {
			var row []string
			for _, column := range b.Columns() {
				text := "null"
				if !column.IsNull(i) {
					text = fmt.Sprintf("%q", column.ValueStr(i))
				}
				row = append(row, text)
			}
			rows = append(rows, row)
		}
		if nulls == nil {
			nulls = make([]int64, b.NumCols())
		}
		for i, column := range b.Columns() {
			nulls[i] += int64(column.NullN())
		}
	}))
	return rows, nulls
}
