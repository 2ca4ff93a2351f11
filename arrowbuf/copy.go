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

// CopyTo copies a record batch of any device to another device. The caller owns one
// reference to the result and must release it; batch stays the caller's.
//
// Columns that are on dev already are shared without a copy. The buffers of the
// others are copied, each once, to one new allocation; see WithSeparateAllocations. It
// is freed with the last column, or slice of a column, that uses it. On a GPU, each
// buffer starts at a multiple of 64 bytes and is padded to a multiple of 64. On the
// CPU, each buffer is aligned to its element width, at most 8 bytes. Buffers that are
// close together on the source device arrive there in one copy.
//
// Of a slice, only its elements are copied: the copy has offset 0, and its offsets
// are rebased. Children of dense unions, list views and run-end encoded arrays, and
// the buffers of views, are cut to the range that the slice uses. Dictionaries are
// copied whole. The host reads the offsets, views and type ids that this needs. If
// the source is the host, bitmaps without a null are omitted and null counts are
// computed.
//
// The result on the CPU has arrow-go's own arrays. The result on another device is a
// *RecordBatch with an *Array per column.
//
// CopyTo accepts all types of arrow-go, including nested ones. If the buffers or
// children of a column are too short for its length, CopyTo copies nothing. It then
// returns an error wrapping arrow.ErrInvalid, which names the column. It checks only the
// first and the last offset. It does not check the views, indices, type ids and runs
// of whole arrays: use Validate on data of untrusted sources. If dev lacks the
// memory, it returns an error wrapping ErrOutOfMemory.
//
// The copy is complete when CopyTo returns, except with WithStream.
func CopyTo(batch arrow.RecordBatch, dev Device, options ...CopyOption) (arrow.RecordBatch, error) {
	if isNil(dev) {
		return nil, errors.New("arrowbuf.CopyTo: nil device")
	}
	if isNil(batch) {
		return nil, fmt.Errorf("arrowbuf.CopyTo: nil batch: %w", arrow.ErrInvalid)
	}
	if i := slices.IndexFunc(options, func(o CopyOption) bool { return o == nil }); i >= 0 {
		return nil, fmt.Errorf("arrowbuf.CopyTo: option %d is nil: %w", i, arrow.ErrInvalid)
	}
	var c copier
	for _, option := range options {
		var err error
		if c, err = option(c); err != nil {
			return nil, fmt.Errorf("arrowbuf.CopyTo: %w", err)
		}
	}
	return copyBatch(batch, dev, c)
}

// ToHost returns a batch of any device on the host: CopyTo with CPU(). A batch that is
// on the host already is not copied. The caller owns one reference to the result.
// For other values call CopyArrayTo, CopyChunkedTo or CopyTableTo with CPU().
func ToHost(batch arrow.RecordBatch) (arrow.RecordBatch, error) {
	if isNil(batch) {
		return nil, fmt.Errorf("arrowbuf.ToHost: nil batch: %w", arrow.ErrInvalid)
	}
	return CopyTo(batch, CPU())
}

// CopyOption modifies a copy: WithSeparateAllocations, WithStream or WithReader.
type CopyOption func(copier) (copier, error)

// WithSeparateAllocations gives each buffer an allocation of its own, instead of one per
// batch. It takes more calls, but memory is freed column by column.
func WithSeparateAllocations() CopyOption {
	return func(c copier) (copier, error) {
		c.separate = true
		return c, nil
	}
}

// WithStream makes CopyTo submit the copy to a stream of the destination device, and
// return before it is complete.
//
// Pinned host memory (Device.HostAllocator) and GPU memory of the batch may be read
// after CopyTo has returned. Nothing may change that memory until the stream has run
// the copy. Nothing may still be writing to it when CopyTo is called, because the
// host reads offsets, validity bitmaps and buffers of at most 64 KiB at once. The
// batch itself may be released at once, because CopyTo holds references to the
// memory. Ordinary host memory has been read when CopyTo returns; if there is much
// of it, CopyTo waits for the stream's earlier work.
//
// Work on any stream that uses the result runs after the copy, because buffers
// record the streams that use them. Only a user of a raw address must wait for the
// stream. Errors of the device are returned by the stream's Synchronize.
//
// If a copy is needed, CopyTo returns an error wrapping ErrDevice if dev is the CPU
// or not the stream's device.
func WithStream(s Stream) CopyOption {
	return func(c copier) (copier, error) {
		if isNil(s) {
			return c, fmt.Errorf("WithStream: nil stream: %w", arrow.ErrInvalid)
		}
		c.stream = s
		return c, nil
	}
}

