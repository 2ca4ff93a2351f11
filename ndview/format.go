package ndview

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Arrays of more than summarizeAbove elements are printed with edgeItems at each
// end of an axis, as NumPy's default options do.
const (
	summarizeAbove = 1000
	edgeItems      = 3
)

// String returns the elements for people, in nested brackets with one row a line,
// aligned to the right; see [DType.Format] for an element. Of more than 1,000
// elements it shows three at each end of an axis, and copies only those from the
// device. If the elements cannot be read, the text says why, in angle brackets.
func (a *NDBuffer) String() string {
	if a == nil {
		return "<nil array>"
	}
	raw, err := a.shownBytes()
	if err != nil {
		return fmt.Sprintf("<array of %s %v: %v>", a.dtype, a.shape, err)
	}
	size, width := int(a.dtype.Size()), 0
	words := make([]string, len(raw)/size)
	for i := range words {
		words[i] = a.dtype.Format(raw[i*size:][:size])
		width = max(width, utf8.RuneCountInString(words[i]))
	}
	p := printer{words: words, width: width, total: a.Size()}
	p.axis(a.shape, 1)
	return p.text.String()
}

// GoString returns the type, shape and device of the array, and its elements as
// String does. Package fmt prints it for %#v.
func (a *NDBuffer) GoString() string {
	if a == nil || a.buf == nil {
		return "NDBuffer(nil)"
	}
	return fmt.Sprintf("NDBuffer(%s, shape=%v, device=%s)\n%s", a.dtype, a.shape, a.Device(), a)
}

// shownBytes copies the elements that are printed to the host. A shortened axis
// is viewed as two: its two ends, and the elements in each.
func (a *NDBuffer) shownBytes() ([]byte, error) {
	var shape, strides []int64
	for i, extent := range a.shape {
		if shortened(a.Size(), extent) {
			shape, strides = append(shape, 2), append(strides, (extent-edgeItems)*a.strides[i])
			extent = edgeItems
		}
		shape, strides = append(shape, extent), append(strides, a.strides[i])
	}
	ends, err := a.view(a.dtype, a.offset, shape, strides)
	if err != nil {
		return nil, err
	}
	defer ends.Release()
	return ends.Bytes()
}

func shortened(total, extent int64) bool {
	return total > summarizeAbove && extent > 2*edgeItems
}

// printer writes the words of an array, which it consumes in C order.
type printer struct {
	text  strings.Builder
	words []string
	width int
	total int64 // elements of the array, shown or not
}

// axis writes the array over the given axes; indent is the number of brackets open.
func (p *printer) axis(shape []int64, indent int) {
	if len(shape) == 0 {
		p.text.WriteString(p.words[0])
		p.words = p.words[1:]
		return
	}
	separator := " "
	if len(shape) > 1 {
		separator = strings.Repeat("\n", len(shape)-1) + strings.Repeat(" ", indent)
	}
	p.text.WriteByte('[')
	for i := int64(0); i < shape[0]; i++ {
		if i > 0 {
			p.text.WriteString(separator)
		}
		if i == edgeItems && shortened(p.total, shape[0]) {
			p.text.WriteString("..." + separator)
			i = shape[0] - edgeItems
		}
		if len(shape) == 1 {
			p.text.WriteString(strings.Repeat(" ", p.width-utf8.RuneCountInString(p.words[0])))
		}
		p.axis(shape[1:], indent+1)
	}
	p.text.WriteByte(']')
}
