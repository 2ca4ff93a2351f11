package arrowbuf

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A kernel that maps any size (overcommit) would kill the program later.
func TestHostMemoryLimitIsTotalMemory(t *testing.T) {
	most := totalMemory()
	require.Less(t, most, int64(1)<<46)
	assert.Greater(t, most, int64(1)<<26)
	err := CheckHostMemory(max(most+1, 1<<30))
	assert.ErrorIs(t, err, ErrOutOfMemory)
	assert.ErrorContains(t, err, "the system has")
}

func TestHostMemoryLimitIsThatOfTheContainer(t *testing.T) {
	const machine, swap = 1000, 100
	const second, first = "0::/a.slice/b\n", "3:cpuset:/x\n4:hugetlb,memory:/a/b\n0::/\n"
	for about, c := range map[string]struct {
		groups string
		files  map[string]string
		want   int64
	}{
		"nothing":                     {"", nil, 1100},
		"no limits":                   {second, map[string]string{"a.slice/b/memory.max": "max\n", "a.slice/b/memory.swap.max": "max\n"}, 1100},
		"its own":                     {second, map[string]string{"a.slice/b/memory.max": "40\n"}, 140},
		"its own, without swap":       {second, map[string]string{"a.slice/b/memory.max": "40\n", "a.slice/b/memory.swap.max": "0\n"}, 40},
		"that of the group around":    {second, map[string]string{"a.slice/memory.max": "30\n", "a.slice/b/memory.max": "40\n"}, 130},
		"the root's, in a container":  {second, map[string]string{"memory.max": "20\n"}, 120},
		"of another group":            {second, map[string]string{"c/memory.max": "20\n"}, 1100},
		"more than the machine's":     {second, map[string]string{"a.slice/b/memory.max": "5000\n"}, 1100},
		"version 1":                   {first, map[string]string{"memory/a/b/memory.limit_in_bytes": "50\n"}, 150},
		"version 1, with swap":        {first, map[string]string{"memory/a/b/memory.limit_in_bytes": "50\n", "memory/a/memory.memsw.limit_in_bytes": "60\n"}, 60},
		"version 1, in a container":   {first, map[string]string{"memory/memory.limit_in_bytes": "70\n"}, 170},
		"of a controller that is not": {"3:cpuset:/x\n", map[string]string{"memory/x/memory.limit_in_bytes": "50\n"}, 1100},
	} {
		root := t.TempDir()
		for name, text := range c.files {
			path := filepath.Join(root, name)
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
			require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
		}
		assert.Equal(t, c.want, cgroupLimit(machine, swap, c.groups, root), about)
	}
}
