package cudabuf

import (
	"errors"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// Alloc is NewBuffer, as arrowbuf.Device has it.
func (d *Device) Alloc(n int64) (arrowbuf.Buffer, error) {
	b, err := d.NewBuffer(n)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// NewBuffer returns a buffer of n bytes with undefined contents, of the device's
// Pool. Released memory is kept and used again, see SetIdleLimit. When the GPU
// is full, what is kept goes back to the driver before the allocation fails with
// arrowbuf.ErrOutOfMemory.
func (d *Device) NewBuffer(n int64) (*Buffer, error) { return d.Pool().Alloc(n) }

// FromHost returns a buffer that holds a copy of data.
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

// CopyOf returns a buffer that holds a copy of another, on whatever device that
// is.
func (d *Device) CopyOf(src arrowbuf.Buffer) (*Buffer, error) {
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

// MemInfo is the memory of the GPU in bytes, free for all its users and in all
// (cuMemGetInfo). Idle memory of this device counts as used.
func (d *Device) MemInfo() (free, total int64, err error) {
	err = d.do(func() (err error) { free, total, err = d.api.MemGetInfo(); return err })
	return free, total, err
}

// MemoryStats says what a device, or its allocator of pinned memory, has taken
// from the driver, in bytes. What is in use counts as rounded up to a multiple of
// 512.
type MemoryStats struct {
	InUse int64 // held by callers
	Idle  int64 // kept for later ones
}

func memoryStats(s PoolStats) MemoryStats { return MemoryStats{InUse: s.InUse, Idle: s.Held - s.InUse} }

// MemoryStats says what buffers hold and what is kept for later ones, in all
// pools of the device.
func (d *Device) MemoryStats() MemoryStats {
	var sum MemoryStats
	for _, p := range d.pools.list() {
		s := memoryStats(p.Stats())
		sum.InUse += s.InUse
		sum.Idle += s.Idle
	}
	return sum
}

// SetIdleLimit is that of the device's Pool.
func (d *Device) SetIdleLimit(n int64) error { return d.Pool().SetIdleLimit(n) }

// Trim gives the released memory that is kept, device and pinned, back to the
// driver, and that which copies of ordinary memory go through.
func (d *Device) Trim() error {
	failure := d.staging.trim()
	for _, p := range d.pools.list() {
		failure = errors.Join(failure, p.Trim())
	}
	return errors.Join(failure, d.pinned.Trim())
}

func (d *Device) memAlloc(n int64) (address uintptr, err error) {
	err = d.do(func() (err error) { address, err = d.api.MemAlloc(n); return err })
	return address, err
}

func (d *Device) memFree(address uintptr) error {
	return d.do(func() error { return d.api.MemFree(address) })
}
