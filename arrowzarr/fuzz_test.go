package arrowzarr_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quiver-gpu/quiver/arrowzarr"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/tabletest"
)

// For any input, a conversion ends within 20 s and does not panic. Its error, if any, is
// one of the input, and it leaves either the output or no file.
func FuzzConvertStream(f *testing.F) {
	golden, _ := filepath.Glob(filepath.Join("..", "..", "shared", "data", "arrow-testing", "arrow-ipc-stream", "integration", "*", "*.stream"))
	for _, path := range golden {
		if content, err := os.ReadFile(path); err == nil && len(content) < 20_000 {
			f.Add(content)
		}
	}
	f.Add(tabletest.RandomTable(1, []int{3, 2}, 0.3).Stream(f))
	f.Add(tabletest.Single("c", tabletest.Dictionary(tabletest.Types[1], tabletest.Texts("a", "-"), 0, -1, 1), tabletest.Dictionary(tabletest.Types[1], tabletest.Texts("b"), 0)).Stream(f))
	f.Add(tabletest.Single("c", tabletest.Texts("a", "-")).File(f))
	f.Add(tabletest.Single("c", tabletest.Texts("a", "-")).Parquet(f))
	f.Fuzz(func(t *testing.T, content []byte) {
		dir := t.TempDir()
		input := filepath.Join(dir, "input")
		if err := os.WriteFile(input, content, 0o666); err != nil {
			t.Fatal(err)
		}
		output := filepath.Join(dir, "output.zarr")
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, err := arrowzarr.Convert(ctx, input, output, arrowzarr.Options{Codec: none, Jobs: 1, MaxMemory: 256 << 20})
		if err == nil {
			requireOnly(t, dir, "input", "output.zarr")
			return
		}
		requireOnly(t, dir, "input")
		var failure *arrowzarr.Error
		// A chunk that is larger than the memory is an error of the options.
		large := strings.Contains(err.Error(), "lower --chunk-rows")
		if !errors.As(err, &failure) || failure.Part != arrowzarr.PartInput && !large {
			t.Fatalf("blamed on part %v: %v", failure, err)
		}
	})
}
