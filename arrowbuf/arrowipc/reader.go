package arrowipc

import (
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/quiver-gpu/quiver/arrowbuf"
	"golang.org/x/sync/errgroup"
)

// NewReader returns a reader of a stream, from where r is, whose batches live on a
// device: each an *arrowbuf.RecordBatch over one allocation, valid until the next
// unless it is retained. Its Release gives back what it holds; r stays the
// caller's.
//
// How bodies come there depends on r. What reads memory, a BufferReader, is asked
// for it: memory of the device itself is shared, any other copied at once. A file
// (an io.ReaderAt and io.Seeker) is read by several goroutines, through memory from
// which the device copies fastest, and r is left behind each message. From anything
// else the bytes come in order, while those before them are copied.
//
// Metadata is checked as Decoder.Decode says; a stream that ends within a message
// is io.ErrUnexpectedEOF. The buffers of compressed bodies are decompressed on the
// host, by several goroutines.
func NewReader(r io.Reader, dev arrowbuf.Device) (array.RecordReader, error) {
	in := newInput(r)
	d, err := readSchema(in, dev)
	if err != nil {
		return nil, fmt.Errorf("Arrow stream: %w", err)
	}
	message := 0
	return arrowbuf.NewReaderFunc(d.schema, func() (arrow.RecordBatch, error) {
		for {
			message++
			batch, err := d.readNext(in)
			if err != nil && !errors.Is(err, io.EOF) {
				err = fmt.Errorf("Arrow stream: message %d: %w", message, err)
			}
			if err != nil || batch != nil {
				return batch, err
			}
		}
	}, d.Release), nil
}

func readSchema(in input, dev arrowbuf.Device) (*Decoder, error) {
	metadata, err := ReadMetadata(in)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", unexpectedEOF(err))
	}
	return NewDecoder(metadata, dev)
}

// readNext reads and decodes a message. At the end of the stream the error is io.EOF,
// and no other error is one.
func (d *Decoder) readNext(from input) (arrow.RecordBatch, error) {
	metadata, err := ReadMetadata(from)
	if err != nil {
		return nil, err
	}
	in, err := d.prepare(metadata)
	if err != nil {
		return nil, err
	}
	buffers, err := in.readBody(from)
	if err != nil {
		return nil, fmt.Errorf("body: %w", unexpectedEOF(err))
	}
	return in.build(buffers)
}

// readBody brings the body of a message to the device, after what can be known of
// it without was checked.
func (in *incomingMessage) readBody(from input) ([]*memory.Buffer, error) {
	dev := in.dev
	if in.bodyIsVerbatim() {
		if err := in.checkLengths(); err != nil {
			return nil, err
		}
	} else {
		dev = arrowbuf.CPU()
	}
	body, err := from.readBody(in.bodyLength, dev)
	if err != nil {
		return nil, err
	}
	defer body.Release()
	return in.loadBody(body)
}

// ReadMessage reads the next message of a stream: its metadata, and its body to a
// device, as NewReader does. The caller owns a reference to the body. At the end of
// the stream the error is io.EOF.
func ReadMessage(r io.Reader, dev arrowbuf.Device) (metadata []byte, body arrowbuf.Buffer, err error) {
	in := newInput(r)
	if metadata, err = ReadMetadata(in); err != nil {
		return nil, nil, err
	}
	h, err := parseMessage(metadata)
	if err == nil {
		body, err = in.readBody(h.bodyLength, dev)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading a message: %w", unexpectedEOF(err))
	}
	return metadata, body, nil
}

// ReadRecordBatch makes a record batch of a message that a buffer begins with,
// without a copy: the batch lives where the buffer does, unless that is compressed
// or not aligned to 8. A buffer of no message is io.ErrUnexpectedEOF; for the rest
// see DecodeRecordBatch.
func ReadRecordBatch(message arrowbuf.Buffer, schema *arrow.Schema) (arrow.RecordBatch, error) {
	dev := message.Device()
	metadata, body, err := ReadMessage(NewBufferReader(message), dev)
	if err != nil {
		return nil, fmt.Errorf("reading a record batch: %w", unexpectedEOF(err))
	}
	defer body.Release()
	return DecodeRecordBatch(metadata, schema, body, dev)
}

// input is where the bytes of messages come from, one after the other.
type input interface {
	io.Reader
	// readBody moves the next n bytes to a device, in one allocation or in place. The
	// caller owns a reference.
	readBody(n int64, dev arrowbuf.Device) (arrowbuf.Buffer, error)
}

// BufferReader reads memory that may be a device's, and gives what comes next as a
// buffer of the same memory: n bytes, or fewer at the end. A *cudabuf.BufferReader
// is one.
type BufferReader interface {
	io.Reader
	NextBuffer(n int64) (arrowbuf.Buffer, error)
}

// NewBufferReader returns a reader of a buffer of any device, to which the caller
// keeps a reference as long as he reads.
func NewBufferReader(b arrowbuf.Buffer) BufferReader { return &bufferReader{buffer: b} }

type bufferReader struct {
	buffer arrowbuf.Buffer
	pos    int64
}

