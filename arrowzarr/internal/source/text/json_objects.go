package text

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// jsonObjects splits a text into the objects that are its rows: one per line, objects over
// several lines, or the elements of one list. Its method split is a bufio.SplitFunc.
type jsonObjects struct {
	line    int // lines before the next byte
	start   int // line of the last object, from 1
	objects int
	list    bool // the text is a list
	ended   bool // the list is
	comma   bool // the last part of the list is a comma
}

var errAfterList = errors.New("more after the list: expected one list of objects")

func (o *jsonObjects) split(data []byte, atEOF bool) (advance int, token []byte, err error) {
	for i, c := range data {
		switch {
		case c == '\n':
			o.line++
		case c == ' ' || c == '\t' || c == '\r':
		case o.ended:
			return i, nil, o.errorf("%w", errAfterList)
		case c == '[' && o.objects == 0 && !o.list:
			o.list = true
		case c == ']' && o.list && !o.comma:
			o.ended = true
		case c == ',' && o.list && o.objects > 0 && !o.comma:
			o.comma = true
		case o.list && o.objects > 0 && !o.comma:
			return i, nil, o.errorf("no object of JSON: expected a comma or the end of the list")
		default:
			n := objectEnd(data[i:], atEOF)
			if n < 0 { // the rest comes with more data
				return i, nil, nil
			}
			token = data[i : i+n]
			o.start, o.comma = o.line+1, false
			o.line += bytes.Count(token, []byte{'\n'})
			o.objects++
			return i + n, token, nil
		}
	}
	if atEOF && o.list && !o.ended {
		return len(data), nil, o.errorf("no object of JSON: %w", io.ErrUnexpectedEOF)
	}
	return len(data), nil, nil
}

func (o *jsonObjects) errorf(format string, args ...any) error {
	return fmt.Errorf("line %d: "+format, append([]any{o.line + 1}, args...)...)
}

// objectEnd returns the length of the object that data begins with, or -1 if it may go on
// after data. What is no object ends with its line, as does a text, which has no line ends.
func objectEnd(data []byte, atEOF bool) int {
	depth, inText := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '\n' && (inText || depth == 0):
			return i
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
		case inText:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth <= 0 {
				return i + 1
			}
		}
	}
	if atEOF {
		return len(data)
	}
	return -1
}
