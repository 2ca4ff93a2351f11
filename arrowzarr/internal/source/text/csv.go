package text

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// csvReader reads records of CSV as pyarrow and pandas do. Unlike encoding/csv, it keeps
// the ends of lines in quoted fields, ends a line at a lone carriage return, and takes a
// quote inside of a field that does not begin with one as it is. What follows the closing
// quote of a field belongs to it. Empty lines are skipped.
type csvReader struct {
	in     io.Reader
	comma  []byte
	limit  int // of a record, in bytes
	buffer []byte
	from   int // of the buffer that is not parsed
	err    error

	line   int  // of buffer[from], from 1
	cr     bool // the byte before buffer[from] is a carriage return
	text   []byte
	ends   []int // by field, in text
	lines  []int // by field, where it begins
	fields []string
}

// csvState is where in a record the reader is.
type csvState uint8

const (
	csvRecordStart csvState = iota
	csvFieldStart
	csvPlain
	csvQuoted
	csvQuote // after a quote in a quoted field
)

func newCSVReader(in io.Reader, comma rune, limit int) *csvReader {
	return &csvReader{in: in, comma: []byte(string(comma)), limit: limit, line: 1, buffer: make([]byte, 0, 64<<10)}
}

// csvFieldBytes is what is known of a field, beside its text.
const csvFieldBytes = 32

var errOpenQuote = errors.New("a quoted field that is not closed")

// read returns the fields of the next record, which are valid until the next call, or
// io.EOF. lines has the line in which each begins.
func (r *csvReader) read() ([]string, error) {
	r.text, r.ends, r.lines = r.text[:0], r.ends[:0], r.lines[:0]
	for state := csvRecordStart; ; {
		if r.from == len(r.buffer) && !r.fill() {
			return r.last(state)
		}
		var ended bool
		if state, ended = r.parse(state); ended {
			return r.record(), nil
		}
		if len(r.text)+csvFieldBytes*len(r.ends) > r.limit {
			return nil, fmt.Errorf("line %d: a record of more than %d bytes, an eighth of the memory for batches", r.lines[0], r.limit)
		}
	}
}

// last returns the record that the end of the text ends.
func (r *csvReader) last(state csvState) ([]string, error) {
	switch {
	case !errors.Is(r.err, io.EOF):
		return nil, r.err
	case state == csvRecordStart:
		return nil, io.EOF
	case state == csvQuoted:
		return nil, fmt.Errorf("line %d: %w", r.lines[len(r.lines)-1], errOpenQuote)
	case state == csvFieldStart: // after a comma
		r.begin()
	}
	r.end()
	return r.record(), nil
}

// fill reads more text, after what is not parsed. It reports whether there is more.
func (r *csvReader) fill() bool {
	rest := copy(r.buffer, r.buffer[r.from:])
	r.buffer, r.from = r.buffer[:rest], 0
	for r.err == nil {
		var n int
		n, r.err = r.in.Read(r.buffer[rest:cap(r.buffer)])
		r.buffer = r.buffer[:rest+n]
		if n > 0 {
			return true
		}
	}
	return false
}

func (r *csvReader) begin() { r.lines, r.cr = append(r.lines, r.line), false }
func (r *csvReader) end()   { r.ends = append(r.ends, len(r.text)) }

// record returns the fields of the record that is read.
func (r *csvReader) record() []string {
	text := string(r.text)
	r.fields = r.fields[:0]
	start := 0
	for _, end := range r.ends {
		r.fields = append(r.fields, text[start:end])
		start = end
	}
	return r.fields
}

// parse parses the buffer until a record or the buffer ends.
func (r *csvReader) parse(state csvState) (csvState, bool) {
	for r.from < len(r.buffer) {
		c := r.buffer[r.from]
		switch state {
		case csvQuoted:
			n := bytes.IndexByte(r.buffer[r.from:], '"')
			if n < 0 {
				n = len(r.buffer) - r.from
			}
			r.countLines(r.buffer[r.from : r.from+n])
			if r.take(n); r.from < len(r.buffer) {
				r.skip()
				state = csvQuote
			}
			continue
		case csvQuote:
			if c == '"' {
				r.take(1)
				state = csvQuoted
				continue
			}
			state = csvPlain
		case csvRecordStart, csvFieldStart:
			if state == csvRecordStart && (c == '\n' || c == '\r') {
				r.skip()
				continue
			}
			r.begin()
			if state = csvPlain; c == '"' {
				r.skip()
				state = csvQuoted
				continue
			}
		}
		n := r.plainLength()
		r.take(n)
		if r.from == len(r.buffer) {
			break
		}
		switch c := r.buffer[r.from]; {
		case c == '\n' || c == '\r':
			r.skip()
			r.end()
			return csvRecordStart, true
		case bytes.HasPrefix(r.buffer[r.from:], r.comma):
			r.from += len(r.comma)
			r.end()
			state = csvFieldStart
		case len(r.comma) > 1 && len(r.buffer)-r.from < len(r.comma) && r.err == nil && bytes.HasPrefix(r.comma, r.buffer[r.from:]):
			r.fill() // the comma may go on there
		default: // only begins like the comma
			r.take(1)
		}
	}
	return state, false
}

// plainLength returns how many bytes follow that neither end a line nor begin a comma.
func (r *csvReader) plainLength() int {
	comma := r.comma[0]
	for i, c := range r.buffer[r.from:] {
		if c == comma || c == '\n' || c == '\r' {
			return i
		}
	}
	return len(r.buffer) - r.from
}

// take appends n bytes to the field.
func (r *csvReader) take(n int) {
	r.text = append(r.text, r.buffer[r.from:r.from+n]...)
	r.from += n
}

// skip passes a byte that belongs to no field.
func (r *csvReader) skip() {
	r.countLines(r.buffer[r.from : r.from+1])
	r.from++
}

// countLines counts the ends of lines in a part of the text.
func (r *csvReader) countLines(part []byte) {
	for _, c := range part {
		if c == '\r' || c == '\n' && !r.cr {
			r.line++
		}
		r.cr = c == '\r'
	}
}
