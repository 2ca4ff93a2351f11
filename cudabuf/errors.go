package cudabuf

import (
	"errors"
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// Errors of this package, in addition to those of arrowbuf. Test with errors.Is.
var (
	// ErrNoDriver means that no CUDA driver was found. The text lists the searched
	// names and paths.
	ErrNoDriver = driver.ErrNoDriver
	// ErrNoDevice means that the driver has no device, or none of that ordinal.
	ErrNoDevice = driver.ErrNoDevice
	// ErrInvalidName means that a name is none of OpenDevice.
	ErrInvalidName = errors.New("not the name of a device")
	// ErrDeviceLost means that an earlier failure, such as a kernel's invalid
	// access, broke the context. All later calls in the process fail too.
	ErrDeviceLost = driver.ErrDeviceLost
	// ErrClosed means that the Driver, stream or other object is closed.
	ErrClosed = driver.ErrClosed
	// ErrArguments means that the arguments of a launch do not fit the kernel's
	// parameters.
	ErrArguments = errors.New("wrong kernel arguments")
	// ErrReadOnly means a write to a buffer of Buffer.ReadOnly.
	ErrReadOnly = errors.New("buffer is read-only")
	// ErrNil means that an argument is nil, or the value that a method is called on.
	ErrNil = errors.New("nil argument")
)

// Error is a failed driver call. Find it with errors.As and a *Error:
//
//	var failed *cudabuf.Error
//	if errors.As(err, &failed) { log.Print(failed.Call, failed.Code.Name()) }
type Error struct {
	Call   string // the driver function, such as "cuMemAlloc"
	Code   Result // what it returned
	Detail string // the cause, if more is known
}

// Error returns the call, the name and the meaning of the code, and the detail.
func (e *Error) Error() string { return e.internal().Error() }

// Unwrap makes errors.Is match arrowbuf.ErrOutOfMemory, ErrDeviceLost, ErrNoDevice and
// ErrClosed.
func (e *Error) Unwrap() error { return e.internal().Unwrap() }

func (e *Error) internal() *driver.Error {
	if e == nil {
		return &driver.Error{}
	}
	return &driver.Error{Call: e.Call, Code: driver.Result(e.Code), Detail: e.Detail}
}

// Result is a CUresult of cuda.h.
type Result int32

// Name returns the name in cuda.h, such as CUDA_ERROR_OUT_OF_MEMORY, even without a
// driver. For an unknown code it returns CUDA_ERROR_ and the number.
func (r Result) Name() string { return driver.Result(r).Name() }

// String returns the name, the code and a short description.
func (r Result) String() string { return driver.Result(r).String() }

func init() {
	driver.StoreError = func(e *driver.Error, target any) bool {
		public, ok := target.(**Error)
		if ok {
			*public = &Error{Call: e.Call, Code: Result(e.Code), Detail: e.Detail}
		}
		return ok
	}
	driver.NewDriver = func(api driver.API, stacks bool) (any, error) { return newDriver(api, stacks) }
}

// errNilBuffer is the error of a nil buffer argument.
var errNilBuffer = fmt.Errorf("cudabuf: nil buffer: %w", arrowbuf.ErrDevice)
