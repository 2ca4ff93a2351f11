package parquetcolumn

import (
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
)

// leaf reads one column of Parquet: the slots of an Arrow array and, inside of nested
// types, its levels.
type leaf struct {
	options        *Options
	footer         *metadata.FileMetaData
	index          int // of the column
	form           form
	info           file.LevelInfo
	maxRep, maxDef byte
	keepLevels     bool // the structs, lists or maps around it need its levels

	groups  []int // not begun
	pages   pages
	left    int64 // levels of the row group that no page has had
	rows    int64 // of the row group that are not read
	batch   int64 // rows of the batch
	active  bool  // pages.memory is set
	current page
	done    int  // levels of the current page that are read
	defined bool // all levels of the current page are maxDef, and memory.defs is not set
	values  valueDecoder
	words   dictionary // of the row group
	wordsAt int64      // where its page is; -1 without one

	out   output
	valid []byte // of structs and lists around the leaf
	// Of the last batch or, before the first, of the row group.
	perRow, textPerRow float64
	mostEstimated      float64 // slots, or bytes of text
}

// fixedRawPages is the first version of Arrow's C++ writer, then named parquet-cpp, that says
// rightly which pages of version 2 are compressed (ARROW-10353).
var fixedRawPages = metadata.NewAppVersionExplicit("parquet-cpp", 2, 0, 0)

