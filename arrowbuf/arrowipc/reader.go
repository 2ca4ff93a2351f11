package arrowipc

import (
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"golang.org/x/sync/errgroup"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// NewReader returns a reader of a stream that starts at the current position of r.
// Its batches are on dev: each is an *arrowbuf.RecordBatch in one allocation, valid
// until the next call of Next unless it is retained. The caller must call Release,
// and still owns r.
//
// How bodies are read depends on r. The memory of a BufferReader is shared if it is
// on dev, and otherwise copied in one call. A file (an io.ReaderAt and io.Seeker) is
// read by several goroutines into staging memory; after each message r is at its
// end. From any other reader, bytes are read in order while earlier bytes are
// copied.
//
// Metadata is checked as in Decoder.Decode. NewReader and Next return
// io.ErrUnexpectedEOF if the stream ends within a message. Compressed bodies are
// decompressed on the host by several goroutines.
func NewReader(r io.Reader, dev arrowbuf.Device) (array.RecordReader, error) {
	if r == nil || dev == nil {
		return nil, fmt.Errorf("arrowipc.NewReader: nil reader or device: %w", arrow.ErrInvalid)
	}
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

// readSchema reads the first message of a stream.
func readSchema(in input, dev arrowbuf.Device) (*Decoder, error) {
	metadata, err := ReadMetadata(in)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", unexpectedEOF(err))
	}
	return NewDecoder(metadata, dev)
}

// readNext reads and decodes a message. It returns io.EOF only at the end of the
// stream.
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

// readBody reads the body of a message to the device. It checks all that can be
// checked without the body first.
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

// ReadMessage reads the next message of a stream: its metadata, and its body to dev
// as NewReader does. The caller owns one reference to the body. ReadMessage returns
// io.EOF at the end of the stream.
func ReadMessage(r io.Reader, dev arrowbuf.Device) (metadata []byte, body arrowbuf.Buffer, err error) {
	if r == nil || dev == nil {
		return nil, nil, fmt.Errorf("arrowipc.ReadMessage: nil reader or device: %w", arrow.ErrInvalid)
	}
	in := newInput(r)
	if metadata, err = ReadMetadata(in); err != nil {
		return nil, nil, err
	}
	h, err := parseMessage(metadata)
	if err == nil {
		body, err = in.readBody(h.bodyLength, dev)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("arrowipc.ReadMessage: %w", unexpectedEOF(err))
	}
	return metadata, body, nil
}

// ReadRecordBatch makes a record batch from the message at the start of a buffer.
// The batch shares the buffer's memory, unless the body is compressed or not aligned
// to 8 bytes. ReadRecordBatch returns io.ErrUnexpectedEOF if the buffer has no
// complete message. For other errors and for dictionaries see DecodeRecordBatch. The
// caller owns one reference to the result.
func ReadRecordBatch(message arrowbuf.Buffer, schema *arrow.Schema) (arrow.RecordBatch, error) {
	if message == nil || schema == nil {
		return nil, fmt.Errorf("arrowipc.ReadRecordBatch: nil message or schema: %w", arrow.ErrInvalid)
	}
	dev := message.Device()
	metadata, body, err := ReadMessage(NewBufferReader(message), dev)
	if err != nil {
		return nil, fmt.Errorf("arrowipc.ReadRecordBatch: %w", unexpectedEOF(err))
	}
	defer body.Release()
	return DecodeRecordBatch(metadata, schema, body, dev)
}

// input is a source of messages.
type input interface {
	io.Reader
	// readBody returns the next n bytes on a device, in one allocation or in place.
	// The caller owns one reference to the result.
	readBody(n int64, dev arrowbuf.Device) (arrowbuf.Buffer, error)
}

// BufferReader reads memory that may belong to a device. NextBuffer returns the next
// n bytes, or fewer at the end, as a buffer of the same memory. The caller owns one
// reference to it. *cudabuf.BufferReader implements it.
type BufferReader interface {
	io.Reader
	NextBuffer(n int64) (arrowbuf.Buffer, error)
}

// NewBufferReader returns a reader of a buffer of any device. The caller must keep
// its reference to b while reading. Reading a nil b is an error.
func NewBufferReader(b arrowbuf.Buffer) BufferReader { return &bufferReader{buffer: b} }

var errNilBuffer = fmt.Errorf("arrowipc: nil buffer: %w", arrow.ErrInvalid)

type bufferReader struct {
	buffer arrowbuf.Buffer
	pos    int64
}

func (r *bufferReader) Read(p []byte) (int, error) {
	if r.buffer == nil {
		return 0, errNilBuffer
	}
	if r.pos >= r.buffer.Len() {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), r.buffer.Len()-r.pos)]
	n, err := r.buffer.CopyToHost(p, r.pos)
	r.pos += n
	return int(n), err
}

func (r *bufferReader) NextBuffer(n int64) (arrowbuf.Buffer, error) {
	if r.buffer == nil {
		return nil, errNilBuffer
	}
	part, err := r.buffer.Slice(r.pos, min(n, r.buffer.Len()-r.pos))
	if err == nil {
		r.pos += part.Len()
	}
	return part, err
}

// newInput returns the fastest input for r.
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

// memoryInput is memory of any device.
type memoryInput struct{ BufferReader }

func (h memoryInput) readBody(n int64, dev arrowbuf.Device) (arrowbuf.Buffer, error) {
	part, err := h.NextBuffer(n)
	if err != nil {
		return nil, err
	}
	defer part.Release()
	if part.Len() < n {
		return nil, fmt.Errorf("got %d bytes, want %d: %w", part.Len(), n, io.ErrUnexpectedEOF)
	}
	return copyIfElsewhere(part, dev)
}

// seeker is a file, or anything with its methods.
type seeker interface {
	io.ReadSeeker
	io.ReaderAt
}

// fileInput is read from its current position on, by several goroutines.
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
		err = fmt.Errorf("file of unknown size: %w", arrow.ErrInvalid)
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

// section is a file from a position on.
type section struct {
	file     io.ReaderAt
	at, size int64
}

// readSection reads n bytes to new memory of a device.
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

// streamInput is a stream of unknown length.
type streamInput struct{ io.Reader }

// firstAlloc is the size of the first allocation for a body of a streamInput. It
// grows by allocGrowth as bytes arrive, so that a false length cannot cause a large
// allocation.
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

// readInto reads a range of a buffer in chunks, while earlier chunks are copied.
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
