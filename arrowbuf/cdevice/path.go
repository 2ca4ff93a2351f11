package cdevice

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
)

// path names a place in nested fields for errors.
type path string

// top is an array or a schema itself.
const top path = ""

func (p path) child(name string) path {
	if p == top {
		return path(name)
	}
	return p + "." + path(name)
}

// wrap says where an error is.
func (p path) wrap(err error) error {
	if p == top {
		return err
	}
	return fmt.Errorf("%q: %w", string(p), err)
}

// refuse is an error about what another library hands over, or what it cannot be
// handed.
func (p path) refuse(format string, args ...any) error {
	return p.wrap(refuse(format, args...))
}

func refuse(format string, args ...any) error {
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), arrow.ErrInvalid)
}

// guard turns a panic of arrow-go, which is how it reports what does not fit
// together, into an error.
func guard(err *error) {
	if misfit := recover(); misfit != nil {
		*err = fmt.Errorf("%v: %w", misfit, arrow.ErrInvalid)
	}
}