func newLeaf(field pqarrow.SchemaField, footer *metadata.FileMetaData, groups []int, options *Options) (*leaf, error) {
	column := footer.Schema.Column(field.ColIndex)
	if column.MaxRepetitionLevel() > maxLevel || column.MaxDefinitionLevel() > maxLevel {
		return nil, fmt.Errorf("column of %d levels: %w", column.MaxDefinitionLevel(), errors.ErrUnsupported)
	}
	l := &leaf{
		options: options, footer: footer, index: field.ColIndex, info: field.LevelInfo, groups: groups, wordsAt: -1,
		maxRep: byte(column.MaxRepetitionLevel()), maxDef: byte(column.MaxDefinitionLevel()),
	}
	l.pages.compressed = metadata.NewAppVersion(footer.GetCreatedBy()).LessThan(fixedRawPages)
	var err error
	if l.form, err = formOf(field.Field.Type, column); err != nil {
		return nil, err
	}
	for _, g := range groups {
		if err := l.checkGroup(g); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// checkGroup returns an error if a row group has an encoding that leaf does not read.
func (l *leaf) checkGroup(g int) error {
	chunk, err := l.footer.RowGroup(g).ColumnChunk(l.index)
	if err != nil {
		return err
	}
	for _, e := range chunk.Encodings() {
		if !readsEncoding(e, chunk.Type()) {
			return fmt.Errorf("encoding %s: %w", e, errors.ErrUnsupported)
		}
	}
	if l.form.dictionary == nil {
		return nil
	}
	statistics := chunk.EncodingStats()
	for _, s := range statistics {
		isDictionary := s.Encoding == parquet.Encodings.PlainDict || s.Encoding == parquet.Encodings.RLEDict
		if s.PageType != dictionaryPage && !isDictionary {
			return fmt.Errorf("dictionary with pages in encoding %s: %w", s.Encoding, errors.ErrUnsupported)
		}
	}
	return nil
}

// release releases the memory that is not needed between two reads. The next read decodes
// the current page again.
func (l *leaf) release() {
	l.out.release()
	l.words.release(l.pages.memory)
	if l.active {
		l.options.memories.put(l.pages.memory)
		l.active, l.pages.memory = false, nil
	}
}

// resume gets memory, and decodes the current page again.
func (l *leaf) resume() error {
	l.pages.memory, l.pages.windowAt, l.active = l.options.memories.get(), 0, true
	if l.wordsAt >= 0 {
		next := l.pages.at
		l.pages.at = l.wordsAt
		found, err := l.pages.next(l.maxRep, l.maxDef)
		if err == nil {
			err = l.readDictionary(found)
		}
		if l.pages.at = next; err != nil {
			return err
		}
	}
	if l.done >= int(l.current.values32()) {
		return nil
	}
	done := l.done
	l.pages.at = l.current.at
	if err := l.beginPage(); err != nil {
		return err
	}
	values := done
	if !l.defined {
		values = l.countValues(l.pages.memory.defs[:done])
	}
	l.done = done
	return l.values.skip(l, values)
}

// values32 returns the number of levels.
func (p *page) values32() int32 { return p.pageHeader.values }

// countValues returns how many definition levels are those of values.
func (l *leaf) countValues(defs []byte) int {
	if l.maxDef == 1 {
		return countOnes(defs)
	}
	n := 0
	for _, d := range defs {
		if d == l.maxDef {
			n++
		}
	}
	return n
}

// beginGroup begins the next row group that has rows. It returns false after the last.
func (l *leaf) beginGroup() (bool, error) {
	for len(l.groups) > 0 {
		group := l.footer.RowGroup(l.groups[0])
		l.groups = l.groups[1:]
		if l.rows = group.NumRows(); l.rows == 0 {
			continue
		}
		chunk, err := group.ColumnChunk(l.index)
		if err != nil {
			return false, err
		}
		start := chunk.DataPageOffset()
		if d := chunk.DictionaryPageOffset(); chunk.HasDictionaryPage() && d > 0 && d < start {
			start = d
		}
		if start < 0 || start >= l.options.Size || chunk.TotalCompressedSize() < 0 {
			return false, fmt.Errorf("column chunk at %d of a file of %d bytes: %w", start, l.options.Size, ErrMalformed)
		}
		l.pages.options, l.pages.codec, l.pages.at = l.options, chunk.Compression(), start
		l.pages.end = min(start+chunk.TotalCompressedSize(), l.options.Size)
		l.left, l.current, l.done = chunk.NumValues(), page{}, 0
		l.words.release(l.pages.memory)
		l.wordsAt = -1
		l.estimate(chunk, l.pages.end-start)
		return true, nil
	}
	return false, nil
}

// minEstimate is how many slots or bytes of text are allocated because the file says that
// they are needed. A column chunk of more bits counts as one of as many slots.
const minEstimate = 4 << 20

// estimate estimates the first batch from what a row group says of itself.
func (l *leaf) estimate(chunk *metadata.ColumnChunkMetaData, stored int64) {
	l.mostEstimated = float64(max(minEstimate, 8*stored))
	l.perRow = float64(chunk.NumValues()) / float64(l.rows)
	if !chunk.HasDictionaryPage() { // otherwise, the row group before is a better estimate
		l.textPerRow = float64(chunk.TotalUncompressedSize()) / float64(l.rows)
	}
}

// beginPage decodes the next page with values.
func (l *leaf) beginPage() error {
	for {
		found, err := l.pages.next(l.maxRep, l.maxDef)
		if err != nil {
			return err
		}
		if found.kind == dictionaryPage {
			l.wordsAt = found.at
			if err := l.readDictionary(found); err != nil {
				return err
			}
			continue
		}
		if found.pageHeader.values == 0 {
			continue
		}
		return l.decodePage(found)
	}
}

func (l *leaf) decodePage(found page) error {
	m, n := l.pages.memory, int(found.pageHeader.values)
	l.current, l.done, l.defined = found, 0, true
	if l.maxRep > 0 {
		if err := l.checkLevels(n); err != nil {
			return err
		}
		m.reps = resize(m.reps, n)
		if err := found.reps.bytes(m.reps); err != nil {
			return fmt.Errorf("repetition levels: %w", err)
		}
		if l.maxRep&(l.maxRep+1) != 0 && countBelow(m.reps, l.maxRep+1) < n { // the bits allow more
			return fmt.Errorf("repetition level over %d: %w", l.maxRep, ErrMalformed)
		}
	}
	if l.maxDef > 0 {
		if v, ok := found.defs.constant(n); !ok || v != uint32(l.maxDef) || l.keepLevels {
			if err := l.checkLevels(n); err != nil {
				return err
			}
			m.defs = resize(m.defs, n)
			if err := found.defs.bytes(m.defs); err != nil {
				return fmt.Errorf("definition levels: %w", err)
			}
			if l.maxDef&(l.maxDef+1) != 0 && countBelow(m.defs, l.maxDef+1) < n { // the bits allow more
				return fmt.Errorf("definition level over %d: %w", l.maxDef, ErrMalformed)
			}
			l.defined = false
		}
	}
	return l.beginValues(found)
}

// checkLevels returns an error if the levels of a page would take too much memory: each
// takes a byte.
func (l *leaf) checkLevels(n int) error {
	if int64(n) > max(l.options.MaxPage/8, 1<<20) {
		return fmt.Errorf("page of %d values: %w", n, errors.ErrUnsupported)
	}
	return nil
}

// nextPage begins the next page of the row group. It returns false after the last.
func (l *leaf) nextPage() (bool, error) {
	if l.left <= 0 {
		return false, nil
	}
	if err := l.beginPage(); err != nil {
		return false, err
	}
	n := int64(l.current.values32())
	if n > l.left {
		return false, fmt.Errorf("pages with more values than their column chunk: %w", ErrMalformed)
	}
	l.left -= n
	return true, nil
}

// read reads rows, all of one row group, into out.
func (l *leaf) read(rows int64) error {
	if l.rows == 0 {
		found, err := l.beginGroup()
		if err == nil && !found {
			err = fmt.Errorf("%d rows after the last row group: %w", rows, ErrMalformed)
		}
		if err != nil {
			return err
		}
	}
	l.out.begin(l, rows)
	if !l.active {
		if err := l.resume(); err != nil {
			return err
		}
	}
	l.rows -= rows
	l.batch = rows
	if l.maxRep > 0 {
		return l.readRecords(rows)
	}
	for rows > 0 {
		if l.done == int(l.current.values32()) {
			if found, err := l.nextPage(); err != nil {
				return err
			} else if !found {
				return fmt.Errorf("column chunk of %d rows less than its row group: %w", rows, ErrMalformed)
			}
		}
		n := min(rows, int64(l.current.values32())-int64(l.done))
		if err := l.readLevels(int(n)); err != nil {
			return err
		}
		rows -= n
	}
	return l.checkEnd()
}

// checkEnd returns an error if the row group is read and the column has more values.
func (l *leaf) checkEnd() error {
	if l.rows == 0 && (l.left > 0 || l.done < int(l.current.values32())) {
		return fmt.Errorf("column chunk of more rows than its row group: %w", ErrMalformed)
	}
	return nil
}

// readRecords is read for a column inside of lists, whose rows begin at repetition level
// 0.
func (l *leaf) readRecords(rows int64) error {
	begun := int64(0)
	for {
		if l.done == int(l.current.values32()) {
			if found, err := l.nextPage(); err != nil {
				return err
			} else if !found {
				break
			}
			if begun == 0 && l.pages.memory.reps[0] != 0 {
				return fmt.Errorf("page that begins inside of a row: %w", ErrMalformed)
			}
		}
		reps := l.pages.memory.reps[l.done:l.current.values32()]
		starts, n := countRows(reps, rows-begun)
		begun += starts
		if err := l.readLevels(n); err != nil {
			return err
		}
		if n < len(reps) {
			break
		}
	}
	if begun != rows {
		return fmt.Errorf("column chunk of %d rows less than its row group: %w", rows-begun, ErrMalformed)
	}
	return l.checkEnd()
}

// readLevels reads the next n levels of the current page and their values.
func (l *leaf) readLevels(n int) error {
	if n == 0 {
		return nil
	}
	m := l.pages.memory
	from, to := l.done, l.done+n
	l.done = to
	slots, values := n, n
	var valid []byte // nil if all slots have values
	if !l.defined {
		defs := m.defs[from:to]
		if l.keepLevels {
			l.out.defs = append(l.out.defs, defs...)
		}
		switch {
		case l.maxDef == 1 && l.maxRep == 0:
			valid, values = defs, countOnes(defs)
		default:
			m.valid = resize(m.valid, n+1)
			var reps []byte
			if l.maxRep > 0 {
				reps = m.reps[from:to]
			}
			slots, values = findSlots(m.valid, defs, reps, l.info, l.maxDef)
			valid = m.valid[:slots]
		}
		if values == slots {
			valid = nil
		}
	}
	if l.keepLevels && l.maxRep > 0 {
		l.out.reps = append(l.out.reps, m.reps[from:to]...)
	}
	return l.appendSlots(valid, slots, values)
}

// output is the slots of a batch. The buffers may be longer.
type output struct {
	slots, nulls int
	bitmap       *memory.Buffer // nil if a slot always has a value
	fixed        *memory.Buffer // values of fixed width, bits of Booleans, or indices
	offsets      *memory.Buffer // of text, of 32 bits
	text         *memory.Buffer
	defs, reps   []byte
}

func (o *output) begin(l *leaf, rows int64) {
	slots := int(rows)
	if l.maxRep > 0 {
		slots = int(max(min(1.1*l.perRow*float64(rows), l.mostEstimated), 0)) // some batches have more elements
	}
	o.release()
	defs, reps := o.defs[:0], o.reps[:0]
	if l.keepLevels {
		defs = slices.Grow(defs, slots)
		if l.maxRep > 0 {
			reps = slices.Grow(reps, slots)
		}
	}
	*o = output{defs: defs, reps: reps}
	mem := l.options.Memory
	if l.info.HasNullableValues() {
		o.bitmap = memory.NewResizableBuffer(mem)
	}
	if l.form.isText() {
		o.offsets, o.text = memory.NewResizableBuffer(mem), memory.NewResizableBuffer(mem)
		o.offsets.Reserve(4 * (slots + 1))
		o.text.Reserve(int(min(1.1*l.textPerRow*float64(rows), l.mostEstimated)))
		return
	}
	o.fixed = memory.NewResizableBuffer(mem)
	switch l.form.kind {
	case kindBits:
		o.fixed.Reserve(slots/8 + 1)
	case kindIndices:
		o.fixed.Reserve(4 * slots)
	default:
		o.fixed.Reserve(l.form.width * slots)
	}
}

func (o *output) release() {
	for _, b := range []**memory.Buffer{&o.bitmap, &o.fixed, &o.offsets, &o.text} {
		if *b != nil {
			(*b).Release()
			*b = nil
		}
	}
}

// grow makes room for n bytes more than have, and returns the whole buffer.
func grow(b *memory.Buffer, have, n int) []byte {
	if need := have + n; b.Cap() < need {
		if have > 0 { // more will follow
			need += need / 4
		}
		b.Reserve(need)
	}
	b.ResizeNoShrink(have + n)
	return b.Bytes()
}

// array returns the slots as an array of a type whose storage is that of the leaf. The
// caller owns it.
func (l *leaf) array(t arrow.DataType) (arrow.ArrayData, error) {
	l.perRow = float64(l.out.slots) / float64(l.batch)
	if l.out.text != nil {
		l.textPerRow = float64(l.out.text.Len()+spare) / float64(l.batch)
	}
	return l.form.finish(&l.out, t, l)
}
