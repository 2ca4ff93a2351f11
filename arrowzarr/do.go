package arrowzarr

import (
	"context"
	"errors"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/element"
)

// do makes and writes one chunk of one column.
func (c *conversion) do(ctx context.Context, j job) error {
	defer func() {
		c.work.end(j.bytes + int64(c.src.mapping().done(j.spans))*outside(window))
		if j.rows.done() {
			c.progress.rows.Add(j.rows.rows)
		}
	}()
	w, parts := c.writers[j.column], j.rows.parts(j.column)
	var made *chunk
	err := protect(func() (err error) {
		a := assembler{device: c.deviceOf(w.plan), kernels: &c.stages.kernels}
		made, err = a.assemble(w.plan, parts, j.rows.rows)
		return err
	})
	if err != nil {
		return failedf(partOf(err, PartInput), "column %q: %w", w.plan.name, err)
	}
	defer made.release()
	// Encoding reads the input's memory, so it is protected too.
	err = protect(func() error { return w.write(ctx, j.rows.index, made) })
	if err != nil {
		return failedf(partOf(err, PartOutput), "column %q: %w", w.plan.name, err)
	}
	c.progress.raw.Add(rawBytes(made))
	return nil
}

func (c *conversion) deviceOf(plan *column) arrowbuf.Device {
	if plan.onDevice() {
		return c.options.Device
	}
	return arrowbuf.CPU()
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

// rawBytes is the size of a chunk's arrays without compression.
func rawBytes(c *chunk) int64 {
	var n int64
	switch v := c.values.(type) {
	case *ndview.NDBuffer:
		n = v.NBytes()
	case *element.VLen:
		n = v.NBytes() + 4*v.Len() // as vlen-utf8 writes it, a length before each
	}
	for _, mask := range []*ndview.NDBuffer{c.mask, c.elementMask} {
		if mask != nil {
			n += mask.NBytes()
		}
	}
	return n
}

// asValues keeps a nil mask from becoming values that are not nil.
func asValues(mask *ndview.NDBuffer) element.Values {
	if mask == nil {
		return nil
	}
	return mask
}
