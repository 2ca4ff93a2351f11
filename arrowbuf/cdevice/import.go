package cdevice

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/quiver-gpu/quiver/arrowbuf"
)

// ImportArray takes over an array of a type, which came as a Field. Its buffers
// are on the CPU, or on one of the devices given: CUDA_HOST memory on the Host of
// a GPU that is given, managed memory on the GPU. The caller owns one reference
// to the result; the producer's release is called when the last one to it, and to
// what was made of it, goes.
//
// On a GPU the array may be used at once: its stream waits for sync_event. Only
// the ends of offsets are read, which waits for it too.
//
// A struct that is released or malformed (counts that do not fit the type,
// negative lengths, missing pointers, offsets that go down or beyond what they
// point to, values of a GPU that are not aligned) is an error that is
// arrow.ErrInvalid and names the field; memory on another device is one that is
// arrowbuf.ErrDevice. The struct is then released.
func ImportArray(in *DeviceArray, dtype arrow.DataType, devices ...arrowbuf.Device) (arr arrow.Array, err error) {
	return take(in, devices, "importing an array", func(m *importer) (arrow.Array, error) {
		if dtype == nil {
			return nil, refuse("there is no type")
		}
		data, err := m.array(&m.owner.array, dtype, top, 0)
		if err != nil {
			return nil, err
		}
		defer data.Release()
		return arrowbuf.NewArray(data), nil
	})
}

// ImportBatch takes over the rows of a record batch of a schema: an array of
// structs, of which none is null. Otherwise it is as ImportArray; the errors
// name the column.
func ImportBatch(in *DeviceArray, schema *arrow.Schema, devices ...arrowbuf.Device) (arrow.RecordBatch, error) {
	return take(in, devices, "importing a record batch", func(m *importer) (arrow.RecordBatch, error) {
		if schema == nil {
			return nil, refuse("there is no schema")
		}
		return m.batch(schema, arrow.StructOf(schema.Fields()...))
	})
}

// ImportCPUArray is ImportArray for a struct of the interface that knows no devices.
func ImportCPUArray(in *Array, dtype arrow.DataType) (arrow.Array, error) {
	return ImportArray(onCPU(in), dtype)
}

// ImportCPUBatch is ImportBatch for a struct of the interface that knows no devices.
func ImportCPUBatch(in *Array, schema *arrow.Schema) (arrow.RecordBatch, error) {
	return ImportBatch(onCPU(in), schema)
}

// onCPU moves an array to where its device can be said.
func onCPU(in *Array) *DeviceArray {
	if in == nil {
		return nil
	}
	return &DeviceArray{array: *move(in), deviceType: int32(arrowbuf.DeviceCPU), deviceID: arrowbuf.CPU().ID()}
}

// take moves the struct here and imports it. What is imported holds the owner,
// which this function holds meanwhile.
func take[T any](in *DeviceArray, devices []arrowbuf.Device, doing string, build func(m *importer) (T, error)) (made T, err error) {
	if err := supported(); err != nil {
		return made, err
	}
	if in == nil || in.Released() {
		return made, fmt.Errorf("%s: there is none, or it is released: %w", doing, arrow.ErrInvalid)
	}
	o := newOwner(in)
	defer o.release()
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", doing, err)
		}
	}()
	defer guard(&err)
	m := &importer{owner: o}
	if m.dev, err = find(arrowbuf.DeviceType(o.deviceType), o.deviceID, devices); err != nil {
		return made, err
	}
	if m.sharer, err = sharerOf(m.dev); err != nil {
		return made, err
	}
	if m.sharer != nil && o.event != 0 {
		m.event = *(*uintptr)(pointer(o.event))
	}
	return build(m)
}

// importer is where an array comes from.
type importer struct {
	owner  *owner
	dev    arrowbuf.Device
	sharer Sharer  // dev, nil for the CPU
	event  uintptr // a CUevent, 0 if the memory may be used now
}

// batch imports the rows of a schema, whose type is given too.
func (m *importer) batch(schema *arrow.Schema, rows *arrow.StructType) (arrow.RecordBatch, error) {
	data, err := m.array(&m.owner.array, rows, top, 0)
	if err != nil {
		return nil, err
	}
	defer data.Release()
	if err := noNulls(data); err != nil {
		return nil, err
	}
	columns := make([]arrow.Array, len(data.Children()))
	for i, child := range data.Children() {
		if data.Offset() > 0 || child.Len() > data.Len() {
			part := array.NewSliceData(child, int64(data.Offset()), int64(data.Offset()+data.Len()))
			defer part.Release()
			child = part
		}
		columns[i] = arrowbuf.NewArray(child)
		defer columns[i].Release()
	}
	if readable(m.dev) {
		return array.NewRecordBatch(schema, columns, int64(data.Len())), nil
	}
	return arrowbuf.NewRecordBatch(schema, columns, int64(data.Len()))
}

