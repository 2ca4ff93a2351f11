package arrowzarr

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
	"golang.org/x/sync/errgroup"
)

// parquetSource reads a Parquet file as record batches, columns in parallel. arrow-go
// can do that too, but a panic in its goroutines would end the program.
type parquetSource struct {
	file     *inputFile
	reader   *file.Reader
	arrow    *pqarrow.FileReader
	stored   *arrow.Schema // in the file's metadata; nil if it has none
	memory   memory.Allocator
	whole    *arrow.Schema
	fields   []int
	columns  []pqarrow.RecordReader // by field
	parts    *partReader            // reads instead of columns, if the file is wide
	jobs     int
	limit    int64 // see sourceOptions.maxBuffer
	total    int64
	from, to int64 // the rows to read, from the first of a row group
	consumed int64 // rows of the file that are read or skipped
	cutter   rowCutter
}

func newParquetSource(input *inputFile, r sourceOptions) (source, error) {
	s := &parquetSource{file: input, jobs: max(r.jobs, 1), limit: r.maxBuffer}
	err := catchPanic(func() (err error) {
		mem := &limitedAllocator{Allocator: zeroingAllocator{r.allocator}, limit: r.maxBuffer}
		s.memory = mem
		properties := parquet.NewReaderProperties(mem)
		// Column chunks are read through a buffer, because row groups may be
		// larger than MaxMemory.
		properties.BufferedStreamEnabled = true
		properties.BufferSize = 1 << 20
		properties.MaxCompressedPageSize, properties.MaxUncompressedPageSize = r.maxBuffer, r.maxBuffer
		s.reader, err = file.NewParquetReader(input.sequential(), file.WithReadProps(properties))
		if err != nil {
			return err
		}
		if columns := int64(s.reader.MetaData().Schema.NumColumns()); input.local == nil && columns*remoteBuffer < r.maxBuffer/4 {
			properties.BufferSize = remoteBuffer // fewer round trips
		}
		if s.reader.MetaData().IsSetEncryptionAlgorithm() {
			return errors.New("encrypted Parquet is not supported")
		}
		if s.stored, err = storedSchema(s.reader); err != nil {
			return err
		}
		s.arrow, err = pqarrow.NewFileReader(s.reader, pqarrow.ArrowReadProperties{BatchSize: batchRows(s.reader, r)}, mem)
		if err != nil {
			return err
		}
		schema, err := s.arrow.Schema()
		if err != nil {
			return err
		}
		s.whole = s.correctSchema(schema)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s: Parquet file: %w", input.name, err)
	}
	s.total = s.reader.NumRows()
	var inGroups int64
	for g := range s.reader.NumRowGroups() {
		inGroups += s.reader.MetaData().RowGroup(g).NumRows()
	}
	if inGroups != s.total {
		return nil, fmt.Errorf("%s: Parquet file: %d rows in the footer, and %d in its row groups: %w", input.name, s.total, inGroups, errMalformed)
	}
	return s, nil
}

// remoteBuffer is the buffer of a column chunk that is read from a store.
const remoteBuffer = 8 << 20

// correctSchema returns the schema of the file, given what arrow-go infers.
func (s *parquetSource) correctSchema(inferred *arrow.Schema) *arrow.Schema {
	types := parquetTypes{columns: s.reader.MetaData().Schema, stored: s.stored}
	fields := inferred.Fields()
	for i, field := range fields {
		var want *arrow.Field
		if s.stored != nil && s.stored.NumFields() == len(fields) && s.stored.Field(i).Name == field.Name {
			f := s.stored.Field(i)
			want = &f
		}
		fields[i] = types.field(field, want, s.arrow.Manifest.Fields[i])
	}
	metadata := inferred.Metadata()
	keys, values := slices.Clone(metadata.Keys()), slices.Clone(metadata.Values())
	for _, pair := range s.reader.MetaData().KeyValueMetadata() {
		if pair.Value != nil && pair.Key != storedSchemaKey && !slices.Contains(keys, pair.Key) {
			keys, values = append(keys, pair.Key), append(values, *pair.Value)
		}
	}
	metadata = arrow.NewMetadata(keys, values)
	return arrow.NewSchema(fields, &metadata)
}

// makeBatch returns a batch of columns with their types in the schema. It retains the
// columns.
func (s *parquetSource) makeBatch(columns []arrow.Array) (arrow.RecordBatch, error) {
	made := make([]arrow.Array, len(columns))
	for i, f := range s.fields {
		var err error
		if made[i], err = convertTo(columns[i], s.whole.Field(f).Type, s.memory); err != nil {
			return nil, fmt.Errorf("column %q: %w", s.whole.Field(f).Name, err)
		}
		defer made[i].Release()
	}
	return array.NewRecordBatch(selectSchema(s.whole, s.fields), made, int64(columns[0].Len())), nil
}

// batchRows returns the number of rows of a batch.
func batchRows(f *file.Reader, r sourceOptions) int64 {
	rows := r.batchRows
	if rows == 0 {
		rows = DefaultChunkRows
	}
	var bytes int64
	for g := range f.NumRowGroups() {
		bytes += f.MetaData().RowGroup(g).TotalByteSize()
	}
	if total := f.NumRows(); total > 0 {
		// Dictionary encoding hides the width of a row. Each column counts at
		// least 8 bytes.
		width := max(bytes/total, 8*int64(f.MetaData().Schema.NumColumns()))
		for rows > 1 && rows*width > r.maxBuffer/16 {
			rows /= 2
		}
	}
	return rows
}

func (s *parquetSource) format() string        { return "Parquet" }
func (s *parquetSource) schema() *arrow.Schema { return s.whole }
func (s *parquetSource) rows() int64           { return s.total }

func (s *parquetSource) count(context.Context) (int64, error) { return s.total, nil }

// nulls sums the statistics of flat columns.
func (s *parquetSource) nulls(context.Context) ([]int64, error) {
	counts := make([]int64, s.whole.NumFields())
	err := catchPanic(func() error {
		for i := range counts {
			var err error
			if counts[i], err = s.columnNulls(s.arrow.Manifest.Fields[i]); err != nil {
				return fmt.Errorf("column %q: %w", s.whole.Field(i).Name, err)
			}
		}
		return nil
	})
	return counts, err
}

func (s *parquetSource) columnNulls(field pqarrow.SchemaField) (n int64, err error) {
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

func (s *parquetSource) fingerprint() string { return s.file.fingerprint() }

// chooseGroups returns the row groups with rows of a range.
func (s *parquetSource) chooseGroups(rows rowRange) (groups []int) {
	from, to := rows.within(s.total)
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
	s.cutter = newRowCutter(rowRange{from - s.from, max(to, from) - s.from})
	if to == s.total { // read on to the end, which finds groups with more rows than the footer says
		s.cutter.left = -1
	}
	return groups
}

func (s *parquetSource) open(ctx context.Context, fields []int, rows rowRange) error {
	groups := s.chooseGroups(rows)
	if s.fields = fields; len(fields) == 0 || len(groups) == 0 {
		return nil
	}
	for _, f := range fields {
		makeReadable(&s.arrow.Manifest.Fields[f])
		s.readDense(s.arrow.Manifest.Fields[f].Field, f)
	}
	if s.parts = s.newPartReader(ctx, groups); s.parts != nil {
		return nil
	}
	if err := s.checkOpenColumns(groups); err != nil {
		return err
	}
	return catchPanic(func() error {
		for _, f := range fields {
			column, err := s.arrow.GetRecordReader(ctx, appendLeaves(nil, s.arrow.Manifest.Fields[f]), groups)
			if err != nil {
				return fmt.Errorf("column %q: %w", s.whole.Field(f).Name, err)
			}
			s.columns = append(s.columns, column)
		}
		return nil
	})
}

// maxDictionaryPage is the largest dictionary that is kept as such, in bytes as it is
// stored: arrow-go copies a dictionary for each batch.
const maxDictionaryPage = 1 << 20

// readDense reads a column whose dictionaries are large as its values. convertTo gives
// each batch a dictionary of the values that it has.
func (s *parquetSource) readDense(field *arrow.Field, f int) {
	t, ok := field.Type.(*arrow.DictionaryType)
	node := s.arrow.Manifest.Fields[f]
	if !ok || t.Ordered || !node.IsLeaf() {
		return
	}
	footer := s.reader.MetaData()
	for g := range footer.NumRowGroups() {
		chunk, err := footer.RowGroup(g).ColumnChunk(node.ColIndex)
		if err == nil && chunk.HasDictionaryPage() && chunk.DataPageOffset()-chunk.DictionaryPageOffset() > maxDictionaryPage {
			field.Type = t.ValueType
			return
		}
	}
}

// A wide file has so small column chunks that its columns are opened for each batch. All
// at once would take more memory than the batches.
const (
	wideColumns = 256
	maxParts    = 8 // batches of a row group; each reads those before it again
)

// partReader reads row groups in parts of some rows, opening each column for each part.
type partReader struct {
	ctx    context.Context
	arrow  pqarrow.FileReader // its batches are parts
	groups []int
	part   int64 // of groups[0]
}

// newPartReader returns the reader of a wide file, or nil if the file is none.
func (s *parquetSource) newPartReader(ctx context.Context, groups []int) *partReader {
	leaves := s.reader.MetaData().Schema.NumColumns()
	if leaves < wideColumns {
		return nil
	}
	var most, widest int64
	for _, g := range groups {
		group := s.reader.MetaData().RowGroup(g)
		if n := group.NumRows(); n > 0 {
			widest = max(widest, group.TotalByteSize()/n, int64(8*leaves))
			most = max(most, n)
		}
	}
	rows := max(s.limit/8/max(widest, 1), 1)
	if least := (most + maxParts - 1) / maxParts; rows < least {
		if least > s.limit/3/widest {
			return nil
		}
		rows = least
	}
	p := &partReader{ctx: ctx, arrow: *s.arrow, groups: groups}
	p.arrow.Props.BatchSize = rows
	return p
}

// checkOpenColumns returns an error if the columns that are open at once take more than all
// memory.
func (s *parquetSource) checkOpenColumns(groups []int) error {
	leaves := s.reader.MetaData().Schema.NumColumns()
	if leaves < wideColumns {
		return nil
	}
	// Each has its reader, which has a list of all columns (arrow-go v18.8), and a page in
	// both forms.
	const reader, page = 64 << 10, 1 << 20
	var most int64
	for _, g := range groups {
		var open int64
		group := s.reader.MetaData().RowGroup(g)
		for _, f := range s.fields {
			for _, leaf := range appendLeaves(nil, s.arrow.Manifest.Fields[f]) {
				chunk, err := group.ColumnChunk(leaf)
				if err != nil {
					return err
				}
				open += reader + int64(4*leaves) + min(chunk.TotalCompressedSize(), page) + min(chunk.TotalUncompressedSize(), page)
			}
		}
		most = max(most, open)
	}
	if all := 2 * s.limit; most > all {
		return partErrorf(PartUsage, "the %d columns of Parquet that are read at once take about %d bytes, more than the %d that there are: choose some with --columns, or raise --max-memory", leaves, most, all)
	}
	return nil
}

// readPart reads the next part of a wide file, or returns io.EOF.
func (s *parquetSource) readPart() (batch arrow.RecordBatch, err error) {
	p := s.parts
	for len(p.groups) > 0 && p.part*p.arrow.Props.BatchSize >= s.reader.MetaData().RowGroup(p.groups[0]).NumRows() {
		p.groups, p.part = p.groups[1:], 0
	}
	if len(p.groups) == 0 {
		return nil, io.EOF
	}
	batch, err = s.readEach(func(i int) (arrow.Array, error) {
		r, err := p.arrow.GetRecordReader(p.ctx, appendLeaves(nil, s.arrow.Manifest.Fields[s.fields[i]]), p.groups[:1])
		if err != nil {
			return nil, err
		}
		defer r.Release()
		for range p.part {
			if _, err := r.Read(); err != nil {
				return nil, unexpectedEOF(err)
			}
		}
		return readColumn(r)
	})
	p.part++
	return batch, err
}

// readColumn returns the next part of a column, which the caller owns.
func readColumn(r pqarrow.RecordReader) (arrow.Array, error) {
	batch, err := r.Read()
	if err != nil {
		return nil, err
	}
	column := batch.Column(0)
	column.Retain()
	return column, nil
}

// readColumns reads the next batch.
func (s *parquetSource) readColumns() (arrow.RecordBatch, error) {
	return s.readEach(func(i int) (arrow.Array, error) { return readColumn(s.columns[i]) })
}

// readEach reads the columns of a batch, in parallel.
func (s *parquetSource) readEach(read func(i int) (arrow.Array, error)) (arrow.RecordBatch, error) {
	columns := make([]arrow.Array, len(s.fields))
	defer func() {
		for _, column := range columns {
			if column != nil {
				column.Release()
			}
		}
	}()
	var group errgroup.Group
	if s.file.local != nil {
		group.SetLimit(s.jobs)
	}
	for i := range columns {
		group.Go(func() error {
			err := catchPanic(func() (err error) {
				columns[i], err = read(i)
				return err
			})
			if err != nil && !errors.Is(err, io.EOF) {
				err = fmt.Errorf("column %q: %w", s.whole.Field(s.fields[i]).Name, err)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for i, column := range columns {
		if column.Len() != columns[0].Len() {
			return nil, fmt.Errorf("column %q: %d rows where others have %d: %w", s.whole.Field(s.fields[i]).Name, column.Len(), columns[0].Len(), errMalformed)
		}
	}
	return s.makeBatch(columns)
}

// appendLeaves appends the indices of the Parquet columns of one Arrow field.
func appendLeaves(leaves []int, field pqarrow.SchemaField) []int {
	if field.IsLeaf() {
		return append(leaves, field.ColIndex)
	}
	for _, child := range field.Children {
		leaves = appendLeaves(leaves, child)
	}
	return leaves
}

func (s *parquetSource) next() (l sourceBatch, err error) {
	for l.batch == nil && err == nil {
		l, err = s.nextBatch()
	}
	return l, err
}

// nextBatch returns the next batch, without batch if no row of it is in the range.
func (s *parquetSource) nextBatch() (l sourceBatch, err error) {
	if s.columns == nil && s.parts == nil || s.cutter.done() {
		return sourceBatch{}, io.EOF
	}
	var batch arrow.RecordBatch
	err = catchPanic(func() (err error) {
		if s.parts != nil {
			batch, err = s.readPart()
		} else {
			batch, err = s.readColumns()
		}
		return err
	})
	switch {
	case errors.Is(err, io.EOF) && s.consumed == s.to:
		return sourceBatch{}, io.EOF
	case errors.Is(err, io.EOF):
		return sourceBatch{}, fmt.Errorf("the file ends after %d of %d rows: %w", s.consumed, s.to, io.ErrUnexpectedEOF)
	case err != nil:
		return sourceBatch{}, fmt.Errorf("after row %d: %w", s.consumed, err)
	}
	s.consumed += batch.NumRows()
	if batch = s.cutter.cut(batch); batch == nil {
		return sourceBatch{}, nil
	}
	return sourceBatch{batch: batch, bytes: batchBytes(batch, bufferCap)}, nil
}

// bufferCap is the allocated size of a buffer, which is larger than its length because
// arrow-go builds columns by appending.
func bufferCap(b *memory.Buffer) int64 { return int64(b.Cap()) }

func (s *parquetSource) mapping() *mapping { return nil }

func (s *parquetSource) position() (int64, int64) {
	size := s.file.size
	if s.total == 0 {
		return size, size
	}
	return int64(float64(size) * (float64(s.consumed) / float64(s.total))), size
}

func (s *parquetSource) interrupt() bool { return true }

func (s *parquetSource) close() error {
	err := catchPanic(func() error {
		for _, column := range s.columns {
			column.Release()
		}
		return s.reader.Close()
	})
	return errors.Join(err, s.file.close())
}
