package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

func TestConvertAddsTheSpeedOfEachFlight(t *testing.T) {
	devices := []string{"cpu"}
	if cudatest.OnGPU() {
		devices = append(devices, "cuda", "cuda_managed")
	}
	for _, device := range devices {
		output := filepath.Join(t.TempDir(), "fast.parquet")
		require.NoError(t, convert(context.Background(), device, "../../testdata/flights.parquet", output), device)
		f, err := os.Open(output)
		require.NoError(t, err)
		defer f.Close()
		table, err := pqarrow.ReadTable(context.Background(), f, nil, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
		require.NoError(t, err)
		defer table.Release()
		require.EqualValues(t, 336_776, table.NumRows())
		first := func(name string) float64 {
			switch c := table.Column(table.Schema().FieldIndices(name)[0]).Data().Chunk(0).(type) {
			case *array.Float64:
				return c.Value(0)
			case *array.Int16:
				return float64(c.Value(0))
			default:
				require.Failf(t, "type", "%T", c)
				return 0
			}
		}
		assert.Equal(t, first("distance")*(1.609344*60)/first("air_time"), first("speed"), device)
		speed, airTime := table.Column(int(table.NumCols())-1), table.Column(table.Schema().FieldIndices("air_time")[0])
		assert.Equal(t, airTime.Data().NullN(), speed.Data().NullN(), "null where the time is")
	}
	require.NoError(t, cudabuf.CloseDevices())
}

func TestFailedConversionLeavesNoFile(t *testing.T) {
	output := filepath.Join(t.TempDir(), "fast.parquet")
	assert.Error(t, convert(context.Background(), "cpu", "../../testdata/weather.parquet", output), "no such columns")
	assert.Error(t, convert(context.Background(), "cpu", "no such file", output))
	assert.ErrorIs(t, convert(context.Background(), "tpu", "../../testdata/flights.parquet", output), cudabuf.ErrInvalidName)
	_, err := os.Stat(output)
	assert.ErrorIs(t, err, os.ErrNotExist)
}
