package zarr

import (
	"context"
	"fmt"
	"slices"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/internal/grid"
	"github.com/quiver-gpu/quiver/zarr/internal/index"
)

// View is selected elements of an array. It accesses the store only when it is read or
// written, and sees the elements of that time. A View is immutable and safe for
// concurrent use.
type View struct {
	array    *Array
	selected index.Selection
	field    *recordField // nil for whole elements
}

// View returns a view of selected elements. It returns an error wrapping [ErrSelection]
// or arrowbuf.ErrOutOfRange if the selection does not fit the shape of the array. A
// later change of the shape does not change the view.
func (a *Array) View(s Selection) (*View, error) {
	selected, err := s.apply(index.Whole(slices.Clone(a.Shape())), a.chunkGrid())
	if err != nil {
		return nil, fmt.Errorf("zarr.Array.View: array %q of shape %v: %w", a.path, a.Shape(), err)
	}
	return &View{array: a, selected: selected}, nil
}

// View returns a view of elements that are selected from the result of v. [Blocks]
// select chunks of an array and fit no view. Axes of a field are not selected from.
func (v *View) View(s Selection) (*View, error) {
	selected, err := s.apply(v.selected, nil)
	if err != nil {
		return nil, fmt.Errorf("zarr.View.View: view of shape %v of array %q: %w", v.Shape(), v.array.path, err)
	}
	return &View{v.array, selected, v.field}, nil
}

// Shape returns the shape of the values that the view reads and writes. The caller must
// not modify it.
func (v *View) Shape() []int64 {
	if v.field != nil {
		return slices.Concat(v.selected.Shape, v.field.shape)
	}
	return v.selected.Shape
}

// Array returns the array that the view selects from.
func (v *View) Array() *Array { return v.array }

// Get reads selected elements, as [View.Read] does.
func (a *Array) Get(ctx context.Context, s Selection, to Prototype, jobs int) (element.Values, error) {
	v, err := a.View(s)
	if err != nil {
		return nil, err
	}
	return v.Read(ctx, to, jobs)
}

// Set writes selected elements, as [View.Write] does.
func (a *Array) Set(ctx context.Context, s Selection, values any, jobs int) error {
	v, err := a.View(s)
	if err != nil {
		return err
	}
	return v.Write(ctx, values, jobs)
}

// Append grows the array along an axis by values, and returns the new shape. The values
// have the extents of the array along the other axes.
func (a *Array) Append(ctx context.Context, v element.Values, axis, jobs int) ([]int64, error) {
	a.resizing.Lock()
	defer a.resizing.Unlock()
	fail := func(err error) ([]int64, error) {
		return nil, fmt.Errorf("zarr.Array.Append: array %q: %w", a.path, err)
	}
	if err := a.dataType.CheckValues(v); err != nil {
		return fail(err)
	}
	old := a.Shape()
	if axis < 0 || axis >= len(old) {
		return fail(fmt.Errorf("axis %d of %d axes: %w", axis, len(old), arrowbuf.ErrOutOfRange))
	}
	want := slices.Clone(old)
	if len(v.Shape()) == len(old) {
		want[axis] = v.Shape()[axis]
	}
	if !slices.Equal(v.Shape(), want) {
		return fail(fmt.Errorf("values of shape %v, want %v: %w", v.Shape(), want, ndview.ErrShape))
	}
	shape := slices.Clone(old)
	shape[axis] += want[axis]
	if err := a.resize(ctx, shape); err != nil {
		return nil, err
	}
	box := grid.Box{Origin: make([]int64, len(old)), Shape: want}
	box.Origin[axis] = old[axis]
	if err := a.writeBox(ctx, box, v, jobs); err != nil {
		return fail(err)
	}
	return shape, nil
}

// Read reads the elements of the view. Only chunks that have some of them are read; of a
// shard, only its index and those chunks. The result, the number of goroutines and the
// errors are those of [Array.Read]. A selection that is not a box is assembled on the
// host before it is copied to a device.
func (v *View) Read(ctx context.Context, to Prototype, jobs int) (element.Values, error) {
	a := v.array
	if err := v.checkInside(); err != nil {
		return nil, err
	}
	if a.dataType.IsVLen() {
		values, err := v.readStrings(ctx, jobs)
		if err != nil {
			return nil, fmt.Errorf("array %q: %w", a.path, err)
		}
		return values, nil
	}
	dtype, _ := v.elementType().DType()
	if _, err := grid.ByteSize(v.Shape(), dtype.Size()); err != nil {
		return nil, fmt.Errorf("array %q: %w", a.path, err)
	}
	nd, err := to.NDBuffer(dtype, v.Shape()...)
	if err != nil {
		return nil, err
	}
	if err := v.ReadInto(ctx, nd, jobs); err != nil {
		nd.Release()
		return nil, err
	}
	return nd, nil
}

