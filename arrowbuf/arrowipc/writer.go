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
)

// Writer writes record batches of any device in the stream format. It is not for
// concurrent use.
type Writer struct {
	out     *output
	encoder *Encoder
	err     error // the first of writing, which is the answer to all that follows
	closed  bool
}

// NewWriter returns a writer of batches of a schema, and writes the schema. The
// caller calls Close at the end, and closes w.
//
// Of each batch its metadata is written and then its body, in pieces that come
// from the device while others are written; there is never more of it on the host,
// unless it is compressed.
func NewWriter(w io.Writer, schema *arrow.Schema, options ...Option) (*Writer, error) {
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

// Write writes a batch, with the dictionaries that changed. A batch of another
// schema, or with arrays that do not fit their buffers, is an error that is
// arrow.ErrInvalid, before anything of it is written; one of the output, or of a
// device, leaves the stream cut short, and is the answer to all that follows.
func (w *Writer) Write(batch arrow.RecordBatch) error {
	if err := w.usable(); err != nil {
		return err
	}
	if err := w.messages(batch, func(block, ipc.MessageType) {}); err != nil {
		return fmt.Errorf("writing an Arrow stream: %w", err)
	}
	return nil
}

func (w *Writer) usable() error {
	switch {
	case w.err != nil:
		return fmt.Errorf("after an earlier failure: %w", w.err)
	case w.closed:
		return fmt.Errorf("the writer of an Arrow stream or file: %w", fs.ErrClosed)
	}
	return nil
}

// messages writes a batch, and says where each message came.
func (w *Writer) messages(batch arrow.RecordBatch, wrote func(block, ipc.MessageType)) error {
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
		at := w.out.at
		w.err = w.out.write(framed)
		if w.err == nil {
			w.err = w.out.body(m)
		}
		if w.err != nil {
			return w.err
		}
		wrote(block{at, int32(len(framed)), m.BodyLength}, m.kind)
	}
	return nil
}

// Close writes the end of the stream, unless writing failed. A second Close does
// nothing.
func (w *Writer) Close() error {
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

// FileWriter writes record batches of any device in the file format.
type FileWriter struct {
	w                     *Writer
	dictionaries, batches []block
}

// NewFileWriter is NewWriter for the file format, which has an index at its end
// and cannot replace dictionaries.
func NewFileWriter(w io.Writer, schema *arrow.Schema, options ...Option) (*FileWriter, error) {
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

// Write is that of Writer. A batch with a dictionary of other values than an
// earlier one's is ErrReplacement.
func (f *FileWriter) Write(batch arrow.RecordBatch) error {
	if err := f.w.usable(); err != nil {
		return err
	}
	err := f.w.messages(batch, func(at block, kind ipc.MessageType) {
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

// Close writes the end of the file, unless writing failed. A second Close does
// nothing.
func (f *FileWriter) Close() error {
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
