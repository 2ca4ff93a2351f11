package arrowipc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// Writer writes record batches of any device in the stream format. It is not safe
// for concurrent use.
type Writer struct {
	out     *output
	encoder *Encoder
	err     error // the first error of writing, returned by all later calls
	closed  bool
}

// NewWriter returns a writer of batches of a schema, and writes the schema. The
// caller must call Close at the end, and close w.
//
// The body of a batch is written in chunks; while one is written, the next is copied
// from the device. The host never holds more of it, unless it is compressed.
func NewWriter(w io.Writer, schema *arrow.Schema, options ...Option) (*Writer, error) {
	if w == nil {
		return nil, fmt.Errorf("writing an Arrow stream: nil writer: %w", arrow.ErrInvalid)
	}
	e, err := NewEncoder(schema, options...)
	if err != nil {
		return nil, fmt.Errorf("writing an Arrow stream: %w", err)
	}
	out := &Writer{out: newOutput(w), encoder: e}
	if err := out.out.write(frame(e.metadata)); err != nil {
		return nil, fmt.Errorf("writing an Arrow stream: schema: %w", err)
	}
	return out, nil
}

// Write writes a batch, after the dictionaries that have changed. It returns an
// error wrapping arrow.ErrInvalid, and writes nothing, if the batch has another
// schema or its arrays do not fit their buffers. After an error of the output or of
// a device the stream is incomplete, and all later calls return that error.
func (w *Writer) Write(batch arrow.RecordBatch) error {
	if err := w.checkUsable(); err != nil {
		return err
	}
	if err := w.writeMessages(batch, func(block, ipc.MessageType) {}); err != nil {
		return fmt.Errorf("writing an Arrow stream: %w", err)
	}
	return nil
}

// Close writes the end of the stream, unless writing has failed. A second Close does
// nothing.
func (w *Writer) Close() error {
	if w == nil || w.encoder == nil {
		return errNilWriter
	}
	if w.closed {
		return nil
	}
	w.closed = true
	w.encoder.Release()
	if w.err != nil {
		return w.err
	}
	if err := w.out.write(endOfStream); err != nil {
		return fmt.Errorf("writing an Arrow stream: %w", err)
	}
	return nil
}

var errNilWriter = fmt.Errorf("arrowipc: nil or zero writer: %w", arrow.ErrInvalid)

// checkUsable returns an error after Close or a failure.
func (w *Writer) checkUsable() error {
	switch {
	case w == nil || w.encoder == nil:
		return errNilWriter
	case w.err != nil:
		return fmt.Errorf("after an earlier failure: %w", w.err)
	case w.closed:
		return fmt.Errorf("the writer is closed: %w", fs.ErrClosed)
	}
	return nil
}

// writeMessages writes a batch, and calls wrote with the position of each message.
func (w *Writer) writeMessages(batch arrow.RecordBatch, wrote func(block, ipc.MessageType)) error {
	all, err := w.encoder.Encode(batch)
	if err != nil {
		return err
	}
	defer releaseAll(all)
	for _, m := range all {
		framed := frame(m.Metadata)
		if len(framed) > math.MaxInt32 {
			return fmt.Errorf("metadata of %d bytes: %w", len(framed), arrow.ErrInvalid)
		}
		at := w.out.written
		w.err = w.out.write(framed)
		if w.err == nil {
			w.err = w.out.writeBody(m)
		}
		if w.err != nil {
			return w.err
		}
		wrote(block{at, int32(len(framed)), m.BodyLength}, m.kind)
	}
	return nil
}

// FileWriter writes record batches of any device in the file format.
type FileWriter struct {
	w                     *Writer
	dictionaries, batches []block
}

// NewFileWriter is NewWriter for the file format, which has an index at its end and
// does not allow replacing dictionaries.
func NewFileWriter(w io.Writer, schema *arrow.Schema, options ...Option) (*FileWriter, error) {
	if w == nil {
		return nil, fmt.Errorf("writing an Arrow file: nil writer: %w", arrow.ErrInvalid)
	}
	e, err := NewEncoder(schema, options...)
	if err != nil {
		return nil, fmt.Errorf("writing an Arrow file: %w", err)
	}
	e.file = true
	f := &FileWriter{w: &Writer{out: newOutput(w), encoder: e}}
	if err := f.w.out.write(append([]byte(magic+"\x00\x00"), frame(e.metadata)...)); err != nil {
		return nil, fmt.Errorf("writing an Arrow file: schema: %w", err)
	}
	return f, nil
}

// Write is Writer.Write. It returns an error wrapping ErrDictionaryReplacement if a dictionary
// differs from an earlier batch's.
func (f *FileWriter) Write(batch arrow.RecordBatch) error {
	if f == nil {
		return errNilWriter
	}
	if err := f.w.checkUsable(); err != nil {
		return err
	}
	err := f.w.writeMessages(batch, func(at block, kind ipc.MessageType) {
		if kind == ipc.MessageDictionaryBatch {
			f.dictionaries = append(f.dictionaries, at)
		} else {
			f.batches = append(f.batches, at)
		}
	})
	if err != nil {
		return fmt.Errorf("writing an Arrow file: %w", err)
	}
	return nil
}

// Close writes the end of the file, unless writing has failed. A second Close does
// nothing.
func (f *FileWriter) Close() error {
	if f == nil || f.w == nil {
		return errNilWriter
	}
	if f.w.closed {
		return nil
	}
	schema := f.w.encoder.metadata
	if err := f.w.Close(); err != nil {
		return err
	}
	footer, err := encodeFooter(schema, f.dictionaries, f.batches)
	if err == nil {
		footer = binary.LittleEndian.AppendUint32(footer, uint32(len(footer)))
		err = f.w.out.write(append(footer, magic...))
	}
	if err != nil {
		f.w.err = errors.Join(f.w.err, err)
		return fmt.Errorf("writing an Arrow file: footer: %w", err)
	}
	return nil
}

