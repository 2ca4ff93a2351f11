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

// ExportArray fills out with an array on dev, without a copy. The type is exported
// by ExportField. The array's memory is retained until the consumer calls the
// struct's release. ExportArray returns an error wrapping arrowbuf.ErrDevice if a
// buffer is on another device. It returns an error wrapping arrow.ErrInvalid if the
// array has less memory than it claims, and arrow.ErrNotImplemented if C has no such
// type.
func ExportArray(arr arrow.Array, dev arrowbuf.Device, out *DeviceArray) error {
	return export(dev, out, "cdevice.ExportArray", func(x *exporter) (*arrayNode, error) {
		if arr == nil {
			return nil, invalidf("nil array")
		}
		return x.exportArray(arr.Data(), rootPath)
	})
}

// ExportBatch fills out with the rows of a record batch, as an array of structs.
// Otherwise it is ExportArray. Errors name the column.
func ExportBatch(batch arrow.RecordBatch, dev arrowbuf.Device, out *DeviceArray) error {
	return export(dev, out, "cdevice.ExportBatch", func(x *exporter) (*arrayNode, error) {
		if batch == nil {
			return nil, invalidf("nil batch")
		}
		return x.exportBatch(batch)
	})
}

// ExportCPUArray is ExportArray for arrays on the CPU, and for a consumer without
// devices.
func ExportCPUArray(arr arrow.Array, out *Array) error {
	if out == nil {
		return errNilStruct("cdevice.ExportCPUArray")
	}
	var a DeviceArray
	if err := ExportArray(arr, arrowbuf.CPU(), &a); err != nil {
		return err
	}
	*out = *move(&a.array)
	return nil
}

// ExportCPUBatch is ExportBatch for batches on the CPU, and for a consumer without
// devices.
func ExportCPUBatch(batch arrow.RecordBatch, out *Array) error {
	if out == nil {
		return errNilStruct("cdevice.ExportCPUBatch")
	}
	var a DeviceArray
	if err := ExportBatch(batch, arrowbuf.CPU(), &a); err != nil {
		return err
	}
	*out = *move(&a.array)
	return nil
}

// errNilStruct returns an error about a nil struct. operation names the failed
// function.
func errNilStruct(operation string) error {
	return fmt.Errorf("%s: %w", operation, invalidf("nil struct"))
}

// export fills out with the node that build returns.
func export(dev arrowbuf.Device, out *DeviceArray, operation string, build func(x *exporter) (*arrayNode, error)) error {
	if err := checkSupported(); err != nil {
		return err
	}
	if out == nil {
		return errNilStruct(operation)
	}
	err := exportOn(dev, out, build)
	if err != nil {
		return fmt.Errorf("%s on %v: %w", operation, dev, err)
	}
	return nil
}

