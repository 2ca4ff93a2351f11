package arrowipc

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/quiver-gpu/quiver/arrowbuf"
)

// FileReader reads the record batches of a file to a device: in order, as an
// array.RecordReader, or any of them.
type FileReader struct {
	array.RecordReader
	decoder *Decoder
	file    fileSource
	batches []block
	mu      sync.Mutex // of the decoder
}

// fileSource is a file, in memory or not.
type fileSource struct {
	io.ReaderAt
	size   int64
	memory arrowbuf.Buffer // or nil
}

// NewFileReader returns a reader of a file of size bytes, whose bodies are read as
// NewReader reads those of files. It reads the schema and the dictionaries; what is
// wrong with the file is an error that is arrow.ErrInvalid, or one of file. Release
// gives back what it holds; file stays the caller's, until then.
func NewFileReader(file io.ReaderAt, size int64, dev arrowbuf.Device) (*FileReader, error) {
	return newFileReader(fileSource{ReaderAt: file, size: size}, dev, func() {})
}

// NewFileReaderOf is NewFileReader for a file in the memory of any device. Bodies
// on the reader's own device are shared, others are copied at once, from pinned
// memory without the processor.
func NewFileReaderOf(file arrowbuf.Buffer, dev arrowbuf.Device) (*FileReader, error) {
	if file == nil {
		return nil, fmt.Errorf("Arrow file: there is no buffer: %w", arrow.ErrInvalid)
	}
	file.Retain()
	return newFileReader(fileSource{file, file.Len(), file}, dev, file.Release)
}

// newFileReader takes over what closing gives back.
func newFileReader(file fileSource, dev arrowbuf.Device, closing func()) (r *FileReader, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("Arrow file: %w", err)
			closing()
		}
	}()
	f, err := file.readFooter()
	if err != nil {
		return nil, err
	}
	d, err := NewDecoder(f.schema, dev)
	if err != nil {
		return nil, err
	}
	r = &FileReader{decoder: d, file: file, batches: f.batches}
	for i, at := range f.dictionaries {
		if err := r.readDictionary(at); err != nil {
			d.Release()
			return nil, fmt.Errorf("dictionary %d: %w", i, err)
		}
	}
	next := 0
	r.RecordReader = arrowbuf.NewReaderFunc(d.schema, func() (arrow.RecordBatch, error) {
		if next >= len(r.batches) {
			return nil, io.EOF
		}
		next++
		return r.RecordBatchAt(next - 1)
	}, func() {
		d.Release()
		closing()
	})
	return r, nil
}

// NumBatches is how many record batches the file has.
func (r *FileReader) NumBatches() int { return len(r.batches) }

// RecordBatchAt returns a batch, which the caller owns. It may be called from any
// goroutine. A number out of range is an error that is arrow.ErrIndex.
func (r *FileReader) RecordBatchAt(i int) (arrow.RecordBatch, error) {
	if i < 0 || i >= len(r.batches) {
		return nil, fmt.Errorf("Arrow file: record batch %d of %d: %w", i, len(r.batches), arrow.ErrIndex)
	}
	batch, err := r.readMessage(r.batches[i], ipc.MessageRecordBatch)
	if err != nil {
		return nil, fmt.Errorf("Arrow file: record batch %d: %w", i, err)
	}
	return batch, nil
}

func (r *FileReader) readDictionary(at block) error {
	_, err := r.readMessage(at, ipc.MessageDictionaryBatch)
	return err
}

