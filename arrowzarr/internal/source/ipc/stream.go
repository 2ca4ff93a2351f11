package ipc

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source"
)

// streamSource reads an Arrow IPC stream.
type streamSource struct {
	file     *source.File
	input    *source.CountingReader
	messages *messageReader
	reader   array.RecordReader
	index    *batchIndex // nil until it is needed
	fields   []int
	chosen   *arrow.Schema
	at       int
	cutter   source.RowCutter
}

// OpenStream returns a source of an Arrow IPC stream. It owns the file, unless it returns an
// error.
func OpenStream(file *source.File, o source.Options) (source.Source, error) {
	s := &streamSource{file: file, input: source.NewCountingReader(file.Stream())}
	err := arrowdata.CatchPanic(func() (err error) {
		s.messages = &messageReader{input: s.input, mem: o.Limited(), limit: o.MaxBuffer, size: file.Size}
		if _, err = s.messages.Message(); err != nil {
			return fmt.Errorf("schema: %w", source.UnexpectedEOF(err))
		}
		if s.messages.info.EmptyLists {
			s.reader, err = newDecodedReader(s.messages)
			return err
		}
		s.messages.again = true
		s.reader, err = ipc.NewReaderFromMessageReader(s.messages, ipcOptions(o)...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: Arrow IPC stream: %w", file.Name, err)
	}
	return s, nil
}

// newDecodedReader returns a reader of the batches after a schema, the last message, that
// arrow-go refuses.
func newDecodedReader(messages *messageReader) (array.RecordReader, error) {
	d, err := arrowipc.NewDecoder(messages.metadata, arrowbuf.CPU())
	if err != nil {
		return nil, err
	}
	return arrowbuf.NewReaderFunc(d.Schema(), func() (batch arrow.RecordBatch, err error) {
		for batch == nil && err == nil {
			if _, err = messages.Message(); err == nil {
				batch, err = messages.decode(d)
			}
		}
		return batch, err
	}, d.Release), nil
}

func (s *streamSource) Info() source.Info {
	return source.Info{Format: "Arrow IPC stream", Schema: s.reader.Schema(), Rows: -1, Fingerprint: s.file.Fingerprint()}
}

// loadIndex reads the metadata of all batches.
func (s *streamSource) loadIndex(ctx context.Context) (*batchIndex, error) {
	if s.index != nil {
		return s.index, nil
	}
	if s.file.Once() {
		return nil, fmt.Errorf("%s can be read only once: %w", s.file.Name, errors.ErrUnsupported)
	}
	index := &batchIndex{}
	in := s.file.Sequential()
	for at := 0; ; at++ {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		metadata, err := arrowipc.ReadMetadata(in)
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			s.index = index
			return index, nil
		}
		var message arrowipc.Info
		if err == nil {
			message, err = arrowipc.Inspect(metadata)
		}
		if err == nil {
			err = skipBody(in, message.BodyLength, s.file.Size)
		}
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", at, err)
		}
		if message.Type == ipc.MessageRecordBatch {
			index.add(message)
		}
	}
}

// skipBody skips the body of a message in a file of size bytes.
func skipBody(in io.Seeker, length, size int64) error {
	at, err := in.Seek(0, io.SeekCurrent)
	if err == nil && length > size-at {
		err = fmt.Errorf("message of %d bytes: %w", length, io.ErrUnexpectedEOF)
	}
	if err == nil {
		_, err = in.Seek(length, io.SeekCurrent)
	}
	return err
}

func (s *streamSource) Count(ctx context.Context) (source.Counts, error) {
	index, err := s.loadIndex(ctx)
	if err != nil {
		return source.Counts{}, err
	}
	return index.counts(s.reader.Schema())
}

func (s *streamSource) Open(_ context.Context, fields []int, rows source.RowRange) error {
	s.fields, s.chosen = fields, arrowdata.SelectSchema(s.reader.Schema(), fields)
	s.cutter = source.NewRowCutter(rows)
	s.messages.skip = &s.cutter.Skip
	return nil
}

func (s *streamSource) Next() (l source.Batch, err error) {
	for l.Record == nil && err == nil {
		l, err = s.nextBatch()
	}
	return l, err
}

