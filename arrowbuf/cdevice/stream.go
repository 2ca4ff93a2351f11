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

// The results of a stream's functions: errno values.
const (
	errnoOK      = 0
	errnoIO      = 5
	errnoMemory  = 12
	errnoInvalid = 22
)

// ExportStream fills out with a stream of the remaining batches of a reader, all of
// which must be on dev. The stream holds a reference to the reader until the
// consumer calls its release. Errors of the reader and of ExportBatch are passed to
// the consumer by get_last_error.
//
// The consumer's thread calls the reader, one call at a time.
func ExportStream(r array.RecordReader, dev arrowbuf.Device, out *DeviceStream) error {
	if err := checkStream(r, out != nil); err != nil {
		return err
	}
	if _, err := sharerOf(dev); err != nil {
		return fmt.Errorf("cdevice.ExportStream: %w", err)
	}
	r.Retain()
	f := functions()
	*out = DeviceStream{
		deviceType: int32(dev.Type()), private: newHandle(&exportedStream{reader: r, dev: dev}),
		getSchema: f.getSchema, getNext: f.getNext, getLastError: f.getLastError, release: f.finish,
	}
	return nil
}

// ExportCPUStream is ExportStream for batches on the CPU, and for a consumer without
// devices.
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

// exportedStream is a stream that C uses.
type exportedStream struct {
	mu      sync.Mutex
	reader  array.RecordReader
	dev     arrowbuf.Device
	failure []byte // the last error, as a C string
	pinned  runtime.Pinner
}

// streamOfHandle returns the stream of a private_data, or nil.
func streamOfHandle(private uintptr) *exportedStream {
	found, _ := handles.Load(private)
	s, _ := found.(*exportedStream)
	return s
}

func (s *exportedStream) getSchema(out *Schema) int {
	return s.run(func() error { return ExportSchema(s.reader.Schema(), out) })
}

// getNext fills out with the next batch, or with a released array at the end.
func (s *exportedStream) getNext(out *DeviceArray) int {
	return s.run(func() error {
		*out = DeviceArray{}
		if !s.reader.Next() {
			return s.reader.Err()
		}
		return ExportBatch(s.reader.RecordBatch(), s.dev, out)
	})
}

// getCPUNext is getNext for a consumer without devices.
func (s *exportedStream) getCPUNext(out *Array) int {
	return s.run(func() error {
		*out = Array{}
		if !s.reader.Next() {
			return s.reader.Err()
		}
		return ExportCPUBatch(s.reader.RecordBatch(), out)
	})
}

// run calls f, keeps its error and returns its errno. A panic must not unwind C's
// stack.
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

// setError keeps the text of an error until the next call.
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

// releaseStream is the release function of every exported stream. It marks the
// struct released.
func releaseStream(private uintptr, release *uintptr) {
	s, ok := removeHandle[*exportedStream](private)
	if !ok {
		return
	}
	s.pinned.Unpin()
	s.reader.Release()
	*release = 0
}

// checkStream returns an error if the reader or the struct is nil.
func checkStream(r array.RecordReader, to bool) error {
	const operation = "cdevice.ExportStream"
	switch {
	case r == nil:
		return fmt.Errorf("%s: %w", operation, invalidf("nil reader"))
	case !to:
		return errNilStruct(operation)
	}
	return checkSupported()
}

// Reader reads the batches of a stream of another library, as an array.RecordReader.
// It is not safe for concurrent use, except for Retain and Release. The last Release
// releases the stream; batches that are retained stay valid.
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

// ImportStream imports a stream of record batches, whose memory must be on the CPU
// or on one of devices, as in ImportBatch. The caller owns one reference to the
// result and must release it. It returns an error wrapping arrow.ErrInvalid if the
// stream is released or its arrays are not structs. After an error the stream is
// released.
func ImportStream(in *DeviceStream, devices ...arrowbuf.Device) (*Reader, error) {
	if err := checkSupported(); err != nil {
		return nil, err
	}
	if in == nil || in.Released() {
		return nil, fmt.Errorf("cdevice.ImportStream: the struct is nil or released: %w", arrow.ErrInvalid)
	}
	s := move(in)
	return newReader(&importedStream{
		self: unsafe.Pointer(s), deviceType: s.DeviceType(), base: s,
		getSchema: s.getSchema, getNext: s.getNext, getLastError: s.getLastError,
	}, devices)
}

