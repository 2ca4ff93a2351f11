package cudabuf

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// Device is a GPU, used through one CUDA context. It implements arrowbuf.Device
// and may be used from any goroutine.
type Device struct {
	driver   *Driver
	api      driver.API
	ordinal  int
	handle   driver.Device
	context  driver.Context
	external bool // the context belongs to another library
	managed  bool // buffers are managed memory; see ManagedDevice
	closed   atomic.Bool
	lost     atomic.Pointer[driver.Error]
	// submitsWithoutContext is set if work on streams needs no current context. It is
	// cleared when a call fails for lack of one.
	submitsWithoutContext atomic.Bool

	name         string
	uuid         UUID
	pciBusID     string
	major, minor int
	limits       Limits
	idleLimit    int64 // idle limit of a new pool, in bytes

	nullStream     *Stream
	defaultStream  atomic.Pointer[Stream] // DefaultStream
	streams        *streamPool
	programs       programCache
	pools          poolSet
	pinned         *PinnedAllocator
	unpooledPinned pinnedAccount
	staging        *stagingPool
	sharedObjects  sharedAccount
	callbacks      callbackSet
	libraries      libraries
}

var _ arrowbuf.Device = (*Device)(nil)

// UUID identifies a GPU, or a part of one (MIG).
type UUID [16]byte

// String returns the UUID in the format of nvidia-smi without "GPU-": five groups of
// hexadecimal digits.
func (u UUID) String() string { return driver.UUID(u).String() }

