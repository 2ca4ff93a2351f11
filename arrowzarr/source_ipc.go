package arrowzarr

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"golang.org/x/sync/errgroup"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
)

func ipcOptions(r sourceOptions) []ipc.Option {
	return []ipc.Option{
		ipc.WithAllocator(r.limited()),
		ipc.WithBodySizeLimit(r.maxBuffer),
	}
}

// fileSource reads an Arrow IPC file (Feather version 2): through a mapping, or into
// memory of an allocator.
type fileSource struct {
	file   *inputFile
	index  batchIndex
	mapped *mapping // nil if the file is read into memory
	reader *ipc.FileReader
	// batches is the number of batches. It is kept because the footer is in the
	// mapping.
	batches int
	fields  []int
	chosen  *arrow.Schema
	at      int
	cutter  rowCutter
}

func newFileSource(file *inputFile, r sourceOptions) (source, error) {
	s := &fileSource{file: file}
	err := catchPanic(func() (err error) {
		swapped, err := arrowipc.ValidateFile(file, file.size, s.index.add)
		if err != nil || s.index.asStream {
			return err
		}
		jobs := r.jobs
		if file.isRemote() {
			jobs = max(jobs, remoteRequests)
		}
		s.reader, err = ipc.NewFileReader(parallelReaderAt{file, file.sequential(), jobs}, ipcOptions(r)...)
		// arrow-go's reader of mapped files supports neither dictionaries nor
		// swapping bytes.
		if err != nil || !r.allowMapping || !canMapFiles || file.isRemote() || swapped || slices.ContainsFunc(s.reader.Schema().Fields(), hasDictionary) {
			return err
		}
		if err := s.reader.Close(); err != nil {
			return err
		}
		if s.mapped, err = newMapping(file); err != nil {
			return err
		}
		// A mapped batch may be of any size: it is read region by region.
		s.reader, err = ipc.NewMappedFileReader(s.mapped.content(), append(ipcOptions(r), ipc.WithBodySizeLimit(0))...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: Arrow IPC file: %w", file.name, errors.Join(err, s.mapped.close()))
	}
	if s.index.asStream {
		return newStreamedFileSource(file, r)
	}
	s.batches = s.reader.NumRecords()
	return s, nil
}

// streamedFileSource reads a file in order, as the stream that it contains: one that
// Arrow 0.17 compressed, or with lists of size 0. arrow-go's reader of files has no place
// where metadata or a decoder could be replaced.
type streamedFileSource struct{ *streamSource }

// newStreamedFileSource reads the messages between the file's magic and its footer.
func newStreamedFileSource(file *inputFile, r sourceOptions) (source, error) {
	const start = 8 // the magic and its padding
	s, err := newStreamSource(file.from(start), r)
	if err != nil {
		return nil, err
	}
	return streamedFileSource{s.(*streamSource)}, nil
}

func (s streamedFileSource) format() string { return "Arrow IPC file" }

// hasDictionary reports whether a field, or one inside it, is a dictionary.
func hasDictionary(field arrow.Field) bool {
	t := storageType(field.Type)
	if nested, ok := t.(arrow.NestedType); ok {
		return slices.ContainsFunc(nested.Fields(), hasDictionary)
	}
	return t.ID() == arrow.DICTIONARY
}

func (s *fileSource) format() string        { return "Arrow IPC file" }
func (s *fileSource) schema() *arrow.Schema { return s.reader.Schema() }

func (s *fileSource) rows() int64 {
	n, err := s.index.count()
	if err != nil { // reading the batch will fail
		return -1
	}
	return n
}

func (s *fileSource) count(context.Context) (int64, error) { return s.index.count() }

func (s *fileSource) nulls(context.Context) ([]int64, error) { return s.index.nullCounts(s.schema()) }

func (s *fileSource) fingerprint() string { return s.file.fingerprint() }

func (s *fileSource) open(_ context.Context, fields []int, rows rowRange) error {
	s.fields, s.chosen = fields, selectSchema(s.schema(), fields)
	s.cutter = newRowCutter(rows)
	if rows.from > 0 {
		if _, err := s.index.count(); err != nil {
			return err
		}
		for s.at < s.batches && s.index.rows[s.at] <= s.cutter.skip {
			s.cutter.skip -= s.index.rows[s.at]
			s.at++
		}
	}
	return nil
}

func (s *fileSource) next() (l sourceBatch, err error) {
	for l.batch == nil && err == nil {
		l, err = s.nextBatch()
	}
	return l, err
}

// nextBatch returns the next batch, without batch if no row of it is in the range.
func (s *fileSource) nextBatch() (l sourceBatch, err error) {
	if s.at >= s.batches || s.cutter.done() {
		return sourceBatch{}, io.EOF
	}
	err = catchPanic(func() error {
		batch, err := s.reader.RecordBatchAt(s.at)
		if err != nil {
			return err
		}
		if l.batch = s.cutter.cut(selectColumns(batch, s.chosen, s.fields)); l.batch == nil {
			return nil
		}
		l.bytes = batchBytes(l.batch, s.mapped.lenOutside)
		if l.bytes > 0 {
			s.mapped.evictAll() // batches that are copied were decompressed from it
		}
		return nil
	})
	if err != nil {
		return sourceBatch{}, fmt.Errorf("record batch %d: %w", s.at, err)
	}
	s.at++
	return l, nil
}

func (s *fileSource) position() (int64, int64) {
	n, size := int64(s.batches), s.file.size
	if n == 0 {
		return size, size
	}
	return size / n * int64(s.at), size
}

func (s *fileSource) mapping() *mapping { return s.mapped }

func (s *fileSource) interrupt() bool { return true }

func (s *fileSource) close() error {
	return errors.Join(catchPanic(s.reader.Close), s.mapped.close(), s.file.close())
}

// batchIndex has what the metadata of the record batches of an input says.
type batchIndex struct {
	rows   []int64 // by batch
	total  int64
	totals []int64 // of nulls, by array, depth first; -1 if a batch does not say
	err    error   // the index is invalid
	// asStream reports whether arrow-go cannot read the file as one: a batch is compressed
	// as Arrow 0.17 did it, or the schema has lists of size 0.
	asStream bool
}

// add adds what the next message says: the schema, or a record batch.
func (x *batchIndex) add(info arrowipc.Info) {
	x.asStream = x.asStream || info.OldCodec || info.EmptyLists
	if info.Type != ipc.MessageRecordBatch {
		return
	}
	x.rows = append(x.rows, info.Rows)
	if len(x.rows) == 1 {
		x.totals = make([]int64, len(info.Nulls))
	}
	switch {
	case x.err != nil:
	case info.Rows < 0 || info.Rows > math.MaxInt64-x.total:
		x.err = fmt.Errorf("record batch %d: %d rows: %w", len(x.rows)-1, info.Rows, errMalformed)
	case len(info.Nulls) != len(x.totals):
		x.err = fmt.Errorf("record batch %d: %d arrays, and others have %d: %w", len(x.rows)-1, len(info.Nulls), len(x.totals), errMalformed)
	default:
		x.total += info.Rows
		for i, n := range info.Nulls {
			if x.totals[i] < 0 || n < 0 || n > math.MaxInt64-x.totals[i] {
				x.totals[i] = -1
			} else {
				x.totals[i] += n
			}
		}
	}
}

func (x *batchIndex) count() (int64, error) { return x.total, x.err }

// nullCounts returns the numbers of nulls of the fields.
func (x *batchIndex) nullCounts(schema *arrow.Schema) ([]int64, error) {
	counts := make([]int64, schema.NumFields())
	if x.err != nil || len(x.rows) == 0 {
		return counts, x.err
	}
	at := 0
	for i, f := range schema.Fields() {
		t := storageType(f.Type)
		arrays := countArrays(t)
		if at+arrays > len(x.totals) {
			return nil, fmt.Errorf("%d arrays in a record batch, expected at least %d: %w", len(x.totals), at+arrays, errMalformed)
		}
		counts[i] = x.totals[at]
		switch t.ID() {
		case arrow.NULL:
			counts[i] = x.total
		case arrow.SPARSE_UNION, arrow.DENSE_UNION: // they have no nulls of their own
			counts[i] = 0
		case arrow.RUN_END_ENCODED:
			// The array has none, and a null among its values is a run of any length.
			if counts[i] = x.totals[at+2]; counts[i] > 0 || storageType(t.(*arrow.RunEndEncodedType).Encoded()).ID() == arrow.NULL {
				counts[i] = -1
			}
		}
		at += arrays
	}
	return counts, nil
}

// countArrays returns the number of arrays that the metadata of a batch lists for a
// column of a type.
func countArrays(t arrow.DataType) int {
	n := 1
	if nested, ok := storageType(t).(arrow.NestedType); ok {
		for _, f := range nested.Fields() {
			n += countArrays(f.Type)
		}
	}
	return n
}

// streamSource reads an Arrow IPC stream.
type streamSource struct {
	file     *inputFile
	input    *countingReader
	messages *messageReader
	reader   array.RecordReader
	index    *batchIndex // nil until it is needed
	fields   []int
	chosen   *arrow.Schema
	at       int
	cutter   rowCutter
}

func newStreamSource(file *inputFile, r sourceOptions) (source, error) {
	s := &streamSource{file: file, input: newCountingReader(file.stream())}
	err := catchPanic(func() (err error) {
		s.messages = &messageReader{input: s.input, mem: r.limited(), limit: r.maxBuffer, size: file.size}
		if _, err = s.messages.Message(); err != nil {
			return fmt.Errorf("schema: %w", unexpectedEOF(err))
		}
		if s.messages.info.EmptyLists {
			s.reader, err = newDecodedReader(s.messages)
			return err
		}
		s.messages.again = true
		s.reader, err = ipc.NewReaderFromMessageReader(s.messages, ipcOptions(r)...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: Arrow IPC stream: %w", file.name, err)
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

func (s *streamSource) format() string        { return "Arrow IPC stream" }
func (s *streamSource) schema() *arrow.Schema { return s.reader.Schema() }
func (s *streamSource) rows() int64           { return -1 }

// loadIndex reads the metadata of all batches.
func (s *streamSource) loadIndex(ctx context.Context) (*batchIndex, error) {
	if s.index != nil {
		return s.index, nil
	}
	if s.file.once() {
		return nil, fmt.Errorf("%s can be read only once: %w", s.file.name, errors.ErrUnsupported)
	}
	index := &batchIndex{}
	in := s.file.sequential()
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
			err = skipBody(in, message.BodyLength, s.file.size)
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

func (s *streamSource) count(ctx context.Context) (int64, error) {
	index, err := s.loadIndex(ctx)
	if err != nil {
		return 0, err
	}
	return index.count()
}

func (s *streamSource) nulls(ctx context.Context) ([]int64, error) {
	index, err := s.loadIndex(ctx)
	if err != nil {
		return nil, err
	}
	return index.nullCounts(s.schema())
}

func (s *streamSource) fingerprint() string { return s.file.fingerprint() }

func (s *streamSource) open(_ context.Context, fields []int, rows rowRange) error {
	s.fields, s.chosen = fields, selectSchema(s.schema(), fields)
	s.cutter = newRowCutter(rows)
	s.messages.skip = &s.cutter.skip
	return nil
}

func (s *streamSource) next() (l sourceBatch, err error) {
	for l.batch == nil && err == nil {
		l, err = s.nextBatch()
	}
	return l, err
}

// nextBatch returns the next batch, without batch if no row of it is in the range.
func (s *streamSource) nextBatch() (l sourceBatch, err error) {
	if s.cutter.done() {
		return sourceBatch{}, io.EOF
	}
	err = catchPanic(func() error {
		if !s.reader.Next() {
			if err := s.reader.Err(); err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			return io.EOF
		}
		batch := s.reader.RecordBatch()
		batch.Retain()
		if l.batch = s.cutter.cut(selectColumns(batch, s.chosen, s.fields)); l.batch != nil {
			l.bytes = batchBytes(l.batch, bufferLen)
		}
		return nil
	})
	if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return sourceBatch{}, io.EOF
	}
	if err != nil {
		return sourceBatch{}, fmt.Errorf("record batch %d: %w", s.at+s.messages.skipped, err)
	}
	s.at++
	return l, nil
}

func (s *streamSource) mapping() *mapping { return nil }

func (s *streamSource) position() (int64, int64) { return s.input.count(), s.file.size }

func (s *streamSource) interrupt() bool { return s.file.interrupt() }

func (s *streamSource) close() error {
	err := catchPanic(func() error { s.reader.Release(); return nil })
	return errors.Join(err, s.file.close())
}

// messageReader reads the messages of an IPC stream for arrow-go, whose own reader
// allocates any size that they claim.
type messageReader struct {
	input *countingReader
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
		return nil, fmt.Errorf("message of %d bytes: %w", info.BodyLength, unexpectedEOF(err))
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
		if err := m.input.discard(info.BodyLength, m.size); err != nil {
			return nil, info, fmt.Errorf("message of %d bytes: %w", info.BodyLength, unexpectedEOF(err))
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

// parallelReaderAt reads large parts of a file in several goroutines. One core copies
// from the page cache at a fraction of the bandwidth of a GPU's link.
type parallelReaderAt struct {
	io.ReaderAt
	io.Seeker
	jobs int
}

// stripeBytes is the number of bytes that one goroutine reads at a time.
const stripeBytes = 1 << 20

// Read is required by arrow-go's interface, but never called.
func (r parallelReaderAt) Read([]byte) (int, error) { return 0, io.ErrNoProgress }

// ReadAt implements io.ReaderAt: after a short read, it returns the number of valid
// bytes at the start of p.
func (r parallelReaderAt) ReadAt(p []byte, off int64) (int, error) {
	if len(p) <= stripeBytes || r.jobs < 2 {
		return r.ReaderAt.ReadAt(p, off)
	}
	stripes := (len(p) + stripeBytes - 1) / stripeBytes
	read := make([]int, stripes)
	errs := make([]error, stripes)
	var group errgroup.Group
	group.SetLimit(r.jobs)
	for i := range stripes {
		group.Go(func() error {
			start := i * stripeBytes
			part := p[start:min(start+stripeBytes, len(p))]
			read[i], errs[i] = r.ReaderAt.ReadAt(part, off+int64(start))
			return nil
		})
	}
	_ = group.Wait() // the errors are in errs
	for i, err := range errs {
		if err != nil {
			return i*stripeBytes + read[i], err
		}
	}
	return len(p), nil
}
