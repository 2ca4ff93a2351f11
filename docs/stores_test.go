package docs

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// storeRows are the rows of zarr-stores.md; the last 42 are zarr-python's StoreTests.
var storeRows = []string{
	"Memory", "Local", "Zip", "DeviceMemory", "S3", "Google Cloud Storage", "Azure Blob Storage", "HTTP", "any bucket",
	"Under", "ReadOnly", "Cache", "Logging", "near ranges", "beyond the value", "a value changes", "groups and arrays",
	"no ranges", "other servers", "faults", "a context", "credentials", "keys", "malformed responses", "faults", "lists", "conditional creation",
	"a cancelled write", "a failed upload to Azure", "requests at once", "shards", "writers and readers", "keys", "the example", "random operations",
	"store_repr", "supports_writes", "supports_partial_writes", "supports_listing", "store_type", "store_eq", "serializable_store",
	"store_read_only", "store_open_read_only", "store_context_manager", "read_only_store_raises", "with_read_only_store",
	"get", "get_not_open", "set_not_open", "get_raises", "get_many", "set_many", "getsize", "getsize_raises", "getsize_prefix",
	"set", "get_partial_values", "exists", "delete", "delete_nonexistent_key_does_not_raise", "delete_dir", "is_empty",
	"clear", "list", "list_prefix", "list_empty_path", "list_dir", "set_if_not_exists", "get_sync", "get_sync_missing",
	"set_sync", "delete_sync", "delete_sync_missing", "sync_async_set_get_parity", "delete_sync_visible_to_async_get",
	"get_sync_byte_range_parity",
}

func TestStoresHaveEveryRowAndAProofOfEach(t *testing.T) {
	document, err := os.ReadFile("zarr-stores.md")
	require.NoError(t, err)
	var got []string
	for line := range strings.Lines(string(document)) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| row |") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		require.Len(t, cells, 4, line)
		got = append(got, cells[0])
		assert.True(t, named.MatchString(cells[3]) || strings.HasPrefix(cells[3], "none: "), "no proof: %s", line)
	}
	assert.Equal(t, storeRows, got)
}

// The store of one's own in zarr-stores.md is compiled and tested.
func TestStoreExampleIsCompiled(t *testing.T) {
	document, err := os.ReadFile("zarr-stores.md")
	require.NoError(t, err)
	block := regexp.MustCompile("(?s)```go\n(// files is .*?)```").FindSubmatch(document)
	require.NotNil(t, block, "zarr-stores.md has no store of one's own")
	source, err := os.ReadFile("../zarr/store/example_own_test.go")
	require.NoError(t, err)
	assert.Contains(t, string(source), string(block[1]))
}

// The claims in parentheses are subtests of the conformance suite.
func TestClaimsOfTheConformanceSuiteExist(t *testing.T) {
	document, err := os.ReadFile("zarr-stores.md")
	require.NoError(t, err)
	source, err := os.ReadFile("../zarr/store/storetest/storetest.go")
	require.NoError(t, err)
	claims := regexp.MustCompile("`zarr/store\\.TestStores` \\(([^)]*)\\)").FindAllSubmatch(document, -1)
	require.NotEmpty(t, claims)
	for _, claim := range claims {
		assert.Contains(t, string(source), "\t{\""+string(claim[1])+"\", ")
	}
}
