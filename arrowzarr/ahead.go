package arrowzarr

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"time"
)

// ahead reads one batch before it is asked for.
type ahead struct {
	results chan result
	stopped chan struct{} // closed when nothing is read any more
	largest int64         // bytes of a batch so far
}

// result is a batch and how far the input is read with it, or an error.
type result struct {
	loan        loan
	done, total int64
	err         error
}

// readAhead reads batches in a goroutine of its own: reading and converting
// overlap, and a read that hangs (a terminal, a stuck pipe) does not keep a
// cancelled conversion from returning.
func (c *conversion) readAhead(ctx context.Context) *ahead {
	a := &ahead{results: make(chan result), stopped: make(chan struct{})}
	go func() {
		defer close(a.stopped)
		debug.SetPanicOnFault(true) // as in run
		err := protect(func() error { return c.src.open(ctx, c.fields) })
		for err == nil {
			var r result
			if r, err = c.read(ctx, a); err == nil {
				err = a.put(ctx, r)
			}
		}
		if !errors.Is(err, io.EOF) {
			err = failed(c.host.part(err), fmt.Errorf("%s: %w", c.input, err))
		}
		_ = a.put(ctx, result{err: err}) // a conversion that ended does not listen
	}()
	return a
}

// read reads a batch, and waits for room to hold it: before, for one like the
// largest so far, since it is in memory once it is read, and then for what it is.
func (c *conversion) read(ctx context.Context, a *ahead) (r result, err error) {
	if err = c.memory.expect(ctx, a.largest); err != nil {
		return r, err
	}
	start := time.Now()
	if r.loan, err = c.src.next(); err != nil {
		return r, err
	}
	a.largest = max(a.largest, r.loan.bytes)
	c.stages.read.add(batchBytes(r.loan.batch, filled), time.Since(start))
	r.done, r.total = c.src.position()
	if err := c.memory.take(ctx, r.loan.bytes); err != nil {
		r.loan.batch.Release()
		return r, err
	}
	return r, nil
}

// put hands a result on. A batch that nobody wants any more is released.
func (a *ahead) put(ctx context.Context, r result) error {
	select {
	case a.results <- r:
		return nil
	case <-ctx.Done():
		if r.loan.batch != nil {
			r.loan.batch.Release()
		}
		return context.Cause(ctx)
	}
}

func (a *ahead) next(ctx context.Context) result {
	select {
	case r := <-a.results:
		return r
	case <-ctx.Done():
		return result{err: context.Cause(ctx)}
	}
}
