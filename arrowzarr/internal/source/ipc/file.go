package ipc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"golang.org/x/sync/errgroup"

	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source"
)

func ipcOptions(o source.Options) []ipc.Option {
	return []ipc.Option{
		ipc.WithAllocator(o.Limited()),
		ipc.WithBodySizeLimit(o.MaxBuffer),
	}
}

// fileSource reads an Arrow IPC file (Feather version 2): through a mapping, or into
// memory of an allocator.
type fileSource struct {
	file   *source.File
	index  batchIndex
	mapped *source.Mapping // nil if the file is read into memory
	reader *ipc.FileReader
	// batches is the number of batches. It is kept because the footer is in the
	// mapping.
	batches int
	fields  []int
	chosen  *arrow.Schema
	at      int
	cutter  source.RowCutter
}

// Open returns a source of an Arrow IPC file. It owns the file, unless it returns an error.
func Open(file *source.File, o source.Options) (source.Source, error) {
	s := &fileSource{file: file}
	content, jobs, scans := io.ReaderAt(file), o.Jobs, 1
	var metadata *metadataReaderAt
	if file.IsRemote() {
		jobs, scans = max(jobs, source.RemoteRequests), source.RemoteRequests
		metadata = &metadataReaderAt{ReaderAt: file, kept: map[int64][]byte{}}
		content = metadata
	}
	err := arrowdata.CatchPanic(func() (err error) {
		swapped, err := arrowipc.ValidateFile(content, file.Size, scans, s.index.add)
		if err != nil || s.index.asStream {
			return err
		}
		if metadata != nil {
			metadata.full = true // bodies are not read again
		}
		s.reader, err = ipc.NewFileReader(parallelReaderAt{content, file.Sequential(), jobs}, ipcOptions(o)...)
		// arrow-go's reader of mapped files supports neither dictionaries nor
		// swapping bytes.
		if err != nil || !o.AllowMapping || !source.CanMapFiles || file.IsRemote() || swapped || slices.ContainsFunc(s.reader.Schema().Fields(), hasDictionary) {
			return err
		}
		if err := s.reader.Close(); err != nil {
			return err
		}
		if s.mapped, err = source.NewMapping(file); err != nil {
			return err
		}
		// A mapped batch may be of any size: it is read region by region.
		s.reader, err = ipc.NewMappedFileReader(s.mapped.Content(), append(ipcOptions(o), ipc.WithBodySizeLimit(0))...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: Arrow IPC file: %w", file.Name, errors.Join(err, s.mapped.Close()))
	}
	if s.index.asStream {
		return newStreamedFileSource(file, o)
	}
	s.batches = s.reader.NumRecords()
	return s, nil
}

// streamedFileSource reads a file in order, as the stream that it contains: one that
// Arrow 0.17 compressed, or with lists of size 0. arrow-go's reader of files has no place
// where metadata or a decoder could be replaced.
type streamedFileSource struct{ *streamSource }

// newStreamedFileSource reads the messages between the file's magic and its footer.
func newStreamedFileSource(file *source.File, o source.Options) (source.Source, error) {
	const start = 8 // the magic and its padding
	s, err := OpenStream(file.From(start), o)
	if err != nil {
		return nil, err
	}
	return streamedFileSource{s.(*streamSource)}, nil
}

func (s streamedFileSource) Info() source.Info {
	info := s.streamSource.Info()
	info.Format = fileFormat
	return info
}

const fileFormat = "Arrow IPC file"

// hasDictionary reports whether a field, or one inside it, is a dictionary.
func hasDictionary(field arrow.Field) bool {
	t := arrowdata.StorageType(field.Type)
	if nested, ok := t.(arrow.NestedType); ok {
		return slices.ContainsFunc(nested.Fields(), hasDictionary)
	}
	return t.ID() == arrow.DICTIONARY
}

func (s *fileSource) Info() source.Info {
	rows, err := s.index.count()
	if err != nil { // reading the batch will fail
		rows = -1
	}
	return source.Info{Format: fileFormat, Schema: s.reader.Schema(), Rows: rows, Fingerprint: s.file.Fingerprint(), Mapping: s.mapped}
}

func (s *fileSource) Count(context.Context) (source.Counts, error) {
	return s.index.counts(s.reader.Schema())
}

func (s *fileSource) Open(_ context.Context, fields []int, rows source.RowRange) error {
	s.fields, s.chosen = fields, arrowdata.SelectSchema(s.reader.Schema(), fields)
	s.cutter = source.NewRowCutter(rows)
	if rows.From > 0 {
		if _, err := s.index.count(); err != nil {
			return err
		}
		for s.at < s.batches && s.index.rows[s.at] <= s.cutter.Skip {
			s.cutter.Skip -= s.index.rows[s.at]
			s.at++
		}
	}
	return nil
}

func (s *fileSource) Next() (l source.Batch, err error) {
	for l.Record == nil && err == nil {
		l, err = s.nextBatch()
	}
	return l, err
}

// nextBatch returns the next batch, without batch if no row of it is in the range.
func (s *fileSource) nextBatch() (l source.Batch, err error) {
	if s.at >= s.batches || s.cutter.Done() {
		return source.Batch{}, io.EOF
	}
	err = arrowdata.CatchPanic(func() error {
		batch, err := s.reader.RecordBatchAt(s.at)
		if err != nil {
			return err
		}
		if l.Record = s.cutter.Cut(arrowdata.SelectColumns(batch, s.chosen, s.fields)); l.Record == nil {
			return nil
		}
		l.Bytes = arrowdata.BatchBytes(l.Record, s.mapped.LenOutside)
		if l.Bytes > 0 {
			s.mapped.EvictAll() // batches that are copied were decompressed from it
		}
		return nil
	})
	if err != nil {
		return source.Batch{}, fmt.Errorf("record batch %d: %w", s.at, err)
	}
	s.at++
	return l, nil
}

func (s *fileSource) Position() (int64, int64) {
	n, size := int64(s.batches), s.file.Size
	if n == 0 {
		return size, size
	}
	return size / n * int64(s.at), size
}

func (s *fileSource) Interrupt() bool { return true }

func (s *fileSource) Close() error {
	return errors.Join(arrowdata.CatchPanic(s.reader.Close), s.mapped.Close(), s.file.Close())
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
		x.err = fmt.Errorf("record batch %d: %d rows: %w", len(x.rows)-1, info.Rows, arrowdata.ErrMalformed)
	case len(info.Nulls) != len(x.totals):
		x.err = fmt.Errorf("record batch %d: %d arrays, and others have %d: %w", len(x.rows)-1, len(info.Nulls), len(x.totals), arrowdata.ErrMalformed)
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

// counts returns the numbers of rows and of nulls.
func (x *batchIndex) counts(schema *arrow.Schema) (source.Counts, error) {
	nulls, err := x.nullCounts(schema)
	return source.Counts{Rows: x.total, Nulls: nulls}, err
}

// nullCounts returns the numbers of nulls of the fields.
func (x *batchIndex) nullCounts(schema *arrow.Schema) ([]int64, error) {
	counts := make([]int64, schema.NumFields())
	if x.err != nil || len(x.rows) == 0 {
		return counts, x.err
	}
	at := 0
	for i, f := range schema.Fields() {
		t := arrowdata.StorageType(f.Type)
		arrays := countArrays(t)
		if at+arrays > len(x.totals) {
			return nil, fmt.Errorf("%d arrays in a record batch, expected at least %d: %w", len(x.totals), at+arrays, arrowdata.ErrMalformed)
		}
		counts[i] = x.totals[at]
		switch t.ID() {
		case arrow.NULL:
			counts[i] = x.total
		case arrow.SPARSE_UNION, arrow.DENSE_UNION: // they have no nulls of their own
			counts[i] = 0
		case arrow.RUN_END_ENCODED:
			// The array has none, and a null among its values is a run of any length.
			if counts[i] = x.totals[at+2]; counts[i] > 0 || arrowdata.StorageType(t.(*arrow.RunEndEncodedType).Encoded()).ID() == arrow.NULL {
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
	if nested, ok := arrowdata.StorageType(t).(arrow.NestedType); ok {
		for _, f := range nested.Fields() {
			n += countArrays(f.Type)
		}
	}
	return n
}

// metadataReaderAt keeps what is read of a remote file to validate it, the footer and the
// metadata of messages: it is read again with each batch, and takes a round trip each time.
type metadataReaderAt struct {
	io.ReaderAt

	mu    sync.Mutex
	kept  map[int64][]byte // by position
	bytes int
	full  bool // no more is kept
}

// The longest part that is kept, and the most bytes in all.
const (
	maxKeptPart = 1 << 20
	maxKept     = 16 << 20
)

// ReadAt implements io.ReaderAt.
func (r *metadataReaderAt) ReadAt(p []byte, off int64) (int, error) {
	r.mu.Lock()
	part := r.kept[off]
	r.mu.Unlock()
	if len(part) >= len(p) && len(p) > 0 {
		return copy(p, part), nil
	}
	n, err := r.ReaderAt.ReadAt(p, off)
	if err != nil || n > maxKeptPart {
		return n, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.full {
		return n, nil
	}
	if more := n - len(r.kept[off]); more > 0 && r.bytes+more <= maxKept {
		r.kept[off], r.bytes = bytes.Clone(p[:n]), r.bytes+more
	}
	return n, nil
}

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