// SerializeRecordBatch returns the message of a record batch in one new buffer of a
// device. The buffer has prefix, metadata and body as in a stream, but no
// dictionaries. The caller owns one reference and must release it.
//
// Buffers that are on the device already are copied there, unless the body is at most
// 1 MiB: then it passes through the host in two copies, which is faster.
func SerializeRecordBatch(batch arrow.RecordBatch, dev arrowbuf.Device, options ...Option) (arrowbuf.Buffer, error) {
	if dev == nil {
		return nil, fmt.Errorf("arrowipc.SerializeRecordBatch: nil device: %w", arrow.ErrInvalid)
	}
	m, err := EncodeRecordBatch(batch, options...)
	if err != nil {
		return nil, fmt.Errorf("arrowipc.SerializeRecordBatch: %w", err)
	}
	defer m.Release()
	framed := frame(m.Metadata)
	whole, err := dev.Alloc(int64(len(framed)) + m.BodyLength)
	if err != nil {
		return nil, fmt.Errorf("arrowipc.SerializeRecordBatch: %w", err)
	}
	out := newOutput(NewBufferWriter(whole))
	if err = out.write(framed); err == nil {
		err = out.writeBody(m)
	}
	if err != nil {
		whole.Release()
		return nil, fmt.Errorf("arrowipc.SerializeRecordBatch: %w", err)
	}
	return whole, nil
}

// output is the destination of messages.
type output struct {
	w       io.Writer
	tmpfs   *tmpfsFile   // w, or nil
	memory  BufferWriter // w, or nil
	written int64        // bytes
}

// BufferWriter writes to memory that may belong to a device. NextBuffer returns the
// memory of the next n bytes, which the caller must fill, as a buffer. The caller
// owns one reference to it.
type BufferWriter interface {
	io.Writer
	NextBuffer(n int64) (arrowbuf.Buffer, error)
}

// NewBufferWriter returns a writer to a buffer of any device. The caller must keep
// its reference to b while writing. Writing to a nil b is an error. Write and NextBuffer return an error wrapping
// arrowbuf.ErrOutOfRange past the end.
func NewBufferWriter(b arrowbuf.Buffer) BufferWriter { return &bufferWriter{buffer: b} }

type bufferWriter struct {
	buffer arrowbuf.Buffer
	pos    int64
}

func (w *bufferWriter) Write(p []byte) (int, error) {
	if w.buffer == nil {
		return 0, errNilBuffer
	}
	n, err := w.buffer.CopyFromHost(p, w.pos)
	w.pos += n
	return int(n), err
}

func (w *bufferWriter) NextBuffer(n int64) (arrowbuf.Buffer, error) {
	if w.buffer == nil {
		return nil, errNilBuffer
	}
	room, err := w.buffer.Slice(w.pos, n)
	if err == nil {
		w.pos += n
	}
	return room, err
}

func newOutput(w io.Writer) *output {
	memory, _ := w.(BufferWriter)
	return &output{w: w, tmpfs: newTmpfsFile(w), memory: memory}
}

func (o *output) write(b []byte) error {
	n, err := o.w.Write(b)
	o.written += int64(max(n, 0))
	if err == nil && n != len(b) {
		err = io.ErrShortWrite
	}
	return err
}

// writeBody writes the body of a message.
func (o *output) writeBody(m *Message) error {
	dev := m.device()
	switch {
	case m.BodyLength == 0:
		return nil
	case o.memory != nil:
		room, err := o.memory.NextBuffer(m.BodyLength)
		if err != nil {
			return err
		}
		defer room.Release()
		o.written += m.BodyLength
		return m.copyBodyTo(room)
	case dev != nil && o.tmpfs != nil && m.BodyLength >= minMapped:
		err := o.tmpfs.writeBody(m, dev)
		o.written += m.BodyLength
		return err
	case dev != nil:
		return o.writeChunks(m, dev)
	}
	for i := range m.buffers {
		p := &m.buffers[i]
		b, err := p.hostBytes()
		if err == nil {
			err = o.write(b)
		}
		if rest := padTo8(p.length) - p.length; err == nil && rest > 0 {
			err = o.write(make([]byte, rest))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// writeChunks writes a body that is on a device. While a chunk is written, the next
// is copied.
func (o *output) writeChunks(m *Message, dev arrowbuf.Device) error {
	type chunk struct {
		b   []byte
		err error
	}
	ready, failed := make(chan chunk, 1), make(chan struct{})
	go func() {
		defer close(ready)
		for pos := int64(0); pos < m.BodyLength; pos += maxChunk {
			b, err := allocStaging(dev, min(maxChunk, m.BodyLength-pos))
			if err == nil {
				err = m.readBody(b, pos)
			}
			select {
			case ready <- chunk{b, err}:
			case <-failed:
				ready <- chunk{b, nil} // the receiver frees b
				return
			}
			if err != nil {
				return
			}
		}
	}()
	var failure error
	for p := range ready {
		if failure == nil {
			if failure = p.err; failure == nil {
				failure = o.write(p.b)
			}
			if failure != nil {
				close(failed)
			}
		}
		if p.b != nil {
			dev.HostAllocator().Free(p.b)
		}
	}
	return failure
}

// device returns the device of the first buffer that the host cannot access, or nil.
func (m *Message) device() arrowbuf.Device {
	for i := range m.buffers {
		if p := &m.buffers[i]; p.src != nil && !arrowbuf.OnHost(p.src) {
			if b, ok := arrowbuf.FromArrow(p.src); ok {
				defer b.Release()
				return b.Device()
			}
		}
	}
	return nil
}