// openDevice opens the device of an ordinal. If context is 0, it retains the primary
// context. Otherwise it uses the given context, which remains the caller's.
func openDevice(d *Driver, key deviceKey, context driver.Context) (*Device, error) {
	dev := &Device{driver: d, api: d.api, ordinal: key.ordinal, managed: key.managed, context: context, external: context != 0}
	var total int64
	var err error
	for _, step := range []func() error{
		func() error { dev.handle, err = d.api.DeviceGet(key.ordinal); return err },
		func() error { dev.name, err = d.api.DeviceGetName(dev.handle); return err },
		func() error {
			id, err := d.api.DeviceGetUUID(dev.handle)
			dev.uuid = UUID(id)
			return ignoreNotSupported(err)
		},
		func() error { dev.pciBusID, err = d.api.DeviceGetPCIBusID(dev.handle); return ignoreNotSupported(err) },
		func() error { total, err = d.api.DeviceTotalMem(dev.handle); return err },
		dev.readAttribute(&dev.major, driver.ComputeCapabilityMajor),
		dev.readAttribute(&dev.minor, driver.ComputeCapabilityMinor),
		dev.readLimits,
		dev.retainContext,
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	if dev.managed {
		if err := dev.checkManagedAccess(); err != nil {
			return nil, errors.Join(err, d.api.DevicePrimaryCtxRelease(dev.handle))
		}
	}
	dev.submitsWithoutContext.Store(d.version > newestNeedingContext)
	dev.nullStream = &Stream{cudaStream: &cudaStream{dev: dev}}
	dev.streams = newStreamPool(dev)
	dev.limits.MemoryBytes = total
	dev.idleLimit = total / 4
	dev.staging = newStagingPool(dev, defaultStaging)
	if err := dev.pools.init(dev); err != nil {
		return nil, err
	}
	if dev.pinned, err = newPinned(dev); err != nil {
		return nil, err
	}
	return dev, nil
}

func (d *Device) retainContext() (err error) {
	if !d.external {
		d.context, err = d.api.DevicePrimaryCtxRetain(d.handle)
	}
	return err
}

// Type returns arrowbuf.DeviceCUDA, or arrowbuf.DeviceCUDAManaged for a device of
// Driver.ManagedDevice.
func (d *Device) Type() arrowbuf.DeviceType {
	if d.managed {
		return arrowbuf.DeviceCUDAManaged
	}
	return arrowbuf.DeviceCUDA
}

// ID returns the ordinal of the device.
func (d *Device) ID() int64 { return int64(d.ordinal) }

// String returns the device type and the ordinal, such as "cuda:0".
func (d *Device) String() string { return deviceKey{d.ordinal, d.managed}.String() }

// Name returns the product name, such as "NVIDIA H200" (cuDeviceGetName).
func (d *Device) Name() string { return d.name }

// UUID returns the identity of the GPU, which does not depend on the ordinal
// (cuDeviceGetUuid). A part of a GPU (MIG) has its own.
func (d *Device) UUID() UUID { return d.uuid }

// PCIBusID returns the PCI address in lower case, as Linux writes it, such as
// "0000:3b:00.0" (cuDeviceGetPCIBusId).
func (d *Device) PCIBusID() string { return d.pciBusID }

// ComputeCapability returns the version of the architecture, such as 9.0.
func (d *Device) ComputeCapability() (major, minor int) { return d.major, d.minor }

// Multiprocessors returns the number of streaming multiprocessors.
func (d *Device) Multiprocessors() int { return d.limits.Multiprocessors }

// Handle returns the context (CUcontext) for other libraries in the process. It is
// valid until the Driver is closed.
func (d *Device) Handle() uintptr { return uintptr(d.context) }

// HostAllocator returns the *PinnedAllocator of the device.
func (d *Device) HostAllocator() memory.Allocator { return d.pinned }

// Synchronize returns when all work of the device's context is done, on all streams
// and of all libraries (cuCtxSynchronize).
func (d *Device) Synchronize() error { return d.withContext(d.api.CtxSynchronize) }

// withContext makes driver calls in the device's context.
func (d *Device) withContext(calls func() error) error {
	if err := d.bindContext(); err != nil {
		return err
	}
	return d.unbindContext(calls())
}

// bindContext locks the goroutine to its thread and makes the device's context
// current. If it succeeds, the caller must call unbindContext.
//
// CUDA keeps the current context in the thread, but a goroutine may move between
// threads. Each group of calls therefore locks its thread and sets the context. The
// context stays set on the thread, but no code relies on it.
func (d *Device) bindContext() error {
	if err := d.checkUsable(); err != nil {
		return err
	}
	runtime.LockOSThread()
	if err := d.api.CtxSetCurrent(d.context); err != nil {
		return d.unbindContext(err)
	}
	return nil
}

// checkUsable returns an error if the device is closed or lost.
func (d *Device) checkUsable() error {
	if d.closed.Load() {
		return fmt.Errorf("%v: %w", d, ErrClosed)
	}
	if lost := d.lost.Load(); lost != nil {
		return fmt.Errorf("%v: lost by an earlier failure: %w", d, lost)
	}
	return nil
}

// unbindContext unlocks the thread. It returns the calls' error, annotated.
func (d *Device) unbindContext(err error) error {
	runtime.UnlockOSThread()
	return d.annotate(err)
}

// annotate adds the device to an error. It also remembers an error that loses the
// context, since later calls return the same error or hang.
func (d *Device) annotate(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, ErrDeviceLost) {
		var call *driver.Error
		if errors.As(err, &call) {
			d.lost.CompareAndSwap(nil, call)
		}
	}
	return fmt.Errorf("%v: %w", d, err)
}

// checkIdle returns an error that lists what is in use, or nil.
func (d *Device) checkIdle() error {
	device, host := d.MemoryStats().InUse, d.pinned.Stats().InUse
	if device == 0 {
		for _, p := range d.pools.list() { // those of resources too
			device += p.Stats().InUse
		}
	}
	locked, _ := d.unpooledPinned.state()
	host += locked
	shared, _ := d.sharedObjects.state()
	if device == 0 && host == 0 && shared == 0 {
		return nil
	}
	return d.pools.withLeaks(fmt.Errorf("%v: still in use: %d bytes of device memory, %d bytes of pinned memory, %d shared allocations and pools", d, device, host, shared))
}

