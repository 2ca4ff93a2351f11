package cudabuf

import (
	"fmt"

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

// NewBuffer returns a buffer of n bytes with undefined contents
// (cuMemAlloc). Freed memory is kept and used again, see SetIdleLimit. When the
// GPU is full, what is kept goes back to the driver before the allocation fails
// with arrowbuf.ErrOutOfMemory.
func (d *Device) NewBuffer(n int64) (*Buffer, error) {
	if n < 0 {
		return nil, fmt.Errorf("%v: allocating %d bytes: %w", d, n, arrowbuf.ErrOutOfRange)
	}
	if n == 0 {
		return newBuffer(d, nil, 0, 0), nil
	}
	address, err := d.memory.get(n)
	if err != nil {
		return nil, fmt.Errorf("allocating %d bytes: %w", n, err)
	}
	return newBuffer(d, newAllocation(func(pending []*queue) {
		for _, q := range pending {
			_ = q.synchronize()
		}
		d.memory.put(address)
	}), address, n), nil
}

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

// MemoryStats says what buffers hold and what is kept for later ones.
func (d *Device) MemoryStats() MemoryStats { return d.memory.read() }

// SetIdleLimit bounds the freed device memory that is kept for later
// allocations, in bytes; at first that is a quarter of the GPU's memory. Zero
// keeps none.
func (d *Device) SetIdleLimit(n int64) error { return d.memory.setLimit(n) }

// Trim gives the freed memory that is kept, device and pinned, back to the
// driver.
func (d *Device) Trim() error {
	err := d.memory.trim()
	if pinned := d.pinned.Trim(); err == nil {
		err = pinned
	}
	return err
}

func (d *Device) memAlloc(n int64) (address uintptr, err error) {
	err = d.do(func() (err error) { address, err = d.api.MemAlloc(n); return err })
	return address, err
}

func (d *Device) memFree(address uintptr) error {
	return d.do(func() error { return d.api.MemFree(address) })
}
