//go:build linux

package simulated

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestCallsRequireInit(t *testing.T) {
	api, err := Open(Config{Devices: 1, MemoryBytes: 4096})
	require.NoError(t, err)
	_, err = api.DeviceGetCount()
	wantCode(t, driver.NotInitialized, err)
}

func TestCallsRequireCurrentContextOfThread(t *testing.T) {
	d, contexts := openMachine(t, Config{})
	address := must[uintptr](t)(d.MemAlloc(512))
	calls := map[string]func() error{
		"CtxSynchronize":    d.CtxSynchronize,
		"MemGetInfo":        func() error { _, _, err := d.MemGetInfo(); return err },
		"MemAlloc":          func() error { _, err := d.MemAlloc(1); return err },
		"MemFree":           func() error { return d.MemFree(address) },
		"MemHostAlloc":      func() error { _, err := d.MemHostAlloc(1, 1); return err },
		"StreamCreate":      func() error { _, err := d.StreamCreateWithPriority(1, 0); return err },
		"StreamSynchronize": func() error { return d.StreamSynchronize(0) },
		"MemcpyHtoDAsync":   func() error { return d.MemcpyHtoDAsync(address, make([]byte, 1), 0) },
		"ModuleLoadData":    func() error { _, err := d.ModuleLoadData([]byte("x"), nil); return err },
		"LaunchKernel": func() error {
			return d.LaunchKernel(&driver.Launch{Function: 1})
		},
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked, so the thread ends with its goroutine
		for name, call := range calls {
			err := call()
			wantCode(t, driver.InvalidContext, err)
			assert.ErrorContains(t, err, "none is set on thread", name)
		}
		assert.NoError(t, d.CtxSetCurrent(contexts[0]))
		assert.NoError(t, d.CtxSynchronize())
		assert.NoError(t, d.CtxSetCurrent(0))
		wantCode(t, driver.InvalidContext, d.CtxSynchronize())
		wantCode(t, driver.InvalidContext, d.CtxSetCurrent(1<<40))
	}()
	<-done
	require.NoError(t, d.MemFree(address))
}

func TestCloseReportsLeaks(t *testing.T) {
	d, _ := openMachine(t, Config{})
	address := must[uintptr](t)(d.MemAlloc(512))
	pinned(t, d, 10)
	require.NoError(t, d.DevicePrimaryCtxRelease(0))
	wantCode(t, 709, d.MemFree(address)) // the context is gone
	err := d.Close()
	assert.ErrorContains(t, err, fmt.Sprintf("cuda:0: 1 allocations never freed: 512 bytes at %#x", address))
	assert.ErrorContains(t, err, "1 allocations of pinned memory never freed")
}

func TestCloseNamesEachKindOfLeak(t *testing.T) {
	for name, tt := range map[string]struct {
		take func(t *testing.T, d *Driver) (release func() error)
		want string
	}{
		"a pool": {func(t *testing.T, d *Driver) func() error {
			p := must[driver.MemPool](t)(d.MemPoolCreate(0, false))
			return func() error { return d.MemPoolDestroy(p) }
		}, "cuda:0: 1 allocations never freed: a memory pool"},
		"the default pool": {func(t *testing.T, d *Driver) func() error {
			must[driver.MemPool](t)(d.DeviceGetDefaultMemPool(0))
			return nil
		}, ""},
		"physical memory": {func(t *testing.T, d *Driver) func() error {
			p := must[driver.Physical](t)(d.MemCreate(granularity, 0, false))
			return func() error { return d.MemRelease(p) }
		}, fmt.Sprintf("%d bytes of MemCreate", granularity)},
		"addresses": {func(t *testing.T, d *Driver) func() error {
			a := must[uintptr](t)(d.MemAddressReserve(granularity))
			return func() error { return d.MemAddressFree(a, granularity) }
		}, fmt.Sprintf("%d reserved addresses", granularity)},
		"registered memory": {func(t *testing.T, d *Driver) func() error {
			b := make([]byte, 10)
			require.NoError(t, d.MemHostRegister(b, 0))
			return func() error { return d.MemHostUnregister(addressOf(b)) }
		}, "1 ranges of host memory never unregistered"},
		"a graph": {func(t *testing.T, d *Driver) func() error {
			g := must[driver.Graph](t)(d.StreamEndCapture(beginCapture(t, d, driver.CaptureRelaxed)))
			return func() error { return d.GraphDestroy(g) }
		}, "1 graphs never destroyed"},
		"an executable graph": {func(t *testing.T, d *Driver) func() error {
			e := instantiate(t, d, beginCapture(t, d, driver.CaptureRelaxed))
			return func() error { return d.GraphExecDestroy(e) }
		}, "1 graphs never destroyed"},
	} {
		for _, released := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, released: %v", name, released), func(t *testing.T) {
				d, _ := openMachine(t, Config{MemoryBytes: 4 * granularity})
				release := tt.take(t, d)
				if released && release != nil {
					require.NoError(t, release())
				}
				require.NoError(t, d.DevicePrimaryCtxRelease(0))
				if err := d.Close(); released || tt.want == "" {
					assert.NoError(t, err)
				} else {
					assert.ErrorContains(t, err, tt.want)
				}
			})
		}
	}
}

func TestFailIsCalledForEachCall(t *testing.T) {
	d, _ := openMachine(t, Config{Fail: func(call string, n int) driver.Result {
		if call == "cuMemAlloc" && n == 2 {
			return driver.OutOfMemory
		}
		return 0
	}})
	must[uintptr](t)(d.MemAlloc(1))
	_, err := d.MemAlloc(1)
	wantCode(t, driver.OutOfMemory, err)
	assert.ErrorContains(t, err, "injected at call 2")
	must[uintptr](t)(d.MemAlloc(1))
}

// openResources returns the descriptors and mappings of simulated devices in
// this process.
func openResources(t *testing.T) map[string]bool {
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

func TestCloseReleasesDescriptorsAndMappings(t *testing.T) {
	before := openResources(t)
	d, _ := openMachine(t, Config{Devices: 2, MemoryBytes: 8 * page})
	newExported(t, d, 1000, 1)
	p := must[driver.Physical](t)(d.MemCreate(page, 1, true))
	newMapping(t, d, p, page)
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
	for what := range openResources(t) {
		assert.Contains(t, before, what)
	}
}
