package cudabuf

import (
	"errors"
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// Errors that a caller can act on, beside arrowbuf's; test with errors.Is.
var (
	// ErrNoDriver: there is no CUDA driver on this machine. The text says
	// what was looked for and where.
	ErrNoDriver = driver.ErrNoDriver
	// ErrNoDevice: the driver has no device, or none of that ordinal.
	ErrNoDevice = driver.ErrNoDevice
	// ErrDeviceLost: the context is broken by an earlier failure, such as a
	// kernel's wild pointer. Every later call in the process fails alike.
	ErrDeviceLost = driver.ErrDeviceLost
	// ErrClosed: the Driver, or the stream, was closed.
	ErrClosed = driver.ErrClosed
	// ErrReadOnly: a write to a buffer of Buffer.ReadOnly.
	ErrReadOnly = errors.New("buffer is read-only")
)

// Error is a driver call that failed: the Call, such as "cuMemAlloc", the Code
// that it returned, and a Detail where more is known. Find it with errors.As
// and a *Error.
type Error = driver.Error

// Result is a CUresult. Its Name is the one in cuda.h, known also where the
// driver is absent.
type Result = driver.Result

// errNoBuffer is of a buffer that is nil, beside one that is not.
var errNoBuffer = fmt.Errorf("cuda: there is no other buffer: %w", arrowbuf.ErrDevice)
