package arrowzarr_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr"
)

func TestProgressKnowsHowManyRowsThereAreWhereTheInputSays(t *testing.T) {
	for input, total := range map[string]int64{"../testdata/weather.parquet": 0, "../testdata/weather.arrow": -1} {
		progress := &arrowzarr.Progress{}
		report, err := arrowzarr.Convert(t.Context(), input, t.TempDir()+"/output.zarr", arrowzarr.Options{Progress: progress})
		require.NoError(t, err)
		done, of := progress.Rows()
		assert.Equal(t, report.Rows, done)
		if total == 0 { // Parquet's footer counts
			total = report.Rows
		}
		assert.Equal(t, total, of, input)
	}
}
