package cdevice

import (
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

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
