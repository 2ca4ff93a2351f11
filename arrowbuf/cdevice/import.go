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

// ImportArray imports an array of a type, which the producer exports as a field
// (ImportField). Its buffers must be on the CPU or on one of devices: CUDA_HOST
// memory belongs to the host of a GPU in devices, and managed memory to the GPU. The
// caller owns one reference to the result. The producer's release is called after
// the last reference to it, and to anything made of it, is released.
//
// A GPU's stream waits for sync_event, so the array can be used at once. ImportArray
// reads only the first and last offsets, and waits for sync_event to do so.
//
// ImportArray returns an error wrapping arrow.ErrInvalid, which names the field, if
// the struct is released or malformed. A struct is malformed if counts do not match the
// type, a length is negative or a pointer is missing. It also is if offsets decrease or
// exceed their buffer, or if values on a GPU are misaligned. ImportArray returns an error wrapping
// arrowbuf.ErrDevice if the memory is on another device. After an error, the struct
// is released.
func ImportArray(in *DeviceArray, dtype arrow.DataType, devices ...arrowbuf.Device) (arr arrow.Array, err error) {
	return importMoved(in, devices, "cdevice.ImportArray", func(m *importer) (arrow.Array, error) {
		if dtype == nil {
			return nil, invalidf("nil type")
		}
		data, err := m.importArray(&m.owner.array, dtype, rootPath, 0)
		if err != nil {
			return nil, err
		}
		defer data.Release()
		return arrowbuf.NewArray(data), nil
	})
}

// ImportBatch imports the rows of a record batch of a schema: an array of structs,
// none of which is null. Otherwise it is ImportArray. Errors name the column.
func ImportBatch(in *DeviceArray, schema *arrow.Schema, devices ...arrowbuf.Device) (arrow.RecordBatch, error) {
	return importMoved(in, devices, "cdevice.ImportBatch", func(m *importer) (arrow.RecordBatch, error) {
		if schema == nil {
			return nil, invalidf("nil schema")
		}
		return m.importBatch(schema, arrow.StructOf(schema.Fields()...))
	})
}

// ImportCPUArray is ImportArray for the interface without devices.
func ImportCPUArray(in *Array, dtype arrow.DataType) (arrow.Array, error) {
	return ImportArray(asDeviceArray(in), dtype)
}

// ImportCPUBatch is ImportBatch for the interface without devices.
func ImportCPUBatch(in *Array, schema *arrow.Schema) (arrow.RecordBatch, error) {
	return ImportBatch(asDeviceArray(in), schema)
}

// asDeviceArray moves an array to a DeviceArray of the CPU.
func asDeviceArray(in *Array) *DeviceArray {
	if in == nil {
		return nil
	}
	return &DeviceArray{array: *move(in), deviceType: int32(arrowbuf.DeviceCPU), deviceID: arrowbuf.CPU().ID()}
}