func (r *bufferReader) Read(p []byte) (int, error) {
	if r.pos >= r.buffer.Len() {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), r.buffer.Len()-r.pos)]
	n, err := r.buffer.CopyToHost(p, r.pos)
	r.pos += n
	return int(n), err
}

func (r *bufferReader) NextBuffer(n int64) (arrowbuf.Buffer, error) {
	part, err := r.buffer.Slice(r.pos, min(n, r.buffer.Len()-r.pos))
	if err == nil {
		r.pos += part.Len()
	}
	return part, err
}

// newInput finds the best way to read.
func newInput(r io.Reader) input {
	if memory, ok := r.(BufferReader); ok {
		return memoryInput{memory}
	}
	if file, ok := r.(seeker); ok {
		if f, err := newFileInput(file); err == nil {
			return f
		}
	}
	return streamInput{r}
}

// memoryInput is memory, wherever it is.
type memoryInput struct{ BufferReader }

func (h memoryInput) readBody(n int64, dev arrowbuf.Device) (arrowbuf.Buffer, error) {
	part, err := h.NextBuffer(n)
	if err != nil {
		return nil, err
	}
	defer part.Release()
	if part.Len() < n {
		return nil, fmt.Errorf("%d bytes of %d: %w", part.Len(), n, io.ErrUnexpectedEOF)
	}
	return copyIfElsewhere(part, dev)
}

// seeker is a file, or what can be read like one.
type seeker interface {
	io.ReadSeeker
	io.ReaderAt
}

// fileInput is read where its position says, by several goroutines.
type fileInput struct {
	seeker
	size int64
}

func newFileInput(file seeker) (s fileInput, err error) {
	at, err := file.Seek(0, io.SeekCurrent)
	if err != nil {
		return s, err
	}
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return s, err
	}
	if _, err = file.Seek(at, io.SeekStart); err == nil && size == 0 {
		err = fmt.Errorf("a file whose size is not known: %w", arrow.ErrInvalid)
	}
	return fileInput{file, size}, err
}

func (s fileInput) readBody(n int64, dev arrowbuf.Device) (arrowbuf.Buffer, error) {
	at, err := s.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil, err
	}
	b, err := readSection(section{s, at, s.size}, n, dev)
	if err != nil {
		return nil, err
	}
	if _, err := s.Seek(n, io.SeekCurrent); err != nil {
		b.Release()
		return nil, err
	}
	return b, nil
}

// section is a file from a place on.
type section struct {
	file     io.ReaderAt
	at, size int64
}

// readSection reads n bytes into new memory of a device.
func readSection(s section, n int64, dev arrowbuf.Device) (arrowbuf.Buffer, error) {
	if n > s.size-s.at {
		return nil, fmt.Errorf("%d bytes at %d of %d: %w", n, s.at, s.size, io.ErrUnexpectedEOF)
	}
	dst, err := dev.Alloc(max(n, 1))
	if err != nil {
		return nil, err
	}
	err = fillChunked(dst, n, func(b []byte, pos int64) error {
		got, err := s.file.ReadAt(b, s.at+pos)
		if got == len(b) {
			return nil
		}
		return unexpectedEOF(err)
	})
	if err != nil {
		dst.Release()
		return nil, err
	}
	return dst, nil
}

// streamInput is a stream of which nobody knows how long it is.
type streamInput struct{ io.Reader }

// firstAlloc is what is allocated for a body before any of it came; after that, for
// a multiple of what did.
var firstAlloc, allocGrowth = int64(64 << 20), int64(4)

func (p streamInput) readBody(n int64, dev arrowbuf.Device) (dst arrowbuf.Buffer, err error) {
	room, pos := min(n, firstAlloc), int64(0)
	if dst, err = dev.Alloc(max(room, 1)); err != nil {
		return nil, err
	}
	for {
		if err = p.readInto(dst, Extent{pos, room - pos}); err != nil {
			dst.Release()
			return nil, err
		}
		if room == n {
			return dst, nil
		}
		pos, room = room, min(n, allocGrowth*room)
		larger, err := dev.Alloc(room)
		if err == nil {
			if _, err = larger.CopyFromDevice(dst, 0); err != nil {
				larger.Release()
			}
		}
		dst.Release()
		if err != nil {
			return nil, err
		}
		dst = larger
	}
}

// readInto reads a range of a buffer, piece by piece, while earlier pieces are
// copied.
func (p streamInput) readInto(dst arrowbuf.Buffer, r Extent) error {
	if host, ok := arrowbuf.HostBytes(dst); ok {
		_, err := io.ReadFull(p, host[r.Offset:r.Offset+r.Length])
		return unexpectedEOF(err)
	}
	var copies errgroup.Group
	copies.SetLimit(2)
	err := func() error {
		for pos := int64(0); pos < r.Length; pos += maxChunk {
			mem, err := allocStaging(dst.Device(), min(maxChunk, r.Length-pos))
			if err != nil {
				return err
			}
			if _, err := io.ReadFull(p, mem); err != nil {
				dst.Device().HostAllocator().Free(mem)
				return unexpectedEOF(err)
			}
			copies.Go(func() error {
				defer dst.Device().HostAllocator().Free(mem)
				_, err := dst.CopyFromHost(mem, r.Offset+pos)
				return err
			})
		}
		return nil
	}()
	return errors.Join(err, copies.Wait())
}
