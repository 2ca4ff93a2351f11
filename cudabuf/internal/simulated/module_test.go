//go:build linux

package simulated

import (
	"testing"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLaunchLimits(t *testing.T) {
	d, _ := openMachine(t, Config{})
	f := loadKernel(t, d, "nothing", func(*driver.HostLaunch) {})
	one := driver.Dim3{X: 1, Y: 1, Z: 1}
	for name, tt := range map[string]struct {
		grid, block driver.Dim3
		shared      uint32
		want        driver.Result
	}{
		"least":                {one, one, 0, driver.Success},
		"most of X":            {driver.Dim3{X: 1<<31 - 1, Y: 1, Z: 1}, driver.Dim3{X: 1024, Y: 1, Z: 1}, 48 << 10, driver.Success},
		"most of the rest":     {driver.Dim3{X: 1, Y: 65535, Z: 65535}, driver.Dim3{X: 1, Y: 16, Z: 64}, 0, driver.Success},
		"no block":             {driver.Dim3{X: 1, Y: 1}, one, 0, driver.InvalidValue},
		"no thread":            {one, driver.Dim3{}, 0, driver.InvalidValue},
		"too many blocks":      {driver.Dim3{X: 1 << 31, Y: 1, Z: 1}, one, 0, driver.InvalidValue},
		"too many in Y":        {driver.Dim3{X: 1, Y: 65536, Z: 1}, one, 0, driver.InvalidValue},
		"too many threads":     {one, driver.Dim3{X: 32, Y: 33, Z: 1}, 0, driver.InvalidValue},
		"too many in Z":        {one, driver.Dim3{X: 1, Y: 1, Z: 65}, 0, driver.InvalidValue},
		"too much shared":      {one, one, 48<<10 + 1, driver.InvalidValue},
		"a product of 2 to 32": {one, driver.Dim3{X: 1 << 16, Y: 1 << 16, Z: 1}, 0, driver.InvalidValue},
	} {
		t.Log(name)
		wantResult(t, tt.want, d.LaunchKernel(&driver.Launch{Function: f, Grid: tt.grid, Block: tt.block, SharedBytes: tt.shared}))
	}
	require.NoError(t, d.StreamSynchronize(0))
	wantCode(t, driver.InvalidHandle, d.LaunchKernel(&driver.Launch{Function: f + 1000, Grid: one, Block: one}))
}

func TestDynamicSharedMemoryRequiresOptIn(t *testing.T) {
	d, _ := openMachine(t, Config{})
	f := loadKernel(t, d, "nothing", func(*driver.HostLaunch) {})
	one := driver.Dim3{X: 1, Y: 1, Z: 1}
	require.NoError(t, d.FuncSetAttribute(f, driver.FuncMaxDynamicSharedBytes, sharedPerBlockOptin))
	assert.Equal(t, sharedPerBlockOptin, must[int](t)(d.FuncGetAttribute(driver.FuncMaxDynamicSharedBytes, f)))
	require.NoError(t, d.LaunchKernel(&driver.Launch{Function: f, Grid: one, Block: one, SharedBytes: sharedPerBlockOptin}))
	wantCode(t, driver.InvalidValue, d.FuncSetAttribute(f, driver.FuncMaxDynamicSharedBytes, sharedPerBlockOptin+1))
	wantCode(t, driver.InvalidValue, d.FuncSetAttribute(f, driver.FuncMaxDynamicSharedBytes, -1))
	wantCode(t, driver.InvalidValue, d.FuncSetAttribute(f, driver.FuncRegisters, 1))
	_, err := d.FuncGetAttribute(99, f)
	wantCode(t, driver.InvalidValue, err)
	require.NoError(t, d.FuncSetAttribute(f, driver.FuncMaxDynamicSharedBytes, 100))
	wantCode(t, driver.InvalidValue, d.LaunchKernel(&driver.Launch{Function: f, Grid: one, Block: one, SharedBytes: 101}))
}

// The values are those of NVIDIA's occupancy calculator for compute capability
// 9.0 and 32 registers per thread.
func TestOccupancy(t *testing.T) {
	d, _ := openMachine(t, Config{})
	f := loadKernel(t, d, "nothing", func(*driver.HostLaunch) {})
	require.NoError(t, d.FuncSetAttribute(f, driver.FuncMaxDynamicSharedBytes, sharedPerBlockOptin))
	for _, tt := range []struct {
		threads int
		shared  int64
		want    int
	}{
		{1, 0, 32}, {32, 0, 32}, {64, 0, 32}, {65, 0, 21}, {128, 0, 16}, {256, 0, 8}, {1024, 0, 2}, {1025, 0, 0},
		{32, 48 << 10, 4}, {32, 100 << 10, 2}, {32, 227 << 10, 1}, {32, 228 << 10, 0},
	} {
		assert.Equal(t, tt.want, must[int](t)(d.OccupancyMaxActiveBlocksPerMultiprocessor(f, tt.threads, tt.shared)), "%+v", tt)
	}
	_, err := d.OccupancyMaxActiveBlocksPerMultiprocessor(f, 0, 0)
	wantCode(t, driver.InvalidValue, err)

	for _, tt := range []struct {
		limit           int
		shared          int64
		blocks, threads int
	}{
		{0, 0, 2 * multiprocessors, 1024}, {128, 0, 16 * multiprocessors, 128}, {100, 0, 32 * multiprocessors, 64},
		{0, 120 << 10, multiprocessors, 1024}, {1 << 20, 0, 2 * multiprocessors, 1024},
	} {
		blocks, threads, err := d.OccupancyMaxPotentialBlockSize(f, tt.shared, tt.limit)
		require.NoError(t, err)
		assert.Equal(t, []int{tt.blocks, tt.threads}, []int{blocks, threads}, "%+v", tt)
	}
}
