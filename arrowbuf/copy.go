package arrowbuf

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// CopyTo returns a record batch whose columns live on a device. The caller owns
// one reference to it; the batch given stays the caller's.
//
// Columns that live there already are shared, so host batches cost nothing on
// the CPU device. The others are copied to one new allocation, which goes back
// with the last column (and slice of one) that uses it; see Apart. Each buffer is copied
// once, and starts at a multiple of 64 bytes and has its last 64 to itself; on
// the CPU, buffers that were close together on the device come in one copy and
// are aligned to their width, 8 bytes at most.
//
// Of slices only what they show is copied, rebased: the copy has an offset of 0,
// and so have its strings and lists; of dense unions, list views and runs, and
// of the bytes that views point into, the range is copied that the slice
// reaches. What that takes to know is read on the host. Dictionaries stay whole.
// Bitmaps without a null are left out, and null counts are settled, where the
// source is the host.
//
// The result on the CPU has arrow-go's own arrays, and on another device an
// *Array for each column, in a *RecordBatch.
//
// All types of arrow-go are taken, in any nesting. A column whose buffers or
// children are too small for its length is an error that is arrow.ErrInvalid,
// before any memory is moved, and names the column. Of a whole array only the
// ends of offsets are checked, and views, indices, type ids and runs not at all:
// validate foreign data. A device without room answers ErrOutOfMemory.
//
// The copy is complete when CopyTo returns, unless it is one in the order of a
// stream, see On.
func CopyTo(batch arrow.RecordBatch, dev Device, options ...CopyOption) (arrow.RecordBatch, error) {
	if dev == nil {
		return nil, errors.New("copying a record batch: there is no device")
	}
	if batch == nil {
		return nil, fmt.Errorf("copying a record batch: there is none: %w", arrow.ErrInvalid)
	}
	if i := slices.Index(options, nil); i >= 0 {
		return nil, fmt.Errorf("copying a record batch: option %d is nil: %w", i, arrow.ErrInvalid)
	}
	var how copying
	for _, option := range options {
		how = option.apply(how)
	}
	return copyBatch(batch, dev, how)
}

// CopyOption is how to copy: Apart, or On a stream.
type CopyOption interface{ apply(how copying) copying }

// SeparateAllocations gives each buffer an allocation of its own, where otherwise a batch has
// one: more calls, but memory goes back column by column.
const SeparateAllocations apart = true

type apart bool

func (a apart) apply(how copying) copying {
	how.apart = bool(a)
	return how
}

// copying is what the copies of one kind have in common.
type copying struct {
	apart  bool
	stream Stream        // in whose order, or nil
	there  *dictionaries // that need not be copied again, or nil
}

// copyBatch is CopyTo.
func copyBatch(batch arrow.RecordBatch, dev Device, how copying) (arrow.RecordBatch, error) {
	if alreadyOn(batch, dev) {
		if ours, ok := batch.(*RecordBatch); ok && dev == CPU() {
			batch = ours.batch // arrow-go's own
		}
		batch.Retain()
		return batch, nil
	}
	columns, err := how.arrays(batch.Columns(), dev, func(i int) string {
		return fmt.Sprintf("column %d, %q, ", i, batch.ColumnName(i))
	})
	if err != nil {
		return nil, err
	}
	defer releaseAll(columns)
	var meta arrow.Metadata
	if m, ok := batch.(arrow.RecordBatchWithMetadata); ok {
		meta = m.Metadata()
	}
	copied := array.NewRecordBatchWithMetadata(batch.Schema(), columns, batch.NumRows(), meta)
	if dev == CPU() {
		return copied, nil
	}
	return newRecordBatch(copied), nil
}

// CopyArrayTo returns an array that lives on a device, as CopyTo does for the
// columns of a batch.
func CopyArrayTo(arr arrow.Array, dev Device) (arrow.Array, error) {
	if dev == nil {
		return nil, errors.New("copying an array: there is no device")
	}
	if arr == nil {
		return nil, fmt.Errorf("copying an array: there is none: %w", arrow.ErrInvalid)
	}
	copied, err := copyArrays([]arrow.Array{arr}, dev, func(int) string { return "array " })
	if err != nil {
		return nil, err
	}
	return copied[0], nil
}

