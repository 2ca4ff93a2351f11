package store

import (
	"context"
	"errors"
	"fmt"
)

// errEnded: a Writer was used after Commit or Abort.
var errEnded = errors.New("the value was committed or aborted already")

// check puts what a context has to say before another error.
func check(ctx context.Context, err error) error {
	if done := ctx.Err(); done != nil {
		return done
	}
	return err
}

// checkMove keeps moves from going out of and into themselves.
func checkMove(from, to string) error {
	if err := errors.Join(CheckKey(from), CheckKey(to)); err != nil {
		return err
	}
	if from == to || under(to, from) || under(from, to) {
		return fmt.Errorf("one lies in the other: %w", ErrKey)
	}
	return nil
}

func checkWritten(off int64, n int, written int64) error {
	if off < 0 || int64(n) > written-off {
		return fmt.Errorf("bytes [%d, +%d) of the %d that were written: %w", off, n, written, ErrRange)
	}
	return nil
}
