package parquetencode

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
)

// pageBytes is about the size of the values in a page.
const pageBytes = 1 << 20

// pageEntries bounds a page of nulls, which have no size.
const pageEntries = 1 << 20

// pager makes the pages of a column chunk.
type pager struct {
	chunk          *chunk
	leaf           Leaf
	entries        int
	highest, lists int16 // levels
	values         *values
	positions      []uint32 // in values, of those of the column; nil if they are all, in order
	plain          bool     // pages have the values at positions, and not the positions
	codec          compress.Codec
	*scratch
}

// scratch is memory that column chunks use one after the other.
type scratch struct {
	page, encoded []byte // of a page
	indices       []uint32
	slots         slots // of a dictionary of numbers
}

var scratches = sync.Pool{New: func() any { return &scratch{page: make([]byte, 0, pageBytes+pageBytes/8)} }}

// count returns the number of values that are not null.
func (p *pager) count() int {
	if p.positions != nil {
		return len(p.positions)
	}
	return p.values.n
}

// usesDictionary reports whether pages have positions in a dictionary.
func (p *pager) usesDictionary() bool { return p.positions != nil && !p.plain }

// position returns where value i of the column is.
func (p *pager) position(i int) int {
	if p.positions != nil {
		return int(p.positions[i])
	}
	return i
}

// compress compresses a page.
func (p *pager) compress() []byte {
	if bound := p.codec.CompressBound(int64(len(p.page)) + 1); int64(cap(p.encoded)) < bound {
		p.encoded = make([]byte, 0, bound)
	}
	p.encoded = p.codec.EncodeLevel(p.encoded[:0], p.page, 1)
	return p.encoded
}

func (p *pager) writeDictionary() error {
	d, c := p.values, p.chunk
	values := make([]byte, 0, d.size())
	if d.width > 0 {
		values = append(values, d.bytes[:d.n*d.width]...)
	}
	for i := 0; d.width == 0 && i < d.n; i++ {
		values = d.appendValue(values, i)
	}
	written, err := c.pages.WriteDictionaryPage(file.NewDictionaryPage(memory.NewBufferBytes(values), int32(d.n), parquet.Encodings.Plain))
	c.info.DataPageOffset = c.content.size
	// Without the header: its size and that of the compressed values are known only together.
	c.count(c.stats.DictEncodingStats, parquet.Encodings.Plain, written, len(values), int(written))
	return err
}

// appendValue appends value i as Parquet's encoding PLAIN.
func (v *values) appendValue(dst []byte, i int) []byte {
	x := v.value(i)
	if v.width == 0 {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(x)))
	}
	return append(dst, x...)
}

// appendPlain appends values [from, to) of the column as Parquet's encoding PLAIN.
func (p *pager) appendPlain(dst []byte, from, to int) []byte {
	if width := p.values.width; width > 0 && p.positions == nil {
		return append(dst, p.values.bytes[from*width:to*width]...)
	}
	for i := from; i < to; i++ {
		dst = p.values.appendValue(dst, p.position(i))
	}
	return dst
}

// write writes the pages of n values. A row is in one page.
func (p *pager) write(n int) error {
	if n > p.entries {
		return fmt.Errorf("%d values of %d entries: %w", n, p.entries, arrowdata.ErrMalformed)
	}
	if p.leaf.Definition == nil && (n < p.entries || p.lists > 0) {
		return fmt.Errorf("%d values of %d entries without levels: %w", n, p.entries, arrowdata.ErrMalformed)
	}
	last := 0
	for entry, value := 0, 0; entry < p.entries; {
		first, firstValue := entry, value
		var err error
		if entry, value, err = p.endOfPage(entry, value, n); err != nil {
			return err
		}
		if entry-first > math.MaxInt32 {
			return fmt.Errorf("a row of %d values, which Parquet cannot count: %w", entry-first, arrow.ErrInvalid)
		}
		if err := p.writePage(first, entry, firstValue, value); err != nil {
			return err
		}
		last = value
	}
	if last != n {
		return fmt.Errorf("%d values, of which the levels name %d: %w", n, last, arrowdata.ErrMalformed)
	}
	return nil
}

// endOfPage returns the entry and the value, of n, after those of the page that they begin.
func (p *pager) endOfPage(entry, value, n int) (int, int, error) {
	if width := p.values.width; width > 0 && p.leaf.Definition == nil {
		k := min((pageBytes+width-1)/width, pageEntries, n-value)
		return entry + k, value + k, nil
	}
	first := entry
	for size := 0; entry < p.entries; entry++ {
		if (size >= pageBytes || entry-first >= pageEntries) && (p.lists == 0 || p.leaf.Repetition[entry] == 0) {
			break
		}
		if p.leaf.Definition == nil || p.leaf.Definition[entry] == p.highest {
			if value == n {
				return 0, 0, fmt.Errorf("more than %d values: %w", n, arrowdata.ErrMalformed)
			}
			size += p.values.sizeOf(p.position(value))
			value++
		}
	}
	return entry, value, nil
}

// writePage writes a page of entries and values.
func (p *pager) writePage(from, to, firstValue, lastValue int) error {
	p.page = p.page[:0]
	if p.lists > 0 {
		p.page = appendLevels(p.page, p.leaf.Repetition[from:to], p.lists)
	}
	switch {
	case p.highest == 0:
	case p.leaf.Definition == nil:
		p.page = appendEqualLevels(p.page, to-from, p.highest)
	default:
		p.page = appendLevels(p.page, p.leaf.Definition[from:to], p.highest)
	}
	encoding := parquet.Encodings.Plain
	switch {
	case p.usesDictionary():
		encoding = parquet.Encodings.RLEDict
		width := p.values.indexWidth()
		p.page = appendHybrid(append(p.page, byte(width)), p.positions[firstValue:lastValue], width)
	case p.chunk.column.PhysicalType() == parquet.Types.Boolean:
		bits := make([]uint32, lastValue-firstValue)
		for i := range bits {
			bits[i] = uint32(p.values.bytes[p.position(firstValue+i)])
		}
		packed := appendPacked(nil, bits, 1)
		_, header := binary.Uvarint(packed)
		p.page = append(p.page, packed[header:][:(len(bits)+7)/8]...)
	default:
		p.page = p.appendPlain(p.page, firstValue, lastValue)
	}
	if len(p.page) > math.MaxInt32 {
		return fmt.Errorf("a page of %d bytes, which Parquet cannot count: %w", len(p.page), arrow.ErrInvalid)
	}
	content := p.compress()
	page := file.NewDataPageV1WithConfig(memory.NewBufferBytes(content), parquet.Encodings.RLE, parquet.Encodings.RLE, file.DataPageConfig{
		Num: int32(to - from), Encoding: encoding, UncompressedSize: int32(len(p.page)),
	})
	defer page.Release()
	c := p.chunk
	written, err := c.pages.WriteDataPage(page)
	c.count(c.stats.DataEncodingStats, encoding, written, len(p.page), len(content))
	c.info.NumValues += int64(to - from)
	return err
}
