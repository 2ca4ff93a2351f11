package text

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source"
)

// Format is a text format and how it is compressed.
type Format struct {
	json        bool
	comma       rune
	compression string // an extension, or empty
}

func (f Format) String() string {
	switch {
	case f.json:
		return "JSON lines"
	case f.comma == '\t':
		return "TSV"
	default:
		return "CSV"
	}
}

// JSONLines is JSON lines that are not compressed.
var JSONLines = Format{json: true}

// parseTextFormat returns the text format of a name, which is one of source.TextOptions or an
// extension.
func parseTextFormat(name string) (f Format, ok bool) {
	switch name {
	case "csv":
		return Format{comma: ','}, true
	case "tsv":
		return Format{comma: '\t'}, true
	case "json", "jsonl", "ndjson":
		return Format{json: true}, true
	}
	return f, false
}

// FormatOf returns the text format of a file, by the options or its extension.
func FormatOf(name string, options source.TextOptions) (f Format, ok bool) {
	name = strings.ToLower(name)
	extension := path.Ext(name)
	compression := ""
	if slices.Contains([]string{".gz", ".zst", ".bz2"}, extension) {
		compression = extension
		extension = path.Ext(strings.TrimSuffix(name, extension))
	}
	if options.Format != "" {
		f, ok = parseTextFormat(options.Format)
	} else {
		f, ok = parseTextFormat(strings.TrimPrefix(extension, "."))
	}
	if f.compression = compression; options.Delimiter != "" && !f.json {
		f.comma, _ = utf8.DecodeRuneInString(options.Delimiter)
	}
	return f, ok
}

// CheckOptions returns an error unless the options are valid.
func CheckOptions(o source.TextOptions) error {
	if _, ok := parseTextFormat(o.Format); o.Format != "" && !ok {
		return fmt.Errorf("input format %q: expected csv, tsv or json", o.Format)
	}
	if r, n := utf8.DecodeRuneInString(o.Delimiter); o.Delimiter != "" && (n != len(o.Delimiter) || r == utf8.RuneError || strings.ContainsRune("\r\n\"", r)) {
		return fmt.Errorf("delimiter %q: expected one character that is neither a quote nor the end of a line", o.Delimiter)
	}
	_, err := parseTypes(o.Types)
	return err
}

// decompress returns a reader of decompressed text.
func (f Format) decompress(in io.Reader) (out io.Reader, closing func(), err error) {
	closing = func() {}
	switch f.compression {
	case ".gz":
		out, err = gzip.NewReader(in)
	case ".bz2":
		out = bzip2.NewReader(in)
	case ".zst":
		var d *zstd.Decoder
		if d, err = zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(128<<20)); err == nil {
			out, closing = d, d.Close
		}
	default:
		out = in
	}
	return out, closing, err
}

// textRows reads the rows of a text.
type textRows interface {
	// append appends the next row to the builders, of which those of columns that are
	// not needed are nil. It returns io.EOF at the end.
	append(builders []array.Builder) error
}

// textSource reads CSV, TSV or JSON lines.
type textSource struct {
	file    *source.File
	text    Format
	options source.Options
	input   *source.CountingReader // compressed bytes
	plain   *source.CountingReader // text
	release func()                 // of the decompressor
	given   map[string]arrow.DataType
	whole   *arrow.Schema
	rowsOf  textRows
	fields  []int
	chosen  *arrow.Schema
	cutter  source.RowCutter
	ended   bool
}

// inferBytes is how much text is read to infer types. If it has no whole row, more is.
const inferBytes = 1 << 20

// Open returns a source of a text, of which it reads the first rows. It owns the file, unless
// it returns an error.
func Open(file *source.File, f Format, o source.Options) (source.Source, error) {
	if f.compression == "" {
		head, err := file.ReadHead()
		if err != nil {
			return nil, err
		}
		f.compression = CompressionOf(head)
	}
	s := &textSource{file: file, text: f, options: o, input: source.NewCountingReader(file.Stream()), release: func() {}}
	if err := s.begin(); err != nil {
		s.release()
		return nil, fmt.Errorf("%s: %s: %w", file.Name, f, err)
	}
	return s, nil
}

