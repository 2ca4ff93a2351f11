package arrowzarr

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/element"
)

// worker is the third stage of the pipeline: it assembles the chunks of single
// columns. Any number of goroutines may run it.
type worker struct {
	columns  []*column
	device   arrowbuf.Device
	codec    codecSet
	memory   *chunkMemory
	maxBytes int64 // that one chunk may need
	stats    *stageStats
	in       <-chan columnRows
	out      chan<- writeTask
	// onDevice is the output of chunks that a device encodes; nil without one.
	onDevice chan<- *columnChunk

	// mu is held while a chunk waits for memory, so that no more than one at a
	// time reads its offsets and views before it has memory.
	mu         sync.Mutex
	tableBytes float64 // of the encoder of the largest chunk so far
}

// columnChunk is one assembled chunk of one column. The consumer must release it.
type columnChunk struct {
	columnRows
	arrays  *chunkArrays
	memory  *chunkReservation
	decoded []arrow.Array // of a run-end encoded column; arrays views them
}

func (c *columnChunk) write(ctx context.Context, w *writer) error { return w.writeColumn(ctx, c) }

// release releases the arrays and the rows that they view.
func (c *columnChunk) release(w *writer) {
	if c.arrays != nil {
		c.arrays.release()
	}
	arrowdata.ReleaseArrays(c.decoded)
	if c.memory != nil {
		c.memory.release()
	}
	if rows := c.columnRows.release(); w != nil {
		w.progress.rows.Add(rows)
	}
}

// run assembles chunks until the input is closed.
func (w *worker) run(ctx context.Context) error {
	for rows := range w.in {
		chunk, err := w.assemble(ctx, rows)
		if err != nil {
			return err
		}
		out, onDevice := w.out, w.onDevice
		if w.columns[rows.column].onDevice {
			out = nil // a nil channel is never ready
		} else {
			onDevice = nil
		}
		select {
		case out <- chunk:
		case onDevice <- chunk:
		case <-ctx.Done():
			chunk.release(nil)
			return context.Cause(ctx)
		}
	}
	return nil
}

// assemble takes ownership of rows.
func (w *worker) assemble(ctx context.Context, rows columnRows) (_ *columnChunk, err error) {
	chunk := &columnChunk{columnRows: rows}
	defer func() {
		if err != nil {
			chunk.release(nil)
		}
	}()
	column, inputs := w.columns[rows.column], rows.columnSlices()
	if chunk.memory, err = w.reserve(ctx, column, rows, inputs); err != nil {
		return nil, err
	}
	a := assembler{device: arrowbuf.CPU(), kernels: w.stats}
	if column.onDevice {
		a.device = w.device
	}
	err = arrowdata.CatchPanic(func() (err error) {
		if column.runs {
			if chunk.decoded, err = decodeRuns(inputs); err != nil {
				return err
			}
		}
		chunk.arrays, err = a.assemble(column, inputs, rows.rows)
		return err
	})
	if err != nil {
		return nil, partErrorf(partOf(err, PartInput), "column %q: %w", column.field.Name, err)
	}
	return chunk, nil
}

