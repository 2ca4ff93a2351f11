package arrowzarr_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/internal/apitest"
)

// Each exported function of the package takes nil and zero arguments without a panic,
// and returns an error for nil.
func TestNilAndZeroArgumentsNeverPanic(t *testing.T) {
	output := filepath.Join(t.TempDir(), "weather.zarr")
	_, err := arrowzarr.Convert(t.Context(), "../testdata/weather.arrow", output, arrowzarr.Options{})
	require.NoError(t, err)
	table, err := arrowzarr.OpenTable(t.Context(), output, arrowzarr.TableOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, table.Close()) })

	apitest.Zeros{
		Functions: map[string]any{
			"Abort": arrowzarr.Abort, "Append": arrowzarr.Append, "AppendReader": arrowzarr.AppendReader, "Convert": arrowzarr.Convert, "ConvertReader": arrowzarr.ConvertReader, "Finalize": arrowzarr.Finalize,
			"Inspect": arrowzarr.Inspect, "NewTable": arrowzarr.NewTable, "OpenTable": arrowzarr.OpenTable, "ParseCodec": arrowzarr.ParseCodec,
			"Plan": arrowzarr.Plan, "Restore": arrowzarr.Restore, "RunPartition": arrowzarr.RunPartition, "Status": arrowzarr.Status, "Verify": arrowzarr.Verify,
		},
		Values: map[string]any{
			"Codec": arrowzarr.Codec{}, "Error": &arrowzarr.Error{}, "Options": &arrowzarr.Options{}, "OutputStatus": &arrowzarr.OutputStatus{},
			"Part": arrowzarr.Part(0), "Progress": &arrowzarr.Progress{}, "Table": table,
		},
		Skip: []string{"Close"},
	}.Run(t, ".")
}
