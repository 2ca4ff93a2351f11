//go:build linux

package simulated

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

func TestNewContextIsCurrentUntilDestroyed(t *testing.T) {
	d, contexts := openMachine(t, Config{Devices: 2})
	c := must[driver.Context](t)(d.CtxCreate(driver.CtxSchedYield, 1))
	assert.NotContains(t, contexts, c)
	assert.Equal(t, c, must[driver.Context](t)(d.CtxGetCurrent()))
	assert.Equal(t, driver.Device(1), must[driver.Device](t)(d.CtxGetDevice()))
	require.NoError(t, d.CtxDestroy(c))
	assert.Equal(t, contexts[0], must[driver.Context](t)(d.CtxGetCurrent()), "the one before")
	wantCode(t, driver.InvalidContext, d.CtxSetCurrent(c))
	wantCode(t, driver.InvalidContext, d.CtxDestroy(c))
	wantCode(t, driver.InvalidContext, d.CtxDestroy(contexts[0])) // it is primary
	_, err := d.CtxCreate(3, 0)
	wantCode(t, driver.InvalidValue, err)
	_, err = d.CtxCreate(0, 2)
	wantCode(t, driver.InvalidDevice, err)
	require.NoError(t, d.CtxSetCurrent(0))
	assert.Zero(t, must[driver.Context](t)(d.CtxGetCurrent()))
}

func TestContextsShareOnlyMemory(t *testing.T) {
	d, contexts := openMachine(t, Config{})
	address := must[uintptr](t)(d.MemAlloc(8))
	s, e := newStreamOf(t, d, driver.StreamDefault), newEvent(t, d, 0)
	module := must[driver.Module](t)(d.ModuleLoadData([]byte("x"), nil))
	open := blockStream(t, d, s)

	c := must[driver.Context](t)(d.CtxCreate(0, 0))
	require.NoError(t, d.MemsetD8Async(address, 7, 8, 0))
	require.NoError(t, d.CtxSynchronize(), "not for the other context's streams")
	got := make([]byte, 8)
	require.NoError(t, d.MemcpyDtoHAsync(got, address, 0))
	assert.Equal(t, byte(7), got[0])
	wantCode(t, driver.InvalidHandle, d.EventRecord(e, 0))
	wantCode(t, driver.InvalidHandle, d.ModuleUnload(module))
	require.NoError(t, d.CtxDestroy(c))

	open()
	require.NoError(t, d.CtxSetCurrent(contexts[0]))
	require.NoError(t, d.MemFree(address))
}

func TestCtxDestroyDestroysObjectsOfContext(t *testing.T) {
	d, _ := openMachine(t, Config{})
	c := must[driver.Context](t)(d.CtxCreate(0, 0))
	s, e := newStreamOf(t, d, driver.StreamNonBlocking), newEvent(t, d, 0)
	f := loadKernel(t, d, "nothing", func(*driver.HostLaunch) {})
	var ran atomic.Bool
	open := blockStream(t, d, s)
	require.NoError(t, d.LaunchHostFunc(s, func() { ran.Store(true) }))
	go open()
	require.NoError(t, d.CtxDestroy(c))
	assert.True(t, ran.Load(), "it waits for what runs")
	wantCode(t, driver.InvalidHandle, d.StreamSynchronize(s))
	wantCode(t, driver.InvalidHandle, d.EventSynchronize(e))
	_, err := d.FuncGetAttribute(driver.FuncRegisters, f)
	wantCode(t, driver.InvalidHandle, err)
}

func TestDestroyedCurrentContextIsReported(t *testing.T) {
	d, _ := openMachine(t, Config{})
	require.NoError(t, d.DevicePrimaryCtxRelease(0))
	wantCode(t, contextDestroyed, d.CtxSynchronize())
	must[driver.Context](t)(d.DevicePrimaryCtxRetain(0))
	require.NoError(t, d.CtxSynchronize(), "the primary context is the same again")
}