// reserve waits for the memory to assemble and encode a chunk.
func (w *worker) reserve(ctx context.Context, column *column, rows columnRows, inputs []columnSlice) (*chunkReservation, error) {
	if column.kind == kindNull {
		return w.memory.acquire(ctx, 0, nil)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var regions [][]byte
	err := arrowdata.CatchPanic(func() error {
		for _, s := range inputs {
			regions = append(regions, s.regions()...)
		}
		return nil
	})
	if err != nil {
		return nil, partErrorf(PartInput, "column %q: %w", column.field.Name, err)
	}
	need := w.chunkBytes(column, rows, inputs, regions)
	if column.runs {
		var text float64
		if err := arrowdata.CatchPanic(func() (err error) { text, err = decodedTextBytes(inputs); return err }); err != nil {
			return nil, partErrorf(PartInput, "column %q: %w", column.field.Name, err)
		}
		need += 2 * (text + need)
	}
	if need > float64(w.maxBytes) {
		return nil, partErrorf(PartUsage, "column %q: encoding one chunk takes %.0f bytes, more than half of --max-memory, %d: lower --chunk-rows, or raise --max-memory", column.field.Name, need, w.maxBytes)
	}
	return w.memory.acquire(ctx, int64(need), regions)
}

// chunkBytes is the memory that assembling and encoding a chunk takes beside the
// regions that it reads.
func (w *worker) chunkBytes(column *column, rows columnRows, inputs []columnSlice, regions [][]byte) float64 {
	var read float64
	for _, r := range regions {
		read += float64(len(r))
	}
	// The last chunk is padded to a whole one.
	n := float64(max(rows.rows, rows.grid.chunkRows))
	padding := n - float64(rows.rows)
	values, masks := read+8*n, n
	if column.kind == kindFixed || column.kind == kindDictionary {
		values = n * column.rowBytes(nil, 0)
	}
	if column.isList() {
		masks += n * float64(column.layout.elements())
	}
	// An encoder is reused, and keeps the tables of its largest chunk.
	w.tableBytes = max(w.tableBytes, w.codec.tableBytes(values))
	if column.onDevice { // only the encoded chunk is on the host
		return values + masks
	}
	// Encoding hardly makes a chunk larger.
	need := 2*(values+masks) + float64(outsideHeap(int64(w.tableBytes)))
	if column.kind == kindFixed && column.layout.viewable() && len(inputs) == 1 && inputs[0].values.NullN() == 0 && padding == 0 {
		need -= values // a view
	}
	return need
}

// columnSlice is rows [from, to) of one column of one batch.
type columnSlice struct {
	values   arrow.Array
	from, to int64
	codes    codeMap // of a dictionary column
}

func (s columnSlice) rows() int64 { return s.to - s.from }

// chunkArrays is one chunk of the arrays of a column.
type chunkArrays struct {
	values element.Values
	// mask has one element per row; nil if no row is missing.
	mask *ndview.NDBuffer
	// elementMask has the shape of values; nil if no element is missing.
	elementMask *ndview.NDBuffer
}

func (c *chunkArrays) release() {
	if c.values != nil {
		c.values.Release()
	}
	if c.mask != nil {
		c.mask.Release()
	}
	if c.elementMask != nil {
		c.elementMask.Release()
	}
}

// assembler joins slices of a column to the arrays of a chunk.
type assembler struct {
	device  arrowbuf.Device // of columns of fixed width
	kernels *stageStats
}

// assemble joins slices of a column, which have the given number of rows together.
// The caller must release the result.
func (a *assembler) assemble(c *column, inputs []columnSlice, rows int64) (*chunkArrays, error) {
	switch c.kind {
	case kindText, kindBinary:
		return assembleText(inputs, rows)
	case kindDictionary:
		return assembleCodes(c, inputs, rows)
	case kindNull:
		return &chunkArrays{}, nil
	default:
		return a.assembleFixed(c.layout, inputs, rows)
	}
}

func (a *assembler) assembleFixed(l fixedLayout, inputs []columnSlice, rows int64) (_ *chunkArrays, err error) {
	out := &chunkArrays{}
	defer func() {
		if err != nil {
			out.release()
		}
	}()
	if out.mask, err = a.mask(inputs, rows); err != nil {
		return nil, err
	}
	missing, err := hasMissingElements(inputs)
	if err != nil {
		return nil, err
	}
	if len(inputs) == 1 && out.mask == nil && !missing && l.viewable() {
		view, err := l.view(inputs[0])
		if err != nil {
			return nil, err
		}
		out.values = view
		return out, nil
	}
	whole, err := ndview.Empty(a.device, l.dtype, append([]int64{rows}, l.row...)...)
	if err != nil {
		return nil, markPart(PartDevice, err)
	}
	out.values = whole
	if err = forEachSlice(whole, inputs, func(dst *ndview.NDBuffer, s columnSlice) error { return a.copySlice(l, dst, s) }); err != nil {
		return nil, err
	}
	if missing {
		if out.elementMask, err = a.elementMask(l, inputs, rows); err != nil {
			return nil, err
		}
		if err = a.fillElements(whole, out.elementMask, l.fill); err != nil {
			return nil, err
		}
	}
	if out.mask != nil {
		if err = a.runKernel(whole.NBytes(), func() error { return whole.FillWhere(out.mask, l.fill) }); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// viewable reports whether Arrow's buffer holds the elements as Zarr stores them.
func (l fixedLayout) viewable() bool { return l.source == l.dtype && l.dtype != ndview.Bool }

// view returns a view of a slice's values. Its dtype is that of Zarr if the sizes
// are equal, otherwise that of Arrow.
func (l fixedLayout) view(s columnSlice) (*ndview.NDBuffer, error) {
	data, at, err := leaf(s.values.Data(), s.from)
	if err != nil {
		return nil, err
	}
	buf, err := valuesBuffer(data, s.rows()*l.elements())
	if err != nil {
		return nil, err
	}
	defer buf.Release()
	dtype := l.source
	if dtype.Size() == l.dtype.Size() {
		dtype = l.dtype
	}
	start := at * l.limbs * dtype.Size()
	return ndview.FromBuffer(buf, dtype, start, append([]int64{s.rows()}, l.row...), nil)
}

// valuesBuffer returns the second buffer of an array of fixed width, which an
// array without values may lack.
func valuesBuffer(data arrow.ArrayData, elements int64) (arrowbuf.Buffer, error) {
	if len(data.Buffers()) < 2 || data.Buffers()[1] == nil {
		if elements > 0 {
			return nil, fmt.Errorf("%s array without a buffer of values", data.DataType())
		}
		return arrowbuf.CPU().Alloc(0)
	}
	return arrowbuf.BufferOf(data.Buffers()[1])
}

// copySlice copies a slice to its rows of a chunk.
func (a *assembler) copySlice(l fixedLayout, dst *ndview.NDBuffer, s columnSlice) error {
	if l.dtype == ndview.Bool {
		data, at, err := leaf(s.values.Data(), s.from)
		if err != nil {
			return err
		}
		bits, err := valuesBuffer(data, dst.Size())
		if err != nil {
			return err
		}
		defer bits.Release()
		return a.runKernel(dst.NBytes(), func() error { return dst.UnpackBits(bits, at, false) })
	}
	src, err := l.view(s)
	if err != nil {
		return err
	}
	defer src.Release()
	if l.source.Size() != l.dtype.Size() {
		return a.runKernel(dst.NBytes(), func() error { return dst.Assign(src) })
	}
	return a.runKernel(dst.NBytes(), func() error { return dst.CopyFrom(src) })
}

// forEachSlice calls f with each slice and its rows of whole.
func forEachSlice(whole *ndview.NDBuffer, inputs []columnSlice, f func(dst *ndview.NDBuffer, s columnSlice) error) error {
	at := int64(0)
	for _, s := range inputs {
		dst, err := whole.Slice(0, at, at+s.rows())
		if err != nil {
			return err
		}
		err = f(dst, s)
		dst.Release()
		if err != nil {
			return err
		}
		at += s.rows()
	}
	return nil
}

// runKernel runs f, which processes n bytes on the device, and records it.
func (a *assembler) runKernel(n int64, f func() error) error {
	start := time.Now()
	err := f()
	a.kernels.record(n, time.Since(start))
	return err
}

// mask returns the inverted validity bitmaps of the slices; nil if all is valid.
func (a *assembler) mask(inputs []columnSlice, rows int64) (*ndview.NDBuffer, error) {
	if !slices.ContainsFunc(inputs, func(s columnSlice) bool { return s.values.NullN() != 0 }) {
		return nil, nil
	}
	return a.newMask(inputs, []int64{rows}, func(dst *ndview.NDBuffer, s columnSlice) error {
		data := s.values.Data()
		return a.unpackMissing(dst, data, int64(data.Offset())+s.from)
	})
}

// elementMask returns a mask of the shape of the values. A missing list inside a
// list is a list of missing elements.
func (a *assembler) elementMask(l fixedLayout, inputs []columnSlice, rows int64) (*ndview.NDBuffer, error) {
	return a.newMask(inputs, append([]int64{rows}, l.row...), func(dst *ndview.NDBuffer, s columnSlice) error {
		data, at, err := leaf(s.values.Data(), s.from)
		if err != nil {
			return err
		}
		if err := a.unpackMissing(dst, data, at); err != nil {
			return err
		}
		_, _, err = walkLists(s.values.Data(), s.from, func(lists arrow.ArrayData, at, perRow int64) error {
			if lists.NullN() == 0 || dst.Size() == 0 {
				return nil
			}
			return a.setMissingLists(dst, lists, at, s.rows()*perRow)
		})
		return err
	})
}

// setMissingLists sets the elements of missing lists in the mask of a slice's
// elements.
func (a *assembler) setMissingLists(elements *ndview.NDBuffer, lists arrow.ArrayData, at, n int64) error {
	missing, err := ndview.Empty(a.device, ndview.Bool, n)
	if err != nil {
		return markPart(PartDevice, err)
	}
	defer missing.Release()
	if err := a.unpackMissing(missing, lists, at); err != nil {
		return err
	}
	byList, err := elements.Reshape(n, elements.Size()/n)
	if err != nil {
		return err
	}
	defer byList.Release()
	const allTrue = 0x0101010101010101
	return a.runKernel(byList.NBytes(), func() error { return byList.FillWhere(missing, allTrue) })
}

// newMask returns a mask that fill fills slice by slice.
func (a *assembler) newMask(inputs []columnSlice, shape []int64, fill func(dst *ndview.NDBuffer, s columnSlice) error) (*ndview.NDBuffer, error) {
	mask, err := ndview.Empty(a.device, ndview.Bool, shape...)
	if err != nil {
		return nil, markPart(PartDevice, err)
	}
	if err := forEachSlice(mask, inputs, fill); err != nil {
		mask.Release()
		return nil, err
	}
	return mask, nil
}

// unpackMissing sets dst to true where the elements from position at on are missing.
func (a *assembler) unpackMissing(dst *ndview.NDBuffer, data arrow.ArrayData, at int64) error {
	if data.NullN() == 0 || len(data.Buffers()) == 0 || data.Buffers()[0] == nil || data.Buffers()[0].Len() == 0 {
		return a.runKernel(dst.NBytes(), dst.Zero)
	}
	bits, err := arrowbuf.BufferOf(data.Buffers()[0])
	if err != nil {
		return err
	}
	defer bits.Release()
	return a.runKernel(dst.NBytes(), func() error { return dst.UnpackBits(bits, at, true) })
}

// hasMissingElements reports whether elements of lists may be missing.
func hasMissingElements(inputs []columnSlice) (bool, error) {
	found := false
	for _, s := range inputs {
		if _, isList := arrowdata.StorageType(s.values.DataType()).(*arrow.FixedSizeListType); !isList {
			return false, nil
		}
		data, _, err := walkLists(s.values.Data(), s.from, func(lists arrow.ArrayData, _, _ int64) error {
			found = found || lists.NullN() != 0
			return nil
		})
		if err != nil {
			return false, err
		}
		found = found || data.NullN() != 0
	}
	return found, nil
}

func (a *assembler) fillElements(values, mask *ndview.NDBuffer, fill uint64) error {
	flatValues, err := values.Reshape(values.Size())
	if err != nil {
		return err
	}
	defer flatValues.Release()
	flatMask, err := mask.Reshape(mask.Size())
	if err != nil {
		return err
	}
	defer flatMask.Release()
	return a.runKernel(values.NBytes(), func() error { return flatValues.FillWhere(flatMask, fill) })
}
