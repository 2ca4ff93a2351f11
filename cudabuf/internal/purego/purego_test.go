//go:build linux

package purego

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// fake is libcuda as testdata/fake.c plays it.
type fake struct {
	driver.API
	result     *int32
	call       **byte
	args       *[11]uintptr
	text       *[256]byte
	parameters *[2]uint64
}

// build compiles the fake library and names it in the environment.
func build(t *testing.T, flags ...string) string {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler to build the fake libcuda with")
	}
	path := filepath.Join(t.TempDir(), "libcuda.so.1")
	out, err := exec.Command(cc, append(flags, "-shared", "-fPIC", "-o", path, "testdata/fake.c")...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Setenv(Override, path)
	return path
}

func open(t *testing.T, flags ...string) fake {
	t.Helper()
	path := build(t, flags...)
	api, err := Open()
	require.NoError(t, err)
	library, err := purego.Dlopen(path, purego.RTLD_NOW)
	require.NoError(t, err)
	return fake{
		API:        api,
		result:     variable[int32](t, library, "fake_result"),
		call:       variable[*byte](t, library, "fake_call"),
		args:       variable[[11]uintptr](t, library, "fake_args"),
		text:       variable[[256]byte](t, library, "fake_text"),
		parameters: variable[[2]uint64](t, library, "fake_parameters"),
	}
}

func variable[T any](t *testing.T, library uintptr, name string) *T {
	t.Helper()
	address, err := purego.Dlsym(library, name)
	require.NoError(t, err)
	return *(**T)(unsafe.Pointer(&address))
}

func text(p *byte) string {
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}

func TestCallsPassTheirArguments(t *testing.T) {
	f := open(t)
	host := make([]byte, 100)
	at := uintptr(unsafe.Pointer(&host[0]))
	const out = ^uintptr(0) // an address that the call passes for a result
	const handle = 0x7700000012345678
	result := func(want, got any, err error) error { assert.Equal(t, want, got); return err }
	tests := []struct {
		call string
		run  func() error
		args []uintptr
	}{
		{"cuInit", func() error { return f.Init() }, []uintptr{0}},
		{"cuDriverGetVersion", func() error { v, err := f.DriverGetVersion(); return result(-2, v, err) }, []uintptr{out}},
		{"cuDeviceGetCount", func() error { v, err := f.DeviceGetCount(); return result(-2, v, err) }, []uintptr{out}},
		{"cuDeviceGet", func() error { v, err := f.DeviceGet(3); return result(driver.Device(-2), v, err) }, []uintptr{out, 3}},
		{"cuDeviceGetName", func() error { v, err := f.DeviceGetName(3); return result("Fake GPU", v, err) }, []uintptr{out, 256, 3}},
		{"cuDeviceGetUuid_v2", func() error {
			v, err := f.DeviceGetUUID(3)
			return result(driver.UUID([]byte("0123456789abcdef")), v, err)
		}, []uintptr{out, 3}},
		{"cuDeviceGetAttribute", func() error { v, err := f.DeviceGetAttribute(16, 3); return result(-2, v, err) }, []uintptr{out, 16, 3}},
		{"cuDeviceTotalMem_v2", func() error { v, err := f.DeviceTotalMem(3); return result(int64(handle), v, err) }, []uintptr{out, 3}},
		{"cuDevicePrimaryCtxRetain", func() error { v, err := f.DevicePrimaryCtxRetain(3); return result(driver.Context(handle), v, err) }, []uintptr{out, 3}},
		{"cuDevicePrimaryCtxRelease_v2", func() error { return f.DevicePrimaryCtxRelease(3) }, []uintptr{3}},
		{"cuCtxSetCurrent", func() error { return f.CtxSetCurrent(handle) }, []uintptr{handle}},
		{"cuCtxSynchronize", func() error { return f.CtxSynchronize() }, nil},
		{"cuMemGetInfo_v2", func() error {
			free, total, err := f.MemGetInfo()
			return result([]int64{1, 1 << 40}, []int64{free, total}, err)
		}, []uintptr{out, out}},
		{"cuMemAlloc_v2", func() error { v, err := f.MemAlloc(1 << 33); return result(uintptr(handle), v, err) }, []uintptr{out, 1 << 33}},
		{"cuMemFree_v2", func() error { return f.MemFree(handle) }, []uintptr{handle}},
		{"cuMemHostAlloc", func() error {
			v, err := f.MemHostAlloc(1<<33, driver.HostAllocPortable)
			return result(uintptr(handle), v, err)
		}, []uintptr{out, 1 << 33, 1}},
		{"cuMemFreeHost", func() error { return f.MemFreeHost(handle) }, []uintptr{handle}},
		{"cuStreamCreateWithPriority", func() error {
			v, err := f.StreamCreateWithPriority(driver.StreamNonBlocking, 0)
			return result(driver.Stream(handle), v, err)
		}, []uintptr{out, 1}},
		{"cuStreamDestroy_v2", func() error { return f.StreamDestroy(handle) }, []uintptr{handle}},
		{"cuStreamSynchronize", func() error { return f.StreamSynchronize(handle) }, []uintptr{handle}},
		{"cuMemcpyHtoDAsync_v2", func() error { return f.MemcpyHtoDAsync(7, host, 9) }, []uintptr{7, at, 100, 9}},
		{"cuMemcpyDtoHAsync_v2", func() error { return f.MemcpyDtoHAsync(host, 7, 9) }, []uintptr{at, 7, 100, 9}},
		{"cuMemcpyDtoDAsync_v2", func() error { return f.MemcpyDtoDAsync(7, 8, 1<<33, 9) }, []uintptr{7, 8, 1 << 33, 9}},
		{"cuMemcpyPeerAsync", func() error { return f.MemcpyPeerAsync(5, 6, 7, 8, 1<<33, 9) }, []uintptr{5, 6, 7, 8, 1 << 33, 9}},
		{"cuMemsetD8Async", func() error { return f.MemsetD8Async(7, 0xfe, 1<<33, 9) }, []uintptr{7, 0xfe, 1 << 33, 9}},
		{"cuModuleLoadData", func() error { v, err := f.ModuleLoadData([]byte("ptx"), nil); return result(driver.Module(9), v, err) }, []uintptr{out, out}},
		{"cuModuleGetFunction", func() error { v, err := f.ModuleGetFunction(9, "add"); return result(driver.Function(8), v, err) }, []uintptr{out, 9, out}},
		{"cuModuleUnload", func() error { return f.ModuleUnload(9) }, []uintptr{9}},
		{"cuLaunchKernel", func() error {
			return f.LaunchKernel(8, driver.Dim3{X: 1, Y: 2, Z: 3}, driver.Dim3{X: 4, Y: 5, Z: 6}, 7, 9,
				[]driver.Arg{{Kind: driver.Pointer, Bits: handle}, {Kind: driver.Int32, Bits: 0xfffffff9}})
		}, []uintptr{8, 1, 2, 3, 4, 5, 6, 7, 9, out, 0}},
	}
	covered := map[string]bool{}
	for _, tt := range tests {
		covered[tt.call] = true
		t.Run(tt.call, func(t *testing.T) {
			require.NoError(t, tt.run())
			assert.Equal(t, tt.call, text(*f.call))
			for i, want := range tt.args {
				if want == out {
					assert.NotZero(t, f.args[i], "argument %d", i)
				} else {
					assert.Equal(t, want, f.args[i], "argument %d", i)
				}
			}
			*f.result = 2
			err := tt.run()
			*f.result = 0
			assert.ErrorIs(t, err, arrowbuf.ErrOutOfMemory, "the code that the call returns")
		})
	}
	assert.Len(t, covered, int(symbolCount), "every call is here")
	assert.Equal(t, [2]uint64{handle, 0xfffffff9}, *f.parameters)
	require.NoError(t, func() error { _, err := f.ModuleLoadData([]byte("ptx"), nil); return err }())
	assert.Equal(t, "ptx", text(&f.text[0]), "an image ends in a zero byte")
	require.NoError(t, func() error { _, err := f.ModuleGetFunction(9, "add"); return err }())
	assert.Equal(t, "add", text(&f.text[0]))
}

