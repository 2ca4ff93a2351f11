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
	dictionary     *dictionary // nil for pages of values
	codec          compress.Codec
	*scratch
}

// scratch is memory that column chunks use one after the other.
type scratch struct {
	page, encoded []byte // of a page
	indices       []uint32
}

var scratches = sync.Pool{New: func() any { return &scratch{page: make([]byte, 0, pageBytes+pageBytes/8)} }}

// count returns the number of values that are not null.
func (p *pager) count() int {
	if p.dictionary != nil {
		return len(p.dictionary.indices)
	}
	return p.values.n
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
	d, c := p.dictionary, p.chunk
	values := d.appendTo(nil, 0, d.n)
	written, err := c.pages.WriteDictionaryPage(file.NewDictionaryPage(memory.NewBufferBytes(values), int32(d.n), parquet.Encodings.Plain))
	c.info.DataPageOffset = c.content.size
	// Without the header: its size and that of the compressed values are known only together.
	c.count(c.stats.DictEncodingStats, parquet.Encodings.Plain, written, len(values), int(written))
	return err
}

// appendTo appends values [from, to) as Parquet's encoding PLAIN.
func (v *values) appendTo(dst []byte, from, to int) []byte {
	if v.width > 0 {
		return append(dst, v.bytes[from*v.width:to*v.width]...)
	}
	for i := from; i < to; i++ {
		x := v.value(i)
		dst = append(binary.LittleEndian.AppendUint32(dst, uint32(len(x))), x...)
	}
	return dst
}

// write writes the pages of n values. A row is in one page.
func (p *pager) write(n int) error {
	if n > p.entries {
		return fmt.Errorf("%d values of %d entries: %w", n, p.entries, ErrMalformed)
	}
	last := 0
	for entry, value := 0, 0; entry < p.entries; {
		first, firstValue := entry, value
		for size := 0; entry < p.entries; {
			if (size >= pageBytes || entry-first >= pageEntries) && (p.lists == 0 || p.leaf.Repetition[entry] == 0) {
				break
			}
			if p.highest == 0 || p.leaf.Definition[entry] == p.highest {
				if value == n {
					return fmt.Errorf("more than %d values: %w", n, ErrMalformed)
				}
				size += p.sizeOf(value)
				value++
			}
			entry++
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
		return fmt.Errorf("%d values, of which the levels name %d: %w", n, last, ErrMalformed)
	}
	return nil
}

// sizeOf returns the bytes of a value, and at least 1.
func (p *pager) sizeOf(i int) int {
	v := p.values
	if p.dictionary != nil {
		v, i = p.dictionary.values, int(p.dictionary.indices[i])
	}
	if v.width > 0 {
		return v.width
	}
	return 4 + len(v.value(i))
}

// writePage writes a page of entries and values.
func (p *pager) writePage(from, to, firstValue, lastValue int) error {
	p.page = p.page[:0]
	if p.lists > 0 {
		p.page = appendLevels(p.page, p.leaf.Repetition[from:to], p.lists)
	}
	if p.highest > 0 {
		p.page = appendLevels(p.page, p.leaf.Definition[from:to], p.highest)
	}
	encoding := parquet.Encodings.Plain
	switch {
	case p.dictionary != nil:
		encoding = parquet.Encodings.RLEDict
		width := p.dictionary.width()
		p.page = appendHybrid(append(p.page, byte(width)), p.dictionary.indices[firstValue:lastValue], width)
	case p.chunk.column.PhysicalType() == parquet.Types.Boolean:
		bits := make([]uint32, lastValue-firstValue)
		for i := range bits {
			bits[i] = uint32(p.values.bytes[firstValue+i])
		}
		packed := appendPacked(nil, bits, 1)
		_, header := binary.Uvarint(packed)
		p.page = append(p.page, packed[header:][:(len(bits)+7)/8]...)
	default:
		p.page = p.values.appendTo(p.page, firstValue, lastValue)
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
