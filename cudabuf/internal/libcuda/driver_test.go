//go:build linux

package libcuda

import (
	"encoding/binary"
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

// fake is a Driver of the library testdata/fake.c, and the variables of that
// library.
type fake struct {
	driver.API
	result     *int32
	call       **byte
	args       *[14]uintptr
	text       *[256]byte
	parameters *[2]uint64
	structure  *[96]byte
}

// buildFake compiles the fake library and sets Override to its path.
func buildFake(t *testing.T, flags ...string) string {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler to build the fake libcuda with")
	}
	path := filepath.Join(t.TempDir(), "libcuda.so.1")
	out, err := exec.Command(cc, append(flags, "-shared", "-fPIC", "-pthread", "-o", path, "testdata/fake.c")...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Setenv(Override, path)
	return path
}

func openFake(t *testing.T, flags ...string) fake {
	t.Helper()
	path := buildFake(t, flags...)
	api, err := Open()
	require.NoError(t, err)
	library, err := purego.Dlopen(path, purego.RTLD_NOW)
	require.NoError(t, err)
	return fake{
		API:        api,
		result:     cVariable[int32](t, library, "fake_result"),
		call:       cVariable[*byte](t, library, "fake_call"),
		args:       cVariable[[14]uintptr](t, library, "fake_args"),
		text:       cVariable[[256]byte](t, library, "fake_text"),
		parameters: cVariable[[2]uint64](t, library, "fake_parameters"),
		structure:  cVariable[[96]byte](t, library, "fake_struct"),
	}
}

func cVariable[T any](t *testing.T, library uintptr, name string) *T {
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

func TestCallsPassArguments(t *testing.T) {
	f := openFake(t)
	host := make([]byte, 100)
	at := uintptr(unsafe.Pointer(&host[0]))
	const out = ^uintptr(0) // stands for any nonzero address of a result
	const handle = 0x7700000012345678
	var counted [64]byte
	for i := range counted {
		counted[i] = byte(i)
	}
	result := func(want, got any, err error) error {
		if err == nil {
			assert.Equal(t, want, got)
		}
		return err
	}
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
		{"cuModuleLoadDataEx", func() error { v, err := f.ModuleLoadData([]byte("ptx"), nil); return result(driver.Module(9), v, err) }, []uintptr{out, out, 2, out, out}},
		{"cuModuleGetFunction", func() error { v, err := f.ModuleGetFunction(9, "add"); return result(driver.Function(8), v, err) }, []uintptr{out, 9, out}},
		{"cuModuleUnload", func() error { return f.ModuleUnload(9) }, []uintptr{9}},
		{"cuLaunchKernel", func() error {
			return f.LaunchKernel(&driver.Launch{
				Function: 8, Grid: driver.Dim3{X: 1, Y: 2, Z: 3}, Block: driver.Dim3{X: 4, Y: 5, Z: 6}, SharedBytes: 7, Stream: 9,
				Args:    []driver.Arg{{Kind: driver.Struct, Size: 8, Bits: 16}, {Kind: driver.Int32, Bits: 0xfffffff9}},
				Structs: binary.NativeEndian.AppendUint64(make([]byte, 16), handle),
			})
		}, []uintptr{8, 1, 2, 3, 4, 5, 6, 7, 9, out, 0}},
		{"cuDeviceGetPCIBusId", func() error { v, err := f.DeviceGetPCIBusID(3); return result("0000:3b:00.0", v, err) }, []uintptr{out, 64, 3}},
		{"cuDeviceCanAccessPeer", func() error { v, err := f.DeviceCanAccessPeer(3, 4); return result(true, v, err) }, []uintptr{out, 3, 4}},
		{"cuDevicePrimaryCtxGetState", func() error {
			flags, active, err := f.DevicePrimaryCtxGetState(3)
			return result([]any{uint32(4), true}, []any{flags, active}, err)
		}, []uintptr{3, out, out}},
		{"cuDevicePrimaryCtxSetFlags_v2", func() error { return f.DevicePrimaryCtxSetFlags(3, 4) }, []uintptr{3, 4}},
		{"cuCtxCreate_v2", func() error { v, err := f.CtxCreate(4, 3); return result(driver.Context(handle), v, err) }, []uintptr{out, 4, 3}},
		{"cuCtxDestroy_v2", func() error { return f.CtxDestroy(handle) }, []uintptr{handle}},
		{"cuCtxGetCurrent", func() error { v, err := f.CtxGetCurrent(); return result(driver.Context(handle), v, err) }, []uintptr{out}},
		{"cuCtxGetDevice", func() error { v, err := f.CtxGetDevice(); return result(driver.Device(-2), v, err) }, []uintptr{out}},
		{"cuCtxGetStreamPriorityRange", func() error {
			least, greatest, err := f.CtxGetStreamPriorityRange()
			return result([]int{0, -5}, []int{least, greatest}, err)
		}, []uintptr{out, out}},
		{"cuCtxEnablePeerAccess", func() error { return f.CtxEnablePeerAccess(handle) }, []uintptr{handle, 0}},
		{"cuMemGetAddressRange_v2", func() error {
			base, size, err := f.MemGetAddressRange(handle)
			return result([]any{uintptr(1), int64(1 << 40)}, []any{base, size}, err)
		}, []uintptr{out, out, handle}},
		{"cuPointerGetAttribute", func() error {
			v, err := f.PointerGetAttribute(driver.PointerDevicePointer, 7)
			return result(uint64(handle), v, err)
		}, []uintptr{out, 3, 7}},
		{"cuMemAllocManaged", func() error { v, err := f.MemAllocManaged(1 << 33); return result(uintptr(handle), v, err) }, []uintptr{out, 1 << 33, 1}},
		{"cuMemAdvise", func() error { return f.MemAdvise(handle, 1<<33, driver.AdviseSetPreferredLocation, 2) }, []uintptr{handle, 1 << 33, 3, 2}},
		{"cuMemPrefetchAsync", func() error { return f.MemPrefetchAsync(handle, 1<<33, 2, 9) }, []uintptr{handle, 1 << 33, 2, 9}},
		{"cuMemHostRegister_v2", func() error { return f.MemHostRegister(host, driver.HostRegisterReadOnly) }, []uintptr{at, 100, 8}},
		{"cuMemHostUnregister", func() error { return f.MemHostUnregister(handle) }, []uintptr{handle}},
		{"cuMemHostGetDevicePointer_v2", func() error { v, err := f.MemHostGetDevicePointer(7); return result(uintptr(handle), v, err) }, []uintptr{out, 7, 0}},
		{"cuMemAllocAsync", func() error { v, err := f.MemAllocAsync(1<<33, 9); return result(uintptr(handle), v, err) }, []uintptr{out, 1 << 33, 9}},
		{"cuMemFreeAsync", func() error { return f.MemFreeAsync(handle, 9) }, []uintptr{handle, 9}},
		{"cuDeviceGetDefaultMemPool", func() error { v, err := f.DeviceGetDefaultMemPool(3); return result(driver.MemPool(handle), v, err) }, []uintptr{out, 3}},
		{"cuMemPoolCreate", func() error { v, err := f.MemPoolCreate(3, true); return result(driver.MemPool(handle), v, err) }, []uintptr{out, out}},
		{"cuMemPoolDestroy", func() error { return f.MemPoolDestroy(handle) }, []uintptr{handle}},
		{"cuMemPoolTrimTo", func() error { return f.MemPoolTrimTo(handle, 1<<33) }, []uintptr{handle, 1 << 33}},
		{"cuMemPoolSetAttribute", func() error { return f.MemPoolSetAttribute(handle, driver.PoolReleaseThreshold, 1<<40) }, []uintptr{handle, 4, out}},
		{"cuMemPoolGetAttribute", func() error {
			v, err := f.MemPoolGetAttribute(8, driver.PoolUsedHigh)
			return result(uint64(handle), v, err)
		}, []uintptr{8, 8, out}},
		{"cuMemPoolSetAccess", func() error { return f.MemPoolSetAccess(handle, 3) }, []uintptr{handle, out, 1}},
		{"cuMemAllocFromPoolAsync", func() error { v, err := f.MemAllocFromPoolAsync(1<<33, 8, 9); return result(uintptr(handle), v, err) }, []uintptr{out, 1 << 33, 8, 9}},
		{"cuMemPoolExportToShareableHandle", func() error { v, err := f.MemPoolExportToShareableHandle(8); return result(-2, v, err) }, []uintptr{out, 8, 1, 0}},
		{"cuMemPoolImportFromShareableHandle", func() error {
			v, err := f.MemPoolImportFromShareableHandle(5)
			return result(driver.MemPool(handle), v, err)
		}, []uintptr{out, 5, 1, 0}},
		{"cuMemPoolExportPointer", func() error { v, err := f.MemPoolExportPointer(7); return result(driver.PoolPointer(counted), v, err) }, []uintptr{out, 7}},
		{"cuMemPoolImportPointer", func() error { v, err := f.MemPoolImportPointer(8, counted); return result(uintptr(handle), v, err) }, []uintptr{out, 8, out}},
		{"cuMemGetAllocationGranularity", func() error {
			v, err := f.MemGetAllocationGranularity(3, true)
			return result(int64(handle), v, err)
		}, []uintptr{out, out, 0}},
		{"cuMemCreate", func() error { v, err := f.MemCreate(1<<33, 3, true); return result(driver.Physical(handle), v, err) }, []uintptr{out, 1 << 33, out, 0}},
		{"cuMemRelease", func() error { return f.MemRelease(handle) }, []uintptr{handle}},
		{"cuMemAddressReserve", func() error { v, err := f.MemAddressReserve(1 << 33); return result(uintptr(handle), v, err) }, []uintptr{out, 1 << 33, 0, 0, 0}},
		{"cuMemAddressFree", func() error { return f.MemAddressFree(7, 1<<33) }, []uintptr{7, 1 << 33}},
		{"cuMemMap", func() error { return f.MemMap(7, 1<<33, handle) }, []uintptr{7, 1 << 33, 0, handle, 0}},
		{"cuMemUnmap", func() error { return f.MemUnmap(7, 1<<33) }, []uintptr{7, 1 << 33}},
		{"cuMemSetAccess", func() error { return f.MemSetAccess(7, 1<<33, 3) }, []uintptr{7, 1 << 33, out, 1}},
		{"cuMemExportToShareableHandle", func() error { v, err := f.MemExportToShareableHandle(handle); return result(-2, v, err) }, []uintptr{out, handle, 1, 0}},
		{"cuMemImportFromShareableHandle", func() error {
			v, err := f.MemImportFromShareableHandle(5)
			return result(driver.Physical(handle), v, err)
		}, []uintptr{out, 5, 1}},
		{"cuIpcGetMemHandle", func() error { v, err := f.IpcGetMemHandle(7); return result(driver.IPCMemHandle(counted), v, err) }, []uintptr{out, 7}},
		{"cuIpcOpenMemHandle_v2", func() error {
			v, err := f.IpcOpenMemHandle(driver.IPCMemHandle(counted))
			return result(uintptr(handle), v, err)
		}, []uintptr{out, 1}},
		{"cuIpcCloseMemHandle", func() error { return f.IpcCloseMemHandle(7) }, []uintptr{7}},
		{"cuIpcGetEventHandle", func() error { v, err := f.IpcGetEventHandle(7); return result(driver.IPCEventHandle(counted), v, err) }, []uintptr{out, 7}},
		{"cuIpcOpenEventHandle", func() error {
			v, err := f.IpcOpenEventHandle(driver.IPCEventHandle(counted))
			return result(driver.Event(handle), v, err)
		}, []uintptr{out}},
		{"cuStreamQuery", func() error { v, err := f.StreamQuery(9); return result(true, v, err) }, []uintptr{9}},
		{"cuStreamWaitEvent", func() error { return f.StreamWaitEvent(9, 7) }, []uintptr{9, 7, 0}},
		{"cuStreamGetPriority", func() error { v, err := f.StreamGetPriority(9); return result(-2, v, err) }, []uintptr{9, out}},
		{"cuStreamGetCtx", func() error { v, err := f.StreamGetCtx(9); return result(driver.Context(handle), v, err) }, []uintptr{9, out}},
		{"cuLaunchHostFunc", func() error {
			ran := false
			err := f.LaunchHostFunc(9, func() { ran = true })
			return result(true, ran, err)
		}, []uintptr{9, out, out}},
		{"cuEventCreate", func() error { v, err := f.EventCreate(2); return result(driver.Event(handle), v, err) }, []uintptr{out, 2}},
		{"cuEventDestroy_v2", func() error { return f.EventDestroy(7) }, []uintptr{7}},
		{"cuEventRecord", func() error { return f.EventRecord(7, 9) }, []uintptr{7, 9}},
		{"cuEventQuery", func() error { v, err := f.EventQuery(7); return result(true, v, err) }, []uintptr{7}},
		{"cuEventSynchronize", func() error { return f.EventSynchronize(7) }, []uintptr{7}},
		{"cuEventElapsedTime", func() error { v, err := f.EventElapsedTime(7, 8); return result(float32(1.5), v, err) }, []uintptr{out, 7, 8}},
		{"cuStreamBeginCapture_v2", func() error { return f.StreamBeginCapture(9, driver.CaptureRelaxed) }, []uintptr{9, 2}},
		{"cuStreamEndCapture", func() error { v, err := f.StreamEndCapture(9); return result(driver.Graph(handle), v, err) }, []uintptr{9, out}},
		{"cuGraphInstantiateWithFlags", func() error { v, err := f.GraphInstantiate(7); return result(driver.GraphExec(handle), v, err) }, []uintptr{out, 7, 0}},
		{"cuGraphLaunch", func() error { return f.GraphLaunch(7, 9) }, []uintptr{7, 9}},
		{"cuGraphExecDestroy", func() error { return f.GraphExecDestroy(7) }, []uintptr{7}},
		{"cuGraphDestroy", func() error { return f.GraphDestroy(7) }, []uintptr{7}},
		{"cuFuncGetAttribute", func() error { v, err := f.FuncGetAttribute(driver.FuncRegisters, 7); return result(-2, v, err) }, []uintptr{out, 4, 7}},
		{"cuFuncSetAttribute", func() error { return f.FuncSetAttribute(7, driver.FuncMaxDynamicSharedBytes, 1<<16) }, []uintptr{7, 8, 1 << 16}},
		{"cuFuncGetParamInfo", func() error {
			offset, size, err := f.FuncGetParamInfo(7, 3)
			return result([]int64{16, 1 << 33}, []int64{offset, size}, err)
		}, []uintptr{7, 3, out, out}},
		{"cuOccupancyMaxActiveBlocksPerMultiprocessor", func() error {
			v, err := f.OccupancyMaxActiveBlocksPerMultiprocessor(7, 256, 1<<14)
			return result(-2, v, err)
		}, []uintptr{out, 7, 256, 1 << 14}},
		{"cuOccupancyMaxPotentialBlockSize", func() error {
			blocks, threads, err := f.OccupancyMaxPotentialBlockSize(7, 1<<14, 512)
			return result([]int{264, 768}, []int{blocks, threads}, err)
		}, []uintptr{out, out, 7, 0, 1 << 14, 512}},
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
			assert.ErrorIs(t, err, arrowbuf.ErrOutOfMemory, "the result of the call becomes an error")
		})
	}
	assert.Len(t, covered, int(symbolCount), "every call is tested")
	assert.Equal(t, [2]uint64{handle, 0xfffffff9}, *f.parameters)
	require.NoError(t, func() error { _, err := f.ModuleLoadData([]byte("ptx"), nil); return err }())
	assert.Equal(t, "ptx", text(&f.text[0]), "an image ends in a zero byte")
	require.NoError(t, func() error { _, err := f.ModuleGetFunction(9, "add"); return err }())
	assert.Equal(t, "add", text(&f.text[0]))
}