// ReadInto reads the elements of the view into an array on any device, which has the
// dtype and the shape of the view. Its layout may be any. After an error some elements
// may have been written.
func (v *View) ReadInto(ctx context.Context, dst *ndview.NDBuffer, jobs int) error {
	a := v.array
	err := v.elementType().CheckValues(dst)
	if err == nil {
		err = v.checkInside()
	}
	if err == nil && !slices.Equal(dst.Shape(), v.Shape()) {
		err = fmt.Errorf("destination of shape %v, want %v: %w", dst.Shape(), v.Shape(), ndview.ErrShape)
	}
	if err == nil && !dst.Flags().Writeable {
		err = ndview.ErrReadOnly
	}
	if err == nil {
		err = v.readInto(ctx, dst, jobs)
	}
	if err != nil {
		return fmt.Errorf("array %q: %w", a.path, err)
	}
	return nil
}

func (v *View) readInto(ctx context.Context, dst *ndview.NDBuffer, jobs int) error {
	box, isBox := v.selected.Box()
	if isBox && v.field == nil && dst.IsContiguous() {
		return v.array.readBoxInto(ctx, dst, box, jobs)
	}
	if host, ok := dst.HostBytes(); ok {
		return v.gather(ctx, host, jobs)
	}
	if isBox && v.field != nil {
		return v.readFieldInto(ctx, dst, box, jobs)
	}
	s := v.array.scratch()
	defer s.Release()
	host, err := s.HostBytes(dst.Device(), dst.NBytes())
	if err != nil {
		return err
	}
	if err := v.gather(ctx, host, jobs); err != nil {
		return err
	}
	return dst.CopyFromHost(host)
}

// gather reads the elements, or their field, into host memory in C order.
func (v *View) gather(ctx context.Context, dst []byte, jobs int) error {
	a, width, shape := v.array, v.array.dataType.Size(), v.selected.FullShape()
	field := recordField{size: width}
	if v.field != nil {
		field = *v.field
	}
	jobs = a.goroutines(jobs, waiting, a.bytesToRead(grid.Size(shape)*width))
	return v.forEachPart(ctx, jobs, func(ctx context.Context, cell []int64, part index.Part) error {
		s, memory := a.scratch(), a.scratch()
		defer s.Release()
		defer memory.Release()
		return a.visitPart(ctx, cell, part, func(c encodedChunk, part index.Part) error {
			if c.data == nil {
				fill := part.Repeat()
				index.Gather(fill, dst, shape, field.of(a.chain.Fill()), ones(len(fill.From)), field.size)
				return nil
			}
			box := decodedBox(c.chain, part.Bounds(), c.box.Shape)
			n, err := grid.ByteSize(box.Shape, width)
			if err == nil {
				err = arrowbuf.CheckHostMemory(n) // a chunk may be much larger than its array
			}
			if err != nil {
				return err
			}
			memory.Reset()
			raw := memory.Bytes(n)
			if err := decodeBox(s, c.chain, raw, c.data, box, c.box.Shape); err != nil {
				return err
			}
			index.Gather(part.RelativeTo(box.Origin), dst, shape, field.extract(raw, width), box.Shape, field.size)
			return nil
		})
	})
}

