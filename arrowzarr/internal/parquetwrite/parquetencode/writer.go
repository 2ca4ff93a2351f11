package parquetencode

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/schema"
)

// Writer writes a Parquet file of the codec zstd, level 1. It is not safe for concurrent
// use, but [Group.Encode] is.
type Writer struct {
	out        position
	properties *parquet.WriterProperties
	columns    *schema.Schema
	footer     *metadata.FileMetaDataBuilder
	groups     int
	err        error
}

// position is an output and the number of bytes that are written to it.
type position struct {
	io.Writer
	written int64
}

func (p *position) Write(b []byte) (int, error) {
	n, err := p.Writer.Write(b)
	p.written += int64(n)
	return n, err
}

const magic = "PAR1"

// NewWriter begins a file of columns, with metadata of its own.
func NewWriter(w io.Writer, columns *schema.Schema, pairs metadata.KeyValueMetadata) (*Writer, error) {
	properties := parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Zstd), parquet.WithCompressionLevel(1))
	f := &Writer{
		out: position{Writer: w}, properties: properties, columns: columns,
		footer: metadata.NewFileMetadataBuilder(columns, properties, pairs),
	}
	_, err := f.out.Write([]byte(magic))
	return f, err
}

// Close writes the footer. After an error of a group it returns that.
func (w *Writer) Close() error {
	if w.err != nil {
		return w.err
	}
	footer, err := w.footer.Finish()
	if err != nil {
		return err
	}
	n, err := footer.WriteTo(&w.out, nil)
	if err != nil {
		return err
	}
	_, err = w.out.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(n)), magic...))
	return err
}

// Group is a row group.
type Group struct {
	writer *Writer
	rows   int
	chunks []chunk
}

// chunk is a column chunk.
type chunk struct {
	column     *schema.Column
	pages      file.PageWriter // to content
	content    content
	info       metadata.ChunkMetaInfo // offsets are from the first page
	stats      metadata.EncodingStats
	statistics metadata.EncodedStatistics
}

// content is the pages of a chunk.
type content struct {
	parts [][]byte
	size  int64
}

func (c *content) Write(b []byte) (int, error) {
	c.parts = append(c.parts, bytes.Clone(b))
	c.size += int64(len(b))
	return len(b), nil
}

// Tell returns the number of bytes that are written.
func (c *content) Tell() int64 { return c.size }

// NewGroup begins a row group of at least one row. All of its columns must be encoded
// before it is closed. Several groups may be encoded at once. The file has them in the
// order in which they are closed.
func (w *Writer) NewGroup(rows int) (*Group, error) {
	g := &Group{writer: w, rows: rows, chunks: make([]chunk, w.columns.NumColumns())}
	for i := range g.chunks {
		c := &g.chunks[i]
		c.column = w.columns.Column(i)
		c.stats = metadata.EncodingStats{DictEncodingStats: map[parquet.Encoding]int32{}, DataEncodingStats: map[parquet.Encoding]int32{}}
		var err error
		c.pages, err = file.NewPageWriter(&c.content, compress.Codecs.Zstd, 1, nil, 0, 0, memory.DefaultAllocator, false, nil, nil)
		if err != nil {
			return nil, err
		}
	}
	return g, nil
}

// Leaf is the content of a column in a row group.
type Leaf struct {
	// Values has an element for each entry that is in all lists of the column; it is null
	// where the entry has no value.
	Values arrow.Array
	// Definition and Repetition are the levels of all entries. Definition may be nil if
	// every entry has a value, and Repetition if the column is in no list.
	Definition, Repetition []int16
}

// Encode encodes column i. Other goroutines may encode other columns at the same time.
func (g *Group) Encode(i int, leaf Leaf) (err error) {
	c := &g.chunks[i]
	memory := scratches.Get().(*scratch)
	defer scratches.Put(memory)
	p := pager{scratch: memory, chunk: c, leaf: leaf, highest: c.column.MaxDefinitionLevel(), lists: c.column.MaxRepetitionLevel()}
	if p.entries = len(leaf.Definition); leaf.Definition == nil {
		p.entries = leaf.Values.Len()
	}
	if p.codec, err = compress.GetCodec(compress.Codecs.Zstd); err != nil {
		return err
	}
	used, err := p.chooseValues()
	if err != nil {
		return err
	}
	if p.usesDictionary() {
		if err := p.writeDictionary(); err != nil {
			return err
		}
	}
	n := p.count()
	statistics, err := statisticsOf(p.values, used, int64(p.entries-n), c.column)
	if err != nil {
		return err
	}
	c.statistics = statistics
	return p.write(n)
}

// chooseValues sets the values and their encoding. It returns which of the values occur;
// nil for all.
func (p *pager) chooseValues() (used []uint32, err error) {
	column := p.chunk.column
	if encoded, ok := p.leaf.Values.(*array.Dictionary); ok {
		d, err := dictionaryOf(encoded, column)
		if err != nil {
			return nil, err
		}
		p.values, p.positions = d.values, d.indices
		p.plain = d.used != nil || column.PhysicalType() == parquet.Types.Boolean
		return d.used, nil
	}
	if p.values, err = valuesOf(p.leaf.Values, column); err != nil {
		return nil, err
	}
	if d := newDictionary(p.values, p.scratch); d != nil {
		p.values, p.positions = d.values, d.indices
	}
	return nil, nil
}

// Close writes the row group.
func (g *Group) Close() error {
	g.writer.err = g.write()
	return g.writer.err
}

func (g *Group) write() error {
	w := g.writer
	if w.groups == math.MaxInt16 {
		return fmt.Errorf("more than %d row groups, which Parquet cannot count: %w", math.MaxInt16, arrow.ErrInvalid)
	}
	footer := w.footer.AppendRowGroup()
	footer.SetNumRows(g.rows)
	for i := range g.chunks {
		if err := g.chunks[i].writeTo(&w.out, footer.NextColumnChunk()); err != nil {
			return err
		}
	}
	g.chunks = nil
	w.groups++
	return footer.Finish(0, int16(w.groups-1))
}

// writeTo writes the pages, and finishes the metadata.
func (c *chunk) writeTo(out *position, footer *metadata.ColumnChunkMetaDataBuilder) error {
	hasDictionary := len(c.stats.DictEncodingStats) > 0
	if c.info.DataPageOffset += out.written; hasDictionary {
		c.info.DictPageOffset = out.written
	}
	c.info.IndexPageOffset, c.info.CompressedSize = -1, c.content.size
	for _, part := range c.content.parts {
		if _, err := out.Write(part); err != nil {
			return err
		}
	}
	footer.SetStats(c.statistics)
	return footer.Finish(c.info, hasDictionary, false, c.stats)
}

// count counts a page of a size that was written.
func (c *chunk) count(encodings map[parquet.Encoding]int32, encoding parquet.Encoding, written int64, uncompressed, compressed int) {
	encodings[encoding]++
	c.info.UncompressedSize += written - int64(compressed) + int64(uncompressed)
}