func TestInvokePassesAllArgumentsInOrder(t *testing.T) {
	f := openFake(t)
	words := make([]uintptr, maxArguments)
	for i := range words {
		words[i] = 1<<63 + uintptr(i)
	}
	*f.result = -7
	assert.EqualValues(t, -7, invoke(f.API.(*Driver).entries[cuCtxSetCurrent], words...))
	assert.Equal(t, words, f.args[:])
}

func TestOpenNamesMissingFunction(t *testing.T) {
	path := buildFake(t, "-DBROKEN")
	_, err := Open()
	assert.ErrorContains(t, err, path+" lacks cuMemAlloc_v2")
	assert.NotErrorIs(t, err, driver.ErrNoDriver)
}

func TestMissingOptionalFunctionsDisableOneFeature(t *testing.T) {
	f := openFake(t, "-DOLD")
	_, err := f.DeviceGetUUID(0)
	assert.ErrorContains(t, err, "cuDeviceGetUuid: CUDA_ERROR_NOT_SUPPORTED (801)")
	err = f.MemcpyPeerAsync(1, 2, 3, 4, 5, 6)
	assert.ErrorContains(t, err, "cuMemcpyPeerAsync: CUDA_ERROR_NOT_SUPPORTED (801)")
	assert.ErrorContains(t, err, "libcuda.so.1 lacks the function")
	assert.NoError(t, f.Init())
}

