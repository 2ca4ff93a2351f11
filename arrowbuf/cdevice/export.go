package cdevice

import (
	"fmt"
	"math"
	"runtime"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/quiver-gpu/quiver/arrowbuf"
)

// ExportArray fills out with an array that lives on a device, without a copy; its
// type goes by ExportField. The array's memory is kept until the consumer calls
// the struct's release.
//
// On a GPU, and for its Host, sync_event is recorded behind the work that was
// given to write the memory; for the CPU the call waits for such work. Nulls that
// nobody counted are counted on the CPU, and go as -1 elsewhere. On a GPU the sizes of the buffers of views
// are in memory that the host and the GPU reach, since consumers differ in who
// reads them.
//
// A buffer that is not on the device is an error that is arrowbuf.ErrDevice,
// data that does not fit its type, or buffers and children that are smaller than the
// array says, one that is arrow.ErrInvalid; both name the field. What offsets on a GPU
// point to is not looked at.
func ExportArray(arr arrow.Array, dev arrowbuf.Device, out *DeviceArray) error {
	return export(dev, out, "exporting an array", func(x *exporter) (*arrayNode, error) {
		if arr == nil {
			return nil, invalidf("there is none")
		}
		return x.exportArray(arr.Data(), rootPath)
	})
}

// ExportBatch fills out with the rows of a record batch, as an array of structs;
// its schema goes by ExportSchema. Otherwise it is as ExportArray. The custom
// metadata of an IPC message has no place in it.
func ExportBatch(batch arrow.RecordBatch, dev arrowbuf.Device, out *DeviceArray) error {
	return export(dev, out, "exporting a record batch", func(x *exporter) (*arrayNode, error) {
		if batch == nil {
			return nil, invalidf("there is none")
		}
		return x.exportBatch(batch)
	})
}

// ExportCPUArray is ExportArray for an array on the CPU, and for a consumer that
// knows no other device.
func ExportCPUArray(arr arrow.Array, out *Array) error {
	if out == nil {
		return errNilStruct("exporting an array")
	}
	var a DeviceArray
	if err := ExportArray(arr, arrowbuf.CPU(), &a); err != nil {
		return err
	}
	*out = *move(&a.array)
	return nil
}

// ExportCPUBatch is ExportBatch for rows on the CPU, and for a consumer that knows
// no other device.
func ExportCPUBatch(batch arrow.RecordBatch, out *Array) error {
	if out == nil {
		return errNilStruct("exporting a record batch")
	}
	var a DeviceArray
	if err := ExportBatch(batch, arrowbuf.CPU(), &a); err != nil {
		return err
	}
	*out = *move(&a.array)
	return nil
}

func errNilStruct(doing string) error {
	return fmt.Errorf("%s: %w", doing, invalidf("there is no struct to fill out"))
}

func export(dev arrowbuf.Device, out *DeviceArray, doing string, build func(x *exporter) (*arrayNode, error)) error {
	if err := checkSupported(); err != nil {
		return err
	}
	if out == nil {
		return errNilStruct(doing)
	}
	err := exportOn(dev, out, build)
	if err != nil {
		return fmt.Errorf("%s on %v: %w", doing, dev, err)
	}
	return nil
}

func exportOn(dev arrowbuf.Device, out *DeviceArray, build func(x *exporter) (*arrayNode, error)) (err error) {
	sharer, err := sharerOf(dev)
	if err != nil {
		return err
	}
	x, given := &exporter{dev: dev}, false
	defer func() {
		if !given {
			x.releaseNodes()
		}
		releaseAll(x.buffers)
	}()
	defer panicToError(&err)
	root, err := build(x)
	if err != nil {
		return err
	}
	if sharer != nil {
		if root.event, root.eventDone, err = sharer.EventAfter(x.buffers...); err != nil {
			return err
		}
	}
	root.publish()
	given = true
	*out = DeviceArray{array: root.array, deviceID: dev.ID(), deviceType: int32(dev.Type())}
	if sharer != nil {
		out.event = addressOf(&root.event)
	}
	return nil
}

