//go:build linux

package libcuda

import (
	"runtime"
	"unsafe"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

func (d *Driver) MemGetInfo() (free, total int64, err error) {
	var f, t uint64
	err = d.call(cuMemGetInfo, uintptr(unsafe.Pointer(&f)), uintptr(unsafe.Pointer(&t)))
	return int64(f), int64(t), err
}

func (d *Driver) MemAlloc(n int64) (uintptr, error) {
	var p uintptr
	err := d.call(cuMemAlloc, uintptr(unsafe.Pointer(&p)), uintptr(n))
	return p, err
}

func (d *Driver) MemFree(p uintptr) error { return d.call(cuMemFree, p) }

func (d *Driver) MemAllocManaged(n int64) (uintptr, error) {
	var p uintptr
	err := d.call(cuMemAllocManaged, uintptr(unsafe.Pointer(&p)), uintptr(n), memAttachGlobal)
	return p, err
}

func (d *Driver) MemAdvise(address uintptr, n int64, a driver.MemAdvice, location driver.Device) error {
	return d.call(cuMemAdvise, address, uintptr(n), uintptr(a), uintptr(location))
}

func (d *Driver) MemPrefetchAsync(address uintptr, n int64, to driver.Device, s driver.Stream) error {
	return d.call(cuMemPrefetchAsync, address, uintptr(n), uintptr(to), uintptr(s))
}

// memAttachGlobal is CU_MEM_ATTACH_GLOBAL.
const memAttachGlobal = 1

func (d *Driver) MemHostAlloc(n int64, flags uint32) (uintptr, error) {
	var p uintptr
	err := d.call(cuMemHostAlloc, uintptr(unsafe.Pointer(&p)), uintptr(n), uintptr(flags))
	return p, err
}

func (d *Driver) MemFreeHost(p uintptr) error { return d.call(cuMemFreeHost, p) }

func (d *Driver) MemGetAddressRange(address uintptr) (base uintptr, size int64, err error) {
	err = d.call(cuMemGetAddressRange, uintptr(unsafe.Pointer(&base)), uintptr(unsafe.Pointer(&size)), address)
	return base, size, err
}

// PointerGetAttribute passes space for the widest value. The driver writes only
// the bytes of the attribute.
func (d *Driver) PointerGetAttribute(a driver.PointerAttribute, address uintptr) (uint64, error) {
	var v uint64
	err := d.call(cuPointerGetAttribute, uintptr(unsafe.Pointer(&v)), uintptr(a), address)
	return v, err
}

func (d *Driver) MemHostRegister(memory []byte, flags uint32) error {
	return d.call(cuMemHostRegister, uintptr(unsafe.Pointer(unsafe.SliceData(memory))), uintptr(len(memory)), uintptr(flags))
}

func (d *Driver) MemHostUnregister(address uintptr) error {
	return d.call(cuMemHostUnregister, address)
}

func (d *Driver) MemHostGetDevicePointer(address uintptr) (uintptr, error) {
	var p uintptr
	err := d.call(cuMemHostGetDevicePointer, uintptr(unsafe.Pointer(&p)), address, 0)
	return p, err
}

func (d *Driver) MemcpyHtoDAsync(dst uintptr, src []byte, s driver.Stream) error {
	return d.callCopy(cuMemcpyHtoDAsync, dst, uintptr(unsafe.Pointer(unsafe.SliceData(src))), uintptr(len(src)), uintptr(s))
}

func (d *Driver) MemcpyDtoHAsync(dst []byte, src uintptr, s driver.Stream) error {
	return d.callCopy(cuMemcpyDtoHAsync, uintptr(unsafe.Pointer(unsafe.SliceData(dst))), src, uintptr(len(dst)), uintptr(s))
}

func (d *Driver) MemcpyDtoDAsync(dst, src uintptr, n int64, s driver.Stream) error {
	return d.callValues(cuMemcpyDtoDAsync, dst, src, uintptr(n), uintptr(s))
}

func (d *Driver) MemcpyPeerAsync(dst uintptr, dstContext driver.Context, src uintptr, srcContext driver.Context, n int64, s driver.Stream) error {
	return d.callValues(cuMemcpyPeerAsync, dst, uintptr(dstContext), src, uintptr(srcContext), uintptr(n), uintptr(s))
}

func (d *Driver) MemsetD8Async(dst uintptr, value byte, n int64, s driver.Stream) error {
	return d.callValues(cuMemsetD8Async, dst, uintptr(value), uintptr(n), uintptr(s))
}

func (d *Driver) MemAllocAsync(n int64, s driver.Stream) (uintptr, error) {
	var p uintptr
	err := d.call(cuMemAllocAsync, uintptr(unsafe.Pointer(&p)), uintptr(n), uintptr(s))
	return p, err
}

func (d *Driver) MemFreeAsync(address uintptr, s driver.Stream) error {
	return d.callValues(cuMemFreeAsync, address, uintptr(s))
}

func (d *Driver) DeviceGetDefaultMemPool(dev driver.Device) (driver.MemPool, error) {
	var p driver.MemPool
	err := d.call(cuDeviceGetDefaultMemPool, uintptr(unsafe.Pointer(&p)), uintptr(dev))
	return p, err
}

func (d *Driver) MemPoolCreate(dev driver.Device, shareable bool) (driver.MemPool, error) {
	var p driver.MemPool
	props := poolProps{kind: allocationPinned, handleTypes: handleType(shareable), location: deviceLocation(int32(dev))}
	err := d.call(cuMemPoolCreate, uintptr(unsafe.Pointer(&p)), uintptr(unsafe.Pointer(&props)))
	return p, err
}

func (d *Driver) MemPoolDestroy(p driver.MemPool) error { return d.call(cuMemPoolDestroy, uintptr(p)) }

func (d *Driver) MemPoolTrimTo(p driver.MemPool, keep int64) error {
	return d.call(cuMemPoolTrimTo, uintptr(p), uintptr(keep))
}

func (d *Driver) MemPoolSetAttribute(p driver.MemPool, a driver.MemPoolAttribute, value uint64) error {
	return d.call(cuMemPoolSetAttribute, uintptr(p), uintptr(a), uintptr(unsafe.Pointer(&value)))
}

func (d *Driver) MemPoolGetAttribute(p driver.MemPool, a driver.MemPoolAttribute) (uint64, error) {
	var v uint64
	err := d.call(cuMemPoolGetAttribute, uintptr(p), uintptr(a), uintptr(unsafe.Pointer(&v)))
	return v, err
}

func (d *Driver) MemPoolSetAccess(p driver.MemPool, from driver.Device) error {
	access := accessDesc{deviceLocation(int32(from)), accessReadWrite}
	return d.call(cuMemPoolSetAccess, uintptr(p), uintptr(unsafe.Pointer(&access)), 1)
}

func (d *Driver) MemAllocFromPoolAsync(n int64, pool driver.MemPool, s driver.Stream) (uintptr, error) {
	var p uintptr
	err := d.call(cuMemAllocFromPoolAsync, uintptr(unsafe.Pointer(&p)), uintptr(n), uintptr(pool), uintptr(s))
	return p, err
}

func (d *Driver) MemPoolExportToShareableHandle(p driver.MemPool) (int, error) {
	var fd int32
	err := d.call(cuMemPoolExportToShareableHandle, uintptr(unsafe.Pointer(&fd)), uintptr(p), handlePosixFD, 0)
	return int(fd), err
}

// MemPoolImportFromShareableHandle passes the descriptor in the pointer argument,
// as the driver requires.
func (d *Driver) MemPoolImportFromShareableHandle(fd int) (driver.MemPool, error) {
	var p driver.MemPool
	err := d.call(cuMemPoolImportFromShareableHandle, uintptr(unsafe.Pointer(&p)), uintptr(fd), handlePosixFD, 0)
	return p, err
}

func (d *Driver) MemPoolExportPointer(address uintptr) (driver.PoolPointer, error) {
	var p driver.PoolPointer
	err := d.call(cuMemPoolExportPointer, uintptr(unsafe.Pointer(&p)), address)
	return p, err
}

func (d *Driver) MemPoolImportPointer(pool driver.MemPool, p driver.PoolPointer) (uintptr, error) {
	var address uintptr
	err := d.call(cuMemPoolImportPointer, uintptr(unsafe.Pointer(&address)), uintptr(pool), uintptr(unsafe.Pointer(&p)))
	return address, err
}

func newAllocationProp(dev driver.Device, shareable bool) allocationProp {
	return allocationProp{kind: allocationPinned, handleTypes: handleType(shareable), location: deviceLocation(int32(dev))}
}

func (d *Driver) MemGetAllocationGranularity(dev driver.Device, shareable bool) (int64, error) {
	var n int64
	p := newAllocationProp(dev, shareable)
	err := d.call(cuMemGetAllocationGranularity, uintptr(unsafe.Pointer(&n)), uintptr(unsafe.Pointer(&p)), granularityMinimum)
	return n, err
}

func (d *Driver) MemCreate(n int64, dev driver.Device, shareable bool) (driver.Physical, error) {
	var h driver.Physical
	p := newAllocationProp(dev, shareable)
	err := d.call(cuMemCreate, uintptr(unsafe.Pointer(&h)), uintptr(n), uintptr(unsafe.Pointer(&p)), 0)
	return h, err
}

func (d *Driver) MemRelease(h driver.Physical) error { return d.call(cuMemRelease, uintptr(h)) }

func (d *Driver) MemAddressReserve(n int64) (uintptr, error) {
	var p uintptr
	err := d.call(cuMemAddressReserve, uintptr(unsafe.Pointer(&p)), uintptr(n), 0, 0, 0)
	return p, err
}

func (d *Driver) MemAddressFree(address uintptr, n int64) error {
	return d.call(cuMemAddressFree, address, uintptr(n))
}

func (d *Driver) MemMap(address uintptr, n int64, h driver.Physical) error {
	return d.call(cuMemMap, address, uintptr(n), 0, uintptr(h), 0)
}

func (d *Driver) MemUnmap(address uintptr, n int64) error {
	return d.call(cuMemUnmap, address, uintptr(n))
}

func (d *Driver) MemSetAccess(address uintptr, n int64, from driver.Device) error {
	access := accessDesc{deviceLocation(int32(from)), accessReadWrite}
	return d.call(cuMemSetAccess, address, uintptr(n), uintptr(unsafe.Pointer(&access)), 1)
}

func (d *Driver) MemExportToShareableHandle(h driver.Physical) (int, error) {
	var fd int32
	err := d.call(cuMemExportToShareableHandle, uintptr(unsafe.Pointer(&fd)), uintptr(h), handlePosixFD, 0)
	return int(fd), err
}

// MemImportFromShareableHandle passes the descriptor in the pointer argument, as
// the driver requires.
func (d *Driver) MemImportFromShareableHandle(fd int) (driver.Physical, error) {
	var h driver.Physical
	err := d.call(cuMemImportFromShareableHandle, uintptr(unsafe.Pointer(&h)), uintptr(fd), handlePosixFD)
	return h, err
}

func (d *Driver) IpcGetMemHandle(address uintptr) (driver.IPCMemHandle, error) {
	var h driver.IPCMemHandle
	err := d.call(cuIpcGetMemHandle, uintptr(unsafe.Pointer(&h)), address)
	return h, err
}

// IpcOpenMemHandle passes 64 bytes by value. C passes these on x86-64 on the
// stack, after the six integer registers, and on arm64 by address.
func (d *Driver) IpcOpenMemHandle(h driver.IPCMemHandle) (uintptr, error) {
	var p uintptr
	if runtime.GOARCH == "arm64" {
		err := d.call(cuIpcOpenMemHandle, uintptr(unsafe.Pointer(&p)), uintptr(unsafe.Pointer(&h)), lazyPeerAccess)
		return p, err
	}
	w := handleWords((*[64]byte)(&h))
	err := d.call(cuIpcOpenMemHandle, uintptr(unsafe.Pointer(&p)), lazyPeerAccess, 0, 0, 0, 0,
		w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7])
	return p, err
}