// begin reads the first rows, and infers the schema.
func (s *textSource) begin() error {
	given, err := parseTypes(s.options.Text.Types)
	if err != nil {
		return err
	}
	s.given = given
	in, release, err := s.text.decompress(s.input)
	if err != nil {
		return err
	}
	s.release = release
	head, whole, err := readHead(in, inferBytes)
	if err != nil {
		return err
	}
	if bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff")) { // its byte order mark
		return errors.New("text in UTF-16: convert the file, for example with iconv -f utf-16 -t utf-8")
	}
	head = bytes.TrimPrefix(head, byteOrderMark)
	i := inference{text: s.text, limit: int(s.options.MaxBuffer / 8), rows: s.options.Text.InferRows, given: given, known: s.options.TextFields}
	var fields []arrow.Field
	if !s.options.Text.InferHead {
		fields, err = s.inferMore(i)
	} else {
		fields, head, err = i.inferHead(head, whole, in)
	}
	if err != nil {
		return err
	}
	s.whole = arrow.NewSchema(fields, nil)
	s.plain = source.NewCountingReader(io.MultiReader(bytes.NewReader(head), in))
	if s.text.json {
		s.rowsOf = newJSONRows(s.plain, fields, int(s.options.MaxBuffer/8))
	} else {
		s.rowsOf, err = s.newCSVRows(s.plain, fields, given)
	}
	return err
}

// inferMore infers the types of the rows that the options say, from the start of the file.
func (s *textSource) inferMore(i inference) ([]arrow.Field, error) {
	if s.file.Once() {
		return nil, errors.New("it can be read only once, so the types cannot come from other rows than the first 10,000: leave out --infer-rows, or give a file by name")
	}
	in, release, err := s.text.decompress(s.file.Stream())
	if err != nil {
		return nil, err
	}
	defer release()
	if i.rows < 0 {
		i.rows = math.MaxInt
	}
	buffered := bufio.NewReader(in)
	if mark, _ := buffered.Peek(3); bytes.Equal(mark, byteOrderMark) {
		_, _ = buffered.Discard(3) // they are in the buffer
	}
	i.whole = true
	fields, _, err := i.infer(buffered)
	return fields, err
}

// inference infers the fields of a text.
type inference struct {
	text  Format
	limit int  // of a record, in bytes
	rows  int  // to read
	whole bool // the text ends where its reader does
	given map[string]arrow.DataType
	known []arrow.Field // see source.Options.TextFields
}

// infer returns the fields, and the number of rows that they are of.
func (i inference) infer(in io.Reader) (fields []arrow.Field, rows int, err error) {
	if i.text.json {
		return i.inferJSON(in)
	}
	return i.inferCSV(in)
}

// inferHead infers the fields of the first rows of a text that begins with head. It reads
// more if that has no whole row, and returns all it has read.
func (i inference) inferHead(head []byte, whole bool, in io.Reader) ([]arrow.Field, []byte, error) {
	for {
		i.whole = whole
		fields, rows, err := i.infer(bytes.NewReader(head))
		if err != nil || rows > 0 || whole {
			return fields, head, err
		}
		if len(head) > i.limit {
			return nil, nil, fmt.Errorf("a row of more than %d bytes", len(head))
		}
		var more []byte
		if more, whole, err = readHead(in, len(head)); err != nil {
			return nil, nil, err
		}
		head = append(head, more...)
	}
}

// byteOrderMark is that of UTF-8.
var byteOrderMark = []byte("\xef\xbb\xbf")

// CompressionOf returns the extension of what content is compressed by, or "".
func CompressionOf(head []byte) string {
	switch {
	case bytes.HasPrefix(head, []byte("\x1f\x8b")):
		return ".gz"
	case bytes.HasPrefix(head, []byte("\x28\xb5\x2f\xfd")):
		return ".zst"
	case bytes.HasPrefix(head, []byte("BZh")) && bytes.HasSuffix(head, []byte("1AY&")): // of 8 bytes
		return ".bz2"
	}
	return ""
}

// readHead reads up to n bytes, and reports whether they are the rest.
func readHead(in io.Reader, n int) (head []byte, whole bool, err error) {
	head, err = io.ReadAll(io.LimitReader(in, int64(n)))
	return head, len(head) < n, err
}

