package nvrtc

import (
	"errors"
	"fmt"
	"strings"
)

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

var names = [...]string{
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
	if r >= 0 && int(r) < len(names) {
		return names[r]
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
