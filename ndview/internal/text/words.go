package text

import (
	"fmt"
	"strconv"
	"strings"
)

// Bools are the words of elements that are true or false.
func Bools(values []bool, scalar bool) []string {
	words := make([]string, len(values))
	for i, v := range values {
		switch {
		case !v:
			words[i] = "False"
		case scalar:
			words[i] = "True"
		default:
			words[i] = " True"
		}
	}
	return words
}

// Integers are the words of whole numbers, in one width.
func Integers[T int64 | uint64](values []T) []string {
	words, width := make([]string, len(values)), 0
	for i, v := range values {
		if v < 0 {
			words[i] = strconv.FormatInt(int64(v), 10)
		} else {
			words[i] = strconv.FormatUint(uint64(v), 10)
		}
		width = max(width, len(words[i]))
	}
	for i, word := range words {
		words[i] = pad(word, width)
	}
	return words
}

// Raw is an element without a meaning, as Python prints bytes that it escapes.
func Raw(value []byte) string {
	var s strings.Builder
	s.WriteString("b'")
	for _, b := range value {
		fmt.Fprintf(&s, `\x%02X`, b)
	}
	s.WriteString("'")
	return s.String()
}

// Record is a tuple of the words of fields.
func Record(fields []string) string {
	if len(fields) == 1 {
		return "(" + fields[0] + ",)"
	}
	return "(" + strings.Join(fields, ", ") + ")"
}

// tuple is a shape as Python prints it.
func tuple(shape []int64) string {
	words := make([]string, len(shape))
	for i, extent := range shape {
		words[i] = strconv.FormatInt(extent, 10)
	}
	return Record(words)
}
