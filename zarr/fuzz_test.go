package zarr_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/quiver-gpu/quiver/zarr"
	"github.com/stretchr/testify/require"
)

func FuzzParseNode(f *testing.F) {
	for _, pattern := range []string{"array/*.json", "group/*.json"} {
		files, err := filepath.Glob(filepath.Join("..", "..", "shared", "data", "zarr-metadata", "v3", pattern))
		require.NoError(f, err)
		for _, file := range files {
			raw, err := os.ReadFile(file)
			require.NoError(f, err)
			f.Add(raw)
		}
	}
	f.Add(parts{shape: "[1]", dtype: `"string"`, grid: regular("[1]"), keys: `"v2"`, fill: `""`, codecs: `["vlen-utf8"]`}.document())
	f.Fuzz(func(t *testing.T, raw []byte) {
		node, err := zarr.ParseNode(raw)
		if err != nil {
			return
		}
		written, err := node.MarshalJSON()
		require.NoError(t, err)
		again, err := zarr.ParseNode(written)
		require.NoError(t, err, "%s", written)
		rewritten, err := again.MarshalJSON()
		require.NoError(t, err)
		require.Equal(t, string(written), string(rewritten))
	})
}
