package arrowzarr_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/tabletest"
)

// BenchmarkReadParquet reads a Parquet file as Convert does: QUIVER_BENCH_PARQUET, or a
// small one. bench/parquet_cpu.py runs it.
func BenchmarkReadParquet(b *testing.B) {
	path := os.Getenv("QUIVER_BENCH_PARQUET")
	if path == "" {
		path = filepath.Join(b.TempDir(), "small.parquet")
		require.NoError(b, os.WriteFile(path, tabletest.Single("x", tabletest.Random(tabletest.NewRand(1), arrow.PrimitiveTypes.Float64, 10_000, 0.1)).Parquet(b), 0o600))
	}
	for b.Loop() {
		bytes, err := arrowzarr.ReadAsConvert(path)
		require.NoError(b, err)
		b.SetBytes(bytes)
	}
}
