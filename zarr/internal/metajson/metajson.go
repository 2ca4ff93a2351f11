// Package metajson reads JSON as strictly as Zarr metadata wants it, and writes
// it in a stable order. Unlike encoding/json with structs it tells keys apart by
// case, refuses a key given twice, refuses null where a value is expected, and
// knows which keys were left over.
package metajson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Object is a JSON object whose members are taken out one by one. What is left
// at the end is what the reader does not understand.
type Object struct {
	what    string
	members map[string]json.RawMessage
}

// ParseObject splits a JSON object into its members. The string what names the
// object in errors.
func ParseObject(what string, raw []byte) (*Object, error) {
	o := &Object{what: what, members: map[string]json.RawMessage{}}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil, fmt.Errorf("%s: expected a JSON object, got %s", what, Excerpt(raw))
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		name := key.(string) // the decoder gives nothing else where a key stands
		if _, twice := o.members[name]; twice {
			return nil, fmt.Errorf("%s: key %q is given twice", what, name)
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, fmt.Errorf("%s: key %q: %w", what, name, err)
		}
		o.members[name] = value
	}
	if _, err := dec.Token(); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: more text after the JSON object", what)
	}
	return o, nil
}

// Take removes a member and returns its text; false where it is absent.
func (o *Object) Take(key string) (json.RawMessage, bool) {
	raw, ok := o.members[key]
	delete(o.members, key)
	return raw, ok
}

// Need takes a member that must be there and decodes it.
func (o *Object) Need(key string, dst any) error {
	ok, err := o.Maybe(key, dst)
	if err == nil && !ok {
		return fmt.Errorf("%s: key %q is missing", o.what, key)
	}
	return err
}

// Maybe takes a member that may be absent, and decodes it where it is there.
func (o *Object) Maybe(key string, dst any) (bool, error) {
	raw, ok := o.Take(key)
	if !ok {
		return false, nil
	}
	return true, Decode(fmt.Sprintf("%s: key %q", o.what, key), raw, dst)
}

// Keys returns the members not taken yet, sorted.
func (o *Object) Keys() []string { return slices.Sorted(maps.Keys(o.members)) }

// Done answers an error that names the members which nobody took.
func (o *Object) Done() error {
	if len(o.members) == 0 {
		return nil
	}
	return fmt.Errorf("%s: unknown key %q", o.what, strings.Join(o.Keys(), `", "`))
}

// Decode decodes one JSON value and refuses null, also as an element of a list
// of integers.
func Decode(what string, raw json.RawMessage, dst any) error {
	if string(bytes.TrimSpace(raw)) == "null" {
		return fmt.Errorf("%s: null where a value is expected", what)
	}
	if list, ok := dst.(*[]int64); ok {
		return decodeInts(what, raw, list)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber() // keeps integers beyond 2^53 in attributes
	if err := dec.Decode(dst); err != nil {
		return fmt.Errorf("%s: %s: %w", what, Excerpt(raw), err)
	}
	return nil
}

func decodeInts(what string, raw json.RawMessage, dst *[]int64) error {
	var list []*int64
	if err := json.Unmarshal(raw, &list); err != nil {
		return fmt.Errorf("%s: expected a list of integers, got %s", what, Excerpt(raw))
	}
	*dst = make([]int64, len(list))
	for i, n := range list {
		if n == nil {
			return fmt.Errorf("%s: null where an integer is expected", what)
		}
		(*dst)[i] = *n
	}
	return nil
}

// Excerpt shortens foreign text for an error.
func Excerpt(raw []byte) string {
	const most = 60
	if len(raw) <= most {
		return string(raw)
	}
	return string(raw[:most]) + "..."
}

// Extension is a data type, a chunk grid, a chunk key encoding or a codec as
// metadata names it: {"name", "configuration", "must_understand"}, or a bare
// string for the name alone (Zarr core 3.1, "Extension definition").
type Extension struct {
	Name           string
	Config         *Object // empty where absent, never nil
	MustUnderstand bool    // true where absent
}

// ParseExtension reads either form.
func ParseExtension(what string, raw json.RawMessage) (Extension, error) {
	ext := Extension{MustUnderstand: true, Config: &Object{members: map[string]json.RawMessage{}}}
	if json.Unmarshal(raw, &ext.Name) == nil && ext.Name != "" {
		return ext, nil
	}
	o, err := ParseObject(what, raw)
	if err != nil {
		return ext, err
	}
	if err := o.Need("name", &ext.Name); err != nil {
		return ext, err
	}
	if _, err := o.Maybe("must_understand", &ext.MustUnderstand); err != nil {
		return ext, err
	}
	if config, ok := o.Take("configuration"); ok {
		if ext.Config, err = ParseObject(what+" "+ext.Name, config); err != nil {
			return ext, err
		}
	}
	return ext, o.Done()
}

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
