package cdevice

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/quiver-gpu/quiver/arrowbuf"
)

// What a function of a stream answers: an errno of the system's.
const (
	fine         = 0
	errnoIO      = 5
	errnoMemory  = 12
	errnoInvalid = 22
)

// ExportStream fills out with a stream of the batches that a reader still has,
// all of which live on a device. It takes a reference to the reader, which goes
// when the consumer calls the stream's release. A batch that cannot be exported,
// see ExportBatch, and an error of the reader end up in the stream's
// get_last_error.
//
// The reader is used by one thread at a time, that of the consumer.
func ExportStream(r array.RecordReader, dev arrowbuf.Device, out *DeviceStream) error {
	if err := streamable(r, out != nil); err != nil {
		return err
	}
	if _, err := sharerOf(dev); err != nil {
		return fmt.Errorf("exporting a stream: %w", err)
	}
	r.Retain()
	f := functions()
	*out = DeviceStream{
		deviceType: int32(dev.Type()), private: give(&source{reader: r, dev: dev}),
		getSchema: f.getSchema, getNext: f.getNext, getLastError: f.getLastError, release: f.finish,
	}
	return nil
}

// ExportCPUStream is ExportStream for batches on the CPU, and for a consumer that
// knows no other device.
func ExportCPUStream(r array.RecordReader, out *Stream) error {
	if err := streamable(r, out != nil); err != nil {
		return err
	}
	r.Retain()
	f := functions()
	*out = Stream{
		private:   give(&source{reader: r, dev: arrowbuf.CPU()}),
		getSchema: f.getCPUSchema, getNext: f.getCPUNext, getLastError: f.getCPULastError, release: f.finishCPU,
	}
	return nil
}

// source is a stream that C has.
type source struct {
	mu      sync.Mutex
	reader  array.RecordReader
	dev     arrowbuf.Device
	failure []byte // the last one, as C's string
	pinned  runtime.Pinner
}

// sourceOf is that of a stream's private_data, nil where there is none.
func sourceOf(private uintptr) *source {
	found, _ := given.Load(private)
	s, _ := found.(*source)
	return s
}

func (s *source) getSchema(out *Schema) int {
	return s.answer(func() error { return ExportSchema(s.reader.Schema(), out) })
}

// getNext fills out with the next batch, and with a released array at the end.
func (s *source) getNext(out *DeviceArray) int {
	return s.answer(func() error {
		*out = DeviceArray{}
		if !s.reader.Next() {
			return s.reader.Err()
		}
		return ExportBatch(s.reader.RecordBatch(), s.dev, out)
	})
}

// getCPUNext is getNext for who knows no devices.
func (s *source) getCPUNext(out *Array) int {
	return s.answer(func() error {
		*out = Array{}
		if !s.reader.Next() {
			return s.reader.Err()
		}
		return ExportCPUBatch(s.reader.RecordBatch(), out)
	})
}

// answer does what C asked for. A reader that panics must not take C's stack
// with it.
func (s *source) answer(do func() error) (errno int) {
	if s == nil {
		return errnoInvalid
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err := func() (err error) {
		defer guard(&err)
		return do()
	}()
	s.note(err)
	switch {
	case err == nil:
		return fine
	case errors.Is(err, arrowbuf.ErrOutOfMemory):
		return errnoMemory
	case errors.Is(err, arrowbuf.ErrDevice):
		return errnoInvalid
	default:
		return errnoIO
	}
}

// note keeps an error's text where C finds it until the next call.
func (s *source) note(err error) {
	s.pinned.Unpin()
	s.failure = nil
	if err != nil {
		s.failure = append(bytes.ReplaceAll([]byte(err.Error()), []byte{0}, []byte{' '}), 0)
	}
}

func (s *source) lastError() uintptr {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return keep(&s.pinned, s.failure)
}

// endStream is the release of every stream, which it marks so.
func endStream(private uintptr, release *uintptr) {
	s, ok := takeBack[*source](private)
	if !ok {
		return
	}
	s.pinned.Unpin()
	s.reader.Release()
	*release = 0
}

// streamable refuses a stream that there is none of, or no place for.
func streamable(r array.RecordReader, to bool) error {
	const doing = "exporting a stream"
	switch {
	case r == nil:
		return fmt.Errorf("%s: %w", doing, refuse("there is none"))
	case !to:
		return nowhere(doing)
	}
	return supported()
}

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
