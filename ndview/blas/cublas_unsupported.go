//go:build !linux

package blas

import "errors"

// call is never reached, since no library opens.
func (l *library) call(function, ...uintptr) error { return errors.ErrUnsupported }
