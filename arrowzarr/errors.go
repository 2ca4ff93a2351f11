package arrowzarr

import (
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/zarr/element"
)

// Part is the part of a conversion that failed, so that a program can name it to its
// user.
type Part int

// The parts of a conversion.
const (
	PartUsage  Part = iota + 1 // the options are invalid
	PartInput                  // the input is missing, malformed, or of a type that has no Zarr form
	PartOutput                 // the output cannot be written
	PartDevice                 // the device failed or does not exist
)

// String returns "usage", "input", "output" or "device".
func (p Part) String() string {
	names := [...]string{PartUsage: "usage", PartInput: "input", PartOutput: "output", PartDevice: "device"}
	if p < PartUsage || int(p) >= len(names) {
		return fmt.Sprintf("Part(%d)", int(p))
	}
	return names[p]
}

// Error is the error of a conversion: the part that failed, and why.
type Error struct {
	Part Part
	Err  error
}

func (e *Error) Error() string {
	if e.Err == nil {
		return e.Part.String()
	}
	return e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// markPart returns err as an *Error of a part. An error that has a part keeps it,
// because it was set closer to the cause.
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

// failedColumn is an error of a column, without the array and the codec that have found text
// that is not UTF-8.
func failedColumn(f arrow.Field, otherwise Part, err error) error {
	part := partOf(err, otherwise)
	if text := textError(err); text != nil {
		err = fmt.Errorf("text: %w", text)
	}
	return partErrorf(part, "column %q: %w", f.Name, err)
}

// textError returns the error in a tree that wraps ErrInvalidUTF8 itself, or nil.
func textError(err error) error {
	var inner []error
	switch e := err.(type) { //nolint:errorlint // the error itself, not what it wraps
	case interface{ Unwrap() error }:
		inner = []error{e.Unwrap()}
	case interface{ Unwrap() []error }:
		inner = e.Unwrap()
	}
	for _, e := range inner {
		if e == element.ErrInvalidUTF8 { //nolint:errorlint // the error itself, not what it wraps
			return err
		}
		if found := textError(e); found != nil {
			return found
		}
	}
	return nil
}

// partOf returns the part that err is a failure of: the input for bad values, the
// device for failures of the device, otherwise the given part.
func partOf(err error, otherwise Part) Part {
	var marked *Error
	var call *cudabuf.Error
	switch {
	case errors.As(err, &marked):
		return marked.Part
	case errors.As(err, &call), errors.Is(err, cudabuf.ErrClosed), errors.Is(err, arrowbuf.ErrOutOfMemory):
		return PartDevice // also if arrow-go panics for lack of pinned memory
	case errors.Is(err, element.ErrInvalidUTF8), errors.Is(err, arrowdata.ErrMalformed):
		return PartInput
	}
	return otherwise
}