// alreadyOn tells whether a batch is what CopyTo would make of it.
func alreadyOn(batch arrow.RecordBatch, dev Device) bool {
	if _, ours := batch.(*RecordBatch); !ours && dev != CPU() {
		return false
	}
	for _, column := range batch.Columns() {
		if !livesOn(column, dev) {
			return false
		}
	}
	return true
}

// livesOn tells whether no buffer of an array has to be moved to a device: for
// the CPU, that the host reaches all.
func livesOn(arr arrow.Array, dev Device) bool {
	return DeviceOf(arr) == dev && (dev == CPU() || !partlyOnHost(arr.Data(), dev))
}

// partlyOnHost tells whether a buffer is not on the device.
func partlyOnHost(data arrow.ArrayData, dev Device) bool {
	for _, b := range data.Buffers() {
		if whole, _, ok := lookup(b); b != nil && b.Len() > 0 && (!ok || whole.Device() != dev) {
			return true
		}
	}
	for _, child := range data.Children() {
		if child != nil && partlyOnHost(child, dev) {
			return true
		}
	}
	dictionary, ok := data.Dictionary().(*array.Data)
	return ok && dictionary != nil && partlyOnHost(dictionary, dev)
}

// copyArrays moves arrays in one go; subject names one in errors.
func copyArrays(arrays []arrow.Array, dev Device, subject func(i int) string) ([]arrow.Array, error) {
	return copying{}.arrays(arrays, dev, subject)
}

func (how copying) arrays(arrays []arrow.Array, dev Device, subject func(i int) string) ([]arrow.Array, error) {
	w := works.Get().(*work)
	w.cuts = slices.Grow(w.cuts, len(arrays))[:len(arrays)]
	w.room = slices.Grow(w.room, 3*len(arrays))[:3*len(arrays)]
	c := cutter{parts: w.parts, free: w.room, late: &w.late}
	defer func() { w.parts = c.parts; w.release() }()
	if how.there != nil {
		c.there = *how.there
	}
	cuts := w.cuts
	for i, arr := range arrays {
		if livesOn(arr, dev) {
			continue
		}
		var err error
		if cuts[i], err = c.array(arr.Data(), 0, arr.Len()); err != nil {
			return nil, fmt.Errorf("%sof type %s: %w", subject(i), arr.DataType(), err)
		}
	}
	counted := c.count()
	moved, err := how.move(c.parts, dev)
	counted()
	if err != nil {
		return nil, err
	}
	defer releaseAll(moved)
	m := maker{moved: moved, dev: dev, room: make([]*memory.Buffer, len(moved)+len(cuts))}
	if dev != CPU() {
		m.arrays = make([]Array, len(cuts))
	}
	copies := make([]arrow.Array, 0, len(arrays))
	for i := range cuts {
		one := &cuts[i]
		if one.dtype == nil {
			copies = append(copies, share(arrays[i]))
			continue
		}
		made, err := m.array(one)
		if err != nil {
			releaseAll(copies)
			return nil, fmt.Errorf("%sof type %s: %w", subject(i), one.dtype, err)
		}
		copies = append(copies, made)
	}
	if how.there != nil {
		how.there.replace(cuts)
	}
	return copies, nil
}

// work is the memory that a copy is prepared in, which the next one uses again.
type work struct {
	parts []part
	room  []int
	cuts  []cut // empty where the array is there already
	late  []*nullCount
}

var works = sync.Pool{New: func() any { return new(work) }}

func (w *work) release() {
	clear(w.parts)
	clear(w.cuts)
	clear(w.late)
	w.parts, w.cuts, w.late = w.parts[:0], w.cuts[:0], w.late[:0]
	works.Put(w)
}