func TestOpenErrorNamesPathsTried(t *testing.T) {
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
	assert.ErrorContains(t, err, "testdata/fake.c (", "for a file that is not a library, the loader's message")
}

func TestResultNamesMatchDriver(t *testing.T) {
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

func TestStructuresHaveCLayout(t *testing.T) {
	// The values of sizeof and offsetof by gcc, with cuda.h of CUDA 12.9 and 13.0.
	assert.EqualValues(t, 8, unsafe.Sizeof(location{}))
	assert.EqualValues(t, 32, unsafe.Sizeof(allocationProp{}))
	assert.EqualValues(t, 8, unsafe.Offsetof(allocationProp{}.location))
	assert.EqualValues(t, 16, unsafe.Offsetof(allocationProp{}.win32))
	assert.EqualValues(t, 12, unsafe.Sizeof(accessDesc{}))
	assert.EqualValues(t, 8, unsafe.Offsetof(accessDesc{}.flags))
	assert.EqualValues(t, 88, unsafe.Sizeof(poolProps{}))
	assert.EqualValues(t, 24, unsafe.Offsetof(poolProps{}.maxSize))

	f := openFake(t)
	number := func(at int) int32 { return int32(binary.LittleEndian.Uint32(f.structure[at:])) }
	_, err := f.MemCreate(1<<21, 3, true)
	require.NoError(t, err)
	assert.Equal(t, []int32{1, 1, 1, 3}, []int32{number(0), number(4), number(8), number(12)}, "pinned, a descriptor, on device 3")
	_, err = f.MemPoolCreate(3, false)
	require.NoError(t, err)
	assert.Equal(t, []int32{1, 0, 1, 3, 0}, []int32{number(0), number(4), number(8), number(12), number(24)})
	require.NoError(t, f.MemSetAccess(7, 1<<21, 4))
	assert.Equal(t, []int32{1, 4, 3}, []int32{number(0), number(4), number(8)}, "read and write from device 4")
	require.NoError(t, f.MemPoolSetAttribute(7, driver.PoolReleaseThreshold, 5))
	assert.Equal(t, int32(5), number(0))
}

func TestHandlesArePassedByValue(t *testing.T) {
	f := openFake(t)
	var h [64]byte
	for i := range h {
		h[i] = byte(200 - i)
	}
	_, err := f.IpcOpenMemHandle(h)
	require.NoError(t, err)
	assert.Equal(t, h[:], f.structure[:64])
	*f.structure = [96]byte{}
	_, err = f.IpcOpenEventHandle(h)
	require.NoError(t, err)
	assert.Equal(t, h[:], f.structure[:64])
}

func TestQueriesDistinguishNotReadyFromFailure(t *testing.T) {
	f := openFake(t)
	for name, ask := range map[string]func() (bool, error){
		"stream": func() (bool, error) { return f.StreamQuery(9) },
		"event":  func() (bool, error) { return f.EventQuery(9) },
	} {
		*f.result = 600
		done, err := ask()
		assert.False(t, done, name)
		assert.NoError(t, err, name)
		*f.result = 719
		_, err = ask()
		assert.ErrorIs(t, err, driver.ErrDeviceLost, name)
	}
}

func TestModuleLoadErrorHoldsCompilerLog(t *testing.T) {
	f := openFake(t)
	*f.result = 218
	_, err := f.ModuleLoadData([]byte("ptx"), nil)
	assert.ErrorContains(t, err, "CUDA_ERROR_INVALID_PTX (218)")
	assert.ErrorContains(t, err, "(ptxas says no)")
}
