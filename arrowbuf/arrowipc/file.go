package arrowipc

import (
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// FileReader reads the record batches of a file to a device, in order as an
// array.RecordReader, or by index with RecordBatchAt.
type FileReader struct {
	array.RecordReader
	decoder *Decoder
	file    fileSource
	batches []block
	mu      sync.Mutex // guards decoder
}

// NewFileReader returns a reader of a file of size bytes. It reads the schema and
// the dictionaries at once, and bodies as NewReader reads those of files. It returns
// an error wrapping arrow.ErrInvalid if the file is invalid, or the error of reading
// it. The caller must call Release, and owns file, which must stay open until then.
func NewFileReader(file io.ReaderAt, size int64, dev arrowbuf.Device) (*FileReader, error) {
	if file == nil {
		return nil, fmt.Errorf("arrowipc.NewFileReader: nil file: %w", arrow.ErrInvalid)
	}
	return newFileReader(fileSource{ReaderAt: file, size: size}, dev, func() {})
}

// NewFileReaderFromBuffer is NewFileReader for a file in memory of any device. Bodies on dev
// are shared. Others are copied in one call; a device copies them from pinned memory
// without the processor. The reader holds a reference to file.
func NewFileReaderFromBuffer(file arrowbuf.Buffer, dev arrowbuf.Device) (*FileReader, error) {
	if file == nil {
		return nil, fmt.Errorf("arrowipc.NewFileReaderFromBuffer: nil buffer: %w", arrow.ErrInvalid)
	}
	file.Retain()
	return newFileReader(fileSource{file, file.Len(), file}, dev, file.Release)
}

// NumBatches returns the number of record batches in the file.
func (r *FileReader) NumBatches() int {
	if r == nil {
		return 0
	}
	return len(r.batches)
}

// RecordBatchAt returns batch i. The caller owns one reference and must release it.
// It may be called concurrently. It returns an error wrapping arrow.ErrIndex if i is
// out of range.
func (r *FileReader) RecordBatchAt(i int) (arrow.RecordBatch, error) {
	if i < 0 || i >= r.NumBatches() {
		return nil, fmt.Errorf("Arrow file: record batch %d of %d: %w", i, r.NumBatches(), arrow.ErrIndex)
	}
	batch, err := r.readMessage(r.batches[i], ipc.MessageRecordBatch)
	if err != nil {
		return nil, fmt.Errorf("Arrow file: record batch %d: %w", i, err)
	}
	return batch, nil
}

// ValidateFile reads the metadata of all messages of a file, without the bodies, in up to
// jobs goroutines. It is for files that arrow-go will read, which trusts the metadata. It
// reports whether the file has the other byte order. Unless visit is nil, it is called for
// the schema and for each record batch, in order. It returns an error wrapping
// arrow.ErrInvalid if the metadata is invalid, or the error of reading.
func ValidateFile(file io.ReaderAt, size int64, jobs int, visit func(Info)) (swapped bool, err error) {
	if file == nil {
		return false, fmt.Errorf("arrowipc.ValidateFile: nil file: %w", arrow.ErrInvalid)
	}
	s := fileSource{ReaderAt: file, size: size}
	f, err := s.readFooter()
	if err != nil {
		return false, err
	}
	h, err := parseMessage(f.schema)
	if err != nil {
		return false, err
	}
	if visit != nil {
		visit(h.info())
	}
	for _, all := range [][]block{f.dictionaries, f.batches} {
		number := 0
		for some := range groupsOf(all, max(jobs, 1)) {
			messages, err := s.readFrames(some)
			for i, framed := range messages {
				message, err := parseFramed(framed, some[i])
				if err != nil {
					return false, fmt.Errorf("message %d: %w", number, err)
				}
				if visit != nil && message.kind == ipc.MessageRecordBatch {
					visit(message.info())
				}
				number++
			}
			if err != nil {
				return false, fmt.Errorf("message %d: %w", number, err)
			}
		}
	}
	return h.fields.bigEndian, nil
}

// groupsOf yields up to n blocks at a time, whose metadata has no more bytes than the largest
// that a file may have, but for one.
func groupsOf(blocks []block, n int) iter.Seq[[]block] {
	return func(yield func([]block) bool) {
		for len(blocks) > 0 {
			size, count := int64(blocks[0].metadata), 1
			for count < min(n, len(blocks)) && size+int64(blocks[count].metadata) <= maxMetadata {
				size += int64(blocks[count].metadata)
				count++
			}
			if !yield(blocks[:count]) {
				return
			}
			blocks = blocks[count:]
		}
	}
}

// readFrames reads the metadata of messages at the same time, with prefix and padding. After an
// error it returns those before.
func (s fileSource) readFrames(blocks []block) ([][]byte, error) {
	framed, errs := make([][]byte, len(blocks)), make([]error, len(blocks))
	read := func(i int) {
		framed[i] = make([]byte, blocks[i].metadata)
		errs[i] = s.readFull(framed[i], blocks[i].offset)
	}
	var others sync.WaitGroup
	for i := range blocks[1:] {
		others.Go(func() { read(i + 1) })
	}
	read(0)
	others.Wait()
	for i, err := range errs {
		if err != nil {
			return framed[:i], err
		}
	}
	return framed, nil
}

// Registrar is a device that can copy directly from host memory after page-locking
// it. *cudabuf.Device implements it.
type Registrar interface {
	// RegisterReadOnly page-locks memory, which nothing may modify, until the last
	// Release of the result.
	RegisterReadOnly(b []byte) (arrowbuf.Buffer, error)
}

// fileSource is the content of a file.
type fileSource struct {
	io.ReaderAt
	size   int64
	memory arrowbuf.Buffer // the content, if it is in memory, or nil
}

// newFileReader returns a reader that calls closing at its last release, or at once
// if it fails.
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
		err = fmt.Errorf("a second version of dictionary %d: %w", in.dictionary, ErrDictionaryReplacement)
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

// readMetadata reads and parses the metadata of a message.
func (s fileSource) readMetadata(at block) (header, error) {
	framed := make([]byte, at.metadata)
	if err := s.readFull(framed, at.offset); err != nil {
		return header{}, err
	}
	return parseFramed(framed, at)
}

// parseFramed parses the metadata of a message, with prefix and padding.
func parseFramed(framed []byte, at block) (header, error) {
	metadata, err := unframe(framed)
	if err != nil {
		return header{}, err
	}
	h, err := parseMessage(metadata)
	if err == nil && h.bodyLength != at.body {
		err = fmt.Errorf("a body of %d bytes, but the footer says %d: %w", h.bodyLength, at.body, arrow.ErrInvalid)
	}
	return h, err
}

// readFull fills b with the bytes at a position.
func (s fileSource) readFull(b []byte, at int64) error {
	n, err := s.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	return unexpectedEOF(err)
}

// inputAt returns an input that starts at a position.
func (s fileSource) inputAt(at int64) input {
	if s.memory != nil {
		return memoryInput{&bufferReader{s.memory, at}}
	}
	return sectionInput{Reader: io.NewSectionReader(s, at, s.size-at), section: section{s, at, s.size}}
}

// sectionInput is an input that starts at a position of a file, of which one body is
// read.
type sectionInput struct {
	io.Reader
	section
}

func (s sectionInput) readBody(n int64, dev arrowbuf.Device) (arrowbuf.Buffer, error) {
	return readSection(s.section, n, dev)
}

// footer is the index at the end of a file.
type footer struct {
	schema                []byte // metadata of a schema message
	dictionaries, batches []block
}

// block is the position of a message in a file (struct Block in File.fbs).
type block struct {
	offset   int64
	metadata int32 // length, with prefix and padding
	body     int64 // length
}

// readFooter reads and checks the footer.
func (s fileSource) readFooter() (f footer, err error) {
	const least = int64(len(magic) + 2 + 4 + len(magic))
	var tail [4 + len(magic)]byte
	if s.size < least {
		return f, fmt.Errorf("a file of %d bytes, want at least %d: %w", s.size, least, arrow.ErrInvalid)
	}
	end := s.size - int64(len(tail))
	if err := s.readFull(tail[:], end); err != nil {
		return f, err
	}
	if string(tail[4:]) != magic {
		return f, fmt.Errorf("the file does not end with ARROW1: truncated or unfinished: %w", arrow.ErrInvalid)
	}
	length := int64(binary.LittleEndian.Uint32(tail[:]))
	if length < 8 || length > min(maxMetadata, end) {
		return f, fmt.Errorf("footer of %d bytes in a file of %d: %w", length, s.size, arrow.ErrInvalid)
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

// check returns an error unless the block lies before end, where the footer begins.
func (b block) check(i int, end int64) error {
	if b.offset < 0 || b.offset%8 != 0 || b.metadata < 16 || b.metadata > maxMetadata || b.body < 0 ||
		b.offset > end || b.body > end || b.offset+int64(b.metadata)+b.body > end {
		return fmt.Errorf("block %d: metadata of %d and body of %d bytes at %d, but the footer begins at %d: %w", i, b.metadata, b.body, b.offset, end, arrow.ErrInvalid)
	}
	return nil
}

// parseFooter parses table Footer.
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
