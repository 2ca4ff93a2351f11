//go:build linux

package simulated

import (
	"bytes"
	"os"
	"testing"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const page = granularity

func TestMappedMemoryRequiresAccess(t *testing.T) {
	d, contexts := openMachine(t, Config{Devices: 2, MemoryBytes: 8 * page})
	p := must[driver.Physical](t)(d.MemCreate(2*page, 0, false))
	a := must[uintptr](t)(d.MemAddressReserve(2 * page))
	assert.Zero(t, a%page)
	assert.Zero(t, must[uint64](t)(d.PointerGetAttribute(driver.PointerIsMapped, a)))
	wantCode(t, driver.InvalidValue, d.MemsetD8Async(a, 0, 1, 0))
	require.NoError(t, d.MemMap(a, 2*page, p))
	wantCode(t, driver.InvalidValue, d.MemsetD8Async(a, 0, 1, 0))
	require.NoError(t, d.MemSetAccess(a, 2*page, 0))
	require.NoError(t, d.MemsetD8Async(a+5, 3, 2*page-5, 0))
	got := make([]byte, 3)
	require.NoError(t, d.MemcpyDtoHAsync(got, a+4, 0))
	assert.Equal(t, []byte{3, 3}, got[1:])
	base, size, err := d.MemGetAddressRange(a + 7)
	require.NoError(t, err)
	assert.Equal(t, a, base)
	assert.EqualValues(t, 2*page, size)

	require.NoError(t, d.CtxSetCurrent(contexts[1]))
	wantCode(t, driver.InvalidValue, d.MemsetD8Async(a, 0, 1, 0))
	require.NoError(t, d.MemSetAccess(a, 2*page, 1))
	require.NoError(t, d.MemsetD8Async(a, 0, 1, 0))

	require.NoError(t, d.CtxSetCurrent(contexts[0]))
	require.NoError(t, d.MemRelease(p))
	wantCode(t, driver.InvalidValue, d.MemRelease(p))
	require.NoError(t, d.MemsetD8Async(a, 9, 1, 0), "what is mapped stays")
	assert.EqualValues(t, 2*page, inUse(t, d))
	wantCode(t, driver.InvalidValue, d.MemAddressFree(a, 2*page))
	require.NoError(t, d.MemUnmap(a, 2*page))
	assert.Zero(t, inUse(t, d))
	wantCode(t, driver.InvalidValue, d.MemsetD8Async(a, 0, 1, 0))
	require.NoError(t, d.MemAddressFree(a, 2*page))
	wantCode(t, driver.InvalidValue, d.MemAddressFree(a, 2*page))
	require.NoError(t, d.DevicePrimaryCtxRelease(0))
	require.NoError(t, d.DevicePrimaryCtxRelease(1))
	require.NoError(t, d.Close())
}

func TestAdjacentMappingsAreCopiedAsOneRange(t *testing.T) {
	d, _ := openMachine(t, Config{MemoryBytes: 8 * page})
	a := must[uintptr](t)(d.MemAddressReserve(4 * page))
	parts := make([]driver.Physical, 3)
	for i := range parts {
		parts[i] = must[driver.Physical](t)(d.MemCreate(page, 0, false))
		require.NoError(t, d.MemMap(a+uintptr(i)*page, page, parts[i]))
	}
	again := must[uintptr](t)(d.MemAddressReserve(page))
	require.NoError(t, d.MemMap(again, page, parts[1]))
	require.NoError(t, d.MemSetAccess(again, page, 0))
	require.NoError(t, d.MemSetAccess(a, 2*page, 0))
	want := bytes.Repeat([]byte{1, 2, 3, 4}, 10)
	require.NoError(t, d.MemcpyHtoDAsync(a+page-20, want, 0))
	got := make([]byte, 20)
	require.NoError(t, d.MemcpyDtoHAsync(got, again, 0))
	assert.Equal(t, want[20:], got, "both addresses are of one memory")
	wantCode(t, driver.InvalidValue, d.MemsetD8Async(a, 0, 2*page+1, 0)) // the third has no access
	wantCode(t, driver.InvalidValue, d.MemSetAccess(a, 4*page, 0))       // nothing there
	wantCode(t, driver.InvalidValue, d.MemUnmap(a, 4*page))
	require.NoError(t, d.MemUnmap(a+page, 2*page))
	wantCode(t, driver.InvalidValue, d.MemsetD8Async(a, 0, page+1, 0))
	require.NoError(t, d.MemMap(a+2*page, page, parts[0]))
	assert.EqualValues(t, 3*page, inUse(t, d))
}

func TestKernelFaultsWithoutAccess(t *testing.T) {
	d, _ := openMachine(t, Config{MemoryBytes: 8 * page})
	kernel := func(l *driver.HostLaunch) { l.Memory(l.Pointer(0), 2*page)[page] = 1 }
	m := must[driver.Module](t)(d.ModuleLoadData([]byte("image"), map[string]driver.HostKernel{"kernel": kernel}))
	f := must[driver.Function](t)(d.ModuleGetFunction(m, "kernel"))
	a := must[uintptr](t)(d.MemAddressReserve(2 * page))
	run := func() error {
		one := driver.Dim3{X: 1, Y: 1, Z: 1}
		require.NoError(t, d.LaunchKernel(&driver.Launch{Function: f, Grid: one, Block: one, Args: []driver.Arg{{Kind: driver.Pointer, Bits: uint64(a)}}}))
		return d.StreamSynchronize(0)
	}
	for i := range uintptr(2) {
		require.NoError(t, d.MemMap(a+i*page, page, must[driver.Physical](t)(d.MemCreate(page, 0, false))))
	}
	require.NoError(t, d.MemSetAccess(a, 2*page, 0))
	require.NoError(t, run())
	require.NoError(t, d.MemUnmap(a+page, page))
	require.NoError(t, d.MemMap(a+page, page, must[driver.Physical](t)(d.MemCreate(page, 0, false))))
	wantCode(t, driver.IllegalAddress, run())
}

func TestVirtualMemorySizesAreMultiplesOfGranularity(t *testing.T) {
	d, _ := openMachine(t, Config{MemoryBytes: 3 * page})
	assert.EqualValues(t, page, must[int64](t)(d.MemGetAllocationGranularity(0, true)))
	p := must[driver.Physical](t)(d.MemCreate(2*page, 0, false))
	a := must[uintptr](t)(d.MemAddressReserve(4 * page))
	require.NoError(t, d.MemMap(a, 2*page, p))
	for name, err := range map[string]error{
		"create":            func() error { _, err := d.MemCreate(page+1, 0, false); return err }(),
		"create nothing":    func() error { _, err := d.MemCreate(0, 0, false); return err }(),
		"reserve":           func() error { _, err := d.MemAddressReserve(page - 1); return err }(),
		"map":               d.MemMap(a+2*page, page+1, p),
		"map a part":        d.MemMap(a+2*page, page, p),
		"map too much":      d.MemMap(a, 4*page, p),
		"map between":       d.MemMap(a+2*page+4096, 2*page, p),
		"map twice":         d.MemMap(a+page, 2*page, p),
		"map beyond":        d.MemMap(a+3*page, 2*page, p),
		"map nowhere":       d.MemMap(0, 2*page, p),
		"map nothing":       d.MemMap(a+2*page, 2*page, 0),
		"unmap a part":      d.MemUnmap(a, page),
		"access to a part":  d.MemSetAccess(a, page, 0),
		"free a part":       d.MemAddressFree(a, page),
		"free as ordinary":  d.MemFree(a),
		"export what isn't": func() error { _, err := d.MemExportToShareableHandle(p); return err }(),
	} {
		t.Run(name, func(t *testing.T) { wantCode(t, driver.InvalidValue, err) })
	}
	_, err := d.MemCreate(2*page, 0, false)
	wantCode(t, driver.OutOfMemory, err)
	_, err = d.MemCreate(page, 1, false)
	wantCode(t, driver.InvalidDevice, err)
}

func TestDescriptorKeepsPhysicalMemory(t *testing.T) {
	d, _ := openMachine(t, Config{MemoryBytes: 8 * page})
	p := must[driver.Physical](t)(d.MemCreate(page, 0, true))
	a := newMapping(t, d, p, page)
	require.NoError(t, d.MemsetD8Async(a, 6, page, 0))
	require.NoError(t, d.StreamSynchronize(0))
	fd := must[int](t)(d.MemExportToShareableHandle(p))
	defer func() { assert.NoError(t, unix.Close(fd)) }()
	require.NoError(t, d.MemUnmap(a, page))
	require.NoError(t, d.MemRelease(p))
	assert.Zero(t, inUse(t, d))

	again := must[driver.Physical](t)(d.MemImportFromShareableHandle(fd))
	b := newMapping(t, d, again, page)
	got := make([]byte, 2)
	require.NoError(t, d.MemcpyDtoHAsync(got, b+page-2, 0))
	assert.Equal(t, []byte{6, 6}, got)
	wantCode(t, driver.InvalidValue, d.MemMap(b, 2*page, again))

	_, err := d.MemPoolImportFromShareableHandle(fd)
	wantCode(t, driver.InvalidValue, err)
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer null.Close()
	for _, fd := range []int{-1, 1 << 20, int(null.Fd())} {
		_, err := d.MemImportFromShareableHandle(fd)
		wantCode(t, driver.InvalidValue, err)
	}
}

func TestMemoryAccessRequiresPeerAccess(t *testing.T) {
	d, _ := openMachine(t, Config{Devices: 2, MemoryBytes: 8 * page, PeerAccess: func(int, int) bool { return false }})
	pool := must[driver.MemPool](t)(d.MemPoolCreate(1, false))
	wantCode(t, driver.InvalidDevice, d.MemPoolSetAccess(pool, 0))
	require.NoError(t, d.MemPoolSetAccess(pool, 1))
	a := must[uintptr](t)(d.MemAddressReserve(2 * page))
	require.NoError(t, d.MemMap(a, page, must[driver.Physical](t)(d.MemCreate(page, 1, false))))
	require.NoError(t, d.MemMap(a+page, page, must[driver.Physical](t)(d.MemCreate(page, 0, false))))
	wantCode(t, driver.InvalidDevice, d.MemSetAccess(a, 2*page, 0))
	wantCode(t, driver.InvalidValue, d.MemsetD8Async(a+page, 1, 1, 0)) // all or nothing
	require.NoError(t, d.MemSetAccess(a+page, page, 0))
	require.NoError(t, d.MemSetAccess(a, page, 1))
	assert.EqualValues(t, 1, must[uint64](t)(d.PointerGetAttribute(driver.PointerDeviceOrdinal, a)), "the memory's, not the addresses'")
	assert.Zero(t, must[uint64](t)(d.PointerGetAttribute(driver.PointerDeviceOrdinal, a+page)))
}
