package arrowzarr_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source/sourcetest"
)

// writeWithQuiver returns the batches of a table in an Arrow IPC file or stream, by the
// writer that has lists of size 0.
func writeWithQuiver(tb testing.TB, file bool, batches []arrow.RecordBatch, options ...arrowipc.Option) []byte {
	tb.Helper()
	var out bytes.Buffer
	var w interface {
		io.Closer
		Write(arrow.RecordBatch) error
	}
	var err error
	if file {
		w, err = arrowipc.NewFileWriter(&out, batches[0].Schema(), options...)
	} else {
		w, err = arrowipc.NewWriter(&out, batches[0].Schema(), options...)
	}
	require.NoError(tb, err)
	for _, b := range batches {
		require.NoError(tb, w.Write(b))
	}
	require.NoError(tb, w.Close())
	return out.Bytes()
}

// emptyListBatches returns batches of columns of lists of size 0, and the columns' values
// as JSON.
func emptyListBatches(tb testing.TB) (batches []arrow.RecordBatch, values string) {
	tb.Helper()
	empty := func(elem arrow.DataType) *arrowipc.EmptyListType {
		t, err := arrowipc.NewEmptyListType(arrow.Field{Name: "item", Type: elem, Nullable: true})
		require.NoError(tb, err)
		return t
	}
	numbers, codes := empty(arrow.PrimitiveTypes.Int32), empty(&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String})
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "plain", Type: numbers, Nullable: true},
		{Name: "codes", Type: codes, Nullable: true},
		{Name: "full", Type: empty(empty(arrow.BinaryTypes.String))},
		{Name: "list", Type: arrow.ListOf(numbers), Nullable: true},
		{Name: "record", Type: arrow.StructOf(arrow.Field{Name: "x", Type: numbers, Nullable: true}, arrow.Field{Name: "y", Type: arrow.PrimitiveTypes.Int8, Nullable: true})},
		{Name: "fixed", Type: arrow.FixedSizeListOf(2, numbers), Nullable: true},
	}, nil)
	rows := []string{
		`[{"plain": [], "codes": null, "full": [], "list": [[], null], "record": {"x": [], "y": 1}, "fixed": [[], []]},
		{"plain": null, "codes": [], "full": [], "list": null, "record": {"x": null, "y": null}, "fixed": null},
		{"plain": [], "codes": [], "full": [], "list": [], "record": {"x": [], "y": 3}, "fixed": [null, []]}]`,
		`[{"plain": null, "codes": null, "full": [], "list": [[], [], []], "record": {"x": null, "y": 5}, "fixed": [null, null]}]`,
	}
	for _, text := range rows {
		batch, _, err := array.RecordFromJSON(arrowbuf.CPU().HostAllocator(), schema, bytes.NewReader([]byte(text)))
		require.NoError(tb, err)
		tb.Cleanup(batch.Release)
		batches = append(batches, batch)
	}
	return batches, rows[0][:len(rows[0])-1] + "," + rows[1][1:]
}

func TestListsOfSizeZeroConvertVerifyAndRestore(t *testing.T) {
	batches, values := emptyListBatches(t)
	for name, content := range map[string][]byte{
		"file": writeWithQuiver(t, true, batches), "stream": writeWithQuiver(t, false, batches), "compressed": writeWithQuiver(t, true, batches, arrowipc.WithCodec(arrowipc.LZ4)),
	} {
		t.Run(name, func(t *testing.T) {
			input := inputFile(t, content)
			for _, options := range []arrowzarr.Options{{}, {ChunkRows: 2}} {
				output, report := convertFile(t, input, options)
				assert.EqualValues(t, 4, report.Rows)
				verified, err := arrowzarr.Verify(t.Context(), input, output, arrowzarr.Options{})
				require.NoError(t, err)
				require.Empty(t, verified.Difference)
				for _, format := range []string{".arrow", ".arrows"} {
					restored := filepath.Join(t.TempDir(), "restored"+format)
					_, err := arrowzarr.Restore(t.Context(), output, restored, arrowzarr.RestoreOptions{BatchRows: 3})
					require.NoError(t, err)
					got := readWithQuiver(t, restored)
					require.True(t, batches[0].Schema().Equal(got.Schema()), "%v", got.Schema())
					text, err := got.MarshalJSON()
					require.NoError(t, err)
					assert.JSONEq(t, values, string(text))
				}
				// Parquet has lists only, and pyarrow refuses those that the Arrow schema calls empty.
				restored := filepath.Join(t.TempDir(), "restored.parquet")
				_, err = arrowzarr.Restore(t.Context(), output, restored, arrowzarr.RestoreOptions{})
				require.NoError(t, err)
				assert.Equal(t, arrow.LIST, sourcetest.Info(t, sourceOf(arrowzarr.InputOptions{}, restored)).Schema.Field(0).Type.ID())
				again, _ := convertFile(t, restored, arrowzarr.Options{})
				verified, err = arrowzarr.Verify(t.Context(), restored, again, arrowzarr.Options{})
				require.NoError(t, err)
				require.Empty(t, verified.Difference)
			}
		})
	}
}

// readWithQuiver returns all rows of an Arrow IPC file or
// stream as one batch.
func readWithQuiver(tb testing.TB, path string) arrow.RecordBatch {
	tb.Helper()
	content, err := os.ReadFile(path)
	require.NoError(tb, err)
	var r array.RecordReader
	if filepath.Ext(path) == ".arrow" {
		r, err = arrowipc.NewFileReader(bytes.NewReader(content), int64(len(content)), arrowbuf.CPU())
	} else {
		r, err = arrowipc.NewReader(bytes.NewReader(content), arrowbuf.CPU())
	}
	require.NoError(tb, err)
	defer r.Release()
	var batches []arrow.RecordBatch
	for r.Next() {
		r.RecordBatch().Retain()
		batches = append(batches, r.RecordBatch())
	}
	require.NoError(tb, r.Err())
	whole := array.NewTableFromRecords(r.Schema(), batches)
	defer whole.Release()
	columns := make([]arrow.Array, whole.NumCols())
	for i := range columns {
		columns[i], err = array.Concatenate(whole.Column(i).Data().Chunks(), arrowbuf.CPU().HostAllocator())
		require.NoError(tb, err)
	}
	return array.NewRecordBatch(r.Schema(), columns, whole.NumRows())
}

func TestVerifyFindsAMissingListOfSizeZero(t *testing.T) {
	batches, _ := emptyListBatches(t)
	output, _ := convertFile(t, inputFile(t, writeWithQuiver(t, false, batches)), arrowzarr.Options{})
	other := inputFile(t, writeWithQuiver(t, false, []arrow.RecordBatch{batches[0], batches[0].NewSlice(2, 3)}))
	report, err := arrowzarr.Verify(t.Context(), other, output, arrowzarr.Options{})
	require.NoError(t, err)
	assert.Contains(t, report.Difference, `"plain"`)
}