// WithReader makes CopyTo read the buffers of the host by a function: read fills dst with
// the bytes of src, a part of a buffer. It is for a file that is mapped: reading it takes
// less time than faults of its pages, and a file that was truncated is an error. At most
// readers goroutines call read at the same time, or several if that is not positive. Only
// offsets and bitmaps of nulls are read directly, if their values are needed.
//
// If a copy is needed, CopyTo returns an error wrapping errors.ErrUnsupported for a device
// other than a GPU, and together with WithStream.
func WithReader(read func(dst, src []byte) error, readers int) CopyOption {
	return func(c copier) (copier, error) {
		if read == nil {
			return c, fmt.Errorf("WithReader: nil function: %w", arrow.ErrInvalid)
		}
		c.read, c.readers = read, readers
		return c, nil
	}
}

// hostReader reads bytes of the host from src to dst.
type hostReader func(dst, src []byte) error

// CopyArrayTo returns an array on a device, copied as CopyTo copies the columns of a
// batch. The caller owns one reference to the result.
func CopyArrayTo(arr arrow.Array, dev Device) (arrow.Array, error) {
	if isNil(dev) {
		return nil, errors.New("arrowbuf.CopyArrayTo: nil device")
	}
	if isNil(arr) {
		return nil, fmt.Errorf("arrowbuf.CopyArrayTo: nil array: %w", arrow.ErrInvalid)
	}
	copied, err := copyArraysTo([]arrow.Array{arr}, dev, func(int) string { return "array " })
	if err != nil {
		return nil, err
	}
	return copied[0], nil
}

// copier holds the options of a copy.
type copier struct {
	separate bool
	stream   Stream           // nil to wait for the copy
	read     hostReader       // of the memory of the host; nil to access it
	readers  int              // maximum number of goroutines that read
	cache    *dictionaryCache // of dictionaries that are on the device already, or nil
}

