package cudabuf

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// NewFDBuffer returns a buffer of n bytes with undefined contents, for ExportFD
// (cuMemCreate with CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, cuMemMap). It
// takes a multiple of the GPU's granularity, 2 MiB today, which the device's
// pool neither gives nor keeps.
func (d *Device) NewFDBuffer(n int64) (*Buffer, error) {
	if n < 0 {
		return nil, fmt.Errorf("%v: allocating %d bytes: %w", d, n, arrowbuf.ErrOutOfRange)
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

// ExportFD returns a file that another process opens the buffer by, together
// with the region, which is one of NewFDBuffer or a slice of it
// (cuMemExportToShareableHandle). Any other memory is ErrNotShareable. The
// caller closes the file, and sends its descriptor first: over a Unix socket, or
// to a child process.
//
// The memory stays as long as anybody has it open, a file or a buffer, in
// whatever process. A buffer of length 0 has no file: it is nil.
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

// OpenFD returns the buffer that a file and region of another process's ExportFD
// name (cuMemImportFromShareableHandle, cuMemMap). The file stays the caller's
// and may be closed afterwards. The memory may be another GPU's, where this
// device reaches that one. Each call maps the memory anew, and work on one
// mapping is not ordered against that on another.
func (d *Device) OpenFD(file *os.File, r Region) (*Buffer, error) {
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

// newMappedAllocation makes an allocation of physical memory that is mapped.
func (d *Device) newMappedAllocation(s sharing) *allocation {
	return d.newSharedAllocation(s, func() error {
		return d.withContext(func() error {
			return errors.Join(d.api.MemUnmap(s.base, s.size), d.api.MemAddressFree(s.base, s.size), d.api.MemRelease(s.physical))
		})
	})
}

// mapPhysical gives physical memory, of whatever GPU, an address that this device
// reads and writes. It takes the memory over: a failure releases it. The caller
// has entered the device.
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

// exportFD makes a file of the descriptor that a driver call answers. Programs
// that this one starts do not get it by accident, which would keep the memory.
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

// withFD runs driver calls on a file's descriptor.
func (d *Device) withFD(file *os.File, calls func(fd int) error) error {
	conn, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var failure error
	err = conn.Control(func(fd uintptr) {
		failure = d.withContext(func() error { return calls(int(fd)) })
	})
	if err != nil { // the one that there is; its own error is hidden
		return fmt.Errorf("%s: %w", file.Name(), os.ErrClosed)
	}
	return failure
}
