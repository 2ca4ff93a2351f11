//go:build linux

package simulated

import (
	"testing"
	"unsafe"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCopyReadsPinnedMemoryWhenItRuns(t *testing.T) {
	d, _ := openMachine(t, Config{})
	s := must[driver.Stream](t)(d.StreamCreateWithPriority(driver.StreamNonBlocking, 0))
	address := must[uintptr](t)(d.MemAlloc(512))
	for _, tt := range []struct {
		name string
		src  []byte
		want string
	}{{"pinned", pinned(t, d, 8), "after"}, {"pageable", make([]byte, 8), "befor"}} {
		gate := make(chan struct{})
		require.NoError(t, d.streams[s].submit("", func() error { <-gate; return nil }))
		copy(tt.src, "befor")
		require.NoError(t, d.MemcpyHtoDAsync(address, tt.src, s))
		copy(tt.src, "after")
		close(gate)
		got := make([]byte, 5)
		require.NoError(t, d.MemcpyDtoHAsync(got, address, s))
		assert.Equal(t, tt.want, string(got), tt.name)
	}
}

func TestCopyToPinnedMemoryIsAsynchronous(t *testing.T) {
	d, _ := openMachine(t, Config{})
	s := must[driver.Stream](t)(d.StreamCreateWithPriority(driver.StreamNonBlocking, 0))
	address := must[uintptr](t)(d.MemAlloc(512))
	require.NoError(t, d.MemsetD8Async(address, 'x', 512, s))
	require.NoError(t, d.StreamSynchronize(s))
	dst := pinned(t, d, 8)
	gate := make(chan struct{})
	require.NoError(t, d.streams[s].submit("", func() error { <-gate; return nil }))
	require.NoError(t, d.MemcpyDtoHAsync(dst, address, s))
	assert.Zero(t, dst[0])
	close(gate)
	require.NoError(t, d.StreamSynchronize(s))
	assert.Equal(t, "xxxxxxxx", string(dst))
}

func TestInvalidPointersAreErrors(t *testing.T) {
	d, contexts := openMachine(t, Config{Devices: 2})
	address := must[uintptr](t)(d.MemAlloc(512))
	require.NoError(t, d.CtxSetCurrent(contexts[1]))
	other := must[uintptr](t)(d.MemAlloc(512))
	require.NoError(t, d.CtxSetCurrent(contexts[0]))
	host := make([]byte, 16)
	device := unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), 16)
	for name, err := range map[string]error{
		"beyond the end":                 d.MemcpyHtoDAsync(address+500, host, 0),
		"before the start":               d.MemcpyHtoDAsync(address-1, host, 0),
		"null address":                   d.MemcpyHtoDAsync(0, host, 0),
		"host address instead of device": d.MemcpyDtoHAsync(host, uintptr(unsafe.Pointer(&host[0])), 0),
		"device memory instead of host":  d.MemcpyHtoDAsync(address, device, 0),
		"device as destination":          d.MemcpyDtoHAsync(device, address, 0),
		"another device's":               d.MemcpyHtoDAsync(other, host, 0),
		"overlap":                        d.MemcpyDtoDAsync(address, address+8, 16, 0),
		"set beyond the end":             d.MemsetD8Async(address, 0, 513, 0),
		"set a negative length":          d.MemsetD8Async(address, 0, -1, 0),
		"peer with contexts swapped":     d.MemcpyPeerAsync(address, contexts[1], other, contexts[0], 16, 0),
		"free inside":                    d.MemFree(address + 256),
		"free null address":              d.MemFree(0),
		"free pinned":                    d.MemFreeHost(address),
		"allocate zero bytes":            func() error { _, err := d.MemAlloc(0); return err }(),
	} {
		t.Run(name, func(t *testing.T) { wantCode(t, driver.InvalidValue, err) })
	}
	require.NoError(t, d.MemcpyPeerAsync(address, contexts[0], other, contexts[1], 16, 0))
	require.NoError(t, d.MemFree(address))
	wantCode(t, driver.InvalidValue, d.MemFree(address)) // twice
}
