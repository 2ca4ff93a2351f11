package cdevice

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"sync"

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
