package ipc

import (
	"sync"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// item is a batch or a buffer that is published. It is counted: the catalog
// holds it, and so does who is sending it.
type item struct {
	name     string
	sequence uint64
	batch    arrow.RecordBatch
	buffer   arrowbuf.Buffer // where there is no batch
	pooled   bool

	refs atomic.Int64
	size func() int64

	encoding  sync.Once
	encoded   *encoded
	encodeErr error

	mu    sync.Mutex // held while a form is made
	forms map[formKey]*form
}

func newBatchItem(name string, sequence uint64, b arrow.RecordBatch, options []PublishOption) *item {
	b.Retain()
	it := &item{name: name, sequence: sequence, batch: b, forms: map[formKey]*form{}}
	it.size = sync.OnceValue(func() int64 { return batchBytes(b) })
	return it.with(options)
}

func newBufferItem(name string, b arrowbuf.Buffer, options []PublishOption) *item {
	b.Retain()
	it := &item{name: name, buffer: b, size: b.Len, forms: map[formKey]*form{}}
	return it.with(options)
}

func (it *item) with(options []PublishOption) *item {
	it.refs.Store(1)
	for _, set := range options {
		set(it)
	}
	return it
}

func (it *item) retain() { it.refs.Add(1) }

// release gives a reference back. With the last the item goes, and its forms
// with the last lease of them.
func (it *item) release() {
	if it.refs.Add(-1) > 0 {
		return
	}
	it.mu.Lock()
	forms := it.forms
	it.forms = nil
	it.mu.Unlock()
	for key, f := range forms {
		key.server.drop(f)
	}
	if it.encoded != nil {
		it.encoded.release()
	}
	if it.batch != nil {
		it.batch.Release()
	} else {
		it.buffer.Release()
	}
}

// disown takes a form from an item, unless the item is letting go of it.
func (it *item) disown(f *form) bool {
	it.mu.Lock()
	defer it.mu.Unlock()
	if it.forms[f.key] != f {
		return false
	}
	delete(it.forms, f.key)
	return true
}

func (it *item) rows() int64 {
	if it.batch == nil {
		return 0
	}
	return it.batch.NumRows()
}

func (it *item) bytes() int64 { return it.size() }

// deviceOf is where a batch lives: on a GPU if a column does.
func deviceOf(b arrow.RecordBatch) arrowbuf.Device {
	for _, column := range b.Columns() {
		if dev := arrowbuf.DeviceOf(column); dev.Type() == arrowbuf.DeviceCUDA {
			return dev
		}
	}
	return arrowbuf.CPU()
}

// batchBytes is the length of a batch's buffers, each counted once a column.
func batchBytes(b arrow.RecordBatch) (n int64) {
	for _, column := range b.Columns() {
		n += dataBytes(column.Data())
	}
	return n
}

func dataBytes(d arrow.ArrayData) (n int64) {
	for _, b := range d.Buffers() {
		if b != nil {
			n += int64(b.Len())
		}
	}
	for _, child := range d.Children() {
		n += dataBytes(child)
	}
	if d.DataType().ID() == arrow.DICTIONARY && d.Dictionary() != nil {
		n += dataBytes(d.Dictionary())
	}
	return n
}