func (v *View) readStrings(ctx context.Context, jobs int) (element.Values, error) {
	a, shape := v.array, v.selected.FullShape()
	headers, err := grid.ByteSize(shape, 24) // the size of a slice header
	if err == nil {
		err = arrowbuf.CheckHostMemory(headers)
	}
	if err != nil {
		return nil, err
	}
	all := slices.Repeat([][]byte{a.chain.Fill()}, int(grid.Size(shape)))
	jobs = a.goroutines(jobs, waiting, a.bytesToRead(headers))
	err = v.forEachPart(ctx, jobs, func(ctx context.Context, cell []int64, part index.Part) error {
		s := a.scratch()
		defer s.Release()
		return a.visitPart(ctx, cell, part, func(c encodedChunk, part index.Part) error {
			if c.data == nil {
				return nil
			}
			strings, err := c.chain.DecodeVLen(s, c.data)
			if err != nil {
				return err
			}
			index.Gather(part, all, shape, strings.Elements(), c.box.Shape, 1)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return element.PackVLen(all, v.Shape()...)
}

// forEachPart calls f for each chunk or shard that has elements of the view, in up to jobs
// goroutines.
func (v *View) forEachPart(ctx context.Context, jobs int, f func(ctx context.Context, cell []int64, part index.Part) error) error {
	type task struct {
		cell []int64
		part index.Part
	}
	tasks := func(yield func(task) bool) {
		for cell, part := range v.selected.Part().Split(v.array.chunkGrid()) {
			if !yield(task{cell, part}) {
				return
			}
		}
	}
	return forEachParallel(ctx, jobs, tasks, func(ctx context.Context, t task) error { return f(ctx, t.cell, t.part) })
}

// checkInside returns an error if the array has become smaller than the view.
func (v *View) checkInside() error {
	if err := v.selected.CheckInside(v.array.Shape()); err != nil {
		return fmt.Errorf("array %q: view: %w: %w", v.array.path, err, arrowbuf.ErrOutOfRange)
	}
	return nil
}

// Write writes the elements of the view with as many goroutines as [Array.Write]. Values are
// one of
//   - an *ndview.NDBuffer of the array's dtype on any device, or an *element.VLen, whose
//     shape broadcasts to that of the view;
//   - one value for all elements: a Go number or bool that ndview.ScalarOf takes, or a
//     string or []byte for an array of strings or byte strings.
//
// Chunks of which only some elements are written are read before, others are not. If an
// element is selected more than once, the last value stays. After an error some chunks
// may have been written.
func (v *View) Write(ctx context.Context, values any, jobs int) error {
	err := v.array.checkWritable()
	if err == nil {
		err = v.checkInside()
	}
	if err == nil {
		err = v.write(ctx, values, jobs)
	}
	if err != nil {
		return fmt.Errorf("zarr.View.Write: %w", err)
	}
	return nil
}

func (v *View) write(ctx context.Context, values any, jobs int) error {
	a := v.array
	one, ok, err := v.scalarSource(values)
	if err != nil {
		return err
	}
	if ok {
		return v.scatter(ctx, one, jobs)
	}
	given := values.(element.Values) // scalarSource has checked the type
	whole, err := v.broadcast(given)
	if err != nil {
		return err
	}
	defer whole.Release()
	if box, ok := v.selected.Box(); ok && v.field == nil {
		return a.writeBox(ctx, box, whole, jobs)
	}
	s := a.scratch()
	defer s.Release()
	src, err := a.hostSource(s, whole)
	if err != nil {
		return err
	}
	return v.scatter(ctx, src, jobs)
}

func (v *View) scatter(ctx context.Context, src source, jobs int) error {
	src.shape, src.field = v.selected.FullShape(), v.field
	jobs = v.array.goroutines(jobs, waiting, v.array.chunkBytes())
	return v.forEachPart(ctx, jobs, func(ctx context.Context, cell []int64, part index.Part) error {
		return v.array.writePart(ctx, cell, part, src, 1)
	})
}

// scalarSource returns a value for all elements as a source, or false for values that
// are arrays.
func (v *View) scalarSource(values any) (source, bool, error) {
	of := v.elementType()
	if given, ok := values.(element.Values); ok {
		return source{}, false, of.CheckValues(given)
	}
	if of.IsVLen() {
		var value []byte
		switch given := values.(type) {
		case string:
			value = []byte(given)
		case []byte:
			value = given
		default:
			return source{}, false, fmt.Errorf("values of Go type %T, want %s", values, of)
		}
		return source{strings: [][]byte{value}, scalar: true}, true, nil
	}
	dtype, _ := of.DType()
	var shape []int64 // of one element
	if v.field != nil {
		shape = v.field.shape
	}
	one, err := ndview.Full(arrowbuf.CPU(), dtype, values, shape...)
	if err != nil {
		return source{}, false, fmt.Errorf("value for elements of %s: %w", of, err)
	}
	defer one.Release()
	raw := make([]byte, one.NBytes())
	return source{raw: raw, scalar: true}, true, one.CopyToHost(raw)
}

// broadcast returns values of the view's shape, with an axis of extent 1 for each axis
// that an outer selection drops.
func (v *View) broadcast(values element.Values) (element.Values, error) {
	shape := v.Shape()
	switch values := values.(type) {
	case *element.VLen:
		if !slices.Equal(values.Shape(), shape) {
			return nil, fmt.Errorf("values of shape %v, want %v: %w", values.Shape(), shape, ndview.ErrShape)
		}
		if v.selected.IsPoints {
			return values, nil
		}
		if o32, o64 := values.Offsets(); o32 != nil {
			return element.NewVLen(o32, values.Data(), v.selected.FullShape()...)
		} else {
			return element.NewVLen(o64, values.Data(), v.selected.FullShape()...)
		}
	case *ndview.NDBuffer:
		whole, err := values.BroadcastTo(shape...)
		if err != nil {
			return nil, fmt.Errorf("values of shape %v, want %v: %w", values.Shape(), shape, err)
		}
		var axes []int
		for i, dropped := range v.selected.Dropped {
			if dropped {
				axes = append(axes, i)
			}
		}
		if len(axes) == 0 {
			return whole, nil
		}
		defer whole.Release()
		return whole.ExpandDims(axes...)
	default:
		return nil, fmt.Errorf("values of Go type %T", values)
	}
}

func ones(n int) []int64 { return slices.Repeat([]int64{1}, n) }
