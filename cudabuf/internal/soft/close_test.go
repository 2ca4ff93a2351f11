//go:build linux

package soft

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// held returns the descriptors and mappings of soft devices in this process.
func held(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	links, err := filepath.Glob("/proc/self/fd/*")
	require.NoError(t, err)
	for _, link := range links {
		if name, err := os.Readlink(link); err == nil && strings.Contains(name, filePrefix) {
			all[link] = true
		}
	}
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	for line := range strings.Lines(string(maps)) {
		if strings.Contains(line, filePrefix) {
			all[line] = true
		}
	}
	return all
}

func TestCloseGivesEverythingBack(t *testing.T) {
	before := held(t)
	d, _ := machine(t, Config{Devices: 2, MemoryBytes: 8 * page})
	filled(t, d, 1000, 1)
	p := must[driver.Physical](t)(d.MemCreate(page, 1, true))
	mapped(t, d, p, page)
	fd := must[int](t)(d.MemExportToShareableHandle(p))
	must[driver.Physical](t)(d.MemImportFromShareableHandle(fd))
	require.NoError(t, unix.Close(fd))
	pool := must[driver.MemPool](t)(d.MemPoolCreate(0, true))
	must[uintptr](t)(d.MemAllocFromPoolAsync(100, pool, 0))
	must[uintptr](t)(d.MemAllocAsync(100, 0))
	require.NoError(t, d.MemPoolDestroy(must[driver.MemPool](t)(d.MemPoolCreate(1, false))))
	fd = must[int](t)(d.MemPoolExportToShareableHandle(pool))
	must[driver.MemPool](t)(d.MemPoolImportFromShareableHandle(fd))
	require.NoError(t, unix.Close(fd))
	for i := range driver.Device(2) {
		require.NoError(t, d.DevicePrimaryCtxRelease(i))
	}
	assert.ErrorContains(t, d.Close(), "never freed")
	for what := range held(t) {
		assert.Contains(t, before, what)
	}
}
