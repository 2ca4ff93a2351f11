package drivertest

import (
	"math"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

func (m *machine) streamOrdered() {
	s := m.stream()
	p := must[uintptr](m)(m.api.MemAllocAsync(1<<16, s))
	require.NoError(m, m.api.MemsetD8Async(p, 4, 1<<16, s))
	dst := m.pinned(1<<16, driver.HostAllocPortable)
	require.NoError(m, m.api.MemcpyDtoHAsync(dst, p, s))
	require.NoError(m, m.api.MemFreeAsync(p, s))
	again := must[uintptr](m)(m.api.MemAllocAsync(1<<16, s)) // may be the same, behind the copy
	require.NoError(m, m.api.MemsetD8Async(again, 5, 1<<16, s))
	require.NoError(m, m.api.MemFreeAsync(again, s))
	require.NoError(m, m.api.StreamSynchronize(s))
	assert.Equal(m, byte(4), dst[1<<16-1])

	p = must[uintptr](m)(m.api.MemAllocAsync(64, s))
	require.NoError(m, m.api.StreamSynchronize(s))
	require.NoError(m, m.api.MemFree(p), "freed without a stream")
	_, err := m.api.MemAllocAsync(math.MaxInt64/2, s)
	m.fails(driver.OutOfMemory, err, "too much")
}

func (m *machine) memPools() {
	s := m.stream()
	pool := must[driver.MemPool](m)(m.api.MemPoolCreate(m.dev, false))
	require.NoError(m, m.api.MemPoolSetAttribute(pool, driver.PoolReleaseThreshold, math.MaxUint64))
	assert.EqualValues(m, uint64(math.MaxUint64), must[uint64](m)(m.api.MemPoolGetAttribute(pool, driver.PoolReleaseThreshold)))
	p := must[uintptr](m)(m.api.MemAllocFromPoolAsync(1<<20, pool, s))
	require.NoError(m, m.api.MemsetD8Async(p, 6, 1<<20, s))
	require.NoError(m, m.api.StreamSynchronize(s))
	assert.Equal(m, byte(6), m.read(p, 1)[0])
	assert.GreaterOrEqual(m, must[uint64](m)(m.api.MemPoolGetAttribute(pool, driver.PoolUsedCurrent)), uint64(1<<20))
	_, err := m.api.IpcGetMemHandle(p)
	m.fails(driver.InvalidValue, err, "memory of a pool has no handle of its own")
	assert.Zero(m, must[uint64](m)(m.api.PointerGetAttribute(driver.PointerIsLegacyIPC, p)), "which its attribute says")
	require.NoError(m, m.api.MemFreeAsync(p, s))
	require.NoError(m, m.api.StreamSynchronize(s))
	assert.Zero(m, must[uint64](m)(m.api.MemPoolGetAttribute(pool, driver.PoolUsedCurrent)))
	assert.GreaterOrEqual(m, must[uint64](m)(m.api.MemPoolGetAttribute(pool, driver.PoolUsedHigh)), uint64(1<<20))
	assert.Positive(m, must[uint64](m)(m.api.MemPoolGetAttribute(pool, driver.PoolReservedCurrent)), "the threshold keeps it")
	require.NoError(m, m.api.MemPoolTrimTo(pool, 0))
	assert.Zero(m, must[uint64](m)(m.api.MemPoolGetAttribute(pool, driver.PoolReservedCurrent)))
	require.NoError(m, m.api.MemPoolDestroy(pool))
	assert.NotZero(m, must[driver.MemPool](m)(m.api.DeviceGetDefaultMemPool(m.dev)))
}

func (m *machine) virtual() {
	g := must[int64](m)(m.api.MemGetAllocationGranularity(m.dev, false))
	require.Positive(m, g)
	_, err := m.api.MemCreate(g+1, m.dev, false)
	m.fails(driver.InvalidValue, err, "no multiple of the granularity")
	at := must[uintptr](m)(m.api.MemAddressReserve(2 * g))
	h := must[driver.Physical](m)(m.api.MemCreate(g, m.dev, false))
	require.NoError(m, m.api.MemMap(at+uintptr(g), g, h))
	require.NoError(m, m.api.MemRelease(h), "the map keeps it")
	require.NoError(m, m.api.MemSetAccess(at+uintptr(g), g, m.dev))
	m.write(at+uintptr(g), []byte("virtual"))
	assert.Equal(m, "virtual", string(m.read(at+uintptr(g), 7)))
	m.fails(driver.InvalidValue, m.api.MemcpyHtoDAsync(at, []byte("x"), 0), "addresses without memory")
	require.NoError(m, m.api.MemUnmap(at+uintptr(g), g))
	require.NoError(m, m.api.MemAddressFree(at, 2*g))
}
