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
	errnoOK      = 0
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
	if err := checkStream(r, out != nil); err != nil {
		return err
	}
	if _, err := sharerOf(dev); err != nil {
		return fmt.Errorf("exporting a stream: %w", err)
	}
	r.Retain()
	f := functions()
	*out = DeviceStream{
		deviceType: int32(dev.Type()), private: newHandle(&exportedStream{reader: r, dev: dev}),
		getSchema: f.getSchema, getNext: f.getNext, getLastError: f.getLastError, release: f.finish,
	}
	return nil
}

// ExportCPUStream is ExportStream for batches on the CPU, and for a consumer that
// knows no other device.
func ExportCPUStream(r array.RecordReader, out *Stream) error {
	if err := checkStream(r, out != nil); err != nil {
		return err
	}
	r.Retain()
	f := functions()
	*out = Stream{
		private:   newHandle(&exportedStream{reader: r, dev: arrowbuf.CPU()}),
		getSchema: f.getCPUSchema, getNext: f.getCPUNext, getLastError: f.getCPULastError, release: f.finishCPU,
	}
	return nil
}

// exportedStream is a stream that C has.
type exportedStream struct {
	mu      sync.Mutex
	reader  array.RecordReader
	dev     arrowbuf.Device
	failure []byte // the last one, as C's string
	pinned  runtime.Pinner
}

// streamOfHandle is that of a stream's private_data, nil where there is none.
func streamOfHandle(private uintptr) *exportedStream {
	found, _ := handles.Load(private)
	s, _ := found.(*exportedStream)
	return s
}

func (s *exportedStream) getSchema(out *Schema) int {
	return s.run(func() error { return ExportSchema(s.reader.Schema(), out) })
}

// getNext fills out with the next batch, and with a released array at the end.
func (s *exportedStream) getNext(out *DeviceArray) int {
	return s.run(func() error {
		*out = DeviceArray{}
		if !s.reader.Next() {
			return s.reader.Err()
		}
		return ExportBatch(s.reader.RecordBatch(), s.dev, out)
	})
}

// getCPUNext is getNext for who knows no devices.
func (s *exportedStream) getCPUNext(out *Array) int {
	return s.run(func() error {
		*out = Array{}
		if !s.reader.Next() {
			return s.reader.Err()
		}
		return ExportCPUBatch(s.reader.RecordBatch(), out)
	})
}