func noNulls(rows *array.Data) error {
	nulls := rows.NullN()
	if nulls < 0 {
		whole := arrowbuf.NewArray(rows)
		defer whole.Release()
		nulls = whole.NullN()
	}
	if nulls > 0 {
		return refuse("%d of the rows are null as a whole, which a record batch cannot say", nulls)
	}
	return nil
}

// array imports an ArrowArray, which may be part of another.
func (m *importer) array(c *Array, dtype arrow.DataType, at path, depth int) (*array.Data, error) {
	storage := storageOf(dtype)
	if err := checkArray(c, storage, depth); err != nil {
		return nil, at.wrap(err)
	}
	var children []arrow.ArrayData
	defer func() { releaseData(children) }()
	fields := fieldsOf(storage)
	for i, address := range addresses(c.children, c.nChildren) {
		child, err := m.part(address, fields[i].Type, at.child(fields[i].Name), depth)
		if err != nil {
			return nil, err
		}
		children = append(children, child)
	}
	var dictionary *array.Data
	if t, ok := storage.(*arrow.DictionaryType); ok {
		var err error
		if dictionary, err = m.part(c.dictionary, t.ValueType, at.child("dictionary"), depth); err != nil {
			return nil, err
		}
		defer dictionary.Release()
	}
	b := buffers{importer: m, c: c, end: c.offset + c.length}
	defer b.release()
	l, offset := layoutOf(storage), int(c.offset)
	if err := b.read(l); err != nil {
		return nil, at.wrap(err)
	}
	if c.length == 0 && l.hasOffsets() {
		offset = 0 // there need not be any before it either
	}
	if err := checkChildren(storage, children, &b); err != nil {
		return nil, at.wrap(err)
	}
	if err := m.countNulls(storage, children); err != nil {
		return nil, at.wrap(err)
	}
	data := array.NewData(dtype, int(c.length), b.forArrow(), children, b.nulls(storage), offset)
	if dictionary != nil {
		data.SetDictionary(dictionary)
	}
	return data, nil
}

func (m *importer) part(address uintptr, dtype arrow.DataType, at path, depth int) (*array.Data, error) {
	if address == 0 {
		return nil, at.refuse("the array is missing")
	}
	return m.array((*Array)(pointer(address)), dtype, at, depth+1)
}

// most is how many elements an array may reach to: their bits can be counted.
const most = math.MaxInt - 64

// checkArray checks what the struct alone says.
func checkArray(c *Array, storage arrow.DataType, depth int) error {
	l, fields := layoutOf(storage), len(fieldsOf(storage))
	want := int64(len(l.buffers) + 1 - l.first())
	switch {
	case depth > maxDepth:
		return refuse("arrays are nested deeper than %d times", maxDepth)
	case c.release == 0:
		return refuse("the array is released")
	case c.length < 0 || c.offset < 0 || c.offset > most-c.length:
		return refuse("%d elements at offset %d", c.length, c.offset)
	case c.nulls < -1 || c.nulls > c.length:
		return refuse("%d of %d elements are null", c.nulls, c.length)
	case c.nChildren != int64(fields):
		return refuse("%d children of a type with %d, %s", c.nChildren, fields, storage)
	case c.nChildren > 0 && c.children == 0:
		return refuse("the array of %d children is missing", c.nChildren)
	case l.variadic && (c.nBuffers < want+1 || c.nBuffers > math.MaxInt32):
		return refuse("%d buffers of a type with %d at least, %s", c.nBuffers, want+1, storage)
	case !l.variadic && c.nBuffers != want:
		return refuse("%d buffers of a type with %d, %s", c.nBuffers, want, storage)
	case c.nBuffers > 0 && c.buffers == 0:
		return refuse("the array of %d buffers is missing", c.nBuffers)
	case (c.dictionary != 0) != (storage.ID() == arrow.DICTIONARY):
		return refuse("a dictionary at %#x of type %s", c.dictionary, storage)
	}
	return nil
}

func releaseData(all []arrow.ArrayData) {
	for _, data := range all {
		data.Release()
	}
}

// owner is a struct of another library, moved here, which is released with the
// last reference to it.
type owner struct {
	DeviceArray
	refs atomic.Int64
}

// newOwner moves the struct, with one reference.
func newOwner(in *DeviceArray) *owner {
	o := &owner{DeviceArray: *move(in)}
	o.refs.Store(1)
	return o
}

func (o *owner) retain() { o.refs.Add(1) }

