package parquetcolumn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"sync"

	parquetcodec "github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/klauspost/compress/snappy"

	"github.com/quiver-gpu/quiver/compress/gzip"
	"github.com/quiver-gpu/quiver/compress/lz4"
	"github.com/quiver-gpu/quiver/compress/zstd"
)

// maxHeader is the longest header of a page: it may have the smallest and largest value.
const maxHeader = 16 << 20

// spare is the number of bytes after the body of a page that may be read, but are
// undefined.
const spare = 16

// pages reads the pages of a column chunk.
type pages struct {
	options *Options
	codec   parquetcodec.Compression
	// compressed is set if pages of version 2 are compressed even if their header denies it.
	compressed bool

	at     int64 // of the next page
	end    int64 // of the chunk; only for reading ahead, since writers have recorded wrong ones
	memory *pageMemory

	windowAt int64 // the file's bytes from here are in memory.window
}

// pageMemory is the memory that a column needs while it is read.
type pageMemory struct {
	window     []byte // of the file
	body       []byte // decoded page
	defs, reps []byte // its levels
	valid      []byte // which slots have a value
	indices    []uint32
	plain      []byte // values of the page that were in another encoding
}

// pageMemories are unused. There are never more than columns that are read at once.
type pageMemories struct {
	mu   sync.Mutex
	idle []*pageMemory
}

func (p *pageMemories) get() *pageMemory {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.idle) - 1
	if last < 0 {
		return new(pageMemory)
	}
	m := p.idle[last]
	p.idle = p.idle[:last]
	return m
}

func (p *pageMemories) put(m *pageMemory) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m.window = m.window[:0]
	p.idle = append(p.idle, m)
}

// resize returns n undefined bytes, of b's memory if it is large enough.
func resize[T any](b []T, n int) []T {
	if cap(b) < n {
		return make([]T, n)
	}
	return b[:n]
}

