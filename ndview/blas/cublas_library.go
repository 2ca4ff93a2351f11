//go:build linux

package blas

import "github.com/ebitengine/purego"

// call calls one function. The directive keeps the memory that pointers in args refer to
// alive and in place until the call returns. The pointers must be converted to uintptr in
// the call expression itself.
//
//go:uintptrescapes
func (l *library) call(f function, args ...uintptr) error {
	// A cublasStatus_t is 32 bits; the upper half of the register is undefined.
	r, _, _ := purego.SyscallN(l.entries[f], args...)
	if code := int32(r); code != 0 {
		return &Error{Call: functions[f], Code: code}
	}
	return nil
}
