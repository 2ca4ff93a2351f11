package arrowzarr

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// readAhead reads batches in a goroutine of its own, one ahead: reading and
// converting overlap, and a read that hangs (a terminal, a stuck pipe) does not
// keep a cancelled conversion from returning.
func (c *conversion) readAhead(ctx context.Context) *ahead {
	a := &ahead{results: make(chan result)}
	go func() {
		err := protect(func() error { return c.src.open(ctx, c.fields) })
		for err == nil {
			start := time.Now()
			var l loan
			if l, err = c.src.next(); err != nil {
				break
			}
			c.stages.read.add(batchBytes(l.batch, nil), time.Since(start))
			select {
			case a.results <- result{loan: l}:
			case <-ctx.Done():
				l.batch.Release()
				err = context.Cause(ctx)
			}
		}
		if !errors.Is(err, io.EOF) {
			err = failed(PartInput, err)
		}
		select {
		case a.results <- result{err: err}:
		case <-ctx.Done():
		}
	}()
	return a
}

type ahead struct{ results chan result }

type result struct {
	loan loan
	err  error
}

func (a *ahead) next(ctx context.Context) (loan, error) {
	select {
	case r := <-a.results:
		return r.loan, r.err
	case <-ctx.Done():
		return loan{}, context.Cause(ctx)
	}
}

// take prepares a batch and adds its rows to what waits for being cut.
func (c *conversion) take(ctx context.Context, l loan) error {
	if err := settleNulls(l.batch); err != nil {
		l.batch.Release()
		return failed(PartInput, err)
	}
	c.chooseChunkRows(l.batch)
	h, err := c.hold(ctx, l)
	if err != nil {
		return err
	}
	c.cutter.add(h)
	done, total := c.src.position()
	c.progress.input.Store(done)
	c.progress.inputTotal.Store(total)
	return nil
}

// hold waits until --max-memory has room for a batch, and moves to the device
// what goes there.
func (c *conversion) hold(ctx context.Context, l loan) (*hold, error) {
	if err := c.reserve(ctx, l.bytes); err != nil {
		l.batch.Release()
		return nil, err
	}
	h := &hold{rows: l.batch.NumRows(), bytes: l.bytes, free: func() { c.memory.Release(l.bytes) }}
	h.refs.Store(1)
	var err error
	if h.recodes, err = c.recodes(l.batch); err == nil {
		h.columns, err = c.toDevice(l.batch)
	}
	l.batch.Release()
	if err != nil {
		h.free()
		return nil, err
	}
	return h, nil
}

// reserve waits for room. Chunks that are being written give theirs back; what
// waits for the rest of its chunk does not, so if that leaves no room, none
// will come.
func (c *conversion) reserve(ctx context.Context, n int64) error {
	if limit := c.options.MaxMemory / 2; c.cutter.bytes+n > limit {
		return failedf(PartUsage, "the batches of one chunk of %d rows take more than %d bytes, half of --max-memory: lower --chunk-rows or raise --max-memory", c.grid.chunkRows, limit)
	}
	return c.memory.Acquire(ctx, n)
}

// recodes brings the dictionaries of a batch to the codes of the whole column.
func (c *conversion) recodes(batch arrow.RecordBatch) ([]recode, error) {
	recodes := make([]recode, len(c.columns))
	for i, w := range c.writers {
		if w.categories == nil {
			continue
		}
		err := protect(func() error {
			dictionary, ok := unwrap(batch.Column(i)).(*array.Dictionary)
			if !ok {
				return fmt.Errorf("array of %T, expected a dictionary", batch.Column(i))
			}
			var err error
			recodes[i], err = w.categories.recodeFor(dictionary.Dictionary())
			return err
		})
		if err != nil {
			return nil, failedf(PartInput, "column %q: %w", w.plan.name, err)
		}
	}
	return recodes, nil
}

// unwrap returns the storage of extension arrays.
func unwrap(a arrow.Array) arrow.Array {
	for {
		ext, ok := a.(array.ExtensionArray)
		if !ok {
			return a
		}
		a = ext.Storage()
	}
}

// toDevice returns the columns of a batch, those of fixed width on the device.
func (c *conversion) toDevice(batch arrow.RecordBatch) ([]arrow.Array, error) {
	columns := make([]arrow.Array, len(c.columns))
	var moving []int
	for i, plan := range c.columns {
		if plan.onDevice() && c.options.Device != arrowbuf.CPU() {
			moving = append(moving, i)
			continue
		}
		columns[i] = batch.Column(i)
		columns[i].Retain()
	}
	if len(moving) == 0 {
		return columns, nil
	}
	batch.Retain()
	part := project(batch, selectFields(batch.Schema(), moving), moving)
	defer part.Release()
	start := time.Now()
	moved, err := arrowbuf.CopyTo(part, c.options.Device)
	if err != nil {
		for _, column := range columns {
			if column != nil {
				column.Release()
			}
		}
		return nil, failed(PartDevice, err)
	}
	defer moved.Release()
	c.stages.h2d.add(batchBytes(part, nil), time.Since(start))
	for i, m := range moving {
		columns[m] = moved.Column(i)
		columns[m].Retain()
	}
	return columns, nil
}