// exporter collects what an export shows.
type exporter struct {
	dev     arrowbuf.Device
	nodes   []*arrayNode
	buffers []arrowbuf.Buffer
}

// releaseNodes lets go of what was collected.
func (x *exporter) releaseNodes() {
	for _, n := range x.nodes {
		n.release()
	}
}

func (x *exporter) newNode(length, nulls, offset int) *arrayNode {
	n := &arrayNode{array: Array{length: int64(length), nulls: int64(nulls), offset: int64(offset)}}
	x.nodes = append(x.nodes, n)
	return n
}

func (x *exporter) exportBatch(batch arrow.RecordBatch) (*arrayNode, error) {
	n := x.newNode(int(batch.NumRows()), 0, 0)
	n.buffers = []uintptr{0} // all rows are valid
	for i, column := range batch.Columns() {
		c, err := x.exportArray(column.Data(), rootPath.child(batch.ColumnName(i)))
		if err != nil {
			return nil, err
		}
		n.children = append(n.children, c)
	}
	return n, nil
}

func (x *exporter) exportArray(data arrow.ArrayData, at path) (*arrayNode, error) {
	storage := storageOf(data.DataType())
	if _, _, err := formatOf(storage); err != nil {
		return nil, at.wrap(err)
	}
	if err := x.checkLengths(data, storage); err != nil {
		return nil, at.wrap(err)
	}
	nulls := data.NullN()
	if all := data.Buffers(); storage.ID() != arrow.NULL && (len(all) == 0 || all[0] == nil || all[0].Len() == 0) {
		nulls = 0
	}
	n := x.newNode(data.Len(), nulls, data.Offset())
	data.Retain()
	n.data = data
	if err := x.exportBuffers(n, data, layoutOf(storage)); err != nil {
		return nil, at.wrap(err)
	}
	if n.array.nulls < 0 && x.dev == arrowbuf.CPU() {
		n.array.nulls = int64(data.Len() - bitutil.CountSetBits(data.Buffers()[0].Bytes(), data.Offset(), data.Len()))
	}
	fields := fieldsOf(storage)
	if len(fields) != len(data.Children()) {
		return nil, at.invalidf("%d children of a type with %d, %s", len(data.Children()), len(fields), storage)
	}
	for i, child := range data.Children() {
		if d, ok := child.(*array.Data); !ok || d == nil {
			return nil, at.child(fields[i].Name).invalidf("the array is missing")
		}
		c, err := x.exportArray(child, at.child(fields[i].Name))
		if err != nil {
			return nil, err
		}
		n.children = append(n.children, c)
	}
	if storage.ID() == arrow.DICTIONARY {
		dictionary, ok := data.Dictionary().(*array.Data)
		if !ok || dictionary == nil {
			return nil, at.invalidf("a dictionary array without its dictionary")
		}
		var err error
		n.dictionary, err = x.exportArray(dictionary, at.child("dictionary"))
		return n, err
	}
	return n, nil
}

func releaseAll(buffers []arrowbuf.Buffer) {
	for _, b := range buffers {
		b.Release()
	}
}

// arrayNode is an ArrowArray that C has, and what it points to. Each node keeps
// its own memory, since a consumer may move a child away from its parent and
// release the parent.
type arrayNode struct {
	array      Array // where the parent points to; the first is copied
	buffers    []uintptr
	children   []*arrayNode
	pointers   []uintptr // to the children
	dictionary *arrayNode
	data       arrow.ArrayData // nil for a record batch, whose columns are held
	sizes      *memory.Buffer  // of the buffers of views
	event      uintptr         // where the struct's sync_event points to
	eventDone  func()          // with the event
	pinned     runtime.Pinner
}

