package drivertest

import (
	"runtime"
	"sync"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

func (m *fixture) devices() {
	n := must[int](m)(m.api.DeviceGetCount())
	require.Positive(m, n)
	_, err := m.api.DeviceGet(n)
	m.wantCode(driver.InvalidDevice, err, "ordinal too large")
	_, err = m.api.DeviceGet(-1)
	m.wantCode(driver.InvalidDevice, err, "negative ordinal")
	assert.GreaterOrEqual(m, must[int](m)(m.api.DriverGetVersion()), 11000)
	assert.NotEmpty(m, must[string](m)(m.api.DeviceGetName(m.dev)))
	assert.NotZero(m, must[driver.UUID](m)(m.api.DeviceGetUUID(m.dev)))
	assert.Regexp(m, `^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`, must[string](m)(m.api.DeviceGetPCIBusID(m.dev)))
	assert.Positive(m, must[int64](m)(m.api.DeviceTotalMem(m.dev)))
	for _, a := range []driver.Attribute{
		driver.MaxThreadsPerBlock, driver.MaxBlockDimX, driver.MaxBlockDimY, driver.MaxBlockDimZ,
		driver.MaxGridDimX, driver.MaxGridDimY, driver.MaxGridDimZ, driver.MaxSharedMemoryPerBlock,
		driver.WarpSize, driver.MultiprocessorCount, driver.CanMapHostMemory, driver.L2CacheSize,
		driver.MaxThreadsPerMultiprocessor, driver.AsyncEngineCount, driver.UnifiedAddressing,
		driver.ComputeCapabilityMajor, driver.MaxSharedMemoryPerBlockOptin,
	} {
		assert.Positive(m, must[int](m)(m.api.DeviceGetAttribute(a, m.dev)), "attribute %d", a)
	}
	_, err = m.api.DeviceGetAttribute(1<<20, m.dev)
	m.wantCode(driver.InvalidValue, err, "unknown attribute")
	assert.False(m, must[bool](m)(m.api.DeviceCanAccessPeer(m.dev, m.dev)), "a device is not its own peer")
}

// onNewThread runs f on a thread without a context.
func onNewThread(f func()) {
	var done sync.WaitGroup
	done.Go(func() {
		runtime.LockOSThread() // never unlocked, so that the thread ends with the goroutine
		f()
	})
	done.Wait()
}

func (m *fixture) contexts() {
	assert.Equal(m, m.ctx, must[driver.Context](m)(m.api.CtxGetCurrent()))
	assert.Equal(m, m.dev, must[driver.Device](m)(m.api.CtxGetDevice()))
	p := m.alloc(64)
	onNewThread(func() {
		c, err := m.api.CtxGetCurrent()
		assert.NoError(m, err)
		assert.Zero(m, c, "no context on a fresh thread")
		_, err = m.api.MemAlloc(64)
		m.wantCode(driver.InvalidContext, err, "allocating without a context")
		_, err = m.api.CtxGetDevice()
		m.wantCode(driver.InvalidContext, err, "the device of no context")
		assert.NoError(m, m.api.CtxSetCurrent(m.ctx))
		assert.NoError(m, m.api.MemsetD8Async(p, 1, 64, 0))
		assert.NoError(m, m.api.CtxSynchronize())
		assert.NoError(m, m.api.CtxSetCurrent(0))
	})
	assert.Equal(m, m.ctx, must[driver.Context](m)(m.api.CtxGetCurrent()), "the other thread has its own context")
	assert.Equal(m, byte(1), m.read(p, 64)[63])
}

func (m *fixture) primaryContexts() {
	again := must[driver.Context](m)(m.api.DevicePrimaryCtxRetain(m.dev))
	assert.Equal(m, m.ctx, again)
	require.NoError(m, m.api.DevicePrimaryCtxRelease(m.dev))
	_, active, err := m.api.DevicePrimaryCtxGetState(m.dev)
	require.NoError(m, err)
	assert.True(m, active)
	require.NoError(m, m.api.DevicePrimaryCtxSetFlags(m.dev, driver.CtxSchedBlockingSync))
	flags, _, err := m.api.DevicePrimaryCtxGetState(m.dev)
	require.NoError(m, err)
	assert.Equal(m, driver.CtxSchedBlockingSync, flags&7)
	require.NoError(m, m.api.DevicePrimaryCtxSetFlags(m.dev, driver.CtxSchedAuto))
}

func (m *fixture) createdContexts() {
	c := must[driver.Context](m)(m.api.CtxCreate(0, m.dev))
	assert.Equal(m, c, must[driver.Context](m)(m.api.CtxGetCurrent()), "a new context is current")
	assert.NotEqual(m, m.ctx, c)
	assert.Equal(m, m.dev, must[driver.Device](m)(m.api.CtxGetDevice()))
	p := must[uintptr](m)(m.api.MemAlloc(16))
	s := must[driver.Stream](m)(m.api.StreamCreateWithPriority(driver.StreamNonBlocking, 0))
	assert.Equal(m, c, must[driver.Context](m)(m.api.StreamGetCtx(s)))
	require.NoError(m, m.api.MemsetD8Async(p, 3, 16, s))
	require.NoError(m, m.api.StreamSynchronize(s))

	require.NoError(m, m.api.CtxSetCurrent(m.ctx))
	assert.Equal(m, byte(3), m.read(p, 16)[0], "one address space")
	require.NoError(m, m.api.CtxSetCurrent(c))
	require.NoError(m, m.api.MemFree(p))
	require.NoError(m, m.api.StreamDestroy(s))
	require.NoError(m, m.api.CtxDestroy(c))
	require.NoError(m, m.api.CtxSetCurrent(m.ctx))
}

func (m *fixture) peers() {
	if must[int](m)(m.api.DeviceGetCount()) < 2 {
		m.Skip("needs two devices")
	}
	peer := must[driver.Device](m)(m.api.DeviceGet(1))
	ctx := must[driver.Context](m)(m.api.DevicePrimaryCtxRetain(peer))
	defer func() { assert.NoError(m, m.api.DevicePrimaryCtxRelease(peer)) }()
	p := m.alloc(1 << 20)
	require.NoError(m, m.api.CtxSetCurrent(ctx))
	q := must[uintptr](m)(m.api.MemAlloc(1 << 20))
	defer func() {
		assert.NoError(m, m.api.CtxSetCurrent(ctx))
		assert.NoError(m, m.api.MemFree(q))
		assert.NoError(m, m.api.CtxSetCurrent(m.ctx))
	}()
	require.NoError(m, m.api.MemsetD8Async(q, 9, 1<<20, 0))
	require.NoError(m, m.api.StreamSynchronize(0))
	require.NoError(m, m.api.CtxSetCurrent(m.ctx))
	require.NoError(m, m.api.MemcpyPeerAsync(p, m.ctx, q, ctx, 1<<20, 0))
	assert.Equal(m, byte(9), m.read(p, 1<<20)[1<<20-1])

	can := must[bool](m)(m.api.DeviceCanAccessPeer(m.dev, peer))
	err := m.api.CtxEnablePeerAccess(ctx)
	if !can {
		m.wantCode(217, err, "peers that do not reach each other")
		return
	}
	require.NoError(m, err)
	m.wantCode(704, m.api.CtxEnablePeerAccess(ctx), "enabled twice")
	require.NoError(m, m.api.MemcpyDtoDAsync(p, q, 1<<20, 0))
	assert.Equal(m, byte(9), m.read(p, 1)[0])
}
