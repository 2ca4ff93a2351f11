package arrowzarr

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMappingKeepsRetainedWindows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mapped")
	require.NoError(t, os.WriteFile(path, make([]byte, 5*windowBytes), 0o666))
	file, err := openLocal(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, file.close()) }()
	m, err := newMapping(file)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.close()) }()
	region := func(from, to int) [][]byte { return [][]byte{m.bytes[from:to], nil, make([]byte, 8)} }
	// The mapping may begin anywhere in a window.
	at := int(-addressOf(m.bytes) % windowBytes)
	first, second := region(at+100, at+windowBytes+1), region(at+windowBytes+1, at+2*windowBytes)

	assert.Equal(t, 2, m.countWindows(first))
	assert.Equal(t, 2, m.retain(first))
	assert.Equal(t, 1, m.countWindows(second))
	assert.Equal(t, 0, m.retain(second), "a window that is retained already counts once")
	assert.Equal(t, at+2*windowBytes, bytes.Count(m.bytes[:at+2*windowBytes], []byte{0}))
	assert.Positive(t, resident(t, path))
	assert.Equal(t, 1, m.release(first), "the second reads on")
	kept := resident(t, path)
	assert.Positive(t, kept)
	m.evict(m.bytes[at:])
	assert.Positive(t, resident(t, path), "a retained window is not evicted")
	assert.Equal(t, 1, m.release(second))
	m.evict(m.bytes)
	assert.Zero(t, resident(t, path))

	var none *mapping
	assert.Zero(t, none.countWindows(first))
	assert.Zero(t, none.retain(first))
	assert.Zero(t, none.release(first))
	none.evict(first[0])
}

// resident is the number of KiB of a mapped file that are in memory.
func resident(t *testing.T, path string) (kib int) {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/smaps")
	require.NoError(t, err)
	_, entry, found := strings.Cut(string(maps), path)
	require.True(t, found)
	_, entry, _ = strings.Cut(entry, "Rss:")
	_, err = fmt.Sscan(entry, &kib)
	require.NoError(t, err)
	return kib
}