// publish hands the node and all below it to C.
func (n *arrayNode) publish() {
	n.pinned.Pin(n)
	if n.data != nil {
		for _, b := range n.data.Buffers() {
			// Memory of Go; any other stays where it is.
			if b != nil && b.Len() > 0 {
				n.pinned.Pin(unsafe.SliceData(b.Buf()))
			}
		}
	}
	if n.sizes != nil {
		n.pinned.Pin(unsafe.SliceData(n.sizes.Buf()))
	}
	a := &n.array
	a.nBuffers, a.buffers = int64(len(n.buffers)), pinSlice(&n.pinned, n.buffers)
	for _, child := range n.children {
		child.publish()
		n.pointers = append(n.pointers, addressOf(&child.array))
	}
	a.nChildren, a.children = int64(len(n.pointers)), pinSlice(&n.pinned, n.pointers)
	if n.dictionary != nil {
		n.dictionary.publish()
		a.dictionary = addressOf(&n.dictionary.array)
	}
	a.release, a.private = functions().releaseArray, newHandle(n)
}

// release lets go of the memory that the node alone keeps.
func (n *arrayNode) release() {
	if n.data != nil {
		n.data.Release()
	}
	if n.sizes != nil {
		n.sizes.Release()
	}
	if n.eventDone != nil {
		n.eventDone()
	}
}

// releaseArray is the release of every ArrowArray.
func releaseArray(a *Array) {
	n, ok := removeHandle[*arrayNode](a.private)
	if !ok {
		return
	}
	for _, child := range n.children {
		if child.array.release != 0 { // it was not moved away
			releaseArray(&child.array)
		}
	}
	if n.dictionary != nil && n.dictionary.array.release != 0 {
		releaseArray(&n.dictionary.array)
	}
	n.pinned.Unpin()
	n.release()
	a.release = 0
}

// zeros is what an empty buffer of the host points to, offsets too: not every
// consumer takes a null pointer there. It is zero.
var zeros [64]byte

// exportBuffers collects the addresses of an array's buffers.
func (x *exporter) exportBuffers(n *arrayNode, data arrow.ArrayData, l layout) error {
	all := data.Buffers()
	least := 1 + len(l.buffers)
	if len(all) > least && !l.variadic {
		return invalidf("%d buffers of a type with %d, %s", len(all), least, data.DataType())
	}
	var sizes []int64
	for i := l.skipped(); i < max(least, len(all)); i++ {
		var b *memory.Buffer
		if i < len(all) {
			b = all[i]
		}
		address, err := x.bufferAddress(b)
		if err != nil {
			return fmt.Errorf("buffer %d: %w", i, err)
		}
		if address == 0 && i > 0 && hostReadable(x.dev) {
			address = addressOf(&zeros)
		}
		n.buffers = append(n.buffers, address)
		if i >= least {
			size := 0
			if b != nil {
				size = b.Len()
			}
			sizes = append(sizes, int64(size))
		}
	}
	if l.variadic {
		return x.addSizes(n, sizes)
	}
	return nil
}

// bufferAddress is the address of a buffer on the device, 0 if there is nothing in it.
func (x *exporter) bufferAddress(b *memory.Buffer) (uintptr, error) {
	if b == nil || b.Len() == 0 {
		return 0, nil
	}
	found, err := arrowbuf.BufferOf(b)
	if err != nil {
		return 0, err
	}
	x.buffers = append(x.buffers, found)
	if x.dev != arrowbuf.CPU() {
		if found.Device() != x.dev {
			return 0, fmt.Errorf("it is on %v: %w", found.Device(), arrowbuf.ErrDevice)
		}
		return found.Address(), nil
	}
	host, ok := arrowbuf.HostBytes(found)
	if !ok {
		return 0, fmt.Errorf("it is on %v: %w", found.Device(), arrowbuf.ErrDevice)
	}
	if w, ok := found.(interface{ Wait() error }); ok { // a stream may be filling it
		if err := w.Wait(); err != nil {
			return 0, err
		}
	}
	return addressOf(unsafe.SliceData(host)), nil
}

