package arrowzarr_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/tabletest"
)

func TestRecordReadersConvert(t *testing.T) {
	columns := tabletest.RandomTable(5, []int{30, 0, 12}, 0.2)
	output := filepath.Join(t.TempDir(), "output.zarr")
	r, err := array.NewRecordReader(columns.Schema, columns.Batches)
	require.NoError(t, err)
	defer r.Release()
	report, err := arrowzarr.ConvertReader(t.Context(), r, output, arrowzarr.Options{ChunkRows: 7})
	require.NoError(t, err)
	assert.EqualValues(t, 42, report.Rows)
	assert.Equal(t, "Arrow record batches", report.Format)
	requireTable(t, columns, output)
}

// readerOf returns a reader of batches that a function makes.
func readerOf(next func() (arrow.RecordBatch, error)) array.RecordReader {
	schema := arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil)
	return arrowbuf.NewReaderFunc(schema, next, func() {})
}

func TestErrorsOfRecordReadersLeaveNoOutput(t *testing.T) {
	broken := errors.New("the connection was lost")
	for name, next := range map[string]func(calls int) (arrow.RecordBatch, error){
		"error": func(int) (arrow.RecordBatch, error) { return nil, broken },
		"schema": func(int) (arrow.RecordBatch, error) {
			return tabletest.Single("other", tabletest.Texts("x")).Batches[0], nil
		},
		"panic": func(int) (arrow.RecordBatch, error) { panic("index out of range") },
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			r := readerOf(func() (arrow.RecordBatch, error) {
				if calls++; calls == 1 {
					return tabletest.Numbers(0, 5).Batches[0], nil
				}
				return next(calls)
			})
			defer r.Release()
			dir := t.TempDir()
			_, err := arrowzarr.ConvertReader(t.Context(), r, filepath.Join(dir, "output.zarr"), arrowzarr.Options{})
			var failure *arrowzarr.Error
			require.ErrorAs(t, err, &failure)
			assert.Equal(t, arrowzarr.PartInput, failure.Part)
			if name == "error" {
				require.ErrorIs(t, err, broken)
			}
			requireOnly(t, dir)
		})
	}
	_, err := arrowzarr.ConvertReader(t.Context(), nil, "output.zarr", arrowzarr.Options{})
	require.ErrorContains(t, err, "nil reader")
}

// A reader that computes its batches, one at a time.
func ExampleConvertReader() {
	schema := arrow.NewSchema([]arrow.Field{{Name: "square", Type: arrow.PrimitiveTypes.Int64}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for i := range int64(1000) {
		b.Field(0).(*array.Int64Builder).Append(i * i)
	}
	batch := b.NewRecordBatch()
	defer batch.Release()
	reader, err := array.NewRecordReader(schema, []arrow.RecordBatch{batch})
	if err != nil {
		log.Fatal(err)
	}
	defer reader.Release()

	folder, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	report, err := arrowzarr.ConvertReader(context.Background(), reader, filepath.Join(folder, "squares.zarr"), arrowzarr.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Rows, "rows of", report.Format)
	// Output: 1000 rows of Arrow record batches
}