func (d *Driver) IpcCloseMemHandle(address uintptr) error {
	return d.call(cuIpcCloseMemHandle, address)
}

func (d *Driver) IpcGetEventHandle(e driver.Event) (driver.IPCEventHandle, error) {
	var h driver.IPCEventHandle
	err := d.call(cuIpcGetEventHandle, uintptr(unsafe.Pointer(&h)), uintptr(e))
	return h, err
}

// IpcOpenEventHandle passes the handle like IpcOpenMemHandle.
func (d *Driver) IpcOpenEventHandle(h driver.IPCEventHandle) (driver.Event, error) {
	var e driver.Event
	if runtime.GOARCH == "arm64" {
		err := d.call(cuIpcOpenEventHandle, uintptr(unsafe.Pointer(&e)), uintptr(unsafe.Pointer(&h)))
		return e, err
	}
	w := handleWords((*[64]byte)(&h))
	err := d.call(cuIpcOpenEventHandle, uintptr(unsafe.Pointer(&e)), 0, 0, 0, 0, 0,
		w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7])
	return e, err
}

// Structures of cuda.h that calls take by pointer, in the layout of C on every
// 64-bit machine.

// location is CUmemLocation.
type location struct{ kind, id int32 }

// allocationProp is CUmemAllocationProp.
type allocationProp struct {
	kind, handleTypes int32
	location          location
	win32             uintptr
	flags             [8]byte
}

