package ndview

import (
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// callError is the error of an exported function. Functions call each other, so the
// outermost one replaces the name.
type callError struct {
	name string
	err  error
}

func (e *callError) Error() string { return "ndview." + e.name + ": " + e.err.Error() }

func (e *callError) Unwrap() error { return e.err }

// named returns an error with the name of the function that returns it.
func named(name string, err error) error {
	if err == nil {
		return nil
	}
	if inner, ok := err.(*callError); ok { //nolint:errorlint // one that is wrapped names a function of its own
		err = inner.err
	}
	return &callError{name, err}
}

// nameError names the function in the error that it returns. Functions defer it.
func nameError(name string, err *error) {
	if *err != nil {
		*err = named(name, *err)
	}
}

// call returns the array that compute makes from a. It checks that a is not nil, names
// the function in errors, and adds the result to the scope of a.
func (a *NDBuffer) call(name string, compute func() (*NDBuffer, error)) (*NDBuffer, error) {
	if a == nil {
		return nil, named(name, ErrNil)
	}
	made, err := compute()
	if err == nil {
		made, err = ScopeOf(a).take(made)
	}
	return made, named(name, err)
}

// callOn is call for several arrays.
func callOn(name string, compute func() (*NDBuffer, error), arrays ...*NDBuffer) (*NDBuffer, error) {
	if err := checkNil(arrays...); err != nil {
		return nil, named(name, err)
	}
	made, err := compute()
	if err == nil {
		made, err = ScopeOf(arrays...).take(made)
	}
	return made, named(name, err)
}

// callForAll is call for a function that returns several arrays.
func (a *NDBuffer) callForAll(name string, compute func() ([]*NDBuffer, error)) ([]*NDBuffer, error) {
	if a == nil {
		return nil, named(name, ErrNil)
	}
	made, err := compute()
	if err != nil {
		return nil, named(name, err)
	}
	scope := ScopeOf(a)
	for i := range made {
		if made[i], err = scope.take(made[i]); err != nil {
			releaseAll(made[i+1:])
			return nil, named(name, err)
		}
	}
	return made, nil
}

// checkNil returns ErrNil if an array is nil.
func checkNil(arrays ...*NDBuffer) error {
	for i, a := range arrays {
		if a == nil && len(arrays) > 1 {
			return fmt.Errorf("array %d: %w", i+1, ErrNil)
		} else if a == nil {
			return ErrNil
		}
	}
	return nil
}

// errNilDevice is the error of a device that is nil.
var errNilDevice = fmt.Errorf("nil device: %w", arrowbuf.ErrDevice)
