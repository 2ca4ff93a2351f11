package parquet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/source"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source/sourcetest"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/tabletest"
)

// groupsOfOneRow returns a Parquet file of a column of numbers, each in a row group.
func groupsOfOneRow(t *testing.T, rows int) *source.File {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64}}, nil)
	path := filepath.Join(t.TempDir(), "groups.parquet")
	var content bytes.Buffer
	w, err := pqarrow.NewFileWriter(schema, &content, nil, pqarrow.DefaultWriterProps())
	require.NoError(t, err)
	for i := range rows {
		b := array.NewInt64Builder(memory.DefaultAllocator)
		b.Append(int64(i))
		column := b.NewArray()
		batch := array.NewRecordBatch(schema, []arrow.Array{column}, 1)
		require.NoError(t, w.Write(batch))
		batch.Release()
		column.Release()
	}
	require.NoError(t, w.Close())
	require.NoError(t, os.WriteFile(path, content.Bytes(), 0o666))
	file, err := source.OpenLocal(path)
	require.NoError(t, err)
	return file
}

// The readers of row groups end when the context does, without a batch or an error.
func TestNextReturnsTheCauseAfterPrefetchingIsCancelled(t *testing.T) {
	src, err := Open(groupsOfOneRow(t, 40), source.Options{Allocator: memory.DefaultAllocator, MaxBuffer: 1 << 20, BatchRows: 1, Jobs: 4})
	require.NoError(t, err)
	defer func() { require.NoError(t, src.Close()) }()
	cause := errors.New("the user has enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	require.NoError(t, src.Open(ctx, []int{0}, source.WholeInput))
	require.Greater(t, len(src.groups.readers), 1, "readers of row groups")
	b, err := src.Next()
	require.NoError(t, err)
	assert.Equal(t, "[0]", b.Record.Column(0).String())
	b.Record.Release()

	cancel(cause)
	src.groups.running.Wait() // no batch is received meanwhile, so none is sent any more
	_, err = src.Next()
	require.ErrorIs(t, err, cause)
	_, err = src.Next()
	require.Error(t, err, "again")
}

// A file of one column has several row groups that are read at once.
func TestRowGroupsReadAtOnceKeepTheirOrder(t *testing.T) {
	var batches []arrow.Array
	next := int64(0)
	for _, rows := range []int{5, 1, 0, 300, 2, 2, 0, 77, 1000, 3} {
		b := array.NewInt64Builder(memory.DefaultAllocator)
		for range rows {
			b.Append(next)
			next++
		}
		batches = append(batches, b.NewArray())
	}
	content := tabletest.Single("x", batches...).Parquet(t, parquet.WithCompression(compress.Codecs.Snappy))
	var numbers []string
	for n := range next {
		numbers = append(numbers, fmt.Sprint(n))
	}
	for jobs := 1; jobs <= 5; jobs++ {
		for _, rows := range []int64{7, 1 << 16} {
			options := sourcetest.Options()
			options.Jobs, options.BatchRows = jobs, rows
			open := sourcetest.Local(sourcetest.WriteFile(t, "input", content), options, Open)
			require.Equal(t, numbers, sourcetest.Rows(t, open))
		}
	}
	// Row groups before a damaged one are read, and nothing waits for those after it.
	damaged := bytes.Clone(content)
	for i := range damaged[len(damaged)/2 : len(damaged)/2+400] {
		damaged[len(damaged)/2+i] = 0xff
	}
	options := sourcetest.Options()
	options.Jobs = 4
	require.ErrorContains(t, sourcetest.ReadAll(sourcetest.Local(sourcetest.WriteFile(t, "input", damaged), options, Open)), "after row")
}
