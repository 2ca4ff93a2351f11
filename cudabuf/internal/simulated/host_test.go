//go:build linux

package simulated

import (
	"testing"
	"unsafe"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestMemHostAllocFlags(t *testing.T) {
	d, _ := openMachine(t, Config{})
	for flags := range uint32(8) {
		a := must[uintptr](t)(d.MemHostAlloc(10, flags))
		require.NoError(t, d.MemFreeHost(a))
	}
	_, err := d.MemHostAlloc(10, 8)
	wantCode(t, driver.InvalidValue, err)
	_, err = d.MemHostAlloc(0, 0)
	wantCode(t, driver.InvalidValue, err)
}

func TestDevicesAccessPinnedMemoryAtHostAddress(t *testing.T) {
	d, _ := openMachine(t, Config{})
	host, registered := pinned(t, d, 100), make([]byte, 100)
	require.NoError(t, d.MemHostRegister(registered, driver.HostRegisterDeviceMap))
	for _, b := range [][]byte{host, registered} {
		at := must[uintptr](t)(d.MemHostGetDevicePointer(addressOf(b) + 10))
		assert.Equal(t, addressOf(b)+10, at)
		require.NoError(t, d.MemsetD8Async(at, 5, 90, 0))
		require.NoError(t, d.StreamSynchronize(0))
		assert.Equal(t, byte(5), b[10])
		assert.Equal(t, byte(5), b[99])
		wantCode(t, driver.InvalidValue, d.MemsetD8Async(at, 5, 91, 0))
		kernel := func(l *driver.HostLaunch) { l.Memory(l.Pointer(0), 90)[1] = 6 }
		m := must[driver.Module](t)(d.ModuleLoadData([]byte("image"), map[string]driver.HostKernel{"kernel": kernel}))
		f := must[driver.Function](t)(d.ModuleGetFunction(m, "kernel"))
		one := driver.Dim3{X: 1, Y: 1, Z: 1}
		require.NoError(t, d.LaunchKernel(&driver.Launch{Function: f, Grid: one, Block: one, Args: []driver.Arg{{Kind: driver.Pointer, Bits: uint64(at)}}}))
		require.NoError(t, d.StreamSynchronize(0))
		assert.Equal(t, byte(6), b[11])
	}
	require.NoError(t, d.MemHostUnregister(addressOf(registered)))
	_, err := d.MemHostGetDevicePointer(addressOf(registered))
	wantCode(t, driver.InvalidValue, err)
	wantCode(t, driver.InvalidValue, d.MemsetD8Async(addressOf(registered), 5, 1, 0))
}

func TestCopyReadsRegisteredMemoryWhenItRuns(t *testing.T) {
	d, _ := openMachine(t, Config{})
	s := newStreams(t, d, 1)[0]
	a := must[uintptr](t)(d.MemAlloc(16))
	src := make([]byte, 16)
	require.NoError(t, d.MemHostRegister(src, driver.HostRegisterPortable))
	open := gateStream(t, d, s)
	require.NoError(t, d.MemcpyHtoDAsync(a, src[4:12], s))
	src[4] = 9
	open()
	got := make([]byte, 1)
	require.NoError(t, d.MemcpyDtoHAsync(got, a, s))
	assert.Equal(t, byte(9), got[0])
}

func TestRegistrationsMustNotOverlap(t *testing.T) {
	d, _ := openMachine(t, Config{})
	b := make([]byte, 100)
	require.NoError(t, d.MemHostRegister(b[20:40], 0))
	require.NoError(t, d.MemHostRegister(b[40:60], 0))
	for _, part := range [][]byte{b, b[:21], b[39:40], b[25:30], b[20:40], b[59:]} {
		wantCode(t, 712, d.MemHostRegister(part, 0))
	}
	wantCode(t, 712, d.MemHostRegister(pinned(t, d, 10)[2:4], 0))
	for _, at := range []uintptr{addressOf(b), addressOf(b) + 21, addressOf(b) + 60, 0} {
		wantCode(t, 713, d.MemHostUnregister(at))
	}
	wantCode(t, driver.InvalidValue, d.MemFreeHost(addressOf(b)+20))
	require.NoError(t, d.MemHostUnregister(addressOf(b)+20))
	wantCode(t, 713, d.MemHostUnregister(addressOf(b)+20))
	require.NoError(t, d.MemHostRegister(b[:40], 0))
	require.NoError(t, d.DevicePrimaryCtxRelease(0))
	assert.ErrorContains(t, d.Close(), "2 ranges of host memory never unregistered")
}

func TestReadOnlyMemoryRequiresReadOnlyFlag(t *testing.T) {
	d, _ := openMachine(t, Config{})
	p, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ, unix.MAP_ANON|unix.MAP_PRIVATE)
	require.NoError(t, err)
	defer func() { assert.NoError(t, unix.Munmap(p)) }()
	a := must[uintptr](t)(d.MemAlloc(4096))
	wantCode(t, driver.InvalidValue, d.MemHostRegister(p, 0))
	require.NoError(t, d.MemHostRegister(p, driver.HostRegisterReadOnly))
	require.NoError(t, d.MemcpyHtoDAsync(a, p, 0))
	require.NoError(t, d.StreamSynchronize(0))
	wantCode(t, driver.InvalidValue, d.MemcpyDtoHAsync(p, a, 0))
	wantCode(t, driver.InvalidValue, d.MemsetD8Async(addressOf(p), 1, 1, 0))
	wantCode(t, driver.InvalidValue, d.MemcpyDtoDAsync(addressOf(p), a, 1, 0))
	require.NoError(t, d.MemcpyDtoDAsync(a, addressOf(p), 1, 0))
	require.NoError(t, d.StreamSynchronize(0))
	require.NoError(t, d.MemHostUnregister(addressOf(p)))
}

func TestOnlyHostMemoryCanBeRegistered(t *testing.T) {
	d, _ := openMachine(t, Config{})
	a := must[uintptr](t)(d.MemAlloc(4096))
	wantCode(t, driver.InvalidValue, d.MemHostRegister(unsafe.Slice(*(**byte)(unsafe.Pointer(&a)), 10), 0))
	wantCode(t, driver.InvalidValue, d.MemHostRegister(nil, 0))
	wantCode(t, driver.InvalidValue, d.MemHostRegister(make([]byte, 1), 4))
	p, err := unix.Mmap(-1, 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	require.NoError(t, err)
	require.NoError(t, unix.Mprotect(p[4096:], unix.PROT_NONE))
	defer func() { assert.NoError(t, unix.Munmap(p)) }()
	wantCode(t, driver.InvalidValue, d.MemHostRegister(p[:4097], 0))
	require.NoError(t, d.MemHostRegister(p[:4096], 0))
}