// ImportCPUStream is ImportStream for the interface without devices.
func ImportCPUStream(in *Stream) (*Reader, error) {
	if err := checkSupported(); err != nil {
		return nil, err
	}
	if in == nil || in.Released() {
		return nil, fmt.Errorf("cdevice.ImportCPUStream: the struct is nil or released: %w", arrow.ErrInvalid)
	}
	s := move(in)
	return newReader(&importedStream{
		self: unsafe.Pointer(s), deviceType: arrowbuf.DeviceCPU, cpuOnly: true, base: s,
		getSchema: s.getSchema, getNext: s.getNext, getLastError: s.getLastError,
	}, nil)
}

// importedStream is a stream of another library. Its struct was moved here; its
// functions take the address of the struct.
type importedStream struct {
	self                             unsafe.Pointer
	getSchema, getNext, getLastError uintptr
	deviceType                       arrowbuf.DeviceType
	cpuOnly                          bool // its arrays are of type Array
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
		return nil, fmt.Errorf("cdevice.ImportStream: %w", err)
	}
	return r, nil
}

func (r *Reader) readSchema() error {
	if r.stream.getSchema == 0 || r.stream.getNext == 0 {
		return invalidf("get_schema or get_next is NULL")
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
	reason := "no error text"
	if r.stream.getLastError != 0 {
		if text := cString(call(r.stream.getLastError, uintptr(r.stream.self))); text != "" {
			reason = text
		}
	}
	return fmt.Errorf("%s of the stream returned errno %d: %s", name, errno, reason)
}

// Schema returns the schema of all batches. Only ImportStream and ImportCPUStream make
// a Reader: that of a nil or zero Reader is nil.
func (r *Reader) Schema() *arrow.Schema {
	if r == nil {
		return nil
	}
	return r.schema
}

// Next reads a batch and reports whether there was one. If it returns false, Err
// returns the error, if any.
func (r *Reader) Next() bool {
	if r.checkMade() != nil {
		return false
	}
	r.releaseBatch()
	if r.done || r.err != nil {
		return false
	}
	batch, err := r.readNext()
	if err != nil {
		r.err = fmt.Errorf("cdevice.Reader: %w", err)
		return false
	}
	r.current, r.done = batch, batch == nil
	return batch != nil
}

// readNext returns the next batch, or nil at the end.
func (r *Reader) readNext() (arrow.RecordBatch, error) {
	if r.stream.base.Released() {
		return nil, invalidf("the reader is released")
	}
	var a DeviceArray
	if err := r.call("get_next", r.stream.getNext, unsafe.Pointer(&a)); err != nil { // an Array is the start of a DeviceArray
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
	return importMoved(&a, r.devices, "cdevice.ImportBatch", func(m *importer) (arrow.RecordBatch, error) {
		return m.importBatch(r.schema, r.rows)
	})
}

func (r *Reader) releaseBatch() {
	if r.current != nil {
		r.current.Release()
		r.current = nil
	}
}

// RecordBatch returns the batch that Next has read. It is valid until the next call
// of Next, unless it is retained.
func (r *Reader) RecordBatch() arrow.RecordBatch {
	if r == nil {
		return nil
	}
	return r.current
}

// Record is RecordBatch.
//
// Deprecated: arrow-go's interface still requires it.
func (r *Reader) Record() arrow.RecordBatch { return r.RecordBatch() }

// Err returns the error that ended the batches, or nil.
func (r *Reader) Err() error {
	if err := r.checkMade(); err != nil {
		return err
	}
	return r.err
}

// checkMade returns an error for a nil or zero Reader.
func (r *Reader) checkMade() error {
	if r == nil || r.stream == nil {
		return fmt.Errorf("cdevice.Reader: %w", invalidf("nil or zero reader"))
	}
	return nil
}

// Retain adds a reference. It panics after the last release.
func (r *Reader) Retain() {
	if r == nil || r.refs.Add(1) <= 1 {
		panic(fmt.Errorf("cdevice.Reader.Retain: %w", arrowbuf.ErrReleased))
	}
}

// Release releases one reference; the last releases the stream. It panics if there
// are more releases than references.
func (r *Reader) Release() {
	if r == nil {
		panic(fmt.Errorf("cdevice.Reader.Release: nil reader: %w", arrowbuf.ErrReleased))
	}
	if n := r.refs.Add(-1); n == 0 {
		r.releaseBatch()
		r.stream.base.Release()
	} else if n < 0 {
		panic(fmt.Errorf("cdevice.Reader.Release: %w", arrowbuf.ErrReleased))
	}
}
