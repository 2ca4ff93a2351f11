package arrowzarr

import (
	"context"
	"runtime/debug"
)

// unlessDone runs f, which reads from something that may never come (a terminal,
// a stuck pipe). It returns f's error, or, when the context ends before f does,
// the context's. Then f goes on by itself, and when it succeeds late, tidy is
// called.
func unlessDone(ctx context.Context, f func() error, tidy func()) error {
	done := make(chan error, 1)
	go func() {
		debug.SetPanicOnFault(true) // as in run
		done <- f()
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		go func() {
			if <-done == nil {
				tidy()
			}
		}()
		return context.Cause(ctx)
	}
}
