// Package text prints arrays as NumPy 2 does with its default options: the same
// characters for the same elements. It knows nothing of memory: callers hand it
// the elements that are shown, in C order.
package text

import (
	"strings"
	"unicode/utf8"
)

// What NumPy's default print options say.
const (
	lineWidth = 75
	threshold = 1000 // arrays of more elements are summarised
	edge      = 3    // to so many elements at each end of an axis
)

// Summarised tells whether an array of n elements is shown in part.
func Summarised(n int64) bool { return n > threshold }

// Shown returns how many elements at each end of an axis are shown of an array
// of n elements: all (tail is 0), or head and tail with dots between.
func Shown(n, extent int64) (head, tail int64) {
	if Summarised(n) && extent > 2*edge {
		return edge, edge
	}
	return extent, 0
}

// Str lays out the words of an array of at least one axis as str(a).
func Str(words []string, shape []int64) string { return lay(words, shape, " ", "", 0) }

// Repr lays out the words of an array as repr(a). The dtype is "" where NumPy
// leaves it out.
func Repr(words []string, shape []int64, dtype string) string {
	const prefix, suffix = "array(", ")"
	s := prefix + lay(words, shape, ", ", prefix, len(suffix))
	var extras []string
	n := size(shape)
	if n == 0 && len(shape) != 1 || Summarised(n) {
		extras = append(extras, "shape="+tuple(shape))
	}
	if dtype != "" {
		extras = append(extras, "dtype="+dtype)
	}
	if len(extras) == 0 {
		return s + suffix
	}
	s += ","
	extra := strings.Join(extras, ", ") + suffix
	if last := s[strings.LastIndexByte(s, '\n')+1:]; len(last)+utf8.RuneCountInString(extra)+1 > lineWidth {
		return s + "\n" + strings.Repeat(" ", len(prefix)) + extra
	}
	return s + " " + extra
}

// lay puts words into nested brackets, in lines that leave room for the suffix.
func lay(words []string, shape []int64, separator, prefix string, suffix int) string {
	n := size(shape)
	if n == 0 {
		return "[]"
	}
	l := layouter{words: words, shape: shape, elements: n, separator: separator}
	return l.axis(0, strings.Repeat(" ", len(prefix)+1), lineWidth-suffix)
}

type layouter struct {
	words     []string // those not laid out yet
	shape     []int64
	elements  int64
	separator string
}

// axis lays out what lies at the next index of the axes before. Lines after the
// first begin with indent.
func (l *layouter) axis(axis int, indent string, width int) string {
	if axis == len(l.shape) {
		word := l.words[0]
		l.words = l.words[1:]
		return word
	}
	head, tail := Shown(l.elements, l.shape[axis])
	if axis == len(l.shape)-1 {
		return l.row(head, tail, indent, width)
	}
	var parts []string
	for range head {
		parts = append(parts, l.axis(axis+1, indent+" ", width-1))
	}
	if tail > 0 {
		parts = append(parts, "...")
	}
	for range tail {
		parts = append(parts, l.axis(axis+1, indent+" ", width-1))
	}
	gap := strings.TrimRight(l.separator, " ") + strings.Repeat("\n", len(l.shape)-1-axis) + indent
	return "[" + strings.Join(parts, gap) + "]"
}

// row lays out the last axis, in as many lines as it takes. Each line leaves
// room for what follows its last word.
func (l *layouter) row(head, tail int64, indent string, width int) string {
	width -= max(len(strings.TrimRight(l.separator, " ")), 1)
	words := append([]string{}, l.words[:head]...)
	if tail > 0 {
		words = append(append(words, "..."), l.words[head:head+tail]...)
	}
	l.words = l.words[head+tail:]
	var s strings.Builder
	line := indent
	for i, word := range words {
		if i > 0 {
			line += l.separator
		}
		if len(line)+len(word) > width && len(line) > len(indent) {
			s.WriteString(strings.TrimRight(line, " ") + "\n")
			line = indent
		}
		line += word
	}
	s.WriteString(line)
	return "[" + s.String()[len(indent):] + "]"
}

func size(shape []int64) int64 {
	n := int64(1)
	for _, extent := range shape {
		n *= extent
	}
	return n
}
