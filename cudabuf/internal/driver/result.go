package driver

import (
	"errors"
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// Errors that a caller can act on beside those of arrowbuf.
var (
	ErrNoDriver   = errors.New("no CUDA driver")
	ErrNoDevice   = errors.New("no such CUDA device")
	ErrDeviceLost = errors.New("CUDA device lost")
	ErrClosed     = errors.New("CUDA driver closed")
)

// Result is a CUresult, the code that every call of the driver returns.
type Result int32

// The results that this module looks for or gives. Every other one has its
// name too.
const (
	Success           Result = 0
	InvalidValue      Result = 1
	OutOfMemory       Result = 2
	NotInitialized    Result = 3
	Deinitialized     Result = 4
	NoDevice          Result = 100
	InvalidDevice     Result = 101
	InvalidImage      Result = 200
	InvalidContext    Result = 201
	ECCUncorrectable  Result = 214
	OperatingSystem   Result = 304
	InvalidHandle     Result = 400
	NotFound          Result = 500
	NotReady          Result = 600
	IllegalAddress    Result = 700
	MisalignedAddress Result = 716
	LaunchFailed      Result = 719
	NotSupported      Result = 801
	Unknown           Result = 999
)

// Name returns the name in cuda.h, such as CUDA_ERROR_OUT_OF_MEMORY.
func (r Result) Name() string {
	if n, ok := names[r]; ok {
		return n.name
	}
	return fmt.Sprintf("CUDA_ERROR_%d", int32(r))
}

// String returns the name, the code and a short description.
func (r Result) String() string {
	text := "a code newer than this program"
	if n, ok := names[r]; ok {
		text = n.text
	}
	return fmt.Sprintf("%s (%d): %s", r.Name(), int32(r), text)
}

// Sticky tells whether the result means that the context is lost: CUDA answers
// every later call in the process with the same code.
func (r Result) Sticky() bool {
	switch r {
	case 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 911:
		return true
	}
	return false
}

// sentinel is the error that a caller tests for, nil where there is none.
func (r Result) sentinel() error {
	switch {
	case r == OutOfMemory:
		return arrowbuf.ErrOutOfMemory
	case r == Deinitialized:
		return ErrClosed
	case r == NoDevice, r == InvalidDevice:
		return ErrNoDevice
	case r.Sticky():
		return ErrDeviceLost
	}
	return nil
}

// Error is a driver call that failed.
type Error struct {
	// Call is the driver function, such as "cuMemAlloc".
	Call string
	// Code is what it returned.
	Code Result
	// Detail says more where more is known, "" elsewhere.
	Detail string
}

func (e *Error) Error() string {
	s := e.Call + ": " + e.Code.String()
	if e.Detail != "" {
		s += " (" + e.Detail + ")"
	}
	return s
}

// Unwrap answers errors.Is for arrowbuf.ErrOutOfMemory, ErrDeviceLost,
// ErrNoDevice and ErrClosed.
func (e *Error) Unwrap() error { return e.Code.sentinel() }

// Check returns nil for Success and an *Error for everything else.
func Check(call string, r Result) error {
	if r == Success {
		return nil
	}
	return &Error{Call: call, Code: r}
}
