package arrowzarr_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/tabletest"
)

func TestProgressHasTotalRowsIfTheInputDoes(t *testing.T) {
	for input, total := range map[string]int64{"../testdata/weather.parquet": 0, "../testdata/weather.arrow": 0, "../testdata/weather.arrows": -1} {
		progress := &arrowzarr.Progress{}
		report, err := arrowzarr.Convert(t.Context(), input, t.TempDir()+"/output.zarr", arrowzarr.Options{Progress: progress})
		require.NoError(t, err)
		done, of := progress.Rows()
		assert.Equal(t, report.Rows, done)
		if total == 0 { // files have the number of rows
			total = report.Rows
		}
		assert.Equal(t, total, of, input)
	}
}

func TestReportMatchesTheConversion(t *testing.T) {
	columns := tabletest.RandomTable(3, []int{30, 12}, 0.2)
	input := inputFile(t, columns.Stream(t))
	progress := &arrowzarr.Progress{}
	output, report := convertFile(t, input, arrowzarr.Options{Codec: none, ChunkRows: 10, Progress: progress})
	assert.Equal(t, input, report.Input)
	assert.Equal(t, output, report.Output)
	assert.Equal(t, "Arrow IPC stream", report.Format)
	assert.Equal(t, int64(42), report.Rows)
	assert.Equal(t, len(tabletest.Types), report.Columns)
	assert.Positive(t, report.RawBytes)
	assert.Positive(t, report.StoredBytes)
	var names []string
	for _, s := range report.Stages {
		names = append(names, s.Name)
		assert.GreaterOrEqual(t, s.Bytes, int64(0))
	}
	assert.Equal(t, []string{"read", "h2d", "kernels", "d2h", "encode", "write"}, names)
	done, _ := progress.Rows()
	assert.Equal(t, report.Rows, done)
	assert.Equal(t, report.RawBytes, progress.Bytes())
}
