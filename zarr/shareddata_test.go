package zarr_test

import (
	"os"
	"path/filepath"
	"testing"
)

// sharedData is the folder of files that other implementations wrote.
func sharedData(t *testing.T, path ...string) string {
	t.Helper()
	dir := filepath.Join(append([]string{"..", "..", "shared", "data"}, path...)...)
	if _, err := os.Stat(dir); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	return dir
}
