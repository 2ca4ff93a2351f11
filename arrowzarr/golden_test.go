package arrowzarr_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowzarr"
)

// Files that other implementations wrote, of every version, byte order and
// compression, convert to what arrow-go reads; or they are refused for a column
// that has no Zarr form.
func TestGoldenFiles(t *testing.T) {
	root := filepath.Join("..", "..", "shared", "data")
	golden := filepath.Join(root, "arrow-testing", "arrow-ipc-stream", "integration", "*")
	converted := 0
	for _, pattern := range []string{filepath.Join(golden, "*.stream"), filepath.Join(golden, "*.arrow_file"), filepath.Join(root, "parquet-testing", "*.parquet")} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		if len(files) == 0 {
			if os.Getenv("CI") != "" {
				t.Fatal("no golden files")
			}
			t.Skip("no golden files")
		}
		for _, path := range files {
			t.Run(filepath.Base(filepath.Dir(path))+"/"+filepath.Base(path), func(t *testing.T) {
				output := filepath.Join(t.TempDir(), "output.zarr")
				_, err := arrowzarr.Convert(t.Context(), path, output, arrowzarr.Options{})
				if err != nil {
					requireRefusal(t, err)
					requireOnly(t, filepath.Dir(output))
					return
				}
				requireTable(t, readTable(t, path), output)
				converted++
			})
		}
	}
	assert.Greater(t, converted, 50, "files that were converted")
}

// requireRefusal checks that an error is about a column's type or name.
func requireRefusal(tb testing.TB, err error) {
	tb.Helper()
	requirePart(tb, arrowzarr.PartInput, err)
	var failure *arrowzarr.Error
	require.True(tb, errors.As(err, &failure))
	for _, reason := range []string{"has no Zarr form", "have no Zarr form", "occurs more than once"} {
		if strings.Contains(err.Error(), reason) {
			return
		}
	}
	assert.Fail(tb, "refused for another reason", err.Error())
}
