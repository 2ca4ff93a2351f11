package cdevice

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// Reader reads the batches of a stream of another library. It is an
// array.RecordReader: one goroutine uses it, and Retain and Release count who
// wants it. With the last reference the stream goes; batches that are retained
// live on.
type Reader struct {
	refs    atomic.Int64
	stream  *foreign
	devices []arrowbuf.Device
	schema  *arrow.Schema
	rows    *arrow.StructType
	current arrow.RecordBatch
	done    bool
	err     error
}

var _ array.RecordReader = (*Reader)(nil)

// ImportStream takes over a stream of record batches, whose memory is on the CPU
// or on one of the devices given, as ImportBatch says. The caller owns one
// reference to the result. A stream of other arrays than structs is an error that
// is arrow.ErrInvalid, as is one that is released; after an error the stream is.
func ImportStream(in *DeviceStream, devices ...arrowbuf.Device) (*Reader, error) {
	if err := supported(); err != nil {
		return nil, err
	}
	if in == nil || in.Released() {
		return nil, fmt.Errorf("importing a stream: there is none, or it is released: %w", arrow.ErrInvalid)
	}
	s := move(in)
	return newReader(&foreign{
		self: unsafe.Pointer(s), kind: s.DeviceType(), end: s,
		getSchema: s.getSchema, getNext: s.getNext, getLastError: s.getLastError,
	}, devices)
}

// ImportCPUStream is ImportStream for a struct of the interface that knows no
// devices.
func ImportCPUStream(in *Stream) (*Reader, error) {
	if err := supported(); err != nil {
		return nil, err
	}
	if in == nil || in.Released() {
		return nil, fmt.Errorf("importing a stream: there is none, or it is released: %w", arrow.ErrInvalid)
	}
	s := move(in)
	return newReader(&foreign{
		self: unsafe.Pointer(s), kind: arrowbuf.DeviceCPU, plain: true, end: s,
		getSchema: s.getSchema, getNext: s.getNext, getLastError: s.getLastError,
	}, nil)
}

// foreign is a stream of another library: its struct, which was moved here, and
// its functions, which get the struct's address.
type foreign struct {
	self                             unsafe.Pointer
	getSchema, getNext, getLastError uintptr
	kind                             arrowbuf.DeviceType
	plain                            bool // its arrays are Arrays
	end                              interface {
		Release()
		Released() bool
	}
}

func newReader(s *foreign, devices []arrowbuf.Device) (*Reader, error) {
	r := &Reader{stream: s, devices: devices}
	r.refs.Store(1)
	if err := r.readSchema(); err != nil {
		r.Release()
		return nil, fmt.Errorf("importing a stream: %w", err)
	}
	return r, nil
}

func (r *Reader) readSchema() error {
	if r.stream.getSchema == 0 || r.stream.getNext == 0 {
		return refuse("its functions are missing")
	}
	var s Schema
	if err := r.ask("get_schema", r.stream.getSchema, unsafe.Pointer(&s)); err != nil {
		return err
	}
	schema, err := ImportSchema(&s)
	if err != nil {
		return err
	}
	r.schema, r.rows = schema, arrow.StructOf(schema.Fields()...)
	return nil
}

// ask calls a function of the stream that fills out.
func (r *Reader) ask(name string, function uintptr, out unsafe.Pointer) error {
	errno := int32(call(function, uintptr(r.stream.self), uintptr(out)))
	runtime.KeepAlive(r)
	if errno == 0 {
		return nil
	}
	reason := "it does not say why"
	if r.stream.getLastError != 0 {
		if text := cString(call(r.stream.getLastError, uintptr(r.stream.self))); text != "" {
			reason = text
		}
	}
	return fmt.Errorf("the stream's %s answers errno %d: %s", name, errno, reason)
}

// Schema is that of all batches.
func (r *Reader) Schema() *arrow.Schema { return r.schema }

// Next reads a batch and tells whether there was one; Err says whether it ended
// with an error.
func (r *Reader) Next() bool {
	r.drop()
	if r.done || r.err != nil {
		return false
	}
	batch, err := r.next()
	if err != nil {
		r.err = fmt.Errorf("reading a stream: %w", err)
		return false
	}
	r.current, r.done = batch, batch == nil
	return batch != nil
}

// next is the next batch, nil at the end.
func (r *Reader) next() (arrow.RecordBatch, error) {
	if r.stream.end.Released() {
		return nil, refuse("the reader is released")
	}
	var a DeviceArray
	if err := r.ask("get_next", r.stream.getNext, unsafe.Pointer(&a)); err != nil { // an Array is its beginning
		return nil, err
	}
	if r.stream.plain {
		a.deviceType, a.deviceID = int32(arrowbuf.DeviceCPU), arrowbuf.CPU().ID()
	}
	if a.Released() {
		return nil, nil
	}
	if kind, _ := a.Device(); kind != r.stream.kind {
		defer a.Release()
		return nil, refuse("an array on %v in a stream of arrays on %v", kind, r.stream.kind)
	}
	return take(&a, r.devices, "importing a record batch", func(m *importer) (arrow.RecordBatch, error) {
		return m.batch(r.schema, r.rows)
	})
}

func (r *Reader) drop() {
	if r.current != nil {
		r.current.Release()
		r.current = nil
	}
}

// RecordBatch is the batch that Next read; it is the reader's until the next
// call.
func (r *Reader) RecordBatch() arrow.RecordBatch { return r.current }

// Record is RecordBatch.
//
// Deprecated: arrow-go's interface still asks for it.
func (r *Reader) Record() arrow.RecordBatch { return r.current }

// Err is what ended the batches, nil where they ended by themselves.
func (r *Reader) Err() error { return r.err }

// Retain adds a reference.
func (r *Reader) Retain() { r.refs.Add(1) }

// Release gives one reference back, and with the last one the stream.
func (r *Reader) Release() {
	if n := r.refs.Add(-1); n == 0 {
		r.drop()
		r.stream.end.Release()
	} else if n < 0 {
		panic(fmt.Errorf("cdevice: Release of a reader: %w", arrowbuf.ErrReleased))
	}
}