// run does what C asked for. A reader that panics must not take C's stack
// with it.
func (s *exportedStream) run(do func() error) (errno int) {
	if s == nil {
		return errnoInvalid
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err := func() (err error) {
		defer panicToError(&err)
		return do()
	}()
	s.setError(err)
	switch {
	case err == nil:
		return errnoOK
	case errors.Is(err, arrowbuf.ErrOutOfMemory):
		return errnoMemory
	case errors.Is(err, arrowbuf.ErrDevice):
		return errnoInvalid
	default:
		return errnoIO
	}
}

// setError keeps an error's text where C finds it until the next call.
func (s *exportedStream) setError(err error) {
	s.pinned.Unpin()
	s.failure = nil
	if err != nil {
		s.failure = append(bytes.ReplaceAll([]byte(err.Error()), []byte{0}, []byte{' '}), 0)
	}
}

func (s *exportedStream) lastError() uintptr {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return pinSlice(&s.pinned, s.failure)
}

// releaseStream is the release of every stream, which it marks so.
func releaseStream(private uintptr, release *uintptr) {
	s, ok := removeHandle[*exportedStream](private)
	if !ok {
		return
	}
	s.pinned.Unpin()
	s.reader.Release()
	*release = 0
}

// checkStream refuses a stream that there is none of, or no place for.
func checkStream(r array.RecordReader, to bool) error {
	const doing = "exporting a stream"
	switch {
	case r == nil:
		return fmt.Errorf("%s: %w", doing, invalidf("there is none"))
	case !to:
		return errNilStruct(doing)
	}
	return checkSupported()
}

// Reader reads the batches of a stream of another library. It is an
// array.RecordReader: one goroutine uses it, and Retain and Release count who
// wants it. With the last reference the stream goes; batches that are retained
// live on.
type Reader struct {
	refs    atomic.Int64
	stream  *importedStream
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
	if err := checkSupported(); err != nil {
		return nil, err
	}
	if in == nil || in.Released() {
		return nil, fmt.Errorf("importing a stream: there is none, or it is released: %w", arrow.ErrInvalid)
	}
	s := move(in)
	return newReader(&importedStream{
		self: unsafe.Pointer(s), deviceType: s.DeviceType(), base: s,
		getSchema: s.getSchema, getNext: s.getNext, getLastError: s.getLastError,
	}, devices)
}

// ImportCPUStream is ImportStream for a struct of the interface that knows no
// devices.
func ImportCPUStream(in *Stream) (*Reader, error) {
	if err := checkSupported(); err != nil {
		return nil, err
	}
	if in == nil || in.Released() {
		return nil, fmt.Errorf("importing a stream: there is none, or it is released: %w", arrow.ErrInvalid)
	}
	s := move(in)
	return newReader(&importedStream{
		self: unsafe.Pointer(s), deviceType: arrowbuf.DeviceCPU, cpuOnly: true, base: s,
		getSchema: s.getSchema, getNext: s.getNext, getLastError: s.getLastError,
	}, nil)
}

// importedStream is a stream of another library: its struct, which was moved here, and
// its functions, which get the struct's address.
type importedStream struct {
	self                             unsafe.Pointer
	getSchema, getNext, getLastError uintptr
	deviceType                       arrowbuf.DeviceType
	cpuOnly                          bool // its arrays are Arrays
	base                             interface {
		Release()
		Released() bool
	}
}

func newReader(s *importedStream, devices []arrowbuf.Device) (*Reader, error) {
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
		return invalidf("its functions are missing")
	}
	var s Schema
	if err := r.call("get_schema", r.stream.getSchema, unsafe.Pointer(&s)); err != nil {
		return err
	}
	schema, err := ImportSchema(&s)
	if err != nil {
		return err
	}
	r.schema, r.rows = schema, arrow.StructOf(schema.Fields()...)
	return nil
}

// call calls a function of the stream that fills out.
func (r *Reader) call(name string, function uintptr, out unsafe.Pointer) error {
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
	r.releaseBatch()
	if r.done || r.err != nil {
		return false
	}
	batch, err := r.readNext()
	if err != nil {
		r.err = fmt.Errorf("reading a stream: %w", err)
		return false
	}
	r.current, r.done = batch, batch == nil
	return batch != nil
}

// readNext is the next batch, nil at the end.
func (r *Reader) readNext() (arrow.RecordBatch, error) {
	if r.stream.base.Released() {
		return nil, invalidf("the reader is released")
	}
	var a DeviceArray
	if err := r.call("get_next", r.stream.getNext, unsafe.Pointer(&a)); err != nil { // an Array is its beginning
		return nil, err
	}
	if r.stream.cpuOnly {
		a.deviceType, a.deviceID = int32(arrowbuf.DeviceCPU), arrowbuf.CPU().ID()
	}
	if a.Released() {
		return nil, nil
	}
	if kind, _ := a.Device(); kind != r.stream.deviceType {
		defer a.Release()
		return nil, invalidf("an array on %v in a stream of arrays on %v", kind, r.stream.deviceType)
	}
	return importMoved(&a, r.devices, "importing a record batch", func(m *importer) (arrow.RecordBatch, error) {
		return m.importBatch(r.schema, r.rows)
	})
}

func (r *Reader) releaseBatch() {
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
		r.releaseBatch()
		r.stream.base.Release()
	} else if n < 0 {
		panic(fmt.Errorf("cdevice: Release of a reader: %w", arrowbuf.ErrReleased))
	}
}
