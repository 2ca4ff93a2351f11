package arrowdata

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
)

// ErrMalformed marks the errors of data that contradict their format or themselves, such as
// those of CatchPanic.
var ErrMalformed = errors.New("malformed data")

// ErrTooLong marks that rows have more elements or bytes than the offsets of their type
// can count. Fewer rows may fit.
var ErrTooLong = errors.New("more elements than the offsets of the type can count")

// CatchPanic runs f and returns a panic as an error. arrow-go panics on some
// malformed inputs, which must not end the program.
func CatchPanic(f func() error) (err error) {
	defer func() {
		// arrow-go returns some panics as errors.
		if before, _, found := strings.Cut(fmt.Sprint(err), "runtime error"); err != nil && found {
			err = fmt.Errorf("%s%w", before, ErrMalformed)
		}
		if err != nil && strings.Contains(err.Error(), "arrow: invalid size") { // the panic of arrow.FixedSizeListOf
			err = fmt.Errorf("a fixed_size_list of a negative size: %w", ErrMalformed)
		}
	}()
	defer func() {
		switch p := recover().(type) {
		case nil:
		case runtime.Error:
			err = ErrMalformed // an index that is out of range says nothing to a user
		case error:
			err = fmt.Errorf("%w: %w", ErrMalformed, p)
		default:
			err = fmt.Errorf("%w: %v", ErrMalformed, p)
		}
	}()
	return f()
}
