package arrowbuf

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A kernel that maps whatever is asked for would kill the program later.
func TestNoMoreThanTheMachineHasIsRoom(t *testing.T) {
	most, err := mostMemory()
	require.NoError(t, err)
	assert.Greater(t, most, int64(1)<<28)
	assert.ErrorIs(t, CheckRoom(most+1), ErrOutOfMemory)
}

func TestRoomIsThatOfTheContainer(t *testing.T) {
	for about, c := range map[string]struct {
		files        map[string]string
		memory, swap int64
	}{
		"none":      {nil, math.MaxInt64, math.MaxInt64},
		"without":   {map[string]string{"memory.max": "max\n", "memory.swap.max": "max\n"}, math.MaxInt64, math.MaxInt64},
		"version 2": {map[string]string{"memory.max": "4096\n", "memory.swap.max": "0\n"}, 4096, 0},
		"version 1": {map[string]string{"memory/memory.limit_in_bytes": "8192\n"}, 8192, math.MaxInt64},
	} {
		root := t.TempDir()
		for name, text := range c.files {
			path := filepath.Join(root, name)
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
			require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
		}
		assert.Equal(t, c.memory, containerLimit(root), about)
		assert.Equal(t, c.swap, containerSwap(root), about)
	}
}