func exportOn(dev arrowbuf.Device, out *DeviceArray, build func(x *exporter) (*arrayNode, error)) (err error) {
	sharer, err := sharerOf(dev)
	if err != nil {
		return err
	}
	x, published := &exporter{dev: unwrapped(dev)}, false
	defer func() {
		if !published {
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
	published = true
	*out = DeviceArray{array: root.array, deviceID: dev.ID(), deviceType: int32(dev.Type())}
	if sharer != nil {
		out.event = addressOf(&root.event)
	}
	return nil
}

// exporter collects the nodes and buffers of an export.
type exporter struct {
	dev     arrowbuf.Device // without wrappers
	nodes   []*arrayNode
	buffers []arrowbuf.Buffer
}

// releaseNodes releases the memory of an export that failed.
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
		return nil, at.invalidf("got %d children, want %d for type %s", len(data.Children()), len(fields), storage)
	}
	for i, child := range data.Children() {
		if d, ok := child.(*array.Data); !ok || d == nil {
			return nil, at.child(fields[i].Name).invalidf("nil array")
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
			return nil, at.invalidf("nil dictionary")
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

// arrayNode is an ArrowArray that C uses, and the memory that it points to. Each
// node holds its own references, because a consumer may move a child away and
// release the parent.
type arrayNode struct {
	array      Array // the parent points to it; that of the root is copied
	buffers    []uintptr
	children   []*arrayNode
	pointers   []uintptr // to the children
	dictionary *arrayNode
	data       arrow.ArrayData // retained; nil for a record batch, whose columns are retained
	sizes      *memory.Buffer  // lengths of the data buffers of views
	event      uintptr         // sync_event of the struct points to it
	eventDone  func()          // releases event
	pinned     runtime.Pinner
}

// publish pins the node and all nodes below it, and registers them for C.
func (n *arrayNode) publish() {
	n.pinned.Pin(n)
	if n.data != nil {
		for _, b := range n.data.Buffers() {
			// The memory may be Go's; pinning does not affect other memory.
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

// release releases the memory that the node holds.
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

// releaseArray is the release function of every exported ArrowArray.
func releaseArray(a *Array) {
	n, ok := removeHandle[*arrayNode](a.private)
	if !ok {
		return
	}
	for _, child := range n.children {
		if child.array.release != 0 { // not moved away
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

// zeros is what empty host buffers point to, including offsets: some consumers
// reject a null pointer there.
var zeros [64]byte

// exportBuffers sets the addresses of an array's buffers.
func (x *exporter) exportBuffers(n *arrayNode, data arrow.ArrayData, l layout) error {
	all := data.Buffers()
	least := 1 + len(l.buffers)
	if len(all) > least && !l.variadic {
		return invalidf("got %d buffers, want at most %d for type %s", len(all), least, data.DataType())
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

// bufferAddress returns the address of a buffer on the device, or 0 if it is empty.
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
		if unwrapped(found.Device()) != x.dev {
			return 0, fmt.Errorf("the memory is on %v: %w", found.Device(), arrowbuf.ErrDevice)
		}
		return found.Address(), nil
	}
	host, ok := arrowbuf.HostBytes(found)
	if !ok {
		return 0, fmt.Errorf("the memory is on %v: %w", found.Device(), arrowbuf.ErrDevice)
	}
	if w, ok := arrowbuf.As[interface{ Wait() error }](found); ok { // a stream may still be writing to it
		if err := w.Wait(); err != nil {
			return 0, err
		}
	}
	return addressOf(unsafe.SliceData(host)), nil
}

// addSizes adds the buffer of the lengths of the variadic buffers. On a GPU it is
// pinned host memory.
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

// allocPanicToError recovers a panic of an allocator and sets *err. It must be
// deferred.
func allocPanicToError(err *error) {
	if failure := recover(); failure != nil {
		*err = fmt.Errorf("%v: %w", failure, arrowbuf.ErrOutOfMemory)
	}
}

// checkLengths returns an error if an array has shorter buffers or children than its
// length requires. C has no buffer lengths, so a consumer would read past the end.
// Offsets on a GPU are not read.
func (x *exporter) checkLengths(data arrow.ArrayData, storage arrow.DataType) error {
	length, offset, all := int64(data.Len()), int64(data.Offset()), data.Buffers()
	switch {
	case length < 0 || offset < 0 || offset > maxElements-length:
		return invalidf("%d elements at offset %d", length, offset)
	case int64(data.NullN()) > length:
		return invalidf("%d of %d elements are null", data.NullN(), length)
	case length == 0:
		return nil // a consumer reads nothing of it
	}
	end, l := offset+length, layoutOf(storage)
	if l.validity {
		switch have, need := bufferLen(all, 0), bitutil.BytesForBits(end); {
		case have == 0 && data.NullN() > 0:
			return invalidf("%d nulls, but no validity bitmap", data.NullN())
		case have > 0 && have < need:
			return invalidf("validity bitmap of %d bytes, want at least %d", have, need)
		}
	}
	inside := int64(-1) // elements or bytes up to the last offset; -1 if unknown
	for i, k := range l.buffers {
		need, ok := k.size(end)
		if k.content == valueBytes {
			need = inside
		}
		if have := bufferLen(all, i+1); !ok || have < need {
			return invalidf("buffer %d has %d bytes, want at least %d", i+1, have, need)
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
			return invalidf("%d lists of %d elements", end, t.Len())
		}
		need = end * int64(t.Len())
	case *arrow.StructType, *arrow.SparseUnionType:
		need = end
	}
	for i, child := range data.Children() {
		if c, ok := child.(*array.Data); ok && c != nil && int64(c.Len()) < need {
			return invalidf("child %d has %d elements, want at least %d", i, c.Len(), need)
		}
	}
	return nil
}

// bufferLen returns the length of buffer i in bytes, or 0 if it is absent.
func bufferLen(all []*memory.Buffer, i int) int64 {
	if i >= len(all) || all[i] == nil {
		return 0
	}
	return int64(all[i].Len())
}

// lastOffsetOf returns offset last of a buffer of offsets, each of width bytes.
func lastOffsetOf(b *memory.Buffer, first, last, width int64) (int64, error) {
	from, err := arrowbuf.BufferOf(b)
	if err != nil {
		return 0, err
	}
	defer from.Release()
	return readLastOffset(from, first, last, width)
}
