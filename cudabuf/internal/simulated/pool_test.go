//go:build linux

package simulated

import (
	"runtime"
	"testing"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// unit is the multiple in which pools allocate, a page.
const unit = 4096

func wantPool(t *testing.T, d *Driver, p driver.MemPool, want map[driver.MemPoolAttribute]uint64) {
	t.Helper()
	for a, v := range want {
		assert.Equal(t, v, must[uint64](t)(d.MemPoolGetAttribute(p, a)), "attribute %d", a)
	}
}

func TestStreamReusesOwnFreesAtOnce(t *testing.T) {
	d, _ := openMachine(t, Config{})
	s := newStreams(t, d, 2)
	a := must[uintptr](t)(d.MemAllocAsync(5000, s[0]))
	open := gateStream(t, d, s[0])
	require.NoError(t, d.MemFreeAsync(a, s[0]))
	other := must[uintptr](t)(d.MemAllocAsync(1000, s[1]))
	assert.NotEqual(t, a, other, "the free has not run")
	same := must[uintptr](t)(d.MemAllocAsync(100, s[0]))
	assert.Equal(t, a, same)
	rest := must[uintptr](t)(d.MemAllocAsync(512, s[0]))
	assert.Equal(t, a+4096, rest)
	open()
	require.NoError(t, d.StreamSynchronize(s[0]))
	for _, p := range []uintptr{other, same, rest} {
		require.NoError(t, d.MemcpyHtoDAsync(p, make([]byte, 100), s[1]), "the free leaves what was taken of its block")
		require.NoError(t, d.MemFreeAsync(p, s[1]))
	}
	require.NoError(t, d.StreamSynchronize(s[1]))
	assert.Equal(t, a, must[uintptr](t)(d.MemAllocAsync(1000, s[1])), "the free has run")
}

func TestReuseWaitsForPendingFree(t *testing.T) {
	d, _ := openMachine(t, Config{MemoryBytes: 2 * unit})
	s := newStreams(t, d, 2)
	a := must[uintptr](t)(d.MemAllocAsync(2*unit, s[0]))
	require.NoError(t, d.StreamSynchronize(s[0]))
	open := gateStream(t, d, s[0])
	require.NoError(t, d.MemsetD8Async(a, 7, unit, s[0]))
	kept := make([]byte, unit)
	require.NoError(t, d.MemcpyDtoDAsync(a+unit, a, unit, s[0]))
	require.NoError(t, d.MemFreeAsync(a, s[0]))
	b := must[uintptr](t)(d.MemAllocAsync(unit, s[1]))
	assert.Equal(t, a, b)
	require.NoError(t, d.MemsetD8Async(b, 1, unit, s[1]))
	for range 1000 { // time in which a wrong implementation runs too early
		runtime.Gosched()
	}
	open()
	require.NoError(t, d.StreamSynchronize(s[0]))
	require.NoError(t, d.MemcpyDtoHAsync(kept, b, s[1]))
	assert.Equal(t, byte(1), kept[0], "work of the stream that freed it comes before")
	_, err := d.MemAllocAsync(unit+1, s[1])
	wantCode(t, driver.OutOfMemory, err)
}

func TestFreedMemoryIsInvalidAtOnce(t *testing.T) {
	d, _ := openMachine(t, Config{})
	s := newStreams(t, d, 1)[0]
	a := must[uintptr](t)(d.MemAllocAsync(100, s))
	open := gateStream(t, d, s)
	require.NoError(t, d.MemFreeAsync(a, s))
	wantCode(t, driver.InvalidValue, d.MemsetD8Async(a, 0, 1, s))
	wantCode(t, driver.InvalidValue, d.MemFreeAsync(a, s))
	_, err := d.PointerGetAttribute(driver.PointerMemoryType, a)
	wantCode(t, driver.InvalidValue, err)
	open()
}

func TestMemFreeOfPooledMemorySynchronizes(t *testing.T) {
	d, _ := openMachine(t, Config{})
	s := newStreams(t, d, 1)[0]
	a := must[uintptr](t)(d.MemAllocAsync(100, s))
	ran := false
	require.NoError(t, d.streams[s].submit("", func() error { ran = true; return nil }))
	require.NoError(t, d.MemFree(a))
	assert.True(t, ran)
	assert.Zero(t, inUse(t, d))
	b := must[uintptr](t)(d.MemAlloc(100))
	wantCode(t, driver.InvalidValue, d.MemFreeAsync(b, s))
	wantCode(t, driver.InvalidValue, d.MemFreeAsync(b+1, s))
	require.NoError(t, d.MemFree(b))
}

func TestPoolReleaseThreshold(t *testing.T) {
	d, _ := openMachine(t, Config{})
	p := must[driver.MemPool](t)(d.DeviceGetDefaultMemPool(0))
	assert.Equal(t, p, must[driver.MemPool](t)(d.DeviceGetDefaultMemPool(0)))
	allocate := func() (all []uintptr) {
		for range 2 {
			all = append(all, must[uintptr](t)(d.MemAllocAsync(unit, 0)))
		}
		return all
	}
	free := func(all []uintptr) {
		for _, a := range all {
			require.NoError(t, d.MemFreeAsync(a, 0))
		}
		require.NoError(t, d.StreamSynchronize(0))
	}
	all := allocate()
	assert.EqualValues(t, 2*unit, inUse(t, d))
	wantPool(t, d, p, map[driver.MemPoolAttribute]uint64{driver.PoolUsedCurrent: 2 * unit, driver.PoolReservedCurrent: 2 * unit, driver.PoolReleaseThreshold: 0})
	free(all)
	assert.Zero(t, inUse(t, d))
	require.NoError(t, d.MemPoolSetAttribute(p, driver.PoolReleaseThreshold, unit))
	free(allocate())
	assert.EqualValues(t, unit, inUse(t, d))
	wantPool(t, d, p, map[driver.MemPoolAttribute]uint64{
		driver.PoolUsedCurrent: 0, driver.PoolReservedCurrent: unit,
		driver.PoolUsedHigh: 2 * unit, driver.PoolReservedHigh: 2 * unit, driver.PoolReleaseThreshold: unit,
	})
	require.NoError(t, d.MemPoolSetAttribute(p, driver.PoolUsedHigh, 0))
	require.NoError(t, d.MemPoolSetAttribute(p, driver.PoolReservedHigh, 0))
	wantPool(t, d, p, map[driver.MemPoolAttribute]uint64{driver.PoolUsedHigh: 0, driver.PoolReservedHigh: unit})
	free(allocate())
	require.NoError(t, d.MemPoolTrimTo(p, unit))
	assert.EqualValues(t, unit, inUse(t, d))
	require.NoError(t, d.MemPoolTrimTo(p, 0))
	assert.Zero(t, inUse(t, d))

	wantCode(t, driver.InvalidValue, d.MemPoolSetAttribute(p, driver.PoolUsedHigh, 1))
	wantCode(t, driver.InvalidValue, d.MemPoolSetAttribute(p, driver.PoolUsedCurrent, 0))
	wantCode(t, driver.InvalidValue, d.MemPoolTrimTo(p, -1))
	wantCode(t, driver.InvalidValue, d.MemPoolDestroy(p))
	_, err := d.MemPoolGetAttribute(p, 99)
	wantCode(t, driver.InvalidValue, err)
}

func TestPoolsAndMemAllocShareDeviceMemory(t *testing.T) {
	d, _ := openMachine(t, Config{MemoryBytes: 4 * unit})
	must[uintptr](t)(d.MemAlloc(2 * unit))
	a := must[uintptr](t)(d.MemAllocAsync(unit, 0))
	_, err := d.MemAllocAsync(2*unit, 0)
	wantCode(t, driver.OutOfMemory, err)
	_, err = d.MemAlloc(2 * unit)
	wantCode(t, driver.OutOfMemory, err)
	require.NoError(t, d.MemFreeAsync(a, 0))
	require.NoError(t, d.StreamSynchronize(0))
	must[uintptr](t)(d.MemAlloc(2 * unit))
	for _, n := range []int64{0, -1} {
		_, err = d.MemAllocAsync(n, 0)
		wantCode(t, driver.InvalidValue, err)
	}
	_, err = d.MemAllocAsync(1<<62, 0)
	wantCode(t, driver.OutOfMemory, err)
}

func TestDestroyedPoolLivesUntilLastFree(t *testing.T) {
	d, _ := openMachine(t, Config{})
	p := must[driver.MemPool](t)(d.MemPoolCreate(0, false))
	require.NoError(t, d.MemPoolSetAttribute(p, driver.PoolReleaseThreshold, 1<<63))
	a := must[uintptr](t)(d.MemAllocFromPoolAsync(600, p, 0))
	require.NoError(t, d.MemFreeAsync(must[uintptr](t)(d.MemAllocFromPoolAsync(600, p, 0)), 0))
	require.NoError(t, d.StreamSynchronize(0))
	assert.EqualValues(t, 2*unit, inUse(t, d))
	require.NoError(t, d.MemPoolDestroy(p))
	assert.EqualValues(t, unit, inUse(t, d))
	_, err := d.MemAllocFromPoolAsync(1, p, 0)
	wantCode(t, driver.InvalidValue, err)
	wantCode(t, driver.InvalidValue, d.MemPoolDestroy(p))
	require.NoError(t, d.MemcpyHtoDAsync(a, make([]byte, 600), 0))
	require.NoError(t, d.MemFreeAsync(a, 0))
	require.NoError(t, d.StreamSynchronize(0))
	assert.Zero(t, inUse(t, d))
	_, ok := Describe(a)
	assert.False(t, ok, "its addresses are unmapped")
	require.NoError(t, d.DevicePrimaryCtxRelease(0))
	require.NoError(t, d.Close())
}

func TestOtherDeviceNeedsAccessToPool(t *testing.T) {
	d, contexts := openMachine(t, Config{Devices: 2})
	p := must[driver.MemPool](t)(d.MemPoolCreate(1, false))
	_, err := d.MemAllocFromPoolAsync(1, 0, 0)
	wantCode(t, driver.InvalidValue, err)
	a := must[uintptr](t)(d.MemAllocFromPoolAsync(512, p, 0))
	require.NoError(t, d.StreamSynchronize(0))
	assert.EqualValues(t, 1, must[uint64](t)(d.PointerGetAttribute(driver.PointerDeviceOrdinal, a)))
	_, err = d.PointerGetAttribute(driver.PointerDevicePointer, a)
	wantCode(t, driver.InvalidValue, err)
	wantCode(t, driver.InvalidValue, d.MemsetD8Async(a, 0, 512, 0))
	require.NoError(t, d.MemPoolSetAccess(p, 0))
	require.NoError(t, d.MemsetD8Async(a, 0, 512, 0))
	wantCode(t, driver.InvalidDevice, d.MemPoolSetAccess(p, 2))
	require.NoError(t, d.StreamSynchronize(0))
	assert.Zero(t, inUse(t, d))
	require.NoError(t, d.CtxSetCurrent(contexts[1]))
	assert.EqualValues(t, unit, inUse(t, d))
}

func TestOperationBeforeAllocationFails(t *testing.T) {
	d, _ := openMachine(t, Config{})
	s := newStreams(t, d, 2)
	open := gateStream(t, d, s[0])
	a := must[uintptr](t)(d.MemAllocAsync(100, s[0]))
	require.NoError(t, d.MemsetD8Async(a, 1, 10, s[1]))
	err := d.StreamSynchronize(s[1])
	wantCode(t, driver.IllegalAddress, err)
	assert.ErrorContains(t, err, "byte 0 of 100 bytes allocated at")
	open()
}

func TestOperationAfterFreeFails(t *testing.T) {
	d, _ := openMachine(t, Config{})
	s := newStreams(t, d, 2)
	a := must[uintptr](t)(d.MemAllocAsync(100, s[0]))
	require.NoError(t, d.StreamSynchronize(s[0]))
	open := gateStream(t, d, s[1])
	require.NoError(t, d.MemsetD8Async(a, 1, 10, s[1]))
	require.NoError(t, d.MemFreeAsync(a, s[0]))
	require.NoError(t, d.StreamSynchronize(s[0]))
	open()
	err := d.StreamSynchronize(s[1])
	wantCode(t, driver.IllegalAddress, err)
	assert.ErrorContains(t, err, "where no memory is allocated")
}

func TestMemoryIsFreedWithContext(t *testing.T) {
	d, contexts := openMachine(t, Config{})
	c := must[driver.Context](t)(d.CtxCreate(0, 0))
	a := must[uintptr](t)(d.MemAlloc(100))
	assert.EqualValues(t, c, must[uint64](t)(d.PointerGetAttribute(driver.PointerContext, a)))
	require.NoError(t, d.CtxSetCurrent(contexts[0]))
	b := must[uintptr](t)(d.MemAlloc(100))
	require.NoError(t, d.MemcpyDtoDAsync(b, a, 100, 0), "contexts of a device reach each other's memory")
	require.NoError(t, d.CtxDestroy(c))
	wantCode(t, driver.InvalidValue, d.MemcpyDtoDAsync(b, a, 100, 0))
	assert.EqualValues(t, allocAlign, inUse(t, d))
	require.NoError(t, d.MemFree(b))
	require.NoError(t, d.DevicePrimaryCtxRelease(0))
	assert.ErrorContains(t, d.Close(), "cuda:0: 1 allocations never freed")
}

func TestKernelUsesMemoryFreedAfterIt(t *testing.T) {
	d, _ := openMachine(t, Config{})
	s := newStreams(t, d, 1)[0]
	var a uintptr
	var offset, n int64
	touch := loadKernel(t, d, "touch", func(l *driver.HostLaunch) { l.Memory(a+uintptr(offset), n)[0] = 7 })
	launch := func(at, bytes int64) error {
		a, offset, n = must[uintptr](t)(d.MemAllocAsync(2*unit, s)), at, bytes
		open := gateStream(t, d, s)
		require.NoError(t, d.LaunchKernel(&driver.Launch{Function: touch, Grid: single, Block: single, Stream: s}))
		require.NoError(t, d.MemFreeAsync(a, s))
		next := must[uintptr](t)(d.MemAllocAsync(100, s))
		assert.Equal(t, a, next, "a part of it has a new owner")
		require.NoError(t, d.MemFreeAsync(next, s))
		open()
		return d.StreamSynchronize(s)
	}
	require.NoError(t, launch(0, 2*unit))
	require.NoError(t, launch(unit+1, unit-1))
	wantCode(t, driver.IllegalAddress, launch(1, 2*unit))
}

func TestFreedMemoryIsInvalidForUnorderedWork(t *testing.T) {
	for name, tt := range map[string]struct {
		device driver.Device // of the pool
		runs   bool          // the free, before the work
	}{
		"the free has run":                {0, true},
		"the device was not given access": {1, false},
	} {
		t.Run(name, func(t *testing.T) {
			d, _ := openMachine(t, Config{Devices: 2})
			s := newStreams(t, d, 2)
			pool := must[driver.MemPool](t)(d.MemPoolCreate(tt.device, false))
			a := must[uintptr](t)(d.MemAllocFromPoolAsync(2*unit, pool, s[0]))
			require.NoError(t, d.StreamSynchronize(s[0]))
			touch := loadKernel(t, d, "touch", func(l *driver.HostLaunch) { l.Memory(a, 2*unit)[0] = 7 })
			work := gateStream(t, d, s[1])
			require.NoError(t, d.LaunchKernel(&driver.Launch{Function: touch, Grid: single, Block: single, Stream: s[1]}))
			free := gateStream(t, d, s[0])
			require.NoError(t, d.MemFreeAsync(a, s[0]))
			if tt.runs {
				free()
				assert.Equal(t, a, must[uintptr](t)(d.MemAllocFromPoolAsync(unit, pool, s[0])))
				require.NoError(t, d.StreamSynchronize(s[0]))
			} else {
				defer free()
			}
			work()
			wantCode(t, driver.IllegalAddress, d.StreamSynchronize(s[1]))
		})
	}
}