// copyBatch implements CopyTo.
func copyBatch(batch arrow.RecordBatch, dev Device, c copier) (arrow.RecordBatch, error) {
	if isCopied(batch, dev) {
		if ours, ok := batch.(*RecordBatch); ok && dev == CPU() {
			batch = ours.inner()
		}
		batch.Retain()
		return batch, nil
	}
	columns, err := c.copyArrays(batch.Columns(), dev, func(i int) string {
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

// isCopied reports whether CopyTo can return the batch itself.
func isCopied(batch arrow.RecordBatch, dev Device) bool {
	if _, ours := batch.(*RecordBatch); !ours && dev != CPU() {
		return false
	}
	for _, column := range batch.Columns() {
		if !isOnDevice(column, dev) {
			return false
		}
	}
	return true
}

// isOnDevice reports whether no buffer of an array must be copied. For the CPU, this
// means that the host can access all.
func isOnDevice(arr arrow.Array, dev Device) bool {
	return DeviceOf(arr) == dev && (dev == CPU() || !hasBufferElsewhere(arr.Data(), dev))
}

// hasBufferElsewhere reports whether a buffer is not on dev.
func hasBufferElsewhere(data arrow.ArrayData, dev Device) bool {
	for _, b := range data.Buffers() {
		if whole, _, ok := lookupWrapped(b); b != nil && b.Len() > 0 && (!ok || whole.Device() != dev) {
			return true
		}
	}
	for _, child := range data.Children() {
		if child != nil && hasBufferElsewhere(child, dev) {
			return true
		}
	}
	dictionary, ok := data.Dictionary().(*array.Data)
	return ok && dictionary != nil && hasBufferElsewhere(dictionary, dev)
}

// copyArraysTo copies arrays together. subject returns the name of array i for
// errors.
func copyArraysTo(arrays []arrow.Array, dev Device, subject func(i int) string) ([]arrow.Array, error) {
	return copier{}.copyArrays(arrays, dev, subject)
}

func (c copier) copyArrays(arrays []arrow.Array, dev Device, subject func(i int) string) ([]arrow.Array, error) {
	w := scratchPool.Get().(*copyScratch)
	w.arrays = slices.Grow(w.arrays, len(arrays))[:len(arrays)]
	w.indices = slices.Grow(w.indices, 3*len(arrays))[:3*len(arrays)]
	s := slicer{ranges: w.ranges, spareIndices: w.indices, deferred: &w.deferred}
	defer func() { w.ranges = s.ranges; w.release() }()
	if c.cache != nil {
		s.cache = *c.cache
	}
	sliced := w.arrays
	for i, arr := range arrays {
		if isOnDevice(arr, dev) {
			continue
		}
		var err error
		if sliced[i], err = s.slice(arr.Data(), 0, arr.Len()); err != nil {
			return nil, fmt.Errorf("%sof type %s: %w", subject(i), arr.DataType(), err)
		}
	}
	counted := s.countDeferred()
	copied, err := c.copyRanges(s.ranges, dev)
	counted()
	if err != nil {
		return nil, err
	}
	defer releaseAll(copied)
	m := assembler{buffers: copied, dev: dev, spareBuffers: make([]*memory.Buffer, len(copied)+len(sliced))}
	if !hostReads(dev) {
		m.spareArrays = make([]Array, len(sliced))
	}
	copies := make([]arrow.Array, 0, len(arrays))
	for i := range sliced {
		a := &sliced[i]
		if a.dtype == nil {
			copies = append(copies, retained(arrays[i]))
			continue
		}
		made, err := m.assemble(a)
		if err != nil {
			releaseAll(copies)
			return nil, fmt.Errorf("%sof type %s: %w", subject(i), a.dtype, err)
		}
		copies = append(copies, made)
	}
	if c.cache != nil {
		c.cache.replace(sliced)
	}
	return copies, nil
}

// copyScratch is the memory in which a copy is prepared. The next copy reuses it.
type copyScratch struct {
	ranges   []bufferRange
	indices  []int
	arrays   []slicedArray // zero if the array is on the device already
	deferred []*deferredCount
}

var scratchPool = sync.Pool{New: func() any { return new(copyScratch) }}

func (w *copyScratch) release() {
	clear(w.ranges)
	clear(w.arrays)
	clear(w.deferred)
	w.ranges, w.arrays, w.deferred = w.ranges[:0], w.arrays[:0], w.deferred[:0]
	scratchPool.Put(w)
}

func (c copier) copyRanges(ranges []bufferRange, dev Device) ([]*memory.Buffer, error) {
	if !c.separate {
		return c.copyTogether(ranges, dev)
	}
	copied := make([]*memory.Buffer, 0, len(ranges))
	for i := range ranges {
		one, err := c.copyTogether(ranges[i:i+1], dev)
		if err != nil {
			releaseAll(copied)
			return nil, err
		}
		copied = append(copied, one...)
	}
	return copied, nil
}

// copyOne copies a single sliced array.
func (s *slicer) copyOne(out *slicedArray, dev Device) (arrow.Array, error) {
	copied, err := copier{}.copyTogether(s.ranges, dev)
	if err != nil {
		return nil, err
	}
	defer releaseAll(copied)
	m := assembler{buffers: copied, dev: dev}
	return m.assemble(out)
}

// retained returns a new reference to an array, as NewArray would make it.
func retained(arr arrow.Array) arrow.Array {
	if a, ours := arr.(*Array); ours && a.data != nil || !ours && hostReads(DeviceOf(arr)) {
		arr.Retain()
		return arr
	}
	return NewArray(arr.Data())
}

func releaseAll[T interface{ Release() }](all []T) {
	for _, item := range all {
		item.Release()
	}
}

// assembler makes arrays from sliced arrays and the copied buffers, on a device.
type assembler struct {
	buffers []*memory.Buffer
	dev     Device
	// spareBuffers and spareArrays are preallocated for a whole batch: one
	// allocation instead of one per array.
	spareBuffers []*memory.Buffer
	spareArrays  []Array
}

// assemble returns the array of out. A panic of arrow-go, which rejects some arrays
// of the host that way, becomes an error.
func (m *assembler) assemble(out *slicedArray) (arr arrow.Array, err error) {
	data := m.assembleData(out)
	defer data.Release()
	if len(m.spareArrays) > 0 {
		a := &m.spareArrays[0]
		m.spareArrays = m.spareArrays[1:]
		a.initialize(data, m.dev)
		return a, nil
	}
	defer func() {
		if refusal := recover(); refusal != nil {
			err = fmt.Errorf("%v: %w", refusal, arrow.ErrInvalid)
		}
	}()
	return NewArrayOn(data, m.dev), nil
}

func (m *assembler) assembleData(out *slicedArray) *array.Data {
	buffers := m.newBuffers(len(out.buffers))
	for i, r := range out.buffers {
		if r != noBuffer {
			buffers[i] = m.buffers[r]
		}
	}
	var children []arrow.ArrayData
	for i := range out.children {
		child := m.assembleData(&out.children[i])
		defer child.Release()
		children = append(children, child)
	}
	nulls := out.nulls
	if out.deferred != nil {
		nulls = out.deferred.nulls
	}
	data := array.NewData(out.dtype, out.length, buffers, children, nulls, 0)
	if d := out.dictionary; d != nil {
		if d.built != nil { // cached
			data.SetDictionary(d.built)
			return data
		}
		d.built = m.assembleData(d)
		defer d.built.Release()
		data.SetDictionary(d.built)
	}
	return data
}

// newBuffers returns n nil buffers.
func (m *assembler) newBuffers(n int) []*memory.Buffer {
	if n > len(m.spareBuffers) {
		return make([]*memory.Buffer, n)
	}
	b := m.spareBuffers[:n:n]
	m.spareBuffers = m.spareBuffers[n:]
	return b
}
