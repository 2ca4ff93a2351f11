package index_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/quiver-gpu/quiver/zarr/internal/index"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTransformsAreThoseOfZarrIndexing(t *testing.T) {
	files, err := filepath.Glob("../../../../shared/data/zarr-indexing/*.json")
	require.NoError(t, err)
	if len(files) == 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("no cases in shared/data/zarr-indexing")
		}
		t.Skip("no cases in shared/data/zarr-indexing")
	}
	n := 0
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		var cases []struct {
			Name              string
			Input, Normalized json.RawMessage
			Error             string
		}
		require.NoError(t, json.Unmarshal(raw, &cases), file)
		for _, c := range cases {
			n++
			got, err := index.ParseTransform(c.Input)
			if c.Error != "" {
				var format *index.FormatError
				if assert.True(t, errors.As(err, &format), c.Name) {
					assert.Equal(t, c.Error, format.Code, c.Name)
				}
				continue
			}
			if assert.NoError(t, err, c.Name) {
				text, err := json.Marshal(got)
				require.NoError(t, err)
				assert.JSONEq(t, string(c.Normalized), string(text), c.Name)
			}
		}
	}
	assert.Greater(t, n, 40)
}

func FuzzParseTransform(f *testing.F) {
	f.Add([]byte(`{"kind":"slice","start":[5],"stop":[10],"step":[2]}`))
	f.Add([]byte(`{"kind":"transform","input_inclusive_min":[0],"input_exclusive_max":[3],"output":[{"index_array":[[1],[2]]},{"input_dimension":0}]}`))
	f.Add([]byte(`{"kind":"box","inclusive_min":[["-inf"]],"exclusive_max":[["+inf"]]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := index.ParseTransform(raw)
		if err != nil {
			return
		}
		if _, err := json.Marshal(got); err != nil {
			t.Fatal(err)
		}
	})
}
