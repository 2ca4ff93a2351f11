package collective

import (
	"fmt"

	"github.com/quiver-gpu/quiver/internal/cudalib"
)

// Override is the environment variable with the path of NCCL's library. If it is set, no
// other path is tried.
const Override = "QUIVER_LIBNCCL"

var nccl = cudalib.Loader[*library]{
	Library: cudalib.Library{
		Sonames:  []string{"libnccl.so.2", "libnccl.so"},
		Override: Override,
		Wheel:    "nvidia-nccl-cu13 (or nvidia-nccl-cu12)",
		NotFound: ErrNotFound,
	},
	Load: openLibrary,
}

// Error is a failed call of NCCL. Find it with errors.As and a *Error.
type Error struct {
	Call   string // the function, such as "ncclAllReduce"
	Code   Result // what it returned
	Detail string // NCCL's last error of the communicator, if it has one
}

// Error returns the call, the name of the code and the detail.
func (e *Error) Error() string {
	if e == nil {
		return "nil error"
	}
	text := fmt.Sprintf("%s: %v", e.Call, e.Code)
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// Unwrap makes errors.Is match ErrPeer for an error of another rank.
func (e *Error) Unwrap() error {
	if e != nil && e.Code == RemoteError {
		return ErrPeer
	}
	return nil
}

// Result is an ncclResult_t of nccl.h.
type Result int32

// The results of NCCL.
const (
	Success            Result = 0
	UnhandledCudaError Result = 1
	SystemError        Result = 2
	InternalError      Result = 3
	InvalidArgument    Result = 4
	InvalidUsage       Result = 5
	RemoteError        Result = 6
	InProgress         Result = 7
	Timeout            Result = 8
)

var resultNames = [...]string{
	Success: "ncclSuccess", UnhandledCudaError: "ncclUnhandledCudaError", SystemError: "ncclSystemError",
	InternalError: "ncclInternalError", InvalidArgument: "ncclInvalidArgument", InvalidUsage: "ncclInvalidUsage",
	RemoteError: "ncclRemoteError", InProgress: "ncclInProgress", Timeout: "ncclTimeout",
}

// String returns the name in nccl.h and the code, such as "ncclSystemError (2)".
func (r Result) String() string {
	name := "unknown result"
	if r >= 0 && int(r) < len(resultNames) {
		name = resultNames[r]
	}
	return fmt.Sprintf("%s (%d)", name, int32(r))
}
