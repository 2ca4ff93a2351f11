package arrowzarr

import (
	"errors"
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/zarr/element"
)

// Part says which part of a conversion failed, so that a program can tell its
// user where to look.
type Part int

// The parts of a conversion.
const (
	PartUsage  Part = iota + 1 // the options do not make sense
	PartInput                  // the input is missing, broken, or of a type that has no Zarr form
	PartOutput                 // the output cannot be written
	PartDevice                 // the device failed or is not there
)

// Error is the error of a conversion: the part that failed, and why.
type Error struct {
	Part Part
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// markPart marks err as a failure of one part. An error that is marked already
// keeps its mark: the first to know is right.
func markPart(part Part, err error) error {
	var marked *Error
	if err == nil || errors.As(err, &marked) {
		return err
	}
	return &Error{Part: part, Err: err}
}

func partErrorf(part Part, format string, args ...any) error {
	return markPart(part, fmt.Errorf(format, args...))
}

// errMalformed marks what protect caught.
var errMalformed = errors.New("malformed data")

// catchPanic runs f and turns a panic into an error. arrow-go panics on some
// malformed inputs; foreign bytes must not take the program down.
func catchPanic(f func() error) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case error:
			err = fmt.Errorf("%w: %w", errMalformed, p)
		default:
			err = fmt.Errorf("%w: %v", errMalformed, p)
		}
	}()
	return f()
}

// partOf tells bad values and device failures from the rest.
func partOf(err error, otherwise Part) Part {
	var marked *Error
	var call *cudabuf.Error
	switch {
	case errors.As(err, &marked):
		return marked.Part
	case errors.As(err, &call), errors.Is(err, cudabuf.ErrClosed), errors.Is(err, arrowbuf.ErrOutOfMemory):
		return PartDevice // also where arrow-go panics for lack of pinned memory
	case errors.Is(err, element.ErrInvalidUTF8), errors.Is(err, errMalformed):
		return PartInput
	}
	return otherwise
}
