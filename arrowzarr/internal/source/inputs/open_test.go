package inputs_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/source"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source/inputs"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source/sourcetest"
)

// inputsOf returns an opener of inputs.
func inputsOf(names ...string) sourcetest.Opener {
	return func() (source.Source, error) { return inputs.Open(context.Background(), names, sourcetest.Options()) }
}

func TestFingerprintsChangeWithTheFile(t *testing.T) {
	columns := sourcetest.RangeTable(3, []int{9}, 0, arrow.PrimitiveTypes.Int16)
	for _, content := range [][]byte{columns.File(t), columns.Stream(t), columns.Parquet(t)} {
		path := sourcetest.WriteFile(t, "input", content)
		fingerprint := func() string { return sourcetest.Info(t, inputsOf(path)).Fingerprint }
		first := fingerprint()
		assert.Contains(t, first, path)
		assert.Equal(t, first, fingerprint())
		require.NoError(t, os.Chtimes(path, time.Time{}, time.Unix(1e9, 5)))
		assert.NotEqual(t, first, fingerprint())
	}
}

func TestEncryptedParquetIsRefusedByName(t *testing.T) {
	for _, name := range []string{"encrypted_footer.parquet", "encrypted_columns.parquet"} {
		_, err := sourcetest.Count(inputsOf(filepath.Join("..", "parquet", "testdata", name)))
		require.ErrorContains(t, err, "encrypted Parquet is not supported")
		assert.ErrorContains(t, err, name)
	}
}
