package pool

import (
	"errors"
	"fmt"
	"math"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// Pool lends memory. It may be used from any goroutine.
type Pool[S comparable] interface {
	// Get lends at least n bytes, n >= 0, for use on s at once, and on other
	// streams behind what s has been given till now. Without a stream anybody
	// may use them at once. Zero bytes have address 0.
	Get(n int64, s S) (*Block[S], error)
	// Put takes a block back. pending are the streams that may still use it,
	// each once, and the one that it was got for unless that has done all that
	// it was given before; the pool keeps the slice. A block that is not lent
	// is arrowbuf.ErrReleased.
	Put(b *Block[S], pending []S) error
	// Trim gives what is idle back to the driver. It waits for no stream.
	Trim() error
	// Forget says that s has done its work and gets no more.
	Forget(s S)
	// Close waits for pending streams and gives everything back. It fails
	// while a block is lent; otherwise it answers the first error that giving
	// memory back ever had. Nothing may be got afterwards.
	Close() error
}

// Upstream is where memory comes from: a driver, and the streams of a device.
// Errors of Alloc that are arrowbuf.ErrOutOfMemory make a pool give back what it
// can and ask again.
type Upstream[S comparable] struct {
	Alloc func(n int64) (address uintptr, err error)
	Free  func(address uintptr) error

	// Done tells, without waiting, whether s has done all that it was given.
	Done func(s S) bool
	// Order makes what after is given from now on wait for what before has
	// been given till now.
	Order func(before, after S) error
	// Wait returns when s has done all that it was given.
	Wait func(s S) error
}

// Align is the multiple to which sizes are rounded up, and of which every
// address is one as long as the driver's are.
const Align = 512

// round rounds a size up to Align.
func round(n int64) (int64, error) {
	if n < 0 {
		return 0, fmt.Errorf("%d bytes of memory: %w", n, arrowbuf.ErrOutOfRange)
	}
	if n > math.MaxInt64/2 {
		return 0, fmt.Errorf("%d bytes of memory: %w", n, arrowbuf.ErrOutOfMemory)
	}
	return up(n, Align), nil
}

// up rounds n up to a multiple of a power of two.
func up(n, multiple int64) int64 { return (n + multiple - 1) &^ (multiple - 1) }

func outOfMemory(err error) bool { return errors.Is(err, arrowbuf.ErrOutOfMemory) }