// close frees all that the device holds. On a lost device it reports no error,
// since the driver has freed everything.
func (d *Device) close() error {
	_, failure := d.sharedObjects.state()
	_, unlocking := d.unpooledPinned.state()
	failure = errors.Join(failure, unlocking, d.libraries.close(d), d.staging.trim(), d.programs.close(), d.pools.close(), d.pinned.close(), d.streams.close())
	d.closed.Store(true)
	if !d.external {
		failure = errors.Join(failure, d.api.DevicePrimaryCtxRelease(d.handle))
	}
	if errors.Is(failure, ErrDeviceLost) {
		return nil
	}
	return failure
}

// ignoreNotSupported returns nil for a call that the driver lacks, and err
// otherwise.
func ignoreNotSupported(err error) error {
	var e *driver.Error
	if errors.As(err, &e) && e.Code == driver.NotSupported {
		return nil
	}
	return err
}

// Limits are properties of a GPU, in bytes, threads and blocks
// (cuDeviceGetAttribute).
type Limits struct {
	Multiprocessors             int
	WarpSize                    int    // threads
	MaxThreadsPerBlock          int    // threads
	MaxThreadsPerMultiprocessor int    // threads
	MaxBlock                    [3]int // threads in X, Y, Z
	MaxGrid                     [3]int // blocks in X, Y, Z
	SharedPerBlock              int64  // bytes, without opt-in
	SharedPerBlockOptin         int64  // bytes, the maximum of Kernel.SetMaxDynamicShared
	L2Bytes                     int64
	MemoryBytes                 int64 // of the GPU, in use or not
	CopyEngines                 int
}

// Limits returns the limits of the GPU.
func (d *Device) Limits() Limits { return d.limits }

// Arch returns the architecture as compilers name it, such as "sm_90" for 9.0.
func (d *Device) Arch() string { return fmt.Sprintf("sm_%d%d", d.major, d.minor) }

// LargestBlock estimates the largest allocation that can succeed now, in bytes. It
// is the larger of the free memory of the GPU and the largest idle block of the
// device's pool. Fragmentation of the free memory may make an allocation fail.
func (d *Device) LargestBlock() (int64, error) {
	free, _, err := d.MemInfo()
	if largest := d.Pool().backend.largestIdle; err == nil && largest != nil {
		free = max(free, largest())
	}
	return free, err
}

// readLimits reads the attributes that every driver has.
func (d *Device) readLimits() error {
	l := &d.limits
	var shared, optin, l2 int
	for _, read := range []func() error{
		d.readAttribute(&l.Multiprocessors, driver.MultiprocessorCount),
		d.readAttribute(&l.WarpSize, driver.WarpSize),
		d.readAttribute(&l.MaxThreadsPerBlock, driver.MaxThreadsPerBlock),
		d.readAttribute(&l.MaxThreadsPerMultiprocessor, driver.MaxThreadsPerMultiprocessor),
		d.readAttribute(&l.MaxBlock[0], driver.MaxBlockDimX),
		d.readAttribute(&l.MaxBlock[1], driver.MaxBlockDimY),
		d.readAttribute(&l.MaxBlock[2], driver.MaxBlockDimZ),
		d.readAttribute(&l.MaxGrid[0], driver.MaxGridDimX),
		d.readAttribute(&l.MaxGrid[1], driver.MaxGridDimY),
		d.readAttribute(&l.MaxGrid[2], driver.MaxGridDimZ),
		d.readAttribute(&shared, driver.MaxSharedMemoryPerBlock),
		d.readAttribute(&optin, driver.MaxSharedMemoryPerBlockOptin),
		d.readAttribute(&l2, driver.L2CacheSize),
		d.readAttribute(&l.CopyEngines, driver.AsyncEngineCount),
	} {
		if err := read(); err != nil {
			return err
		}
	}
	l.SharedPerBlock, l.SharedPerBlockOptin, l.L2Bytes = int64(shared), int64(optin), int64(l2)
	return nil
}

func (d *Device) readAttribute(v *int, a driver.Attribute) func() error {
	return func() (err error) { *v, err = d.api.DeviceGetAttribute(a, d.handle); return err }
}

