package zarrio_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/passert"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/ptest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/beam/zarrio"
)

// Prism runs in the process of the tests.
func TestMain(m *testing.M) { ptest.MainWithDefault(m, "prism") }

const flights = "../../testdata/flights.parquet"

// files returns the content of the files in a folder.
func files(t *testing.T, folder string) map[string]string {
	t.Helper()
	found := map[string]string{}
	require.NoError(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		found[strings.TrimPrefix(path, folder)] = string(content)
		return err
	}))
	return found
}

// conversion returns a conversion of the flights in partitions of whole chunks.
func conversion(output string, partitions int) zarrio.Conversion {
	return zarrio.Conversion{Input: flights, Output: output, Partitions: partitions, Options: arrowzarr.Options{ChunkRows: 512}}
}

func reportText(r arrowzarr.Report) string {
	return fmt.Sprintf("%d rows in %d columns", r.Rows, r.Columns)
}

func requireVerified(t *testing.T, output string) {
	t.Helper()
	report, err := arrowzarr.Verify(t.Context(), flights, output, arrowzarr.Options{})
	require.NoError(t, err)
	require.Empty(t, report.Difference)
}

func TestConvertOnPrismWritesWhatConvertWritesInOneProcess(t *testing.T) {
	folder := t.TempDir()
	alone := filepath.Join(folder, "alone.zarr")
	expected, err := arrowzarr.Convert(t.Context(), flights, alone, arrowzarr.Options{ChunkRows: 512})
	require.NoError(t, err)
	output := filepath.Join(folder, "beam.zarr")

	p, s := beam.NewPipelineWithRoot()
	reports := zarrio.Convert(s, conversion(output, 7))
	passert.Equals(s, beam.ParDo(s, reportText, reports), reportText(*expected))
	ptest.RunAndValidate(t, p)

	requireVerified(t, output)
	assert.Equal(t, files(t, alone), files(t, output))
}

func TestPipelinesThatFailedGoOnWhenTheyRunAgain(t *testing.T) {
	output := filepath.Join(t.TempDir(), "beam.zarr")
	c := conversion(output, 5)
	// Another run of the pipeline has written two of the partitions.
	_, err := arrowzarr.Plan(t.Context(), flights, output, 5, c.Options)
	require.NoError(t, err)
	for _, number := range []int{1, 4} {
		_, err = arrowzarr.RunPartition(t.Context(), output, number, arrowzarr.Options{})
		require.NoError(t, err)
	}

	// A plan of other partitions is an error, and deletes nothing.
	p, s := beam.NewPipelineWithRoot()
	zarrio.Convert(s, conversion(output, 6))
	err = ptest.Run(p)
	require.Error(t, err)
	assert.Contains(t, err.Error(), "is planned in 5 partitions, expected 6")

	p, s = beam.NewPipelineWithRoot()
	zarrio.Convert(s, c)
	ptest.RunAndValidate(t, p)
	requireVerified(t, output)
}

func TestConvertReplacesAnOutputOnlyWithOverwrite(t *testing.T) {
	output := filepath.Join(t.TempDir(), "beam.zarr")
	for range 2 {
		c := conversion(output, 2)
		c.Options.Overwrite = true
		p, s := beam.NewPipelineWithRoot()
		zarrio.Convert(s, c)
		ptest.RunAndValidate(t, p)
	}
	requireVerified(t, output)
	p, s := beam.NewPipelineWithRoot()
	zarrio.Convert(s, conversion(output, 2))
	err := ptest.Run(p)
	require.Error(t, err)
	assert.Contains(t, err.Error(), "exists already")
	requireVerified(t, output)
}

func TestConversionsAndTablesAreCheckedBeforeThePipelineRuns(t *testing.T) {
	for message, c := range map[string]zarrio.Conversion{
		"expected both":      {Input: "a", Partitions: 1},
		"expected at least":  {Input: "a", Output: "b"},
		"expected them in W": {Input: "a", Output: "b", Partitions: 1, Options: arrowzarr.Options{Jobs: 2}},
	} {
		assert.ErrorContains(t, c.Check(), message)
		_, s := beam.NewPipelineWithRoot()
		assert.Panics(t, func() { zarrio.Convert(s, c) })
	}
	_, s := beam.NewPipelineWithRoot()
	assert.Panics(t, func() { zarrio.Read(s, zarrio.Table{Location: "a"}) })
	assert.Panics(t, func() { zarrio.Read(s, zarrio.Table{Rows: 1}) })
}

// rowsOf emits the number of rows of a stream.
func rowsOf(first int64, stream []byte, emit func(int)) error {
	r, err := ipc.NewReader(bytes.NewReader(stream))
	if err != nil {
		return err
	}
	defer r.Release()
	if len(r.Schema().Fields()) != 2 {
		return fmt.Errorf("%d columns at row %d, expected 2", len(r.Schema().Fields()), first)
	}
	rows := int64(0)
	for r.Next() {
		rows += r.RecordBatch().NumRows()
	}
	emit(int(rows))
	return r.Err()
}

func TestReadGivesEveryRowOnce(t *testing.T) {
	output := filepath.Join(t.TempDir(), "flights.zarr")
	report, err := arrowzarr.Convert(context.Background(), flights, output, arrowzarr.Options{ChunkRows: 512})
	require.NoError(t, err)
	table, err := arrowzarr.OpenTable(t.Context(), output, arrowzarr.TableOptions{})
	require.NoError(t, err)
	columns := []string{table.Schema().Field(0).Name, table.Schema().Field(1).Name}
	require.NoError(t, table.Close())

	p, s := beam.NewPipelineWithRoot()
	rows := beam.ParDo(s, rowsOf, zarrio.Read(s, zarrio.Table{Location: output, Columns: columns, Rows: 1000}))
	passert.Sum(s, rows, "rows", int((report.Rows+999)/1000), int(report.Rows))
	ptest.RunAndValidate(t, p)
}

func init() {
	register.Function1x1(reportText)
	register.Function3x1(rowsOf)
	register.Emitter1[int]()
}