func TestPrimaryContextState(t *testing.T) {
	d, _ := openMachine(t, Config{})
	require.NoError(t, d.DevicePrimaryCtxSetFlags(0, driver.CtxSchedSpin))
	flags, active, err := d.DevicePrimaryCtxGetState(0)
	require.NoError(t, err)
	assert.Equal(t, driver.CtxSchedSpin, flags)
	assert.True(t, active)
	wantCode(t, driver.InvalidValue, d.DevicePrimaryCtxSetFlags(0, 7))
	require.NoError(t, d.DevicePrimaryCtxRelease(0))
	flags, active, err = d.DevicePrimaryCtxGetState(0)
	require.NoError(t, err)
	assert.Equal(t, driver.CtxSchedSpin, flags)
	assert.False(t, active)
	wantCode(t, driver.InvalidContext, d.DevicePrimaryCtxRelease(0))
}

func TestKernelsAccessEnabledPeers(t *testing.T) {
	d, contexts := openMachine(t, Config{Devices: 2})
	require.NoError(t, d.CtxSetCurrent(contexts[1]))
	address := must[uintptr](t)(d.MemAlloc(4))
	require.NoError(t, d.CtxSetCurrent(contexts[0]))
	reached := false
	f := loadKernel(t, d, "look", func(l *driver.HostLaunch) { l.Memory(address, 4); reached = true })
	one := driver.Dim3{X: 1, Y: 1, Z: 1}
	assert.True(t, must[bool](t)(d.DeviceCanAccessPeer(0, 1)))
	assert.False(t, must[bool](t)(d.DeviceCanAccessPeer(0, 0)))
	wantCode(t, driver.InvalidContext, d.CtxEnablePeerAccess(contexts[0]))
	wantCode(t, driver.InvalidContext, d.CtxEnablePeerAccess(1<<40))
	require.NoError(t, d.CtxEnablePeerAccess(contexts[1]))
	wantCode(t, peerEnabled, d.CtxEnablePeerAccess(contexts[1]))
	require.NoError(t, d.LaunchKernel(&driver.Launch{Function: f, Grid: one, Block: one}))
	require.NoError(t, d.StreamSynchronize(0))
	assert.True(t, reached)

	own := must[driver.Context](t)(d.CtxCreate(0, 0))
	wantCode(t, peerUnsupported, d.CtxEnablePeerAccess(contexts[0])) // the same device
	require.NoError(t, d.CtxDestroy(own))
}

func TestDeviceAttributes(t *testing.T) {
	d, _ := openMachine(t, Config{Devices: 2})
	assert.Equal(t, "0000:00:00.0", must[string](t)(d.DeviceGetPCIBusID(0)))
	assert.Equal(t, "0000:01:00.0", must[string](t)(d.DeviceGetPCIBusID(1)))
	assert.NotEqual(t, must[driver.UUID](t)(d.DeviceGetUUID(0)), must[driver.UUID](t)(d.DeviceGetUUID(1)))
	for _, a := range []driver.Attribute{driver.ClockRate, driver.UnifiedAddressing, driver.VirtualMemoryManagement, driver.MemPoolHandleTypes, driver.IPCEventSupported} {
		assert.Positive(t, must[int](t)(d.DeviceGetAttribute(a, 0)), "attribute %d", a)
	}
	_, err := d.DeviceGetAttribute(999, 0)
	wantCode(t, driver.InvalidValue, err)
	_, err = d.DeviceGetPCIBusID(2)
	wantCode(t, driver.InvalidDevice, err)
}

func TestConfigPeerAccess(t *testing.T) {
	d, contexts := openMachine(t, Config{Devices: 2, PeerAccess: func(dev, peer int) bool { return dev == 1 && peer == 0 }})
	assert.False(t, must[bool](t)(d.DeviceCanAccessPeer(0, 1)))
	assert.True(t, must[bool](t)(d.DeviceCanAccessPeer(1, 0)))
	wantCode(t, peerUnsupported, d.CtxEnablePeerAccess(contexts[1]))
	require.NoError(t, d.CtxSetCurrent(contexts[1]))
	require.NoError(t, d.CtxEnablePeerAccess(contexts[0]))
}
