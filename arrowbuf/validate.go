package arrowbuf

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Validate checks that the buffers and children exist and are large enough. It
// copies the first and last offsets and a few run ends. It returns an error wrapping
// arrow.ErrInvalid if the array is invalid.
//
// It replaces array.Validate, which reads the memory of children and so works on the
// host only.
func (a *Array) Validate() error {
	if a == nil || a.data == nil {
		return fmt.Errorf("arrowbuf.Array.Validate: nil or zero array: %w", arrow.ErrInvalid)
	}
	s := slicer{checkOnly: true}
	if _, err := s.slice(a.data, 0, a.Len()); err != nil {
		return a.wrapError("the layout", err)
	}
	return nil
}

// ValidateFull also checks each element, as array.ValidateFull does: null counts,
// offsets, views, indices, type ids, run ends and UTF-8. It copies what the check
// reads, which excludes the values of numbers and binaries. It returns an error
// wrapping arrow.ErrInvalid if the array is invalid.
func (a *Array) ValidateFull() error {
	if err := a.Validate(); err != nil {
		return err
	}
	s := slicer{zeroValues: true}
	host, err := s.slice(a.data, 0, a.Len())
	if err != nil {
		return a.wrapError("the layout", err)
	}
	buffers := make([]*memory.Buffer, len(s.ranges))
	for i, p := range s.ranges {
		b, err := p.bytes()
		if err != nil {
			return a.wrapError("the buffers", err)
		}
		buffers[i] = memory.NewBufferBytes(b)
	}
	if err := host.validate(buffers); err != nil {
		return a.wrapError("the elements", fmt.Errorf("%w: %w", arrow.ErrInvalid, err))
	}
	return nil
}

// validate checks the array over host buffers with arrow-go. A panic of arrow-go
// means that the array is invalid.
func (out *slicedArray) validate(buffers []*memory.Buffer) (err error) {
	m := assembler{buffers: buffers, dev: CPU()}
	arr, err := m.assemble(out)
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

// Validate checks each column with Array.Validate. The error names the column.
func (r *RecordBatch) Validate() error {
	return r.validateColumns(func(a *Array) error { return a.Validate() }, array.Validate)
}

// ValidateFull checks each column with Array.ValidateFull. The error names the
// column.
func (r *RecordBatch) ValidateFull() error {
	return r.validateColumns(func(a *Array) error { return a.ValidateFull() }, array.ValidateFull)
}

func (r *RecordBatch) validateColumns(device func(*Array) error, host func(arrow.Array) error) error {
	if r == nil || r.batch == nil {
		return fmt.Errorf("arrowbuf.RecordBatch.Validate: nil or zero batch: %w", arrow.ErrInvalid)
	}
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