func (how copying) move(parts []part, dev Device) ([]*memory.Buffer, error) {
	if !how.apart {
		return move(parts, dev, how.stream)
	}
	moved := make([]*memory.Buffer, 0, len(parts))
	for i := range parts {
		one, err := move(parts[i:i+1], dev, how.stream)
		if err != nil {
			releaseAll(moved)
			return nil, err
		}
		moved = append(moved, one...)
	}
	return moved, nil
}

// one moves a single cut.
func (c *cutter) one(out *cut, dev Device) (arrow.Array, error) {
	moved, err := move(c.parts, dev, nil)
	if err != nil {
		return nil, err
	}
	defer releaseAll(moved)
	m := maker{moved: moved, dev: dev}
	return m.array(out)
}

// share returns one more reference to an array, as NewArray would have made it.
func share(arr arrow.Array) arrow.Array {
	if _, ours := arr.(*Array); ours || DeviceOf(arr) == CPU() {
		arr.Retain()
		return arr
	}
	return NewArray(arr.Data())
}

func releaseAll[T interface{ Release() }](all []T) {
	for _, one := range all {
		one.Release()
	}
}

// WithStream lets CopyTo copy in the order of a stream, whose device is the one that is
// copied to. Pinned memory of the host (see Device.HostAllocator) and memory of
// GPUs is read when the stream comes to it, which may be after CopyTo returned:
// nobody may change it until then. Nor may anything still be writing it when CopyTo
// is called: offsets, validity and buffers of up to 64 KiB are read at once, by the
// host. CopyTo holds references to it, so that it may be
// released at once. Ordinary memory has been read when CopyTo returns; for much of
// it, CopyTo waits for the stream's earlier work.
//
// What uses the batch that CopyTo returned comes behind the copy, on whatever
// stream: memory on a device knows who uses it. Only who is given its address waits
// himself. What fails on the device later is what the stream's Synchronize reports.
//
// Where something is copied, a stream of another device is ErrDevice, and so is any
// for a copy to the CPU.
func WithStream(s Stream) CopyOption { return on{s} }

type on struct{ stream Stream }

func (o on) apply(how copying) copying {
	how.stream = o.stream
	return how
}

// maker makes arrays of cuts over the moved parts, on a device.
type maker struct {
	moved []*memory.Buffer
	dev   Device
	// Room for the buffers and the arrays of a batch, in one piece each, as far
	// as there is any.
	room   []*memory.Buffer
	arrays []Array
}

// array makes the array of a cut. What arrow-go refuses to make on the host, by a
// panic, is an error.
func (m *maker) array(out *cut) (arr arrow.Array, err error) {
	data := m.data(out)
	defer data.Release()
	if len(m.arrays) > 0 {
		a := &m.arrays[0]
		m.arrays = m.arrays[1:]
		a.begin(data, m.dev)
		return a, nil
	}
	defer func() {
		if refusal := recover(); refusal != nil {
			err = fmt.Errorf("%v: %w", refusal, arrow.ErrInvalid)
		}
	}()
	return over(data, m.dev), nil
}

func (m *maker) data(out *cut) *array.Data {
	buffers := m.take(len(out.buffers))
	for i, part := range out.buffers {
		if part != absent {
			buffers[i] = m.moved[part]
		}
	}
	var children []arrow.ArrayData
	for i := range out.children {
		child := m.data(&out.children[i])
		defer child.Release()
		children = append(children, child)
	}
	nulls := out.nulls
	if out.late != nil {
		nulls = out.late.nulls
	}
	data := array.NewData(out.dtype, out.length, buffers, children, nulls, 0)
	if d := out.dictionary; d != nil {
		if d.built != nil { // there already
			data.SetDictionary(d.built)
			return data
		}
		d.built = m.data(d)
		defer d.built.Release()
		data.SetDictionary(d.built)
	}
	return data
}

// take returns room for n buffers.
func (m *maker) take(n int) []*memory.Buffer {
	if n > len(m.room) {
		return make([]*memory.Buffer, n)
	}
	b := m.room[:n:n]
	m.room = m.room[n:]
	return b
}
