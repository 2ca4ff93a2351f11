package cudabuf

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// NewFDBuffer returns a buffer of n bytes with undefined contents for ExportFD
// (cuMemCreate with CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, cuMemMap). Its size is
// rounded up to the GPU's granularity, 2 MiB today. It does not come from a Pool.
func (d *Device) NewFDBuffer(n int64) (*Buffer, error) {
	if err := d.errManaged("allocating memory to share"); err != nil {
		return nil, err
	}
	if n < 0 {
		return nil, fmt.Errorf("cudabuf.NewFDBuffer: %v: negative size %d: %w", d, n, arrowbuf.ErrOutOfRange)
	}
	if n == 0 {
		return newBuffer(d, nil, 0, 0), nil
	}
	s := sharing{method: byDescriptor}
	err := d.retryAfterTrim(func() error {
		granularity, err := d.api.MemGetAllocationGranularity(d.handle, true)
		if err != nil {
			return err
		}
		if s.size, err = roundUp(n, granularity); err != nil {
			return err
		}
		if s.physical, err = d.api.MemCreate(s.size, d.handle, true); err != nil {
			return err
		}
		s.base, err = d.mapPhysical(s.physical, s.size)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("allocating %d bytes to share: %w", n, err)
	}
	return newBuffer(d, d.newMappedAllocation(s), s.base, n), nil
}

// ExportFD returns a file by which another process opens the buffer, and the region
// of the file that the buffer occupies (cuMemExportToShareableHandle). The buffer comes
// from NewFDBuffer or is a slice of one. The error is ErrNotShareable for other memory.
// The caller sends the file's descriptor over a Unix socket or to a child process, and
// then closes the file.
//
// The memory stays as long as any process has a file or a buffer of it. The file is
// nil for a buffer of length 0.
func (b *Buffer) ExportFD() (*os.File, Region, error) {
	if err := b.retain(); err != nil {
		return nil, Region{}, err
	}
	defer b.Release()
	if b.length == 0 {
		return nil, Region{Device: b.dev.uuid}, nil
	}
	s, err := b.checkShareable(byDescriptor)
	if err != nil {
		return nil, Region{}, err
	}
	file, err := b.dev.exportFD(func() (int, error) { return b.dev.api.MemExportToShareableHandle(s.physical) })
	if err != nil {
		return nil, Region{}, fmt.Errorf("exporting %d bytes: %w", b.length, err)
	}
	return file, b.region(s.base, s.size), nil
}

// OpenFD returns the buffer that a file and a region of another process's ExportFD
// denote (cuMemImportFromShareableHandle, cuMemMap). The caller keeps the file and may
// close it afterwards; an empty region has none. The memory may be on another GPU that
// this device can access.
//
// Each call maps the memory again. Work on one mapping is not ordered against work on
// another.
func (d *Device) OpenFD(file *os.File, r Region) (*Buffer, error) {
	if err := d.errManaged("opening memory of another process"); err != nil {
		return nil, err
	}
	if err := r.validate(); err != nil {
		return nil, err
	}
	if r.Length == 0 {
		return newBuffer(d, nil, 0, 0), nil
	}
	s := sharing{method: byDescriptor, imported: true, size: r.AllocationSize}
	err := d.withFD(file, func(fd int) (err error) {
		if s.physical, err = d.api.MemImportFromShareableHandle(fd); err != nil {
			return err
		}
		s.base, err = d.mapPhysical(s.physical, s.size)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("opening memory of GPU-%v on %v, which is GPU-%v: %w", r.Device, d, d.uuid, err)
	}
	return d.newRegionBuffer(d.newMappedAllocation(s), r)
}

// newMappedAllocation returns an allocation that owns mapped physical memory.
func (d *Device) newMappedAllocation(s sharing) *allocation {
	return d.newSharedAllocation(s, func() error {
		return d.withContext(func() error {
			return errors.Join(d.api.MemUnmap(s.base, s.size), d.api.MemAddressFree(s.base, s.size), d.api.MemRelease(s.physical))
		})
	})
}

// mapPhysical maps physical memory of any GPU to an address that this device can
// access. It releases the memory if it fails. The caller has bound the context.
func (d *Device) mapPhysical(physical driver.Physical, size int64) (address uintptr, err error) {
	undo := []func() error{func() error { return d.api.MemRelease(physical) }}
	defer func() {
		if err != nil {
			for i := len(undo) - 1; i >= 0; i-- {
				err = errors.Join(err, undo[i]())
			}
		}
	}()
	at, err := d.api.MemAddressReserve(size)
	if err != nil {
		return 0, err
	}
	undo = append(undo, func() error { return d.api.MemAddressFree(at, size) })
	if err = d.api.MemMap(at, size, physical); err != nil {
		return 0, err
	}
	undo = append(undo, func() error { return d.api.MemUnmap(at, size) })
	return at, d.api.MemSetAccess(at, size, d.handle)
}

// exportFD returns a file of the descriptor that a driver call returns. Child
// processes must not inherit it by accident, since that would keep the memory.
func (d *Device) exportFD(call func() (int, error)) (*os.File, error) {
	var fd int
	err := d.withContext(func() (err error) {
		syscall.ForkLock.RLock()
		defer syscall.ForkLock.RUnlock()
		if fd, err = call(); err == nil {
			closeOnExec(fd)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "memory of "+d.String()), nil
}

// withFD makes driver calls with the descriptor of a file.
func (d *Device) withFD(file *os.File, calls func(fd int) error) error {
	conn, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var failure error
	err = conn.Control(func(fd uintptr) {
		failure = d.withContext(func() error { return calls(int(fd)) })
	})
	if err != nil { // the file is closed; os hides that error
		return fmt.Errorf("%s: %w", file.Name(), os.ErrClosed)
	}
	return failure
}