// addSizes adds the buffer of the sizes of others. On a GPU it is memory that the
// host reads as well.
func (x *exporter) addSizes(n *arrayNode, sizes []int64) (err error) {
	if len(sizes) == 0 {
		address := uintptr(0)
		if hostReadable(x.dev) {
			address = addressOf(&zeros)
		}
		n.buffers = append(n.buffers, address)
		return nil
	}
	mem := x.dev.HostAllocator()
	defer allocPanicToError(&err)
	n.sizes = memory.NewBufferWithAllocator(mem.Allocate(8*len(sizes)), mem)
	copy(n.sizes.Bytes(), arrow.Int64Traits.CastToBytes(sizes))
	n.buffers = append(n.buffers, addressOf(unsafe.SliceData(n.sizes.Bytes())))
	return nil
}

// allocPanicToError turns the panic of an allocator into its error.
func allocPanicToError(err *error) {
	if failure := recover(); failure != nil {
		*err = fmt.Errorf("%v: %w", failure, arrowbuf.ErrOutOfMemory)
	}
}

// checkLengths refuses an array whose buffers and children have less than it says, since C takes
// them for as large as they have to be. Offsets on a GPU are not read.
func (x *exporter) checkLengths(data arrow.ArrayData, storage arrow.DataType) error {
	length, offset, all := int64(data.Len()), int64(data.Offset()), data.Buffers()
	switch {
	case length < 0 || offset < 0 || offset > maxElements-length:
		return invalidf("%d elements at offset %d", length, offset)
	case int64(data.NullN()) > length:
		return invalidf("%d of %d elements are null", data.NullN(), length)
	case length == 0:
		return nil // of which nothing is read
	}
	end, l := offset+length, layoutOf(storage)
	if l.validity {
		switch have, need := bufferLen(all, 0), bitutil.BytesForBits(end); {
		case have == 0 && data.NullN() > 0:
			return invalidf("%d nulls, and no validity bitmap", data.NullN())
		case have > 0 && have < need:
			return invalidf("validity bitmap of %d bytes, the array needs %d", have, need)
		}
	}
	inside := int64(-1) // elements or bytes that offsets say
	for i, k := range l.buffers {
		need, ok := k.size(end)
		if k.content == valueBytes {
			need = inside
		}
		if have := bufferLen(all, i+1); !ok || have < need {
			return invalidf("buffer %d has %d bytes, the array needs %d", i+1, have, need)
		}
		if k.content == offsets && hostReadable(x.dev) {
			var err error
			if inside, err = lastOffsetOf(all[i+1], offset, end, k.width); err != nil {
				return fmt.Errorf("buffer %d: %w", i+1, err)
			}
		}
	}
	need := int64(0)
	switch t := storage.(type) {
	case *arrow.ListType, *arrow.LargeListType, *arrow.MapType:
		need = inside
	case *arrow.FixedSizeListType:
		if end > math.MaxInt64/max(int64(t.Len()), 1) {
			return invalidf("%d lists of %d", end, t.Len())
		}
		need = end * int64(t.Len())
	case *arrow.StructType, *arrow.SparseUnionType:
		need = end
	}
	for i, child := range data.Children() {
		if c, ok := child.(*array.Data); ok && c != nil && int64(c.Len()) < need {
			return invalidf("child %d has %d elements, the array needs %d", i, c.Len(), need)
		}
	}
	return nil
}

// bufferLen is how many bytes a buffer has, none if there is none.
func bufferLen(all []*memory.Buffer, i int) int64 {
	if i >= len(all) || all[i] == nil {
		return 0
	}
	return int64(all[i].Len())
}

// lastOffsetOf is the last of an array's offsets, which are of width bytes each.
func lastOffsetOf(b *memory.Buffer, first, last, width int64) (int64, error) {
	from, err := arrowbuf.BufferOf(b)
	if err != nil {
		return 0, err
	}
	defer from.Release()
	return readLastOffset(from, first, last, width)
}
