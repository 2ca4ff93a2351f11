package cdevice

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"

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
			return nil, refuse("there is none")
		}
		return x.array(arr.Data(), top)
	})
}

// ExportBatch fills out with the rows of a record batch, as an array of structs;
// its schema goes by ExportSchema. Otherwise it is as ExportArray. The custom
// metadata of an IPC message has no place in it.
func ExportBatch(batch arrow.RecordBatch, dev arrowbuf.Device, out *DeviceArray) error {
	return export(dev, out, "exporting a record batch", func(x *exporter) (*arrayNode, error) {
		if batch == nil {
			return nil, refuse("there is none")
		}
		return x.batch(batch)
	})
}

// ExportCPUArray is ExportArray for an array on the CPU, and for a consumer that
// knows no other device.
func ExportCPUArray(arr arrow.Array, out *Array) error {
	if out == nil {
		return nowhere("exporting an array")
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
		return nowhere("exporting a record batch")
	}
	var a DeviceArray
	if err := ExportBatch(batch, arrowbuf.CPU(), &a); err != nil {
		return err
	}
	*out = *move(&a.array)
	return nil
}

func nowhere(doing string) error {
	return fmt.Errorf("%s: %w", doing, refuse("there is no struct to fill out"))
}

func export(dev arrowbuf.Device, out *DeviceArray, doing string, build func(x *exporter) (*arrayNode, error)) error {
	if err := supported(); err != nil {
		return err
	}
	if out == nil {
		return nowhere(doing)
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
			x.giveUp()
		}
		releaseAll(x.shown)
	}()
	defer guard(&err)
	root, err := build(x)
	if err != nil {
		return err
	}
	if sharer != nil {
		if root.event, root.done, err = sharer.EventAfter(x.shown...); err != nil {
			return err
		}
	}
	root.give()
	given = true
	*out = DeviceArray{array: root.array, deviceID: dev.ID(), deviceType: int32(dev.Type())}
	if sharer != nil {
		out.event = addressOf(&root.event)
	}
	return nil
}

// exporter collects what an export shows.
type exporter struct {
	dev   arrowbuf.Device
	nodes []*arrayNode
	shown []arrowbuf.Buffer
}

// giveUp lets go of what was collected.
func (x *exporter) giveUp() {
	for _, n := range x.nodes {
		n.release()
	}
}

func (x *exporter) node(length, nulls, offset int) *arrayNode {
	n := &arrayNode{array: Array{length: int64(length), nulls: int64(nulls), offset: int64(offset)}}
	x.nodes = append(x.nodes, n)
	return n
}

func (x *exporter) batch(batch arrow.RecordBatch) (*arrayNode, error) {
	n := x.node(int(batch.NumRows()), 0, 0)
	n.buffers = []uintptr{0} // all rows are valid
	for i, column := range batch.Columns() {
		c, err := x.array(column.Data(), top.child(batch.ColumnName(i)))
		if err != nil {
			return nil, err
		}
		n.children = append(n.children, c)
	}
	return n, nil
}

func (x *exporter) array(data arrow.ArrayData, at path) (*arrayNode, error) {
	storage := storageOf(data.DataType())
	if _, _, err := formatOf(storage); err != nil {
		return nil, at.wrap(err)
	}
	if err := x.check(data, storage); err != nil {
		return nil, at.wrap(err)
	}
	nulls := data.NullN()
	if all := data.Buffers(); storage.ID() != arrow.NULL && (len(all) == 0 || all[0] == nil || all[0].Len() == 0) {
		nulls = 0
	}
	n := x.node(data.Len(), nulls, data.Offset())
	data.Retain()
	n.held = data
	if err := x.buffers(n, data, layoutOf(storage)); err != nil {
		return nil, at.wrap(err)
	}
	if n.array.nulls < 0 && x.dev == arrowbuf.CPU() {
		n.array.nulls = int64(data.Len() - bitutil.CountSetBits(data.Buffers()[0].Bytes(), data.Offset(), data.Len()))
	}
	fields := fieldsOf(storage)
	if len(fields) != len(data.Children()) {
		return nil, at.refuse("%d children of a type with %d, %s", len(data.Children()), len(fields), storage)
	}
	for i, child := range data.Children() {
		if d, ok := child.(*array.Data); !ok || d == nil {
			return nil, at.child(fields[i].Name).refuse("the array is missing")
		}
		c, err := x.array(child, at.child(fields[i].Name))
		if err != nil {
			return nil, err
		}
		n.children = append(n.children, c)
	}
	if storage.ID() == arrow.DICTIONARY {
		dictionary, ok := data.Dictionary().(*array.Data)
		if !ok || dictionary == nil {
			return nil, at.refuse("a dictionary array without its dictionary")
		}
		var err error
		n.dictionary, err = x.array(dictionary, at.child("dictionary"))
		return n, err
	}
	return n, nil
}

func releaseAll(buffers []arrowbuf.Buffer) {
	for _, b := range buffers {
		b.Release()
	}
}