// Alloc is NewBuffer. It implements arrowbuf.Device.
func (d *Device) Alloc(n int64) (arrowbuf.Buffer, error) {
	b, err := d.NewBuffer(n)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// NewBuffer returns a buffer of n bytes with undefined contents from the device's
// Pool. The pool keeps released memory for reuse; see SetIdleLimit. If the GPU is
// full, the pool frees its idle memory before it returns arrowbuf.ErrOutOfMemory.
func (d *Device) NewBuffer(n int64) (*Buffer, error) { return d.Pool().Alloc(n) }

// FromHost returns a buffer that holds a copy of data. The caller owns one reference.
func (d *Device) FromHost(data []byte) (*Buffer, error) {
	b, err := d.NewBuffer(int64(len(data)))
	if err != nil {
		return nil, err
	}
	if _, err := b.CopyFromHost(data, 0); err != nil {
		b.Release()
		return nil, err
	}
	return b, nil
}

// CopyOf returns a buffer that holds a copy of src, which may be on any device. The
// caller owns one reference. It returns an error wrapping arrowbuf.ErrDevice if src is
// nil.
func (d *Device) CopyOf(src arrowbuf.Buffer) (*Buffer, error) {
	if src == nil {
		return nil, fmt.Errorf("cudabuf.Device.CopyOf: nil buffer: %w", arrowbuf.ErrDevice)
	}
	b, err := d.NewBuffer(src.Len())
	if err != nil {
		return nil, err
	}
	if _, err := b.CopyFromDevice(src, 0); err != nil {
		b.Release()
		return nil, err
	}
	return b, nil
}

// MemInfo returns the free and the total memory of the GPU in bytes (cuMemGetInfo).
// Free memory is shared by all processes. Idle memory of this device's pools counts
// as used.
func (d *Device) MemInfo() (free, total int64, err error) {
	err = d.withContext(func() (err error) { free, total, err = d.api.MemGetInfo(); return err })
	return free, total, err
}

// MemoryStats are the bytes that a device or its PinnedAllocator has allocated from
// the driver. Nothing is counted twice. Sizes in use are rounded up to a multiple of 512.
type MemoryStats struct {
	InUse int64 // used by callers
	Idle  int64 // kept for reuse
	// Shared is allocated to be shared with other processes, by NewIPCBuffer,
	// NewFDBuffer and SharedPools, and counts until the last release.
	Shared int64
}

func memoryStats(s PoolStats) MemoryStats {
	return MemoryStats{InUse: s.InUse, Idle: s.Held - s.InUse}
}

// MemoryStats returns the memory of all pools of the device, except for pools of a
// MemoryResource, whose memory is counted there.
func (d *Device) MemoryStats() MemoryStats {
	sum := MemoryStats{Shared: d.sharedObjects.inUse()}
	for _, p := range d.pools.list() {
		if p.ofResource {
			continue
		}
		s := memoryStats(p.Stats())
		sum.InUse += s.InUse
		sum.Idle += s.Idle
	}
	return sum
}

// SetIdleLimit is Pool.SetIdleLimit of the device's Pool.
func (d *Device) SetIdleLimit(n int64) error { return d.Pool().SetIdleLimit(n) }

// Trim frees the idle memory of all pools, the idle pinned memory and the staging
// buffers.
func (d *Device) Trim() error {
	failure := d.staging.trim()
	for _, p := range d.pools.list() {
		failure = errors.Join(failure, p.Trim())
	}
	return errors.Join(failure, d.pinned.Trim())
}

// retryAfterTrim makes driver calls that allocate. If the GPU is full, it frees idle
// memory and makes the calls once more.
func (d *Device) retryAfterTrim(calls func() error) error {
	err := d.withContext(calls)
	if errors.Is(err, arrowbuf.ErrOutOfMemory) {
		if trimmed := d.Trim(); trimmed == nil {
			err = d.withContext(calls)
		}
	}
	return err
}

func (d *Device) memAlloc(n int64) (address uintptr, err error) {
	if d.managed {
		return d.managedAlloc(n)
	}
	err = d.withContext(func() (err error) { address, err = d.api.MemAlloc(n); return err })
	return address, err
}

func (d *Device) memFree(address uintptr) error {
	return d.withContext(func() error { return d.api.MemFree(address) })
}