// readMessage reads and decodes a message.
func (r *FileReader) readMessage(at block, kind ipc.MessageType) (arrow.RecordBatch, error) {
	h, err := r.file.readMetadata(at)
	if err != nil {
		return nil, err
	}
	in, err := r.decoder.planMessage(h)
	if err == nil {
		err = in.checkType(kind)
	}
	if err == nil && kind == ipc.MessageDictionaryBatch && !in.delta && r.decoder.dictionaries[in.dictionary] != nil {
		err = fmt.Errorf("dictionary %d again: %w", in.dictionary, ErrReplacement)
	}
	if err != nil {
		return nil, err
	}
	buffers, err := in.readBody(r.file.inputAt(at.offset + int64(at.metadata)))
	if err != nil {
		return nil, fmt.Errorf("body: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return in.build(buffers)
}

// readMetadata reads that of a message.
func (s fileSource) readMetadata(at block) (header, error) {
	framed := make([]byte, at.metadata)
	if err := s.readFull(framed, at.offset); err != nil {
		return header{}, err
	}
	metadata, err := unframe(framed)
	if err != nil {
		return header{}, err
	}
	h, err := parseMessage(metadata)
	if err == nil && h.bodyLength != at.body {
		err = fmt.Errorf("a body of %d bytes where the file has %d: %w", h.bodyLength, at.body, arrow.ErrInvalid)
	}
	return h, err
}

// readFull fills b.
func (s fileSource) readFull(b []byte, at int64) error {
	n, err := s.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	return unexpectedEOF(err)
}

// inputAt reads from a place on.
func (s fileSource) inputAt(at int64) input {
	if s.memory != nil {
		return memoryInput{&bufferReader{s.memory, at}}
	}
	return sectionInput{Reader: io.NewSectionReader(s, at, s.size-at), section: section{s, at, s.size}}
}

// sectionInput is a file from a place on, of which one body is read.
type sectionInput struct {
	io.Reader
	section
}

func (s sectionInput) readBody(n int64, dev arrowbuf.Device) (arrowbuf.Buffer, error) {
	return readSection(s.section, n, dev)
}

// footer is what the end of a file says.
type footer struct {
	schema                []byte // metadata of a message
	dictionaries, batches []block
}

func (s fileSource) readFooter() (f footer, err error) {
	const least = int64(len(magic) + 2 + 4 + len(magic))
	var tail [4 + len(magic)]byte
	if s.size < least {
		return f, fmt.Errorf("a file of %d bytes: %w", s.size, arrow.ErrInvalid)
	}
	end := s.size - int64(len(tail))
	if err := s.readFull(tail[:], end); err != nil {
		return f, err
	}
	if string(tail[4:]) != magic {
		return f, fmt.Errorf("the file does not end as one: it is cut short, or was never finished: %w", arrow.ErrInvalid)
	}
	length := int64(binary.LittleEndian.Uint32(tail[:]))
	if length < 8 || length > min(maxMetadata, end) {
		return f, fmt.Errorf("a footer of %d bytes in a file of %d: %w", length, s.size, arrow.ErrInvalid)
	}
	raw := make([]byte, length)
	if err := s.readFull(raw, end-length); err != nil {
		return f, err
	}
	err = readFlat(raw, func(flat *flatReader) { f = flat.parseFooter() })
	if err != nil {
		return f, err
	}
	for _, all := range [][]block{f.dictionaries, f.batches} {
		for i, b := range all {
			if err := b.check(i, end-length); err != nil {
				return f, err
			}
		}
	}
	return f, nil
}

func (b block) check(i int, end int64) error {
	if b.offset < 0 || b.offset%8 != 0 || b.metadata < 16 || b.metadata > maxMetadata || b.body < 0 ||
		b.offset > end || b.body > end || b.offset+int64(b.metadata)+b.body > end {
		return fmt.Errorf("block %d: %d and %d bytes at %d, the footer begins at %d: %w", i, b.metadata, b.body, b.offset, end, arrow.ErrInvalid)
	}
	return nil
}

func (f *flatReader) parseFooter() (all footer) {
	root := f.follow(0)
	at, ok := f.table(root, 1)
	if !ok {
		panic(flatError("a file without a schema"))
	}
	all.schema = schemaMessage(f.raw, at)
	add := func(to *[]block) func(int) {
		return func(at int) {
			*to = append(*to, block{f.int64(at), int32(f.uint32(at + 8)), f.int64(at + 16)})
		}
	}
	f.vector(root, 2, 24, add(&all.dictionaries))
	f.vector(root, 3, 24, add(&all.batches))
	f.pairs(root, 4)
	return all
}

// block is where a message lies in a file.
type block struct {
	offset   int64
	metadata int32 // with prefix and padding
	body     int64
}

// CheckFile reads the metadata of all messages of a file, for who has it read by
// arrow-go, which believes what it says. It tells whether the file is of the other
// byte order. What is wrong is an error that is arrow.ErrInvalid, or one of reading.
func CheckFile(file io.ReaderAt, size int64) (swapped bool, err error) {
	s := fileSource{ReaderAt: file, size: size}
	f, err := s.readFooter()
	if err != nil {
		return false, err
	}
	h, err := parseMessage(f.schema)
	if err != nil {
		return false, err
	}
	for _, all := range [][]block{f.dictionaries, f.batches} {
		for i, at := range all {
			if _, err := s.readMetadata(at); err != nil {
				return false, fmt.Errorf("message %d: %w", i, err)
			}
		}
	}
	return h.fields.bigEndian, nil
}

// Registrar is a device that copies memory of the host by itself once that is
// page-locked. A *cudabuf.Device is one.
type Registrar interface {
	// RegisterReadOnly page-locks memory that nobody writes to, until the last
	// Release of the result, and copies from it.
	RegisterReadOnly(b []byte) (arrowbuf.Buffer, error)
}
