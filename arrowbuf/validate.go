package arrowbuf

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// An arrow-go array of the host is checked by array.Validate. That function
// cannot check one on a device: it looks at the memory of its children. These
// methods say of a device array what array.Validate says of the same one on the
// host, where that answers at all.

// Validate checks, without a look at each element, that the buffers and children
// are there and large enough: it copies the ends of offsets and a few run ends.
// What is wrong is an error that is arrow.ErrInvalid.
func (a *Array) Validate() error {
	c := cutter{check: true}
	if _, err := c.array(a.data, 0, a.Len()); err != nil {
		return a.failure("the layout", err)
	}
	return nil
}

// ValidateFull also checks each element: null counts, offsets, views, indices,
// type ids, run ends and whether text is UTF-8, by array.ValidateFull. It copies
// what that looks at, not the values of numbers and binaries. What is wrong is
// an error that is arrow.ErrInvalid.
func (a *Array) ValidateFull() error {
	if err := a.Validate(); err != nil {
		return err
	}
	c := cutter{blank: true}
	host, err := c.array(a.data, 0, a.Len())
	if err != nil {
		return a.failure("the layout", err)
	}
	buffers := make([]*memory.Buffer, len(c.parts))
	for i, p := range c.parts {
		b, err := p.bytes()
		if err != nil {
			return a.failure("the buffers", err)
		}
		buffers[i] = memory.NewBufferBytes(b)
	}
	if err := host.validate(buffers); err != nil {
		return a.failure("the elements", fmt.Errorf("%w: %w", arrow.ErrInvalid, err))
	}
	return nil
}

// validate has arrow-go check the array over buffers of the host. What it cannot
// check without a panic is not valid either.
func (out *cut) validate(buffers []*memory.Buffer) (err error) {
	m := maker{moved: buffers, dev: CPU()}
	arr, err := m.array(out)
	if err != nil {
		return err
	}
	defer arr.Release()
	defer func() {
		if failure := recover(); failure != nil {
			err = fmt.Errorf("%v", failure)
		}
	}()
	return array.ValidateFull(arr)
}

// Validate checks each column, see Array.Validate, and names the one that is
// wrong.
func (r *RecordBatch) Validate() error {
	return r.each(func(a *Array) error { return a.Validate() }, array.Validate)
}

// ValidateFull checks each column, see Array.ValidateFull, and names the one
// that is wrong.
func (r *RecordBatch) ValidateFull() error {
	return r.each(func(a *Array) error { return a.ValidateFull() }, array.ValidateFull)
}

func (r *RecordBatch) each(device func(*Array) error, host func(arrow.Array) error) error {
	for i, column := range r.Columns() {
		var err error
		if a, ok := column.(*Array); ok {
			err = device(a)
		} else {
			err = host(column)
		}
		if err != nil {
			return fmt.Errorf("column %d, %q: %w", i, r.ColumnName(i), err)
		}
	}
	return nil
}
