package inputs

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"golang.org/x/sync/errgroup"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source"
)

// multiSource reads files of one schema, one after the other. Partition keys are
// columns after those of the files.
type multiSource struct {
	ctx      context.Context // of opening, for opening files
	files    []foundFile
	options  source.Options
	format   string
	whole    *arrow.Schema
	own      int // columns of files
	scanned  []scannedFile
	size     int64 // of all files, in bytes
	identity string

	fields  []int
	chosen  *arrow.Schema
	cutter  source.RowCutter
	current source.Source // nil if no file is open
	at      int           // the next file to open
	done    int64         // bytes of the files that are read
}

// scannedFile is what the metadata of a file says.
type scannedFile struct {
	columns     []int   // by column of the whole, its index in the file
	rows        int64   // -1 if they cannot be counted
	nulls       []int64 // by column of the file
	size        int64
	fingerprint string
}

// remoteScans is the number of files in stores whose metadata is read at once.
const remoteScans = 32

// newMultiSource reads the metadata of all files, so that one with another schema is
// found before any work is done.
func newMultiSource(ctx context.Context, files []foundFile, o source.Options) (*multiSource, error) {
	o.AllowMapping = false // batches may outlive the source of their file
	s := &multiSource{ctx: ctx, files: files, options: o, scanned: make([]scannedFile, len(files))}
	fields := make([][]arrow.Field, len(files))
	if err := s.scanFile(0, nil, fields); err != nil {
		return nil, err
	}
	s.options.TextFields = fields[0]
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(max(o.Jobs, 1))
	if slices.ContainsFunc(files, foundFile.isRemote) {
		group.SetLimit(max(o.Jobs, remoteScans))
	}
	for i := 1; i < len(files); i++ {
		group.Go(func() error {
			if groupCtx.Err() != nil {
				return context.Cause(groupCtx)
			}
			return arrowdata.CatchPanic(func() error { return s.scanFile(i, fields[0], fields) })
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	whole := slices.Clone(fields[0])
	for _, other := range fields[1:] {
		for i, f := range other {
			whole[i].Nullable = whole[i].Nullable || f.Nullable
		}
	}
	s.own = len(whole)
	keys, err := s.partitionFields(whole)
	if err != nil {
		return nil, err
	}
	metadata := s.whole.Metadata()
	s.whole = arrow.NewSchema(append(whole, keys...), &metadata)
	hash := sha256.New()
	for _, f := range s.scanned {
		fmt.Fprintln(hash, f.fingerprint)
		s.size += f.size
	}
	s.identity = fmt.Sprintf("%d files, %x", len(files), hash.Sum(nil))
	return s, nil
}

// scanFile reads the metadata of file i, and checks that it has the fields of the first
// one. It sets fields[i] to its own, in the order of the first's.
func (s *multiSource) scanFile(i int, first []arrow.Field, fields [][]arrow.Field) (err error) {
	src, err := s.files[i].open(s.ctx, s.options, keepOpen)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	f := &s.scanned[i]
	info := src.Info()
	if i == 0 {
		s.format, s.whole = info.Format, info.Schema
		first = s.whole.Fields()
	}
	if f.columns, err = s.matchFields(i, first, info.Schema); err != nil {
		return err
	}
	for _, column := range f.columns {
		fields[i] = append(fields[i], info.Schema.Field(column))
	}
	_, f.size = src.Position()
	if f.size < 0 {
		return fmt.Errorf("%s can be read only once: it must be the only input", s.files[i].name())
	}
	f.fingerprint, f.rows = info.Fingerprint, -1
	counts, err := src.Count(s.ctx)
	switch {
	case err == nil:
		f.rows, f.nulls = counts.Rows, counts.Nulls
	case !errors.Is(err, errors.ErrUnsupported):
		return fmt.Errorf("%s: %w", s.files[i].name(), err)
	}
	return nil
}

// matchFields returns the indices in a file's schema of the fields of the first file. A
// name that occurs more than once is matched in order.
func (s *multiSource) matchFields(i int, first []arrow.Field, schema *arrow.Schema) ([]int, error) {
	name, other := s.files[i].name(), s.files[0].name()
	columns := make([]int, len(first))
	used := map[string]int{}
	for k, f := range first {
		all := schema.FieldIndices(f.Name)
		if used[f.Name] >= len(all) {
			return nil, fmt.Errorf("%s has no column %q, which %s has: expected one schema", name, f.Name, other)
		}
		columns[k] = all[used[f.Name]]
		used[f.Name]++
		if t := schema.Field(columns[k]).Type; !arrow.TypeEqual(t, f.Type) {
			return nil, fmt.Errorf("%s: column %q is %s, and in %s it is %s: expected one schema", name, f.Name, t, other, f.Type)
		}
	}
	for _, f := range schema.Fields() {
		if used[f.Name] < len(schema.FieldIndices(f.Name)) {
			return nil, fmt.Errorf("%s has a column %q, which %s does not have: expected one schema", name, f.Name, other)
		}
	}
	return columns, nil
}

// partitionFields returns the columns of the partition keys, without those that the
// files have themselves.
func (s *multiSource) partitionFields(own []arrow.Field) (fields []arrow.Field, err error) {
	isOwn := map[string]bool{}
	for _, f := range own {
		isOwn[f.Name] = true
	}
	for i := range s.files {
		f := &s.files[i]
		f.keys = slices.DeleteFunc(slices.Clone(f.keys), func(k partitionKey) bool { return isOwn[k.key] })
		if !slices.EqualFunc(f.keys, s.files[0].keys, func(a, b partitionKey) bool { return a.key == b.key }) {
			return nil, fmt.Errorf("%s and %s lie in folders of different keys: expected the same key=value folders for all files", s.files[0].name(), f.name())
		}
	}
	for k, key := range s.files[0].keys {
		integers, nullable, known := true, false, false
		for _, f := range s.files {
			if f.keys[k].null {
				nullable = true
				continue
			}
			known = true
			if _, err := strconv.ParseInt(f.keys[k].value, 10, 64); err != nil {
				integers = false
			}
		}
		field := arrow.Field{Name: key.key, Type: arrow.BinaryTypes.String, Nullable: nullable}
		if integers && known {
			field.Type = arrow.PrimitiveTypes.Int64
		}
		fields = append(fields, field)
	}
	return fields, nil
}

func (s *multiSource) Info() source.Info {
	rows := int64(0)
	for _, f := range s.scanned {
		if f.rows < 0 {
			rows = -1
			break
		}
		rows += f.rows
	}
	return source.Info{Format: s.format, Schema: s.whole, Rows: rows, Fingerprint: s.identity}
}

func (s *multiSource) Interrupt() bool { return true }

func (s *multiSource) Count(context.Context) (source.Counts, error) {
	c := source.Counts{Nulls: make([]int64, s.whole.NumFields())}
	for i, f := range s.scanned {
		if f.rows < 0 {
			return source.Counts{}, fmt.Errorf("%s: rows cannot be counted without reading them: %w", s.files[i].name(), errors.ErrUnsupported)
		}
		c.Rows += f.rows
		for k := range s.own {
			if n := f.nulls[f.columns[k]]; c.Nulls[k] < 0 || n < 0 {
				c.Nulls[k] = -1
			} else {
				c.Nulls[k] += n
			}
		}
		for k, key := range s.files[i].keys {
			if key.null {
				c.Nulls[s.own+k] += f.rows
			}
		}
	}
	return c, nil
}

func (s *multiSource) Open(_ context.Context, fields []int, rows source.RowRange) error {
	s.fields, s.chosen, s.cutter = fields, arrowdata.SelectSchema(s.whole, fields), source.NewRowCutter(rows)
	return nil
}

// openNext opens the next file with rows of the range. It returns io.EOF if there is
// none.
func (s *multiSource) openNext() error {
	for s.at < len(s.files) && s.scanned[s.at].rows >= 0 && s.scanned[s.at].rows <= s.cutter.Skip {
		s.cutter.Skip -= s.scanned[s.at].rows
		s.done += s.scanned[s.at].size
		s.at++
	}
	if s.at == len(s.files) || s.cutter.Done() {
		return io.EOF
	}
	scanned := s.scanned[s.at]
	src, err := s.files[s.at].open(s.ctx, s.options, keepOpen)
	s.at++
	if err != nil {
		return err
	}
	s.current = src
	if src.Info().Fingerprint != scanned.fingerprint {
		return errors.New("the file has changed since the conversion began")
	}
	var columns []int
	for _, f := range s.fields {
		if f < s.own {
			columns = append(columns, scanned.columns[f])
		}
	}
	if len(columns) == 0 && s.own > 0 { // one column says how many rows there are
		columns = []int{0}
	}
	rows := source.WholeInput
	if scanned.rows >= 0 {
		rows.From = s.cutter.Skip
		s.cutter.Skip = 0
		if s.cutter.Left >= 0 {
			rows.To = rows.From + s.cutter.Left
		}
	}
	return src.Open(s.ctx, columns, rows)
}

func (s *multiSource) Next() (source.Batch, error) {
	for {
		if s.current == nil {
			err := s.openNext()
			if errors.Is(err, io.EOF) {
				return source.Batch{}, io.EOF
			}
			if err != nil {
				return source.Batch{}, fmt.Errorf("%s: %w", s.files[s.at-1].name(), err)
			}
		}
		b, err := s.current.Next()
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			s.done += s.scanned[s.at-1].size
			err = s.current.Close()
			s.current = nil
			if err == nil {
				continue
			}
		}
		if err != nil {
			return source.Batch{}, fmt.Errorf("%s: %w", s.files[s.at-1].name(), err)
		}
		if b.Record = s.cutter.Cut(b.Record); b.Record != nil {
			return s.complete(b), nil
		}
	}
}

// complete returns a batch of a file with the schema of the whole, and with the
// partition keys.
func (s *multiSource) complete(b source.Batch) source.Batch {
	defer b.Record.Release()
	rows := int(b.Record.NumRows())
	columns := make([]arrow.Array, len(s.fields))
	own := 0
	for i, f := range s.fields {
		if f < s.own {
			columns[i] = b.Record.Column(own)
			own++
			continue
		}
		columns[i] = s.partitionColumn(s.whole.Field(f).Type, s.files[s.at-1].keys[f-s.own], rows)
		b.Bytes += arrowdata.ArrayBytes(columns[i].Data(), arrowdata.BufferLen)
		defer columns[i].Release()
	}
	return source.Batch{Record: array.NewRecordBatch(s.chosen, columns, int64(rows)), Bytes: b.Bytes, Dictionaries: b.Dictionaries}
}

// partitionColumn returns a column that repeats the value of a key.
func (s *multiSource) partitionColumn(t arrow.DataType, key partitionKey, rows int) arrow.Array {
	builder := array.NewBuilder(s.options.Allocator, t)
	defer builder.Release()
	builder.Reserve(rows)
	switch b := builder.(type) {
	case *array.Int64Builder:
		n, _ := strconv.ParseInt(key.value, 10, 64) // see partitionFields
		for range rows {
			if key.null {
				b.UnsafeAppendBoolToBitmap(false)
			} else {
				b.UnsafeAppend(n)
			}
		}
	case *array.StringBuilder:
		b.ReserveData(rows * len(key.value))
		for range rows {
			if key.null {
				b.AppendNull()
			} else {
				b.Append(key.value)
			}
		}
	}
	return builder.NewArray()
}

func (s *multiSource) Position() (done, total int64) {
	done = s.done
	if s.current != nil {
		n, _ := s.current.Position()
		done += n
	}
	return done, s.size
}

// Close closes the current file, and the stores of all.
func (s *multiSource) Close() error {
	var err error
	if s.current != nil {
		err = s.current.Close()
		s.current = nil
	}
	return errors.Join(err, closeTrees(s.files))
}