func (o *owner) release() {
	if o.refs.Add(-1) == 0 {
		o.Release()
	}
}

// buffers are those of one ArrowArray.
type buffers struct {
	*importer
	c   *Array
	end int64 // of the elements that they hold
	// all are in arrow-go's order, nil where there is nothing.
	all   []arrowbuf.Buffer
	ended []*memory.Buffer
}

// read takes the buffers of a layout.
func (b *buffers) read(l layout) error {
	at := addresses(b.c.buffers, b.c.nBuffers)
	if l.validity {
		if at[0] == 0 && b.c.nulls > 0 {
			return refuse("%d nulls, and no validity bitmap", b.c.nulls)
		}
		size := bitutil.BytesForBits(b.end)
		if at[0] == 0 {
			size = 0
		}
		if err := b.add(at[0], size, 1); err != nil {
			return fmt.Errorf("validity bitmap: %w", err)
		}
		at = at[1:]
	} else {
		b.all = append(b.all, nil)
	}
	for i, k := range l.buffers {
		size, err := b.size(k)
		if err == nil {
			err = b.add(at[i], size, k.alignment())
		}
		if err != nil {
			return fmt.Errorf("buffer %d: %w", i+1, err)
		}
	}
	if l.variadic {
		return b.readVariadic(at[len(l.buffers):])
	}
	return nil
}

// size is how large the next buffer is. Arrays of no elements need not have
// offsets.
func (b *buffers) size(k kind) (int64, error) {
	switch {
	case k.what == heap:
		return b.last()
	case k.what == offsets && b.c.length == 0:
		return 0, nil
	}
	size, ok := k.size(b.end)
	if !ok {
		return 0, refuse("%d elements of %d bytes", b.end, k.width)
	}
	return size, nil
}

// readVariadic takes the buffers that views point into. The last address is that
// of their sizes, which is of the host's memory with some producers.
func (b *buffers) readVariadic(at []uintptr) error {
	n := len(at) - 1
	if n == 0 {
		return nil
	}
	raw, err := b.sizes(at[n], int64(n))
	if err != nil {
		return fmt.Errorf("sizes of %d buffers: %w", n, err)
	}
	for i, address := range at[:n] {
		size := int64(binary.NativeEndian.Uint64(raw[8*i:]))
		if size < 0 {
			return refuse("buffer %d of %d bytes", i+2, size)
		}
		if err := b.add(address, size, 1); err != nil {
			return fmt.Errorf("buffer %d: %w", i+2, err)
		}
	}
	return nil
}

func (b *buffers) sizes(address uintptr, n int64) ([]byte, error) {
	if address == 0 {
		return nil, refuse("the buffer is missing")
	}
	raw := make([]byte, 8*n)
	found, err := b.show(address, 8*n)
	if errors.Is(err, arrowbuf.ErrDevice) { // the device does not know it: it is the host's
		copy(raw, unsafe.Slice((*byte)(pointer(address)), len(raw)))
		return raw, nil
	}
	if err != nil {
		return nil, err
	}
	defer found.Release()
	_, err = found.CopyToHost(raw, 0)
	return raw, err
}

// mostBytes is more than any machine's memory, and what Go makes a slice of.
const mostBytes = 1 << 47

// add takes a buffer of n bytes. The release of one that fails is not called.
func (b *buffers) add(address uintptr, n int64, align uintptr) error {
	switch {
	case n == 0:
		b.all = append(b.all, nil)
		return nil
	case address == 0:
		return refuse("the buffer of %d bytes is missing", n)
	case n > mostBytes || uint64(n) > math.MaxUint64-uint64(address):
		return refuse("%d bytes at %#x", n, address)
	case !readable(b.dev) && address%align != 0:
		return refuse("values at %#x, which is no multiple of %d", address, align)
	}
	found, err := b.show(address, n)
	if err == nil {
		b.all = append(b.all, found)
	}
	return err
}

// show is a buffer over memory of the owner, which it holds.
func (b *buffers) show(address uintptr, n int64) (arrowbuf.Buffer, error) {
	o := b.owner
	if b.sharer == nil {
		host := unsafe.Slice((*byte)(pointer(address)), n) // which panics where no memory is so large
		o.retain()
		return arrowbuf.WrapExternal(host, o.release), nil
	}
	o.retain()
	found, err := b.sharer.WrapExternalAfter(b.event, address, n, o.release)
	if err != nil {
		o.release()
		return nil, err
	}
	return found, nil
}

// last reads the last of the offsets, the buffer behind the validity bitmap, and
// checks it against the first.
func (b *buffers) last() (int64, error) {
	if b.c.length == 0 {
		return 0, nil
	}
	from := b.all[1]
	return lastOf(from, b.c.offset, b.end, from.Len()/(b.end+1))
}