// accessDesc is CUmemAccessDesc.
type accessDesc struct {
	location location
	flags    int32
}

// poolProps is CUmemPoolProps.
type poolProps struct {
	kind, handleTypes int32
	location          location
	win32             uintptr
	maxSize           uint64
	reserved          [56]byte
}

// Values of the fields of these structures, and of arguments.
const (
	allocationPinned   = 1 // CU_MEM_ALLOCATION_TYPE_PINNED
	handlePosixFD      = 1 // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
	locationDevice     = 1 // CU_MEM_LOCATION_TYPE_DEVICE
	accessReadWrite    = 3 // CU_MEM_ACCESS_FLAGS_PROT_READWRITE
	lazyPeerAccess     = 1 // CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
	jitErrorLog        = 5 // CU_JIT_ERROR_LOG_BUFFER
	jitErrorLogSize    = 6 // CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES
	granularityMinimum = 0 // CU_MEM_ALLOC_GRANULARITY_MINIMUM
)

func deviceLocation(dev int32) location { return location{locationDevice, dev} }

func handleType(shareable bool) int32 {
	if shareable {
		return handlePosixFD
	}
	return 0
}

// handleWords returns the eight 64-bit words of a handle.
func handleWords(handle *[64]byte) *[8]uintptr { return (*[8]uintptr)(unsafe.Pointer(handle)) }
