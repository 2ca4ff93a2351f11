package nvrtc

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Image is the result of a compilation. Several callers may share it, so it
// must not be modified.
type Image struct {
	// Bytes is the argument of Device.LoadModule: a cubin or PTX text.
	Bytes []byte
	// Log holds the messages of the compiler, such as warnings. It may be
	// empty.
	Log string
	// Names maps each element of Source.Names to its name in the module.
	Names map[string]string
	// Cached reports whether the image comes from the directory of a Cache.
	Cached bool
}

// compiler is an open libnvrtc.
type compiler interface {
	version() (major, minor int)
	architectures() ([]int, error)
	// buildID identifies a build of NVRTC. Builds with different ids may
	// compile differently.
	buildID() (string, error)
	// compile compiles a valid Source.
	compile(Source) (*Image, error)
}

// Compile compiles a source. If the compiler rejects it, the error is an *Error
// with the compiler's log. Without NVRTC, the error wraps ErrNotFound.
//
// Compile may be called from any goroutine. Calls run concurrently.
func Compile(s Source) (*Image, error) {
	if err := s.validate(); err != nil {
		return nil, err
	}
	if isPTX(s.Text) {
		return &Image{Bytes: []byte(s.Text)}, nil
	}
	c, err := nvrtc.Get()
	if err != nil {
		return nil, err
	}
	return c.compile(s)
}

// Version returns the version of NVRTC, such as 12 and 9 (nvrtcVersion).
func Version() (major, minor int, err error) {
	c, err := nvrtc.Get()
	if err != nil {
		return 0, 0, err
	}
	major, minor = c.version()
	return major, minor, nil
}

// Architectures returns the architectures that NVRTC supports in ascending
// order (nvrtcGetSupportedArchs). 90 means compute capability 9.0.
func Architectures() ([]int, error) {
	c, err := nvrtc.Get()
	if err != nil {
		return nil, err
	}
	return c.architectures()
}

// Arch returns the architecture to compile for, so that a GPU of a compute
// capability can run the image. supported is the result of Architectures. If it
// contains the GPU's own, Arch returns that for machine code ("sm_90").
// Otherwise it returns the newest older one for PTX ("compute_120"), which the
// driver compiles at load time. It returns an error if the GPU is older than
// all of them.
//
// A driver that is older than NVRTC may reject its PTX
// (CUDA_ERROR_UNSUPPORTED_PTX_VERSION).
func Arch(major, minor int, supported []int) (string, error) {
	gpu, best := major*10+minor, 0
	for _, arch := range supported {
		if arch <= gpu {
			best = max(best, arch)
		}
	}
	switch {
	case best == 0 && len(supported) == 0:
		return "", fmt.Errorf("nvrtc.Arch: no supported architectures for compute capability %d.%d", major, minor)
	case best == 0:
		return "", fmt.Errorf("nvrtc.Arch: the GPU is too old for this NVRTC: got compute capability %d.%d, want at least %d", major, minor, slices.Min(supported))
	case best == gpu:
		return fmt.Sprintf("sm_%d", best), nil
	}
	return fmt.Sprintf("compute_%d", best), nil
}

// ErrNotFound reports that libnvrtc was not found. The message lists the paths
// tried and how to install it.
var ErrNotFound = errors.New("NVRTC not found")

// Result is an nvrtcResult, the code that NVRTC's functions return.
type Result int32

// The results of nvrtc.h.
const (
	Success                           Result = 0
	OutOfMemory                       Result = 1
	ProgramCreationFailure            Result = 2
	InvalidInput                      Result = 3
	InvalidProgram                    Result = 4
	InvalidOption                     Result = 5
	Compilation                       Result = 6
	BuiltinOperationFailure           Result = 7
	NoNameExpressionsAfterCompilation Result = 8
	NoLoweredNamesBeforeCompilation   Result = 9
	NameExpressionNotValid            Result = 10
	InternalError                     Result = 11
	TimeFileWriteFailed               Result = 12
	NoPCHCreateAttempted              Result = 13
	PCHCreateHeapExhausted            Result = 14
	PCHCreate                         Result = 15
	Cancelled                         Result = 16
)

var resultNames = [...]string{
	Success:                           "NVRTC_SUCCESS",
	OutOfMemory:                       "NVRTC_ERROR_OUT_OF_MEMORY",
	ProgramCreationFailure:            "NVRTC_ERROR_PROGRAM_CREATION_FAILURE",
	InvalidInput:                      "NVRTC_ERROR_INVALID_INPUT",
	InvalidProgram:                    "NVRTC_ERROR_INVALID_PROGRAM",
	InvalidOption:                     "NVRTC_ERROR_INVALID_OPTION",
	Compilation:                       "NVRTC_ERROR_COMPILATION",
	BuiltinOperationFailure:           "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE",
	NoNameExpressionsAfterCompilation: "NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION",
	NoLoweredNamesBeforeCompilation:   "NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION",
	NameExpressionNotValid:            "NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID",
	InternalError:                     "NVRTC_ERROR_INTERNAL_ERROR",
	TimeFileWriteFailed:               "NVRTC_ERROR_TIME_FILE_WRITE_FAILED",
	NoPCHCreateAttempted:              "NVRTC_ERROR_NO_PCH_CREATE_ATTEMPTED",
	PCHCreateHeapExhausted:            "NVRTC_ERROR_PCH_CREATE_HEAP_EXHAUSTED",
	PCHCreate:                         "NVRTC_ERROR_PCH_CREATE",
	Cancelled:                         "NVRTC_ERROR_CANCELLED",
}

// Name returns the name in nvrtc.h. For an unknown code it returns NVRTC_ERROR_
// and the number. It does not need NVRTC.
func (r Result) Name() string {
	if r >= 0 && int(r) < len(resultNames) {
		return resultNames[r]
	}
	return fmt.Sprintf("NVRTC_ERROR_%d", int32(r))
}

// String returns the name and the code.
func (r Result) String() string { return fmt.Sprintf("%s (%d)", r.Name(), int32(r)) }

// Error is a failed call of NVRTC.
type Error struct {
	// Call is the function, such as "nvrtcCompileProgram".
	Call string
	// Code is what it returned.
	Code Result
	// Source and Arch are those of the program, or "" if the call has no
	// program.
	Source, Arch string
	// Log holds all messages of the compiler.
	Log string
}

func (e *Error) Error() string {
	var s strings.Builder
	s.WriteString(e.Call + ": ")
	if e.Source != "" {
		s.WriteString(e.Source + " for " + e.Arch + ": ")
	}
	s.WriteString(e.Code.String())
	if e.Log != "" {
		s.WriteString("\n" + strings.TrimRight(e.Log, "\n"))
	}
	return s.String()
}
