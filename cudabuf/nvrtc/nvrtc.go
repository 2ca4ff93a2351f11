package nvrtc

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Image is what was compiled. It may be shared: nobody may change it.
type Image struct {
	// Bytes are what Device.LoadModule takes: a cubin, or the text of PTX.
	Bytes []byte
	// Log is what the compiler said, such as warnings; often it is empty.
	Log string
	// Names holds for each of Source.Names the name to look it up by in the
	// module.
	Names map[string]string
	// Cached tells that the image comes from a Cache's directory.
	Cached bool
}

// compiler is an open libnvrtc.
type compiler interface {
	version() (major, minor int)
	architectures() ([]int, error)
	// buildID tells builds of NVRTC apart that may compile differently.
	buildID() (string, error)
	// compile compiles a Source that was checked.
	compile(Source) (*Image, error)
}

// Compile compiles a source. Where the compiler refuses it, the error is an
// *Error with the compiler's log. Without NVRTC it is ErrNotFound.
//
// It may be called from any goroutine; calls run at the same time, as NVRTC
// allows for different programs.
func Compile(s Source) (*Image, error) {
	if err := s.validate(); err != nil {
		return nil, err
	}
	if isPTX(s.Text) {
		return &Image{Bytes: []byte(s.Text)}, nil
	}
	c, err := sharedCompiler()
	if err != nil {
		return nil, err
	}
	return c.compile(s)
}

// Version is NVRTC's, 12.9 for instance (nvrtcVersion).
func Version() (major, minor int, err error) {
	c, err := sharedCompiler()
	if err != nil {
		return 0, 0, err
	}
	major, minor = c.version()
	return major, minor, nil
}

// Architectures are those that NVRTC compiles for, ascending: 90 stands for
// compute capability 9.0 (nvrtcGetSupportedArchs).
func Architectures() ([]int, error) {
	c, err := sharedCompiler()
	if err != nil {
		return nil, err
	}
	return c.architectures()
}

// Arch chooses what to compile for, so that a GPU of a compute capability can
// run it, out of the Architectures that NVRTC supports: the GPU's own machine
// code ("sm_90") where that is one of them, else the PTX of the newest older one
// ("compute_120"), which the driver compiles when it is loaded. A GPU older than
// all of them is an error.
//
// PTX of an NVRTC that is newer than the driver may be refused by that driver
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
		return "", fmt.Errorf("nvrtc: no architecture to choose from for compute capability %d.%d", major, minor)
	case best == 0:
		return "", fmt.Errorf("nvrtc: compute capability %d.%d is too old for this NVRTC, whose oldest is %d", major, minor, slices.Min(supported))
	case best == gpu:
		return fmt.Sprintf("sm_%d", best), nil
	}
	return fmt.Sprintf("compute_%d", best), nil
}

// ErrNotFound: there is no libnvrtc on this machine. The text says what was
// looked for and where, and how to get it.
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

// Name is the one in nvrtc.h, known also where NVRTC is absent, or
// NVRTC_ERROR_ and the number of a code newer than this program.
func (r Result) Name() string {
	if r >= 0 && int(r) < len(resultNames) {
		return resultNames[r]
	}
	return fmt.Sprintf("NVRTC_ERROR_%d", int32(r))
}

// String is the name and the code.
func (r Result) String() string { return fmt.Sprintf("%s (%d)", r.Name(), int32(r)) }

// Error is a call of NVRTC that failed.
type Error struct {
	// Call is the function, such as "nvrtcCompileProgram".
	Call string
	// Code is what it returned.
	Code Result
	// Source and Arch are those of the program, "" for a call without one.
	Source, Arch string
	// Log is all that the compiler said.
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