// importMoved moves the struct away and imports it with build. The result of build
// retains the owner.
func importMoved[T any](in *DeviceArray, devices []arrowbuf.Device, operation string, build func(m *importer) (T, error)) (made T, err error) {
	if err := checkSupported(); err != nil {
		return made, err
	}
	if in == nil || in.Released() {
		return made, fmt.Errorf("%s: the struct is nil or released: %w", operation, arrow.ErrInvalid)
	}
	o := newOwner(in)
	defer o.release()
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", operation, err)
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

// importer imports the arrays of one struct.
type importer struct {
	owner  *owner
	dev    arrowbuf.Device
	sharer Sharer  // dev, or nil for the CPU
	event  uintptr // a CUevent, or 0 if the memory is ready
}

// importBatch imports the rows of a schema. rows is the struct type of schema.
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

// checkNoNulls returns an error if a row is null: a record batch cannot represent
// it.
func checkNoNulls(rows *array.Data) error {
	nulls := rows.NullN()
	if nulls < 0 {
		whole := arrowbuf.NewArray(rows)
		defer whole.Release()
		nulls = whole.NullN()
	}
	if nulls > 0 {
		return invalidf("%d of the rows are null, want none", nulls)
	}
	return nil
}

// importArray imports an ArrowArray, which may be a child.
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
		offset = 0 // the offsets before it may be absent
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

// importChild imports the child array at an address.
func (m *importer) importChild(address uintptr, dtype arrow.DataType, at path, depth int) (*array.Data, error) {
	if address == 0 {
		return nil, at.invalidf("nil array")
	}
	return m.importArray((*Array)(pointer(address)), dtype, at, depth+1)
}

// maxElements is the largest number of elements whose bits can be counted without
// overflow.
const maxElements = math.MaxInt - 64

// checkArray checks the struct, without its buffers and children.
func checkArray(c *Array, storage arrow.DataType, depth int) error {
	l, fields := layoutOf(storage), len(fieldsOf(storage))
	want := int64(len(l.buffers) + 1 - l.skipped())
	switch {
	case depth > maxDepth:
		return invalidf("arrays are nested deeper than %d", maxDepth)
	case c.release == 0:
		return invalidf("the array is released")
	case c.length < 0 || c.offset < 0 || c.offset > maxElements-c.length:
		return invalidf("%d elements at offset %d", c.length, c.offset)
	case c.nulls < -1 || c.nulls > c.length:
		return invalidf("%d of %d elements are null", c.nulls, c.length)
	case c.nChildren != int64(fields):
		return invalidf("got %d children, want %d for type %s", c.nChildren, fields, storage)
	case c.nChildren > 0 && c.children == 0:
		return invalidf("NULL pointer to %d children", c.nChildren)
	case l.variadic && (c.nBuffers < want+1 || c.nBuffers > math.MaxInt32):
		return invalidf("got %d buffers, want at least %d for type %s", c.nBuffers, want+1, storage)
	case !l.variadic && c.nBuffers != want:
		return invalidf("got %d buffers, want %d for type %s", c.nBuffers, want, storage)
	case c.nBuffers > 0 && c.buffers == 0:
		return invalidf("NULL pointer to %d buffers", c.nBuffers)
	case (c.dictionary != 0) != (storage.ID() == arrow.DICTIONARY):
		return invalidf("dictionary at %#x of type %s", c.dictionary, storage)
	}
	return nil
}

func releaseData(all []arrow.ArrayData) {
	for _, data := range all {
		data.Release()
	}
}

// owner is a struct of another library, which is released with the last reference.
type owner struct {
	DeviceArray
	refs atomic.Int64
}

// newOwner moves the struct to an owner with one reference.
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

// importedBuffers are the buffers of one ArrowArray.
type importedBuffers struct {
	*importer
	c   *Array
	end int64 // of the elements that the buffers hold
	// all are the buffers in arrow-go's order, nil if empty.
	all   []arrowbuf.Buffer
	arrow []*memory.Buffer
}

// read imports the buffers of a layout.
func (b *importedBuffers) read(l layout) error {
	at := readPointers(b.c.buffers, b.c.nBuffers)
	if l.validity {
		if at[0] == 0 && b.c.nulls > 0 {
			return invalidf("%d nulls, but no validity bitmap", b.c.nulls)
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

// bufferSize returns the size of the next buffer. Arrays without elements need no
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

// readVariadic imports the buffers that views refer to. The last address is that of
// their lengths.
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
			return invalidf("buffer %d has a length of %d bytes", i+2, size)
		}
		if err := b.add(address, size, 1); err != nil {
			return fmt.Errorf("buffer %d: %w", i+2, err)
		}
	}
	return nil
}

// readSizes copies the lengths of n variadic buffers. Some producers keep them in
// host memory.
func (b *importedBuffers) readSizes(address uintptr, n int64) ([]byte, error) {
	if address == 0 {
		return nil, invalidf("NULL buffer")
	}
	raw := make([]byte, 8*n)
	found, err := b.wrap(address, 8*n)
	if errors.Is(err, arrowbuf.ErrDevice) { // not the device's memory, so the host's
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

// maxBytes exceeds the memory of any machine, and is a valid length of a Go slice.
const maxBytes = 1 << 47

// add imports a buffer of n bytes.
func (b *importedBuffers) add(address uintptr, n int64, align uintptr) error {
	switch {
	case n == 0:
		b.all = append(b.all, nil)
		return nil
	case address == 0:
		return invalidf("NULL buffer, want %d bytes", n)
	case n > maxBytes || uint64(n) > math.MaxUint64-uint64(address):
		return invalidf("%d bytes at %#x", n, address)
	case !hostReadable(b.dev) && address%align != 0:
		return invalidf("values at %#x, want a multiple of %d", address, align)
	}
	found, err := b.wrap(address, n)
	if err == nil {
		b.all = append(b.all, found)
	}
	return err
}

// wrap returns a buffer over memory of the owner, which it retains.
func (b *importedBuffers) wrap(address uintptr, n int64) (arrowbuf.Buffer, error) {
	o := b.owner
	if b.sharer == nil {
		host := unsafe.Slice((*byte)(pointer(address)), n) // panics if n is too large for a slice
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

// lastOffset returns the last of the offsets, which are the first buffer after the
// validity bitmap.
func (b *importedBuffers) lastOffset() (int64, error) {
	if b.c.length == 0 {
		return 0, nil
	}
	from := b.all[1]
	return readLastOffset(from, b.c.offset, b.end, from.Len()/(b.end+1))
}

// readLastOffset returns offset last, after a check against offset first. Each has
// width bytes.
func readLastOffset(from arrowbuf.Buffer, first, last, width int64) (int64, error) {
	low, err := readInt(from, first, width)
	if err != nil {
		return 0, err
	}
	high, err := readInt(from, last, width)
	if err == nil && (low < 0 || high < low) {
		err = invalidf("offsets from %d to %d, want nonnegative and increasing", low, high)
	}
	return high, err
}

// readInt returns integer i of a buffer of integers of width bytes.
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

// arrowBuffers returns the buffers as arrow-go's. They stay b's.
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

// release releases the references of b.
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

// nullCount returns the null count for arrow-go.
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

// checkChildren checks that the children have as many elements as their parent uses.
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
			return invalidf("%d lists of %d elements", b.end, t.Len())
		}
		need = b.end * int64(t.Len())
	case *arrow.StructType, *arrow.SparseUnionType:
		need = b.end
	case *arrow.RunEndEncodedType:
		return checkRuns(b, children[0], children[1])
	}
	for i, child := range children {
		if int64(child.Len()) < need {
			return invalidf("child %d has %d elements, want at least %d", i, child.Len(), need)
		}
	}
	return nil
}

// checkRuns checks that the runs extend to the end of the array.
func checkRuns(b *importedBuffers, ends, values arrow.ArrayData) error {
	if ends.NullN() != 0 || ends.Len() > values.Len() {
		return invalidf("%d run ends, %d of them null, for %d values", ends.Len(), ends.NullN(), values.Len())
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
		return invalidf("runs end at %d, want at least %d", last, b.end)
	}
	return nil
}

// countMapNulls sets the null counts of the entries and keys of a map, which
// arrow-go requires to be known and 0. On a GPU they are not needed.
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
			return invalidf("%d entries or keys of a map are null", data.NullN())
		}
	}
	return nil
}
