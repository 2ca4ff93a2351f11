package metajson

import (
	"bytes"
	"encoding/json"
)

// Member is one key of an object that is written in a given order.
type Member struct {
	Key   string
	Value any
}

// Members is an object that is written in the order of its members.
type Members []Member

// MarshalJSON writes the object.
func (m Members) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for i, member := range m {
		if i > 0 {
			out = append(out, ',')
		}
		key, err := Compact(member.Key)
		if err != nil {
			return nil, err
		}
		value, err := Compact(member.Value)
		if err != nil {
			return nil, err
		}
		out = append(append(append(out, key...), ':'), value...)
	}
	return append(out, '}'), nil
}

// Named is an extension as it is written: always the long form, which readers
// of Zarr 3.0 know too. A nil configuration is left out.
func Named(name string, configuration any) Members {
	m := Members{{"name", name}}
	if configuration != nil {
		m = append(m, Member{"configuration", configuration})
	}
	return m
}

// Document writes a whole metadata document, indented by two.
func Document(v any) ([]byte, error) { return encode(v, "  ") }

// Compact writes a value on one line, without the escapes that encoding/json
// adds for HTML.
func Compact(v any) ([]byte, error) { return encode(v, "") }

func encode(v any, indent string) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// List is a list as it is written: [] where it is empty, never null.
func List[T any](items []T) []T { return append([]T{}, items...) }
