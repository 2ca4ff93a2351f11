package cudabuf

import (
	"errors"
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// MemHandle names memory of this process for another one on the same machine.
// It is plain data, to be sent as MarshalBinary writes it, or MarshalPyArrow.
//
// CUDA's own handle names an allocation, whatever address in it was exported,
// so the region goes with it.
type MemHandle struct {
	Handle [64]byte // CUipcMemHandle
	Region
}

// ipcGranule is the size of the blocks that cuMemAlloc cuts. A handle opens
// whole blocks to the peer: an allocation that fills its own shows no other.
const ipcGranule = 2 << 20

// NewIPCBuffer returns a buffer of n bytes with undefined contents, for
// ExportIPC: an allocation of its own of a multiple of 2 MiB (cuMemAlloc), which
// the device's pool neither gives nor keeps.
func (d *Device) NewIPCBuffer(n int64) (*Buffer, error) {
	if n < 0 {
		return nil, fmt.Errorf("%v: allocating %d bytes: %w", d, n, arrowbuf.ErrOutOfRange)
	}
	if n == 0 {
		return newBuffer(d, nil, 0, 0), nil
	}
	size, err := roundUp(n, ipcGranule)
	if err != nil {
		return nil, err
	}
	var address uintptr
	err = d.withRoom(func() (err error) { address, err = d.api.MemAlloc(size); return err })
	if err != nil {
		return nil, fmt.Errorf("allocating %d bytes to share: %w", size, err)
	}
	memory := d.newShared(sharing{way: byHandle, base: address, size: size}, func() error { return d.memFree(address) })
	return newBuffer(d, memory, address, n), nil
}

// ExportIPC returns a handle by which another process opens the buffer, which
// is one of NewIPCBuffer or a slice of it (cuIpcGetMemHandle). Any other memory
// is ErrNotShareable, as is what was itself opened by a handle. A buffer of
// length 0 costs no driver call.
//
// The handle is good while the memory is there, and does not keep it: the last
// Release frees it here, and what CUDA does with those who still have it open is
// undefined. Work on streams is not waited for; see Wait and Event.ExportIPC.
func (b *Buffer) ExportIPC() (MemHandle, error) {
	return b.exportIPC(func() error {
		_, err := b.shareable(byHandle)
		return err
	})
}

// ExportIPCWhole is ExportIPC for any memory of cuMemAlloc, that of NewBuffer
// and other libraries' included. The handle opens the whole allocation to the
// peer, with all other buffers that lie in it, now and later.
func (b *Buffer) ExportIPCWhole() (MemHandle, error) {
	return b.exportIPC(func() error {
		if b.memory.sharing == nil {
			return nil
		}
		_, err := b.shareable(byHandle)
		return err
	})
}

func (b *Buffer) exportIPC(allowed func() error) (MemHandle, error) {
	if err := b.hold(); err != nil {
		return MemHandle{}, err
	}
	defer b.Release()
	if b.length == 0 {
		return MemHandle{Region: Region{Device: b.dev.uuid}}, nil
	}
	if err := allowed(); err != nil {
		return MemHandle{}, err
	}
	var h MemHandle
	err := b.dev.do(func() error {
		base, size, err := b.dev.api.MemGetAddressRange(b.address)
		if err != nil {
			return err
		}
		h.Region = b.region(base, size)
		if err := h.check(); err != nil {
			return err // foreign memory that reaches beyond its allocation
		}
		h.Handle, err = b.dev.api.IpcGetMemHandle(base)
		return err
	})
	if err != nil {
		return MemHandle{}, fmt.Errorf("exporting %d bytes: %w", b.length, err)
	}
	return h, nil
}

// OpenIPC returns the buffer that a handle of another process names
// (cuIpcOpenMemHandle): exactly its region, which must lie within the
// allocation. An allocation is opened once, however many handles name it, and
// closed when the last buffer of it is released (cuIpcCloseMemHandle). A handle
// of another GPU is arrowbuf.ErrDevice; length 0 costs no driver call.
//
// The process that exported a handle cannot open it: CUDA answers
// CUDA_ERROR_INVALID_CONTEXT (201).
func (d *Device) OpenIPC(h MemHandle) (*Buffer, error) {
	if err := h.check(); err != nil {
		return nil, err
	}
	if h.Device != (UUID{}) && h.Device != d.uuid {
		return nil, fmt.Errorf("memory of GPU-%v opened on %v, which is GPU-%v: %w", h.Device, d, d.uuid, arrowbuf.ErrDevice)
	}
	if h.Length == 0 {
		return newBuffer(d, nil, 0, 0), nil
	}
	memory, err := d.shares.opened.get(h.Handle, func(closed func()) (*allocation, error) {
		return d.openHandle(h.Handle, closed)
	})
	if err != nil {
		return nil, fmt.Errorf("opening memory of another process: %w", ownHandle(err))
	}
	return d.part(memory, h.Region)
}

// openHandle opens an allocation of another process.
func (d *Device) openHandle(h driver.IPCMemHandle, closed func()) (*allocation, error) {
	s := sharing{way: byHandle, imported: true}
	err := d.do(func() (err error) {
		if s.base, err = d.api.IpcOpenMemHandle(h); err != nil {
			return err
		}
		base, size, err := d.api.MemGetAddressRange(s.base)
		if err != nil {
			return errors.Join(err, d.api.IpcCloseMemHandle(s.base))
		}
		s.size = int64(base-s.base) + size // from where the handle begins
		return nil
	})
	if err != nil {
		return nil, err
	}
	return d.newShared(s, func() error {
		defer closed()
		return d.do(func() error { return d.api.IpcCloseMemHandle(s.base) })
	}), nil
}

// ownHandle says what CUDA means by its answer to a handle of the process
// itself.
func ownHandle(err error) error {
	var call *Error
	if errors.As(err, &call) && call.Code == driver.InvalidContext {
		return fmt.Errorf("%w; CUDA answers so to the process that exported the handle, and to one of the same id in another PID namespace", err)
	}
	return err
}