// inferCSV returns the fields of the header, with types of the rows.
func (i inference) inferCSV(in io.Reader) (fields []arrow.Field, rows int, err error) {
	r := newCSVReader(in, i.text.comma, i.limit)
	header, err := r.read()
	if errors.Is(err, io.EOF) {
		return nil, 0, errors.New("the file has no header: expected a line with the names of the columns")
	}
	if err != nil {
		if !i.whole {
			return nil, 0, nil
		}
		return nil, 0, err
	}
	names := slices.Clone(header)
	if n := slices.IndexFunc(names, func(name string) bool { return !utf8.ValidString(name) }); n >= 0 {
		return nil, 0, fmt.Errorf("name of column %d, %q: %w", n+1, names[n], errNotUTF8)
	}
	kinds := make([]textKinds, len(names))
	var last []string
	for rows < i.rows {
		record, err := r.read()
		if err != nil || len(record) != len(names) { // reading the rows will return it
			break
		}
		if last != nil {
			addKinds(kinds, last)
		}
		last = append(last[:0], record...)
		rows++
	}
	switch {
	case last == nil:
	case i.whole || rows == i.rows:
		addKinds(kinds, last)
	default: // the last row may be cut
		rows--
	}
	for _, name := range slices.Sorted(maps.Keys(i.given)) {
		if !slices.Contains(names, name) {
			return nil, 0, fmt.Errorf("no column is named %q, whose type is given", name)
		}
	}
	for n, name := range names {
		f := arrow.Field{Name: name, Type: kinds[n].csvType(), Nullable: true}
		if k := slices.IndexFunc(i.known, func(k arrow.Field) bool { return k.Name == name }); k >= 0 {
			f.Type = i.known[k].Type
		}
		if t := i.given[name]; t != nil {
			f.Type = t
		}
		fields = append(fields, f)
	}
	return fields, rows, nil
}

func addKinds(kinds []textKinds, record []string) {
	for i, text := range record {
		if !isNullText(text) {
			kinds[i] |= kindsOf(text)
		}
	}
}

// csvRows reads the rows of CSV.
type csvRows struct {
	r      *csvReader
	comma  rune
	fields []arrow.Field
	given  map[string]arrow.DataType
}

// newCSVRows returns the rows after the header.
func (s *textSource) newCSVRows(in io.Reader, fields []arrow.Field, given map[string]arrow.DataType) (*csvRows, error) {
	c := &csvRows{r: newCSVReader(in, s.text.comma, int(s.options.MaxBuffer/8)), comma: s.text.comma, fields: fields, given: given}
	_, err := c.r.read()
	return c, err
}

func (c *csvRows) append(builders []array.Builder) error {
	record, err := c.r.read()
	if err != nil {
		return err
	}
	if len(record) != len(c.fields) {
		hint := ""
		if len(c.fields) == 1 || len(record) == 1 {
			hint = fmt.Sprintf(" (separated by %q: see --delimiter)", c.comma)
		}
		return fmt.Errorf("line %d: %d columns, expected %d%s", c.r.lines[0], len(record), len(c.fields), hint)
	}
	for i, b := range builders {
		if b == nil {
			continue
		}
		if err := c.appendText(b, i, record[i]); err != nil {
			return fmt.Errorf("line %d, column %q: %w", c.r.lines[i], c.fields[i].Name, err)
		}
	}
	return nil
}

func (c *csvRows) appendText(b array.Builder, i int, text string) error {
	f := c.fields[i]
	if arrowdata.IsText(f.Type) {
		if !utf8.ValidString(text) {
			return fmt.Errorf("%.100q: %w", text, errNotUTF8)
		}
		return appendText(b, f, text)
	}
	if isNullText(text) {
		b.AppendNull()
		return nil
	}
	if f.Type.ID() == arrow.INT64 && c.given[f.Name] == nil && hasLeadingZero(text) {
		return notOfType(text, f)
	}
	if appendText(b, f, text) != nil {
		return notOfType(text, f)
	}
	return nil
}

var errNotUTF8 = errors.New("text that is not UTF-8: convert the file, for example with iconv -f latin1 -t utf-8")

// typeError is the error of a value that has no place in its column. textSource completes
// it by what says the type, and what the user can do.
type typeError struct {
	column string
	value  string // what is no value of the type
	member string // or what the type does not have, after "the first rows do not have"
}

func (e *typeError) Error() string {
	if e.member != "" {
		return e.member
	}
	return e.value
}

