package parquet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source/parquet/parquetcolumn"
)

// Source reads a Parquet file as record batches, columns in parallel. arrow-go reads
// the footer and the schema, and columns that parquetcolumn does not. It could read columns
// in parallel, too, but a panic in its goroutines would end the program.
type Source struct {
	file      *source.File
	reader    *file.Reader
	arrow     *pqarrow.FileReader
	stored    *arrow.Schema    // in the file's metadata; nil if it has none
	memory    memory.Allocator // zeroed, for arrow-go
	unzeroed  memory.Allocator
	whole     *arrow.Schema
	fields    []int
	groups    *groupPrefetcher // nil before open, and without columns or rows
	rule      source.StripRule // nil if batches must have all columns
	strips    *stripReader     // instead of groups; nil if batches have all columns
	jobs      int
	limit     int64 // see source.Options.MaxBuffer
	batchRows int64
	readSize  int // bytes of a column that are read at once
	total     int64
	from, to  int64 // the rows to read, from the first of a row group
	consumed  int64 // rows of the file that are read or skipped
	cutter    source.RowCutter
}

// Open returns a source of a Parquet file, of which it reads the footer. It owns the file,
// unless it returns an error.
func Open(input *source.File, o source.Options) (*Source, error) {
	s := &Source{file: input, jobs: max(o.Jobs, 1), limit: o.MaxBuffer}
	err := arrowdata.CatchPanic(func() (err error) {
		mem := zeroingAllocator{o.Limited()}
		s.memory, s.unzeroed = mem, o.Limited()
		properties := parquet.NewReaderProperties(mem)
		// Column chunks are read through a buffer, because row groups may be
		// larger than MaxMemory.
		properties.BufferedStreamEnabled = true
		properties.BufferSize = 1 << 20
		properties.MaxCompressedPageSize, properties.MaxUncompressedPageSize = o.MaxBuffer, o.MaxBuffer
		open := func(r parquet.ReaderAtSeeker) error {
			return arrowdata.CatchPanic(func() (err error) {
				s.reader, err = file.NewParquetReader(r, file.WithReadProps(properties))
				return err
			})
		}
		if err := open(input.Sequential()); err != nil {
			edited := parquetcolumn.WithoutUnknownTypes(input, input.Size, o.MaxBuffer)
			if edited == nil {
				return err
			}
			if err := open(edited); err != nil {
				return err
			}
		}
		if columns := int64(s.reader.MetaData().Schema.NumColumns()); input.IsRemote() && columns*remoteBuffer < o.MaxBuffer/4 {
			properties.BufferSize = remoteBuffer // fewer round trips
		}
		s.readSize = int(properties.BufferSize)
		if s.reader.MetaData().IsSetEncryptionAlgorithm() {
			return errors.New("encrypted Parquet is not supported")
		}
		if err := simplifySchema(s.reader.MetaData()); err != nil {
			return err
		}
		if s.stored, err = storedSchema(s.reader); err != nil {
			return err
		}
		if s.stored, err = replaceStoredSchema(s.reader, s.stored); err != nil {
			return err
		}
		if err := s.countRows(); err != nil {
			return err
		}
		s.batchRows = s.rowsOfBatch(o)
		var maps repeatedMaps
		s.arrow, maps, err = newArrowReader(s.reader, pqarrow.ArrowReadProperties{BatchSize: s.batchRows}, mem)
		if err != nil {
			return err
		}
		inferred, err := s.arrow.Schema()
		if err != nil {
			return err
		}
		root := s.reader.MetaData().Schema.Root()
		for i := range s.arrow.Manifest.Fields {
			maps.correctLists(&s.arrow.Manifest.Fields[i], root.Field(i))
		}
		if err := s.chooseInt96Units(); err != nil {
			return err
		}
		s.whole = s.correctSchema(inferred.Metadata())
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s: Parquet file: %w", input.Name, err)
	}
	return s, nil
}

// countRows counts the rows of the row groups. Some writers leave the footer's count at 0.
func (s *Source) countRows() error {
	for g := range s.reader.NumRowGroups() {
		s.total += s.reader.MetaData().RowGroup(g).NumRows()
	}
	if n := s.reader.NumRows(); n != s.total && n != 0 {
		return fmt.Errorf("%d rows in the footer, and %d in its row groups: %w", n, s.total, arrowdata.ErrMalformed)
	}
	return nil
}

// remoteBuffer is the buffer of a column chunk that is read from a store.
const remoteBuffer = 8 << 20

// correctSchema returns the schema of the file, given the metadata that arrow-go infers.
func (s *Source) correctSchema(metadata arrow.Metadata) *arrow.Schema {
	types := storedTypes{columns: s.reader.MetaData().Schema, stored: s.stored}
	fields := make([]arrow.Field, len(s.arrow.Manifest.Fields))
	for i := range fields {
		field := *s.arrow.Manifest.Fields[i].Field
		var want *arrow.Field
		if s.stored != nil && s.stored.NumFields() == len(fields) && s.stored.Field(i).Name == field.Name {
			f := s.stored.Field(i)
			want = &f
		}
		fields[i] = types.field(field, want, s.arrow.Manifest.Fields[i])
	}
	keys, values := slices.Clone(metadata.Keys()), slices.Clone(metadata.Values())
	for _, pair := range s.reader.MetaData().KeyValueMetadata() {
		if pair.Value != nil && pair.Key != hiddenSchemaKey && pair.Key != arrowdata.StoredSchemaKey && !slices.Contains(keys, pair.Key) {
			keys, values = append(keys, pair.Key), append(values, *pair.Value)
		}
	}
	metadata = arrow.NewMetadata(keys, values)
	return arrow.NewSchema(fields, &metadata)
}

// batchesPerShare is how many batches at least fit the memory of batches.
const batchesPerShare = 16

// rowsOfBatch returns the number of rows of a batch.
func (s *Source) rowsOfBatch(o source.Options) int64 {
	f := s.reader
	rows := o.BatchRows
	var bytes int64
	for g := range f.NumRowGroups() {
		bytes += f.MetaData().RowGroup(g).TotalByteSize()
	}
	if s.total > 0 {
		// Dictionary encoding hides the width of a row. Each column counts at
		// least 8 bytes.
		width := max(bytes/s.total, 8*int64(f.MetaData().Schema.NumColumns()))
		for rows > 1 && rows*width > o.MaxBuffer/batchesPerShare {
			rows /= 2
		}
	}
	return rows
}

func (s *Source) Info() source.Info {
	return source.Info{Format: "Parquet", Schema: s.whole, Rows: s.total, Fingerprint: s.file.Fingerprint()}
}

// Count sums the statistics of flat columns.
func (s *Source) Count(context.Context) (source.Counts, error) {
	counts := make([]int64, s.whole.NumFields())
	err := arrowdata.CatchPanic(func() error {
		for i := range counts {
			var err error
			if counts[i], err = s.columnNulls(s.arrow.Manifest.Fields[i]); err != nil {
				return fmt.Errorf("column %q: %w", s.whole.Field(i).Name, err)
			}
		}
		return nil
	})
	return source.Counts{Rows: s.total, Nulls: counts}, err
}

func (s *Source) columnNulls(field pqarrow.SchemaField) (n int64, err error) {
	footer := s.reader.MetaData()
	switch {
	case !field.IsLeaf():
		return -1, nil
	case footer.Schema.Column(field.ColIndex).MaxDefinitionLevel() == 0:
		return 0, nil
	}
	for g := range footer.NumRowGroups() {
		if footer.RowGroup(g).NumRows() == 0 { // writers leave out its statistics
			continue
		}
		chunk, err := footer.RowGroup(g).ColumnChunk(field.ColIndex)
		if err != nil {
			return -1, fmt.Errorf("row group %d: %w", g, err)
		}
		inChunk := chunkNulls(chunk)
		if inChunk < 0 || inChunk > footer.RowGroup(g).NumRows() {
			return -1, nil
		}
		n += inChunk
	}
	return n, nil
}

// chunkNulls returns the number of nulls in the statistics of a column chunk, or -1.
func chunkNulls(chunk *metadata.ColumnChunkMetaData) int64 {
	statistics, err := chunk.Statistics()
	if err != nil || statistics == nil || !statistics.HasNullCount() {
		return -1
	}
	return statistics.NullCount()
}

// StoredColumn is what the footer says of a column.
type StoredColumn struct {
	StoredBytes int64 // as they are stored
	RawBytes    int64 // decompressed
	Nulls       int64 // -1 if unknown
	Codecs      []string
}

// StoredColumns returns what the footer says of each column.
func (s *Source) StoredColumns() ([]StoredColumn, error) {
	columns := make([]StoredColumn, s.whole.NumFields())
	err := arrowdata.CatchPanic(func() error {
		footer := s.reader.MetaData()
		for f := range columns {
			for _, leaf := range appendLeaves(nil, s.arrow.Manifest.Fields[f]) {
				for g := range footer.NumRowGroups() {
					chunk, err := footer.RowGroup(g).ColumnChunk(leaf)
					if err != nil {
						return fmt.Errorf("row group %d, column %q: %w", g, s.whole.Field(f).Name, err)
					}
					columns[f].add(chunk)
				}
			}
			if !s.arrow.Manifest.Fields[f].IsLeaf() { // nulls of elements or fields are not nulls of the column
				columns[f].Nulls = -1
			}
		}
		return nil
	})
	return columns, err
}

// add adds a column chunk.
func (c *StoredColumn) add(chunk *metadata.ColumnChunkMetaData) {
	c.StoredBytes += chunk.TotalCompressedSize()
	c.RawBytes += chunk.TotalUncompressedSize()
	if n := chunkNulls(chunk); c.Nulls < 0 || n < 0 {
		c.Nulls = -1
	} else {
		c.Nulls += n
	}
	if name := chunk.Compression().String(); !slices.Contains(c.Codecs, name) {
		c.Codecs = append(c.Codecs, name)
	}
}

// ExtraBytes is what the file takes beside the batches of one row group: its footer, its
// dictionaries, and what is read ahead. It reports whether there are dictionaries.
func (s *Source) ExtraBytes(fields []int) (n int64, dictionaries bool) {
	ofDictionaries := s.dictionaryBytes(fields)
	return s.footerBytes() + ofDictionaries + s.prefetchBytes(fields), ofDictionaries > 0
}

// footerBytes is what arrow-go keeps of the footer: about a KiB of each column chunk.
func (s *Source) footerBytes() int64 {
	return int64(s.reader.NumRowGroups()) * int64(s.reader.MetaData().Schema.NumColumns()) << 10
}

// dictionaryBytes is about what the large dictionaries of fields take. The footer has only
// the size of a dictionary and its indices together. A quarter more is for offsets.
func (s *Source) dictionaryBytes(fields []int) (n int64) {
	footer := s.reader.MetaData()
	for _, f := range fields {
		for _, leaf := range appendLeaves(nil, s.arrow.Manifest.Fields[f]) {
			var largest int64 // one row group is read at a time
			for g := range footer.NumRowGroups() {
				if chunk, err := footer.RowGroup(g).ColumnChunk(leaf); err == nil && hasLargeDictionary(chunk) {
					largest = max(largest, chunk.TotalUncompressedSize())
				}
			}
			n += largest / 4 * 5
		}
	}
	return n
}

// chooseGroups returns the row groups with rows of a range.
func (s *Source) chooseGroups(rows source.RowRange) (groups []int) {
	from, to := rows.Within(s.total)
	var start int64
	s.from, s.to = from, from
	for g := range s.reader.NumRowGroups() {
		n := s.reader.MetaData().RowGroup(g).NumRows()
		if start < to && start+n > from {
			if groups = append(groups, g); len(groups) == 1 {
				s.from = start
			}
			s.to = start + n
		}
		start += n
	}
	s.consumed = s.from
	s.cutter = source.NewRowCutter(source.RowRange{From: from - s.from, To: max(to, from) - s.from})
	if to == s.total { // read on to the end, which finds groups with more rows than the footer says
		s.cutter.Left = -1
	}
	return groups
}

func (s *Source) Open(ctx context.Context, fields []int, rows source.RowRange) error {
	groups := s.chooseGroups(rows)
	if s.fields = fields; len(fields) == 0 || len(groups) == 0 {
		return nil
	}
	return arrowdata.CatchPanic(func() (err error) {
		if s.strips, err = s.newStripReader(ctx, fields, groups); s.strips == nil && err == nil {
			s.groups, err = s.newGroupPrefetcher(ctx, fields, groups)
		}
		return err
	})
}

func (s *Source) Next() (l source.Batch, err error) {
	for l.Record == nil && err == nil {
		l, err = s.nextBatch()
	}
	return l, err
}

// nextBatch returns the next batch, without batch if no row of it is in the range.
func (s *Source) nextBatch() (l source.Batch, err error) {
	if len(s.fields) == 0 && s.consumed < s.to { // rows without columns
		batch := s.cutter.Cut(array.NewRecordBatch(arrowdata.SelectSchema(s.whole, nil), nil, s.to-s.consumed))
		s.consumed = s.to
		return source.Batch{Record: batch}, nil
	}
	if s.strips != nil {
		return s.nextStrip()
	}
	if s.groups == nil || s.cutter.Done() {
		return source.Batch{}, io.EOF
	}
	var batch arrow.RecordBatch
	err = arrowdata.CatchPanic(func() error {
		columns, err := s.groups.next()
		if err != nil {
			return err
		}
		defer arrowdata.ReleaseArrays(columns)
		batch = array.NewRecordBatch(arrowdata.SelectSchema(s.whole, s.fields), columns, int64(columns[0].Len()))
		return nil
	})
	switch {
	case errors.Is(err, io.EOF) && s.consumed == s.to:
		return source.Batch{}, io.EOF
	case errors.Is(err, io.EOF):
		return source.Batch{}, fmt.Errorf("the file ends after %d of %d rows: %w", s.consumed, s.to, io.ErrUnexpectedEOF)
	case err != nil:
		return source.Batch{}, fmt.Errorf("after row %d: %w", s.consumed, err)
	}
	s.consumed += batch.NumRows()
	if batch = s.cutter.Cut(batch); batch == nil {
		return source.Batch{}, nil
	}
	l = source.Batch{Record: batch, Dictionaries: ownDictionaryBytes(batch)}
	l.Bytes = arrowdata.BatchBytes(batch, arrowdata.BufferCap) + l.Dictionaries
	return l, nil
}

// ownDictionaryBytes is the memory of the dictionaries that makeDictionary has made, with a
// value for each row. Others are those of a row group.
func ownDictionaryBytes(batch arrow.RecordBatch) (n int64) {
	for _, c := range batch.Columns() {
		if d, ok := arrowdata.Unwrap(c).(*array.Dictionary); ok && int64(d.Dictionary().Len()) >= batch.NumRows() {
			n += arrowdata.ArrayBytes(d.Dictionary().Data(), arrowdata.BufferCap)
		}
	}
	return n
}

func (s *Source) Position() (int64, int64) {
	size := s.file.Size
	if s.total == 0 {
		return size, size
	}
	return int64(float64(size) * ((float64(s.consumed) + s.strips.rowsRead()) / float64(s.total))), size
}

func (s *Source) Interrupt() bool { return true }

func (s *Source) Close() error {
	var err error
	if s.groups != nil {
		err = s.groups.close()
	}
	if s.strips != nil {
		err = arrowdata.CatchPanic(func() error { s.strips.columns.close(); return nil })
	}
	return errors.Join(err, arrowdata.CatchPanic(s.reader.Close), s.file.Close())
}

// zeroingAllocator allocates zeroed memory, which arrow-go's Parquet reader relies
// on: it writes all offsets of a list column but the first.
type zeroingAllocator struct{ memory.Allocator }

func (z zeroingAllocator) Allocate(size int) []byte {
	b := z.Allocator.Allocate(size)
	clear(b)
	return b
}

func (z zeroingAllocator) Reallocate(size int, b []byte) []byte {
	had := len(b)
	b = z.Allocator.Reallocate(size, b)
	clear(b[min(had, size):])
	return b
}
