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
	return importMoved(in, devices, "importing an array", func(m *importer) (arrow.Array, error) {
		if dtype == nil {
			return nil, invalidf("there is no type")
		}
		data, err := m.importArray(&m.owner.array, dtype, rootPath, 0)
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
	return importMoved(in, devices, "importing a record batch", func(m *importer) (arrow.RecordBatch, error) {
		if schema == nil {
			return nil, invalidf("there is no schema")
		}
		return m.importBatch(schema, arrow.StructOf(schema.Fields()...))
	})
}

// ImportCPUArray is ImportArray for a struct of the interface that knows no devices.
func ImportCPUArray(in *Array, dtype arrow.DataType) (arrow.Array, error) {
	return ImportArray(asDeviceArray(in), dtype)
}

// ImportCPUBatch is ImportBatch for a struct of the interface that knows no devices.
func ImportCPUBatch(in *Array, schema *arrow.Schema) (arrow.RecordBatch, error) {
	return ImportBatch(asDeviceArray(in), schema)
}

// asDeviceArray moves an array to where its device can be said.
func asDeviceArray(in *Array) *DeviceArray {
	if in == nil {
		return nil
	}
	return &DeviceArray{array: *move(in), deviceType: int32(arrowbuf.DeviceCPU), deviceID: arrowbuf.CPU().ID()}
}

// importMoved moves the struct here and imports it. What is imported holds the owner,
// which this function holds meanwhile.
func importMoved[T any](in *DeviceArray, devices []arrowbuf.Device, doing string, build func(m *importer) (T, error)) (made T, err error) {
	if err := checkSupported(); err != nil {
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
	defer panicToError(&err)
	m := &importer{owner: o}
	if m.dev, err = findDevice(arrowbuf.DeviceType(o.deviceType), o.deviceID, devices); err != nil {
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

// importBatch imports the rows of a schema, whose type is given too.
func (m *importer) importBatch(schema *arrow.Schema, rows *arrow.StructType) (arrow.RecordBatch, error) {
	data, err := m.importArray(&m.owner.array, rows, rootPath, 0)
	if err != nil {
		return nil, err
	}
	defer data.Release()
	if err := checkNoNulls(data); err != nil {
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
	if hostReadable(m.dev) {
		return array.NewRecordBatch(schema, columns, int64(data.Len())), nil
	}
	return arrowbuf.NewRecordBatch(schema, columns, int64(data.Len()))
}

func checkNoNulls(rows *array.Data) error {
	nulls := rows.NullN()
	if nulls < 0 {
		whole := arrowbuf.NewArray(rows)
		defer whole.Release()
		nulls = whole.NullN()
	}
	if nulls > 0 {
		return invalidf("%d of the rows are null as a whole, which a record batch cannot say", nulls)
	}
	return nil
}

// importArray imports an ArrowArray, which may be part of another.
func (m *importer) importArray(c *Array, dtype arrow.DataType, at path, depth int) (*array.Data, error) {
	storage := storageOf(dtype)
	if err := checkArray(c, storage, depth); err != nil {
		return nil, at.wrap(err)
	}
	var children []arrow.ArrayData
	defer func() { releaseData(children) }()
	fields := fieldsOf(storage)
	for i, address := range readPointers(c.children, c.nChildren) {
		child, err := m.importChild(address, fields[i].Type, at.child(fields[i].Name), depth)
		if err != nil {
			return nil, err
		}
		children = append(children, child)
	}
	var dictionary *array.Data
	if t, ok := storage.(*arrow.DictionaryType); ok {
		var err error
		if dictionary, err = m.importChild(c.dictionary, t.ValueType, at.child("dictionary"), depth); err != nil {
			return nil, err
		}
		defer dictionary.Release()
	}
	b := importedBuffers{importer: m, c: c, end: c.offset + c.length}
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
	if err := m.countMapNulls(storage, children); err != nil {
		return nil, at.wrap(err)
	}
	data := array.NewData(dtype, int(c.length), b.arrowBuffers(), children, b.nullCount(storage), offset)
	if dictionary != nil {
		data.SetDictionary(dictionary)
	}
	return data, nil
}

func (m *importer) importChild(address uintptr, dtype arrow.DataType, at path, depth int) (*array.Data, error) {
	if address == 0 {
		return nil, at.invalidf("the array is missing")
	}
	return m.importArray((*Array)(pointer(address)), dtype, at, depth+1)
}

// maxElements is how many elements an array may reach to: their bits can be counted.
const maxElements = math.MaxInt - 64

// checkArray checks what the struct alone says.
func checkArray(c *Array, storage arrow.DataType, depth int) error {
	l, fields := layoutOf(storage), len(fieldsOf(storage))
	want := int64(len(l.buffers) + 1 - l.skipped())
	switch {
	case depth > maxDepth:
		return invalidf("arrays are nested deeper than %d times", maxDepth)
	case c.release == 0:
		return invalidf("the array is released")
	case c.length < 0 || c.offset < 0 || c.offset > maxElements-c.length:
		return invalidf("%d elements at offset %d", c.length, c.offset)
	case c.nulls < -1 || c.nulls > c.length:
		return invalidf("%d of %d elements are null", c.nulls, c.length)
	case c.nChildren != int64(fields):
		return invalidf("%d children of a type with %d, %s", c.nChildren, fields, storage)
	case c.nChildren > 0 && c.children == 0:
		return invalidf("the array of %d children is missing", c.nChildren)
	case l.variadic && (c.nBuffers < want+1 || c.nBuffers > math.MaxInt32):
		return invalidf("%d buffers of a type with %d at least, %s", c.nBuffers, want+1, storage)
	case !l.variadic && c.nBuffers != want:
		return invalidf("%d buffers of a type with %d, %s", c.nBuffers, want, storage)
	case c.nBuffers > 0 && c.buffers == 0:
		return invalidf("the array of %d buffers is missing", c.nBuffers)
	case (c.dictionary != 0) != (storage.ID() == arrow.DICTIONARY):
		return invalidf("a dictionary at %#x of type %s", c.dictionary, storage)
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

// importedBuffers are those of one ArrowArray.
type importedBuffers struct {
	*importer
	c   *Array
	end int64 // of the elements that they hold
	// all are in arrow-go's order, nil where there is nothing.
	all   []arrowbuf.Buffer
	arrow []*memory.Buffer
}

// read takes the buffers of a layout.
func (b *importedBuffers) read(l layout) error {
	at := readPointers(b.c.buffers, b.c.nBuffers)
	if l.validity {
		if at[0] == 0 && b.c.nulls > 0 {
			return invalidf("%d nulls, and no validity bitmap", b.c.nulls)
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
		size, err := b.bufferSize(k)
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

// bufferSize is how large the next buffer is. Arrays of no elements need not have
// offsets.
func (b *importedBuffers) bufferSize(k bufferKind) (int64, error) {
	switch {
	case k.content == valueBytes:
		return b.lastOffset()
	case k.content == offsets && b.c.length == 0:
		return 0, nil
	}
	size, ok := k.size(b.end)
	if !ok {
		return 0, invalidf("%d elements of %d bytes", b.end, k.width)
	}
	return size, nil
}

// readVariadic takes the buffers that views point into. The last address is that
// of their sizes, which is of the host's memory with some producers.
func (b *importedBuffers) readVariadic(at []uintptr) error {
	n := len(at) - 1
	if n == 0 {
		return nil
	}
	raw, err := b.readSizes(at[n], int64(n))
	if err != nil {
		return fmt.Errorf("sizes of %d buffers: %w", n, err)
	}
	for i, address := range at[:n] {
		size := int64(binary.NativeEndian.Uint64(raw[8*i:]))
		if size < 0 {
			return invalidf("buffer %d of %d bytes", i+2, size)
		}
		if err := b.add(address, size, 1); err != nil {
			return fmt.Errorf("buffer %d: %w", i+2, err)
		}
	}
	return nil
}

func (b *importedBuffers) readSizes(address uintptr, n int64) ([]byte, error) {
	if address == 0 {
		return nil, invalidf("the buffer is missing")
	}
	raw := make([]byte, 8*n)
	found, err := b.wrap(address, 8*n)
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

// maxBytes is more than any machine's memory, and what Go makes a slice of.
const maxBytes = 1 << 47

// add takes a buffer of n bytes. The release of one that fails is not called.
func (b *importedBuffers) add(address uintptr, n int64, align uintptr) error {
	switch {
	case n == 0:
		b.all = append(b.all, nil)
		return nil
	case address == 0:
		return invalidf("the buffer of %d bytes is missing", n)
	case n > maxBytes || uint64(n) > math.MaxUint64-uint64(address):
		return invalidf("%d bytes at %#x", n, address)
	case !hostReadable(b.dev) && address%align != 0:
		return invalidf("values at %#x, which is no multiple of %d", address, align)
	}
	found, err := b.wrap(address, n)
	if err == nil {
		b.all = append(b.all, found)
	}
	return err
}

// wrap is a buffer over memory of the owner, which it holds.
func (b *importedBuffers) wrap(address uintptr, n int64) (arrowbuf.Buffer, error) {
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

// lastOffset reads the last of the offsets, the buffer behind the validity bitmap, and
// checks it against the first.
func (b *importedBuffers) lastOffset() (int64, error) {
	if b.c.length == 0 {
		return 0, nil
	}
	from := b.all[1]
	return readLastOffset(from, b.c.offset, b.end, from.Len()/(b.end+1))
}

// readLastOffset reads an array's last offset, and checks it against the first. Each has width
// bytes.
func readLastOffset(from arrowbuf.Buffer, first, last, width int64) (int64, error) {
	low, err := readInt(from, first, width)
	if err != nil {
		return 0, err
	}
	high, err := readInt(from, last, width)
	if err == nil && (low < 0 || high < low) {
		err = invalidf("offsets from %d to %d", low, high)
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

// arrowBuffers are the buffers as arrow-go has them.
func (b *importedBuffers) arrowBuffers() []*memory.Buffer {
	for i, found := range b.all {
		switch {
		case found != nil:
			b.arrow = append(b.arrow, found.Arrow())
		case i == 0: // no validity bitmap
			b.arrow = append(b.arrow, nil)
		default:
			b.arrow = append(b.arrow, memory.NewBufferBytes([]byte{}))
		}
	}
	return b.arrow
}

func (b *importedBuffers) release() {
	for _, found := range b.all {
		if found != nil {
			found.Release()
		}
	}
	for _, found := range b.arrow {
		if found != nil {
			found.Release()
		}
	}
}

// nullCount is the null count as arrow-go has it.
func (b *importedBuffers) nullCount(storage arrow.DataType) int {
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
func checkChildren(storage arrow.DataType, children []arrow.ArrayData, b *importedBuffers) error {
	need := int64(0)
	switch t := storage.(type) {
	case *arrow.ListType, *arrow.LargeListType, *arrow.MapType:
		var err error
		if need, err = b.lastOffset(); err != nil {
			return fmt.Errorf("buffer 1: %w", err)
		}
	case *arrow.FixedSizeListType:
		if b.end > math.MaxInt64/int64(t.Len()) {
			return invalidf("%d lists of %d", b.end, t.Len())
		}
		need = b.end * int64(t.Len())
	case *arrow.StructType, *arrow.SparseUnionType:
		need = b.end
	case *arrow.RunEndEncodedType:
		return checkRuns(b, children[0], children[1])
	}
	for i, child := range children {
		if int64(child.Len()) < need {
			return invalidf("child %d has %d elements, the array needs %d", i, child.Len(), need)
		}
	}
	return nil
}

// checkRuns checks that the runs reach the end of the array.
func checkRuns(b *importedBuffers, ends, values arrow.ArrayData) error {
	if ends.NullN() != 0 || ends.Len() > values.Len() {
		return invalidf("%d run ends, %d null, for %d values", ends.Len(), ends.NullN(), values.Len())
	}
	if b.c.length == 0 {
		return nil
	}
	if ends.Len() == 0 {
		return invalidf("%d elements without a run", b.c.length)
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
		return invalidf("runs end at %d, the array at %d", last, b.end)
	}
	return nil
}

// countMapNulls settles the null counts that arrow-go wants to be known: entries
// and keys of a map have none. On a GPU nothing wants them.
func (m *importer) countMapNulls(storage arrow.DataType, children []arrow.ArrayData) error {
	if storage.ID() != arrow.MAP || !hostReadable(m.dev) {
		return nil
	}
	for _, part := range []arrow.ArrayData{children[0], children[0].Children()[0]} {
		data := part.(*array.Data)
		if data.NullN() < 0 {
			valid := bitutil.CountSetBits(data.Buffers()[0].Bytes(), data.Offset(), data.Len())
			data.SetNullN(data.Len() - valid)
		}
		if data.NullN() != 0 {
			return invalidf("%d of a map's entries or keys are null", data.NullN())
		}
	}
	return nil
}
