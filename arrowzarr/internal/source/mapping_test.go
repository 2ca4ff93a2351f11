package source

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
	require.NoError(t, os.WriteFile(path, make([]byte, 5*WindowBytes), 0o666))
	file, err := OpenLocal(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	m, err := NewMapping(file)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	region := func(from, to int) [][]byte { return [][]byte{m.bytes[from:to], nil, make([]byte, 8)} }
	// The mapping may begin anywhere in a window.
	at := int(-addressOf(m.bytes) % WindowBytes)
	first, second := region(at+100, at+WindowBytes+1), region(at+WindowBytes+1, at+2*WindowBytes)

	assert.Equal(t, 2, m.CountWindows(first))
	assert.Equal(t, 2, m.Retain(first))
	assert.Equal(t, 1, m.CountWindows(second))
	assert.Equal(t, 0, m.Retain(second), "a window that is retained already counts once")
	assert.Equal(t, at+2*WindowBytes, bytes.Count(m.bytes[:at+2*WindowBytes], []byte{0}))
	assert.Positive(t, resident(t, path))
	assert.Equal(t, 1, m.Release(first), "the second reads on")
	kept := resident(t, path)
	assert.Positive(t, kept)
	m.Evict(m.bytes[at:])
	assert.Positive(t, resident(t, path), "a retained window is not evicted")
	assert.Equal(t, 1, m.Release(second))
	m.Evict(m.bytes)
	assert.Zero(t, resident(t, path))

	var none *Mapping
	assert.Zero(t, none.CountWindows(first))
	assert.Zero(t, none.Retain(first))
	assert.Zero(t, none.Release(first))
	none.Evict(first[0])
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