func TestOpenNamesAMissingFunction(t *testing.T) {
	path := build(t, "-DBROKEN")
	_, err := Open()
	assert.ErrorContains(t, err, path+" lacks cuMemAlloc_v2")
	assert.NotErrorIs(t, err, driver.ErrNoDriver)
}

func TestMissingOptionalFunctionsDisableOneFeature(t *testing.T) {
	f := open(t, "-DOLD")
	_, err := f.DeviceGetUUID(0)
	assert.ErrorContains(t, err, "cuDeviceGetUuid: CUDA_ERROR_NOT_SUPPORTED (801)")
	err = f.MemcpyPeerAsync(1, 2, 3, 4, 5, 6)
	assert.ErrorContains(t, err, "cuMemcpyPeerAsync: CUDA_ERROR_NOT_SUPPORTED (801)")
	assert.ErrorContains(t, err, "libcuda.so.1 does not have it")
	assert.NoError(t, f.Init())
}

func TestOpenWithoutADriverSaysWhatWasLookedForAndWhere(t *testing.T) {
	t.Setenv(Override, "/nowhere/libcuda.so.1")
	t.Setenv("LD_LIBRARY_PATH", "/opt/mine")
	_, err := Open()
	assert.ErrorIs(t, err, driver.ErrNoDriver)
	for _, want := range []string{"/nowhere/libcuda.so.1 (no such file)", `LD_LIBRARY_PATH is "/opt/mine"`, Override} {
		assert.ErrorContains(t, err, want)
	}

	t.Setenv(Override, "testdata/fake.c")
	_, err = Open()
	assert.ErrorIs(t, err, driver.ErrNoDriver)
	assert.ErrorContains(t, err, "testdata/fake.c (", "a file that is no library: the loader's words")
}

func TestResultNamesAreTheDriversOwn(t *testing.T) {
	if os.Getenv("QUIVER_TEST_DEVICE") != "cuda" {
		t.Skip("asks the driver of a GPU; set QUIVER_TEST_DEVICE=cuda")
	}
	library, err := purego.Dlopen("libcuda.so.1", purego.RTLD_NOW)
	require.NoError(t, err)
	entry, err := purego.Dlsym(library, "cuGetErrorName")
	require.NoError(t, err)
	for r := range 1000 {
		var name *byte
		if rc, _, _ := purego.SyscallN(entry, uintptr(r), uintptr(unsafe.Pointer(&name))); int32(rc) == 0 {
			assert.Equal(t, text(name), driver.Result(r).Name())
		}
	}
}