// notOfType is the error of a value that is not of its column's type.
func notOfType(text string, f arrow.Field) error {
	return &typeError{column: f.Name, value: fmt.Sprintf("%.100q is no %s", text, f.Type)}
}

// explain completes a typeError.
func (s *textSource) explain(e *typeError) string {
	says, lacks := "the first rows say", "the first rows do not have"
	advice := fmt.Sprintf("give another type, such as --types '%s:text'", e.column)
	if i, ok := s.whole.FieldsByName(e.column); ok {
		if _, nested := arrowdata.StorageType(i[0].Type).(arrow.NestedType); nested {
			advice = fmt.Sprintf("--exclude '%s' leaves the column out", e.column)
		}
	}
	switch {
	case s.given[e.column] != nil:
		says, advice = "--types says", "give another type, or none"
	case s.options.TextFields != nil:
		says, lacks = "the first file says", "the first file does not have"
	case s.options.Text.InferRows < 0:
		says, lacks = "all rows say", "the rows do not have"
	case !s.file.Once():
		advice = "give --infer-rows all, or " + strings.TrimPrefix(advice, "give ")
	}
	if e.member != "" {
		return fmt.Sprintf("%s %s: %s", lacks, e.member, advice)
	}
	return fmt.Sprintf("%s, the type that %s: %s", e.value, says, advice)
}

func (s *textSource) Info() source.Info {
	return source.Info{Format: s.text.String(), Schema: s.whole, Rows: -1, Fingerprint: s.file.Fingerprint()}
}

func (s *textSource) Interrupt() bool { return s.file.Interrupt() }

func (s *textSource) Position() (int64, int64) { return s.input.Count(), s.file.Size }

// Count returns an error: only reading the text tells the number of rows.
func (s *textSource) Count(context.Context) (source.Counts, error) {
	return source.Counts{}, fmt.Errorf("%s: rows of %s cannot be counted without reading them: %w", s.file.Name, s.text, errors.ErrUnsupported)
}

func (s *textSource) Open(_ context.Context, fields []int, rows source.RowRange) error {
	s.fields, s.chosen, s.cutter = fields, arrowdata.SelectSchema(s.whole, fields), source.NewRowCutter(rows)
	return nil
}

// Next reads a batch of rows, or fewer if their text is long.
func (s *textSource) Next() (b source.Batch, err error) {
	for ; s.cutter.Skip > 0 && !s.ended; s.cutter.Skip-- {
		if err := s.readRow(make([]array.Builder, s.whole.NumFields())); err != nil {
			return b, err
		}
	}
	limit := s.options.BatchRows
	if s.cutter.Left >= 0 {
		limit = min(limit, s.cutter.Left)
	}
	if s.ended || limit == 0 {
		return b, io.EOF
	}
	record := array.NewRecordBuilder(s.options.Allocator, s.chosen)
	defer record.Release()
	builders := make([]array.Builder, s.whole.NumFields())
	for i, f := range s.fields {
		builders[f] = record.Field(i)
	}
	var rows int64
	err = arrowdata.CatchPanic(func() error {
		for start := s.plain.Count(); rows < limit && s.plain.Count()-start < s.options.MaxBuffer/32; rows++ {
			if err := s.readRow(builders); err != nil {
				return err
			}
			if s.ended {
				break
			}
		}
		return nil
	})
	if err != nil {
		return b, err
	}
	if rows == 0 {
		return b, io.EOF
	}
	if s.cutter.Left >= 0 {
		s.cutter.Left -= rows
	}
	b.Record = record.NewRecordBatch()
	if len(s.fields) == 0 {
		b.Record = array.NewRecordBatch(s.chosen, nil, rows)
	}
	b.Bytes = arrowdata.BatchBytes(b.Record, arrowdata.BufferCap)
	return b, nil
}

// readRow appends the next row. It sets ended at the end.
func (s *textSource) readRow(builders []array.Builder) error {
	err := s.rowsOf.append(builders)
	if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		s.ended = true
		return nil
	}
	var bad *typeError
	if errors.As(err, &bad) {
		return errors.New(strings.TrimSuffix(err.Error(), bad.Error()) + s.explain(bad))
	}
	return err
}

func (s *textSource) Close() error {
	s.release()
	return s.file.Close()
}