// nextBatch returns the next batch, without batch if no row of it is in the range.
func (s *streamSource) nextBatch() (l source.Batch, err error) {
	if s.cutter.Done() {
		return source.Batch{}, io.EOF
	}
	err = arrowdata.CatchPanic(func() error {
		if !s.reader.Next() {
			if err := s.reader.Err(); err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			return io.EOF
		}
		batch := s.reader.RecordBatch()
		batch.Retain()
		if l.Record = s.cutter.Cut(arrowdata.SelectColumns(batch, s.chosen, s.fields)); l.Record != nil {
			l.Bytes = arrowdata.BatchBytes(l.Record, arrowdata.BufferLen)
		}
		return nil
	})
	if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return source.Batch{}, io.EOF
	}
	if err != nil {
		return source.Batch{}, fmt.Errorf("record batch %d: %w", s.at+s.messages.skipped, err)
	}
	s.at++
	return l, nil
}

func (s *streamSource) Position() (int64, int64) { return s.input.Count(), s.file.Size }

func (s *streamSource) Interrupt() bool { return s.file.Interrupt() }

func (s *streamSource) Close() error {
	err := arrowdata.CatchPanic(func() error { s.reader.Release(); return nil })
	return errors.Join(err, s.file.Close())
}

// messageReader reads the messages of an IPC stream for arrow-go, whose own reader
// allocates any size that they claim.
type messageReader struct {
	input *source.CountingReader
	size  int64 // of the input, or -1 if it can be read only once
	mem   memory.Allocator
	limit int64 // of a body, in bytes
	// last is the last message, and info and metadata describe it. If again is set, it is
	// the next one, too.
	last     *ipc.Message
	body     *memory.Buffer
	metadata []byte
	info     arrowipc.Info
	again    bool
	// skip is the number of rows that are not needed. Batches that have no others are
	// skipped, but not dictionaries. It is nil before the first batch.
	skip    *int64
	skipped int // batches
}

// Message returns the next message, which is valid until the next call, or io.EOF.
func (m *messageReader) Message() (*ipc.Message, error) {
	if m.again {
		m.again = false
		return m.last, nil
	}
	m.Release()
	metadata, info, err := m.readMetadata()
	if err != nil {
		return nil, err
	}
	m.metadata, m.info = metadata, info
	if size := info.BodyLength; size > m.limit {
		return nil, fmt.Errorf("a message of %d bytes, expected at most %d (half of --max-memory)", size, m.limit)
	}
	body := memory.NewResizableBuffer(m.mem)
	defer body.Release()
	meta := memory.NewBufferBytes(metadata)
	defer meta.Release()
	m.last, m.body = ipc.NewMessage(meta, body), body
	body.Resize(int(info.BodyLength))
	if _, err := io.ReadFull(m.input, body.Bytes()); err != nil {
		return nil, fmt.Errorf("message of %d bytes: %w", info.BodyLength, source.UnexpectedEOF(err))
	}
	return m.last, nil
}

// decode decodes the last message. It returns no batch for a dictionary.
func (m *messageReader) decode(d *arrowipc.Decoder) (arrow.RecordBatch, error) {
	body, err := arrowbuf.WrapHost(m.body)
	if err != nil {
		return nil, err
	}
	defer body.Release()
	return d.Decode(m.metadata, body)
}

// readMetadata reads the metadata of the next message that is needed.
func (m *messageReader) readMetadata() (metadata []byte, info arrowipc.Info, err error) {
	for {
		if metadata, err = arrowipc.ReadMetadata(m.input); err != nil {
			return nil, info, err
		}
		if info, err = arrowipc.Inspect(metadata); err != nil {
			return nil, info, err
		}
		if info.OldCodec { // which arrow-go ignores
			if metadata, err = arrowipc.CurrentMetadata(metadata); err != nil {
				return nil, info, err
			}
		}
		if m.skip == nil || *m.skip == 0 || info.Type != ipc.MessageRecordBatch || info.Rows < 0 || info.Rows > *m.skip {
			return metadata, info, nil
		}
		if err := m.input.Discard(info.BodyLength, m.size); err != nil {
			return nil, info, fmt.Errorf("message of %d bytes: %w", info.BodyLength, source.UnexpectedEOF(err))
		}
		*m.skip -= info.Rows
		m.skipped++
	}
}

// Release releases the last message. arrow-go counts references to a message reader;
// this one has a single owner.
func (m *messageReader) Release() {
	if m.last != nil {
		m.last.Release()
		m.last = nil
	}
}

// Retain does nothing: see Release.
func (m *messageReader) Retain() {}
