package drivertest

import (
	"bytes"
	"math"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func (m *fixture) memory() {
	free, total, err := m.api.MemGetInfo()
	require.NoError(m, err)
	assert.Positive(m, free)
	assert.LessOrEqual(m, free, total)
	p := m.alloc(1000)
	assert.Zero(m, p%256, "aligned")
	base, size, err := m.api.MemGetAddressRange(p + 999)
	require.NoError(m, err)
	assert.Equal(m, p, base)
	assert.EqualValues(m, 1000, size, "the requested size, not rounded up")

	attribute := func(a driver.PointerAttribute, p uintptr) uint64 {
		m.Helper()
		return must[uint64](m)(m.api.PointerGetAttribute(a, p))
	}
	assert.EqualValues(m, driver.MemoryTypeDevice, attribute(driver.PointerMemoryType, p+1))
	assert.EqualValues(m, p+1, attribute(driver.PointerDevicePointer, p+1))
	assert.EqualValues(m, m.dev, attribute(driver.PointerDeviceOrdinal, p))
	assert.EqualValues(m, m.ctx, attribute(driver.PointerContext, p))
	assert.EqualValues(m, 1, attribute(driver.PointerIsLegacyIPC, p))
	host := make([]byte, 64)
	_, err = m.api.PointerGetAttribute(driver.PointerMemoryType, addressOf(host))
	m.wantCode(driver.InvalidValue, err, "ordinary memory")
	_, _, err = m.api.MemGetAddressRange(addressOf(host))
	assert.NotEqual(m, driver.Success, resultOf(err))
	_, err = m.api.MemAlloc(0)
	m.wantCode(driver.InvalidValue, err, "zero bytes")
	m.wantCode(driver.InvalidValue, m.api.MemFree(p+256), "not the start")
}

func (m *fixture) outOfMemory() {
	_, err := m.api.MemAlloc(math.MaxInt64 / 2)
	assert.ErrorIs(m, err, arrowbuf.ErrOutOfMemory)
	m.alloc(1 << 20) // the context still works
}

func (m *fixture) hostMemory() {
	for _, flags := range []uint32{driver.HostAllocPortable, driver.HostAllocPortable | driver.HostAllocDeviceMap, driver.HostAllocPortable | driver.HostAllocDeviceMap | driver.HostAllocWriteCombined} {
		b := m.pinned(1<<16, flags)
		for i := range b {
			b[i] = byte(i)
		}
		assert.EqualValues(m, driver.MemoryTypeHost, must[uint64](m)(m.api.PointerGetAttribute(driver.PointerMemoryType, addressOf(b)+5)))
		p := m.alloc(1 << 16)
		m.write(p, b)
		assert.True(m, bytes.Equal(b, m.read(p, 1<<16)))
		if flags&driver.HostAllocDeviceMap != 0 {
			at := must[uintptr](m)(m.api.MemHostGetDevicePointer(addressOf(b)))
			require.NoError(m, m.api.MemcpyDtoDAsync(p, at, 16, 0))
			require.NoError(m, m.api.StreamSynchronize(0))
		}
	}
	host := make([]byte, 64)
	m.wantCode(driver.InvalidValue, m.api.MemFreeHost(addressOf(host)), "not pinned here")
}

func (m *fixture) registration() {
	b := make([]byte, 1<<20)
	require.NoError(m, m.api.MemHostRegister(b, driver.HostRegisterPortable|driver.HostRegisterDeviceMap))
	m.wantCode(712, m.api.MemHostRegister(b, driver.HostRegisterPortable), "twice")
	assert.EqualValues(m, driver.MemoryTypeHost, must[uint64](m)(m.api.PointerGetAttribute(driver.PointerMemoryType, addressOf(b)+7)))
	p := m.alloc(1 << 20)
	b[1<<20-1] = 5
	m.write(p, b)
	assert.Equal(m, byte(5), m.read(p, 1<<20)[1<<20-1])
	require.NoError(m, m.api.MemHostUnregister(addressOf(b)))
	m.wantCode(713, m.api.MemHostUnregister(addressOf(b)), "twice")
	_, err := m.api.PointerGetAttribute(driver.PointerMemoryType, addressOf(b))
	m.wantCode(driver.InvalidValue, err, "no longer")
}

func (m *fixture) copies() {
	s := m.newStream()
	p, q := m.alloc(1<<16), m.alloc(1<<16)
	src, dst := m.pinned(1<<16, driver.HostAllocPortable), m.pinned(1<<16, driver.HostAllocPortable)
	for i := range src {
		src[i] = byte(i * 7)
	}
	require.NoError(m, m.api.MemcpyHtoDAsync(p, src, s))
	require.NoError(m, m.api.MemcpyDtoDAsync(q+1, p, 1<<16-1, s))
	require.NoError(m, m.api.MemsetD8Async(q, 0xee, 1, s))
	require.NoError(m, m.api.MemcpyDtoHAsync(dst, q, s))
	require.NoError(m, m.api.StreamSynchronize(s))
	assert.Equal(m, byte(0xee), dst[0])
	assert.True(m, bytes.Equal(src[:1<<16-1], dst[1:]))

	ordinary := []byte("ordinary memory")
	require.NoError(m, m.api.MemcpyHtoDAsync(p, ordinary, s))
	clear(ordinary) // it has been read
	back := make([]byte, len(ordinary))
	require.NoError(m, m.api.MemcpyDtoHAsync(back, p, s)) // it is filled
	assert.Equal(m, "ordinary memory", string(back))
}

func (m *fixture) invalidCopies() {
	p := m.alloc(1 << 12)
	host := make([]byte, 8)
	m.wantCode(driver.InvalidValue, m.api.MemcpyHtoDAsync(16, host, 0), "invalid destination")
	m.wantCode(driver.InvalidValue, m.api.MemcpyDtoHAsync(host, 16, 0), "invalid source")
	m.wantCode(driver.InvalidValue, m.api.MemcpyDtoDAsync(16, p, 8, 0), "invalid device destination")
	m.write(p, host) // the context still works
}

func (m *fixture) streamOrdered() {
	s := m.newStream()
	p := must[uintptr](m)(m.api.MemAllocAsync(1<<16, s))
	require.NoError(m, m.api.MemsetD8Async(p, 4, 1<<16, s))
	dst := m.pinned(1<<16, driver.HostAllocPortable)
	require.NoError(m, m.api.MemcpyDtoHAsync(dst, p, s))
	require.NoError(m, m.api.MemFreeAsync(p, s))
	again := must[uintptr](m)(m.api.MemAllocAsync(1<<16, s)) // may reuse the memory after the copy
	require.NoError(m, m.api.MemsetD8Async(again, 5, 1<<16, s))
	require.NoError(m, m.api.MemFreeAsync(again, s))
	require.NoError(m, m.api.StreamSynchronize(s))
	assert.Equal(m, byte(4), dst[1<<16-1])

	p = must[uintptr](m)(m.api.MemAllocAsync(64, s))
	require.NoError(m, m.api.StreamSynchronize(s))
	require.NoError(m, m.api.MemFree(p), "freed without a stream")
	_, err := m.api.MemAllocAsync(math.MaxInt64/2, s)
	m.wantCode(driver.OutOfMemory, err, "more than the device has")
}

func (m *fixture) memPools() {
	s := m.newStream()
	pool := must[driver.MemPool](m)(m.api.MemPoolCreate(m.dev, false))
	require.NoError(m, m.api.MemPoolSetAttribute(pool, driver.PoolReleaseThreshold, math.MaxUint64))
	assert.EqualValues(m, uint64(math.MaxUint64), must[uint64](m)(m.api.MemPoolGetAttribute(pool, driver.PoolReleaseThreshold)))
	p := must[uintptr](m)(m.api.MemAllocFromPoolAsync(1<<20, pool, s))
	require.NoError(m, m.api.MemsetD8Async(p, 6, 1<<20, s))
	require.NoError(m, m.api.StreamSynchronize(s))
	assert.Equal(m, byte(6), m.read(p, 1)[0])
	assert.GreaterOrEqual(m, must[uint64](m)(m.api.MemPoolGetAttribute(pool, driver.PoolUsedCurrent)), uint64(1<<20))
	_, err := m.api.IpcGetMemHandle(p)
	m.wantCode(driver.InvalidValue, err, "memory of a pool has no IPC handle")
	assert.Zero(m, must[uint64](m)(m.api.PointerGetAttribute(driver.PointerIsLegacyIPC, p)), "pool memory is not legacy IPC memory")
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

func (m *fixture) virtual() {
	g := must[int64](m)(m.api.MemGetAllocationGranularity(m.dev, false))
	require.Positive(m, g)
	_, err := m.api.MemCreate(g+1, m.dev, false)
	m.wantCode(driver.InvalidValue, err, "not a multiple of the granularity")
	at := must[uintptr](m)(m.api.MemAddressReserve(2 * g))
	h := must[driver.Physical](m)(m.api.MemCreate(g, m.dev, false))
	require.NoError(m, m.api.MemMap(at+uintptr(g), g, h))
	require.NoError(m, m.api.MemRelease(h), "the map keeps it")
	require.NoError(m, m.api.MemSetAccess(at+uintptr(g), g, m.dev))
	m.write(at+uintptr(g), []byte("virtual"))
	assert.Equal(m, "virtual", string(m.read(at+uintptr(g), 7)))
	m.wantCode(driver.InvalidValue, m.api.MemcpyHtoDAsync(at, []byte("x"), 0), "addresses without memory")
	require.NoError(m, m.api.MemUnmap(at+uintptr(g), g))
	require.NoError(m, m.api.MemAddressFree(at, 2*g))
}

func (m *fixture) managed() {
	if must[int](m)(m.api.DeviceGetAttribute(driver.ConcurrentManagedAccess, m.dev)) == 0 {
		m.Skip("the device and the host cannot use managed memory at the same time")
	}
	const n = 1 << 16
	p := must[uintptr](m)(m.api.MemAllocManaged(n))
	m.cleanup(func() error { return m.api.MemFree(p) })
	attribute := func(a driver.PointerAttribute, p uintptr) uint64 {
		m.Helper()
		return must[uint64](m)(m.api.PointerGetAttribute(a, p))
	}
	assert.EqualValues(m, 1, attribute(driver.PointerIsManaged, p+5))
	assert.EqualValues(m, 0, attribute(driver.PointerIsManaged, m.alloc(64)))
	require.NoError(m, m.api.MemAdvise(p, n, driver.AdviseSetPreferredLocation, m.dev))
	require.NoError(m, m.api.MemPrefetchAsync(p, n, m.dev, 0))
	require.NoError(m, m.api.MemsetD8Async(p, 7, n, 0))
	require.NoError(m, m.api.StreamSynchronize(0))
	host := hostSlice(p, n)
	assert.Equal(m, byte(7), host[n-1], "the host reads what the device wrote")
	host[0] = 9
	assert.Equal(m, []byte{9, 7}, m.read(p, 2), "the device reads what the host wrote")
	require.NoError(m, m.api.MemAdvise(p, n, driver.AdviseSetReadMostly, m.dev))
	require.NoError(m, m.api.MemAdvise(p, n, driver.AdviseUnsetReadMostly, m.dev))
	require.NoError(m, m.api.MemPrefetchAsync(p, n, driver.CPUDevice, 0))
	require.NoError(m, m.api.StreamSynchronize(0))
	assert.Equal(m, byte(9), host[0])

	ordinary := m.alloc(n)
	m.wantCode(driver.InvalidValue, m.api.MemPrefetchAsync(ordinary, n, m.dev, 0), "ordinary device memory")
	m.wantCode(driver.InvalidValue, m.api.MemAdvise(ordinary, n, driver.AdviseSetReadMostly, m.dev), "ordinary device memory")
	_, err := m.api.MemAllocManaged(0)
	m.wantCode(driver.InvalidValue, err, "zero bytes")
	_, err = m.api.IpcGetMemHandle(p)
	m.wantCode(driver.InvalidValue, err, "managed memory has no IPC handle")
}