// read returns at least 1 byte of the file from an offset on, and n unless the file ends before.
func (p *pages) read(at int64, n int) ([]byte, error) {
	window := p.memory.window
	if skip := at - p.windowAt; skip >= 0 && skip+int64(n) <= int64(len(window)) {
		return window[skip:], nil
	}
	// The part of the page that is known is kept.
	var kept int
	if skip := at - p.windowAt; skip >= 0 && skip < int64(len(window)) {
		kept = len(window) - int(skip)
	}
	size := max(int64(n), min(int64(p.options.Buffer), p.end-at))
	size = min(size, p.options.Size-at)
	if size <= 0 {
		return nil, fmt.Errorf("page at %d in a file of %d bytes: %w", at, p.options.Size, ErrMalformed)
	}
	next := window
	if int64(cap(window)) < size+spare {
		next = make([]byte, size+spare)
	}
	next = next[:size]
	copy(next, window[len(window)-kept:])
	p.memory.window, p.windowAt = next, at
	if kept < len(next) {
		if got, err := p.options.Source.ReadAt(next[kept:], at+int64(kept)); got < len(next)-kept {
			p.memory.window = next[:0]
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	return next, nil
}

// page is a page of values or of a dictionary. Its memory is that of the column until the
// next page.
type page struct {
	pageHeader
	at     int64  // of the page in the file
	reps   hybrid // repetition levels
	defs   hybrid // definition levels
	values []byte // without levels, decoded
}

// next returns the next page that has values or a dictionary.
func (p *pages) next(maxRep, maxDef byte) (page, error) {
	for {
		found := page{at: p.at}
		var n int
		for want := 1 << 10; ; want *= 4 {
			b, err := p.read(p.at, min(want, int(min(p.options.Size-p.at, maxHeader))))
			if err != nil {
				return page{}, err
			}
			if found.pageHeader, n, err = parsePageHeader(b); err == nil {
				break
			}
			if !errors.Is(err, errShort) {
				return page{}, err
			}
			if want > maxHeader || int64(len(b)) >= p.options.Size-p.at {
				return page{}, fmt.Errorf("%w: %w", err, ErrMalformed)
			}
		}
		body := p.at + int64(n)
		p.at = body + int64(found.compressed)
		if found.kind != dataPage && found.kind != dataPageV2 && found.kind != dictionaryPage {
			continue
		}
		if limit := p.options.MaxPage; int64(found.compressed) > limit || int64(found.uncompressed) > limit {
			return page{}, fmt.Errorf("page of %d bytes, %d when decoded, expected at most %d (see --max-memory)", found.compressed, found.uncompressed, limit)
		}
		var stored []byte
		if found.compressed > 0 {
			b, err := p.read(body, int(found.compressed))
			if err != nil {
				return page{}, err
			}
			if len(b) < int(found.compressed) {
				return page{}, fmt.Errorf("page of %d bytes at %d that is cut off: %w", found.compressed, body, ErrMalformed)
			}
			stored = b[:found.compressed]
		}
		return found, p.decode(&found, stored, maxRep, maxDef)
	}
}

// decode finds the levels and values of a page.
func (p *pages) decode(found *page, stored []byte, maxRep, maxDef byte) error {
	if found.kind == dataPageV2 {
		levels := int(found.repBytes) + int(found.defBytes)
		if levels > len(stored) || levels > int(found.uncompressed) {
			return fmt.Errorf("page of %d bytes with %d bytes of levels: %w", len(stored), levels, ErrMalformed)
		}
		found.reps = newHybrid(stored[:found.repBytes], levelWidth(maxRep))
		found.defs = newHybrid(stored[found.repBytes:levels], levelWidth(maxDef))
		values := stored[levels:]
		switch {
		case found.rawValues && !p.compressed:
			found.values = values
		case len(values) == 0: // all are null, as Spark writes them
		default:
			var err error
			found.values, err = p.decompress(values, int(found.uncompressed)-levels)
			return err
		}
		return nil
	}
	var err error
	if found.values, err = p.decompress(stored, int(found.uncompressed)); err != nil || found.kind == dictionaryPage {
		return err
	}
	if found.reps, err = found.takeLevels(maxRep, found.repEncoding); err == nil {
		found.defs, err = found.takeLevels(maxDef, found.defEncoding)
	}
	return err
}

func levelWidth(most byte) int { return bits.Len8(most) }

// takeLevels takes the levels at the start of the values of a page of version 1.
func (p *page) takeLevels(most byte, encoding int32) (hybrid, error) {
	if most == 0 {
		return hybrid{}, nil
	}
	if encoding != encodingRLE {
		return hybrid{}, fmt.Errorf("levels in encoding %d: %w", encoding, errors.ErrUnsupported)
	}
	if len(p.values) < 4 {
		return hybrid{}, fmt.Errorf("page of %d bytes without levels: %w", len(p.values), ErrMalformed)
	}
	n := binary.LittleEndian.Uint32(p.values)
	if int64(n) > int64(len(p.values)-4) {
		return hybrid{}, fmt.Errorf("page of %d bytes with %d bytes of levels: %w", len(p.values), n, ErrMalformed)
	}
	levels := p.values[4 : 4+n]
	p.values = p.values[4+n:]
	return newHybrid(levels, levelWidth(most)), nil
}

// decompress returns the n bytes that src is the compressed form of.
func (p *pages) decompress(src []byte, n int) ([]byte, error) {
	if p.codec == parquetcodec.Codecs.Uncompressed {
		if len(src) != n {
			return nil, fmt.Errorf("page of %d bytes, expected %d: %w", len(src), n, ErrMalformed)
		}
		return src, nil
	}
	if n == 0 {
		return nil, nil
	}
	if cap(p.memory.body) < n+spare {
		p.memory.body = make([]byte, n+spare)
	}
	dst := p.memory.body[:n]
	out, err := p.decompressTo(dst, src)
	if err != nil {
		return nil, fmt.Errorf("page in %s: %w: %w", p.codec, err, ErrMalformed)
	}
	if len(out) != n {
		return nil, fmt.Errorf("page in %s of %d bytes, expected %d: %w", p.codec, len(out), n, ErrMalformed)
	}
	return out, nil
}

func (p *pages) decompressTo(dst, src []byte) ([]byte, error) {
	if len(src) == 0 { // as Spark writes a page of nulls
		return nil, nil
	}
	switch p.codec {
	case parquetcodec.Codecs.Snappy:
		if n, err := snappy.DecodedLen(src); err != nil || n != len(dst) {
			return nil, errors.Join(err, fmt.Errorf("length of %d, expected %d", n, len(dst)))
		}
		return snappy.Decode(dst, src)
	case parquetcodec.Codecs.Zstd:
		return zstd.DecodeFrames(dst, src, int64(len(dst)))
	case parquetcodec.Codecs.Gzip:
		return gzip.DecodeMembers(dst, src, int64(len(dst)))
	case parquetcodec.Codecs.Lz4Raw:
		return dst, lz4.DecodeBlock(dst, src)
	}
	codec, err := parquetcodec.GetCodec(p.codec)
	if err != nil {
		return nil, err
	}
	return parquetcodec.Decode(codec, dst, src)
}