// lastOf reads an array's last offset, and checks it against the first. Each has width
// bytes.
func lastOf(from arrowbuf.Buffer, first, last, width int64) (int64, error) {
	low, err := readInt(from, first, width)
	if err != nil {
		return 0, err
	}
	high, err := readInt(from, last, width)
	if err == nil && (low < 0 || high < low) {
		err = refuse("offsets from %d to %d", low, high)
	}
	return high, err
}

// readInt copies an integer of width bytes, element i of a buffer.
func readInt(from arrowbuf.Buffer, i, width int64) (int64, error) {
	raw := make([]byte, width)
	if _, err := from.CopyToHost(raw, i*width); err != nil {
		return 0, err
	}
	switch width {
	case 2:
		return int64(int16(binary.NativeEndian.Uint16(raw))), nil
	case 4:
		return int64(int32(binary.NativeEndian.Uint32(raw))), nil
	default:
		return int64(binary.NativeEndian.Uint64(raw)), nil
	}
}

// forArrow are the buffers as arrow-go has them.
func (b *buffers) forArrow() []*memory.Buffer {
	for i, found := range b.all {
		switch {
		case found != nil:
			b.ended = append(b.ended, found.Arrow())
		case i == 0: // no validity bitmap
			b.ended = append(b.ended, nil)
		default:
			b.ended = append(b.ended, memory.NewBufferBytes([]byte{}))
		}
	}
	return b.ended
}

func (b *buffers) release() {
	for _, found := range b.all {
		if found != nil {
			found.Release()
		}
	}
	for _, found := range b.ended {
		if found != nil {
			found.Release()
		}
	}
}

// nulls is the null count as arrow-go has it.
func (b *buffers) nulls(storage arrow.DataType) int {
	switch {
	case storage.ID() == arrow.NULL:
		return int(b.c.length)
	case b.all[0] == nil:
		return 0
	case b.c.nulls < 0:
		return array.UnknownNullCount
	default:
		return int(b.c.nulls)
	}
}

// checkChildren checks that the children have the elements that their parent
// shows.
func checkChildren(storage arrow.DataType, children []arrow.ArrayData, b *buffers) error {
	need := int64(0)
	switch t := storage.(type) {
	case *arrow.ListType, *arrow.LargeListType, *arrow.MapType:
		var err error
		if need, err = b.last(); err != nil {
			return fmt.Errorf("buffer 1: %w", err)
		}
	case *arrow.FixedSizeListType:
		if b.end > math.MaxInt64/int64(t.Len()) {
			return refuse("%d lists of %d", b.end, t.Len())
		}
		need = b.end * int64(t.Len())
	case *arrow.StructType, *arrow.SparseUnionType:
		need = b.end
	case *arrow.RunEndEncodedType:
		return checkRuns(b, children[0], children[1])
	}
	for i, child := range children {
		if int64(child.Len()) < need {
			return refuse("child %d has %d elements, the array needs %d", i, child.Len(), need)
		}
	}
	return nil
}

// checkRuns checks that the runs reach the end of the array.
func checkRuns(b *buffers, ends, values arrow.ArrayData) error {
	if ends.NullN() != 0 || ends.Len() > values.Len() {
		return refuse("%d run ends, %d null, for %d values", ends.Len(), ends.NullN(), values.Len())
	}
	if b.c.length == 0 {
		return nil
	}
	if ends.Len() == 0 {
		return refuse("%d elements without a run", b.c.length)
	}
	from, err := arrowbuf.BufferOf(ends.Buffers()[1])
	if err != nil {
		return err
	}
	defer from.Release()
	width := int64(ends.DataType().(arrow.FixedWidthDataType).Bytes())
	last, err := readInt(from, int64(ends.Offset()+ends.Len()-1), width)
	if err != nil {
		return err
	}
	if last < b.end {
		return refuse("runs end at %d, the array at %d", last, b.end)
	}
	return nil
}

// countNulls settles the null counts that arrow-go wants to be known: entries
// and keys of a map have none. On a GPU nothing wants them.
func (m *importer) countNulls(storage arrow.DataType, children []arrow.ArrayData) error {
	if storage.ID() != arrow.MAP || !readable(m.dev) {
		return nil
	}
	for _, part := range []arrow.ArrayData{children[0], children[0].Children()[0]} {
		data := part.(*array.Data)
		if data.NullN() < 0 {
			valid := bitutil.CountSetBits(data.Buffers()[0].Bytes(), data.Offset(), data.Len())
			data.SetNullN(data.Len() - valid)
		}
		if data.NullN() != 0 {
			return refuse("%d of a map's entries or keys are null", data.NullN())
		}
	}
	return nil
}
