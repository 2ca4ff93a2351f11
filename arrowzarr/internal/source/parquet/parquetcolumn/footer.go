package parquetcolumn

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
)

// knownLogicalTypes are the fields of LogicalType in parquet.thrift that arrow-go knows.
// It refuses a file with any other.
const knownLogicalTypes = 1<<1 | 1<<2 | 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<8 | 1<<10 | 1<<11 | 1<<12 | 1<<13 | 1<<14 | 1<<15 | 1<<16 | 1<<17 | 1<<18

// WithoutUnknownTypes returns a Parquet file, of size bytes, without the logical types that
// arrow-go does not know: these columns have their physical types. It returns nil if the
// file has none of them, or is malformed.
func WithoutUnknownTypes(file io.ReaderAt, size, maxFooter int64) *io.SectionReader {
	var end [8]byte
	if n, _ := file.ReadAt(end[:], size-8); n < len(end) || string(end[4:]) != "PAR1" {
		return nil
	}
	length := int64(binary.LittleEndian.Uint32(end[:]))
	if length > size-12 || length > maxFooter {
		return nil
	}
	footer := make([]byte, length)
	if n, _ := file.ReadAt(footer, size-8-length); n < len(footer) {
		return nil
	}
	footer, changed := dropUnknownTypes(footer)
	if !changed {
		return nil
	}
	binary.LittleEndian.PutUint32(end[:], uint32(len(footer)))
	r := &editedFile{ReaderAt: file, at: size - 8 - length, end: slices.Concat(footer, end[:])}
	return io.NewSectionReader(r, 0, r.at+int64(len(r.end)))
}

// dropUnknownTypes returns a footer without unknown logical types, and reports whether it
// had any. logicalType is the last field of a SchemaElement, so that no field is relative
// to it.
func dropUnknownTypes(footer []byte) (edited []byte, changed bool) {
	c := compact{b: footer}
	kept := 0
	element := func(id int16, kind byte) {
		if id != 10 || kind != compactStruct {
			c.skip(kind, 0)
			return
		}
		start, known := c.fieldAt, true
		c.structure(func(id int16, kind byte) {
			known = known && id > 0 && id < 32 && knownLogicalTypes>>id&1 == 1
			c.skip(kind, 0)
		})
		if !known && c.err == nil {
			edited = append(edited, footer[kept:start]...)
			kept, changed = c.at, true
		}
	}
	c.structure(func(id int16, kind byte) {
		if id != 2 || kind != compactList {
			c.skip(kind, 0)
			return
		}
		n, kind := c.list()
		if kind != compactStruct {
			c.fail(fmt.Errorf("schema of elements of type %d: %w", kind, ErrMalformed))
		}
		for ; n > 0 && c.err == nil; n-- {
			c.structure(element)
		}
	})
	return append(edited, footer[kept:]...), changed && c.err == nil
}

// editedFile is a file with another end.
type editedFile struct {
	io.ReaderAt
	at  int64 // of the end
	end []byte
}

// ReadAt reads the file before its end, and then the other end.
func (f *editedFile) ReadAt(b []byte, off int64) (n int, err error) {
	if off < f.at {
		want := b[:min(int64(len(b)), f.at-off)]
		if n, err = f.ReaderAt.ReadAt(want, off); n < len(want) {
			return n, err
		}
	}
	if from := off + int64(n) - f.at; n < len(b) && from < int64(len(f.end)) {
		n += copy(b[n:], f.end[from:])
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}
