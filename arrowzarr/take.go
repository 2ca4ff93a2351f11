package arrowzarr

import (
	"fmt"
	"math"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// take prepares a batch and adds its rows to what waits for being cut.
func (c *conversion) take(r result) error {
	// Counting reads the input's memory, as encoding does.
	if err := protect(func() error { return settleNulls(r.loan.batch) }); err != nil {
		r.loan.batch.Release()
		return failed(PartInput, err)
	}
	if so := c.cutter.taken + c.cutter.rows; r.loan.batch.NumRows() > math.MaxInt64-so {
		r.loan.batch.Release()
		return failedf(PartInput, "after %d rows: more rows than can be counted", so)
	}
	c.chooseChunkRows(r.loan.batch)
	h, err := c.hold(r.loan)
	if err != nil {
		return err
	}
	c.cutter.add(h)
	c.memory.wait(0) // chunks will be cut of what is pending
	c.progress.input.Store(r.done)
	c.progress.inputTotal.Store(r.total)
	return nil
}

// hold keeps a batch, with those columns on the device that go there.
func (c *conversion) hold(l loan) (*hold, error) {
	h := &hold{rows: l.batch.NumRows(), bytes: l.bytes, drop: c.src.mapping().clear, free: func() { c.memory.give(l.bytes) }}
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
	c.stages.h2d.add(batchBytes(part, filled), time.Since(start))
	for i, m := range moving {
		columns[m] = moved.Column(i)
		columns[m].Retain()
	}
	return columns, nil
}
