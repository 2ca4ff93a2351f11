//go:build linux

package simulated

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMemoryIsLimitedAndReusable(t *testing.T) {
	d, _ := openMachine(t, Config{MemoryBytes: 4 * allocAlign})
	var all []uintptr
	for range 4 {
		all = append(all, must[uintptr](t)(d.MemAlloc(1)))
	}
	_, err := d.MemAlloc(1)
	wantCode(t, driver.OutOfMemory, err)
	require.NoError(t, d.MemFree(all[1]))
	require.NoError(t, d.MemFree(all[2]))
	_, err = d.MemAlloc(3 * allocAlign)
	wantCode(t, driver.OutOfMemory, err)
	hole := must[uintptr](t)(d.MemAlloc(2 * allocAlign))
	assert.Equal(t, all[1], hole)
	free, total, err := d.MemGetInfo()
	require.NoError(t, err)
	assert.EqualValues(t, 0, free)
	assert.EqualValues(t, 4*allocAlign, total)
}

func TestNewMemoryIsNotZeroed(t *testing.T) {
	d, _ := openMachine(t, Config{})
	address := must[uintptr](t)(d.MemAlloc(512))
	got := make([]byte, 512)
	require.NoError(t, d.MemcpyDtoHAsync(got, address, 0))
	assert.NotContains(t, got, byte(0))
}

func TestMemFreeSynchronizesDevice(t *testing.T) {
	d, _ := openMachine(t, Config{})
	s := must[driver.Stream](t)(d.StreamCreateWithPriority(driver.StreamNonBlocking, 0))
	address := must[uintptr](t)(d.MemAlloc(512))
	var ran atomic.Bool
	require.NoError(t, d.streams[s].submit("", func() error {
		time.Sleep(time.Millisecond)
		ran.Store(true)
		return nil
	}))
	require.NoError(t, d.MemFree(address))
	assert.True(t, ran.Load())
}

func TestPointerAttributes(t *testing.T) {
	d, contexts := openMachine(t, Config{Devices: 2})
	host := addressOf(pinned(t, d, 10))
	p := must[driver.MemPool](t)(d.MemPoolCreate(1, false))
	pooled := must[uintptr](t)(d.MemAllocFromPoolAsync(10, p, 0))
	require.NoError(t, d.CtxSetCurrent(contexts[1]))
	a := must[uintptr](t)(d.MemAlloc(1000)) + 999
	for _, tt := range []struct {
		name    string
		address uintptr
		want    map[driver.PointerAttribute]uint64
		refused []driver.PointerAttribute
	}{
		{"ordinary", a, map[driver.PointerAttribute]uint64{
			driver.PointerContext: uint64(contexts[1]), driver.PointerMemoryType: driver.MemoryTypeDevice,
			driver.PointerDevicePointer: uint64(a), driver.PointerDeviceOrdinal: 1,
			driver.PointerIsLegacyIPC: 1, driver.PointerIsMapped: 1,
		}, []driver.PointerAttribute{driver.PointerHostPointer, 99}},
		{"pooled", pooled, map[driver.PointerAttribute]uint64{
			driver.PointerMemoryType: driver.MemoryTypeDevice, driver.PointerDevicePointer: uint64(pooled),
			driver.PointerDeviceOrdinal: 1, driver.PointerIsLegacyIPC: 0, driver.PointerIsMapped: 1,
		}, []driver.PointerAttribute{driver.PointerHostPointer}},
		{"pinned", host + 9, map[driver.PointerAttribute]uint64{
			driver.PointerMemoryType: driver.MemoryTypeHost, driver.PointerDevicePointer: uint64(host + 9),
			driver.PointerHostPointer: uint64(host + 9), driver.PointerIsLegacyIPC: 0, driver.PointerIsMapped: 1,
		}, []driver.PointerAttribute{99}},
		{"beyond", a + 1, nil, []driver.PointerAttribute{driver.PointerContext, driver.PointerMemoryType, driver.PointerIsMapped}},
		{"Go's", addressOf(make([]byte, 8)), nil, []driver.PointerAttribute{driver.PointerMemoryType, driver.PointerHostPointer}},
	} {
		for attribute, v := range tt.want {
			assert.Equal(t, v, must[uint64](t)(d.PointerGetAttribute(attribute, tt.address)), "%s, attribute %d", tt.name, attribute)
		}
		for _, attribute := range tt.refused {
			_, err := d.PointerGetAttribute(attribute, tt.address)
			wantCode(t, driver.InvalidValue, err)
		}
	}
	require.NoError(t, d.CtxSetCurrent(contexts[0]))
	_, err := d.PointerGetAttribute(driver.PointerDevicePointer, a)
	wantCode(t, driver.InvalidValue, err)

	base, size, err := d.MemGetAddressRange(a)
	require.NoError(t, err)
	assert.Equal(t, a-999, base)
	assert.EqualValues(t, 1000, size)
	_, _, err = d.MemGetAddressRange(a + 1)
	wantCode(t, driver.NotFound, err)
}
