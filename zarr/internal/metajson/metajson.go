// Package metajson parses JSON as strictly as Zarr metadata requires and writes it in a
// stable order. Unlike encoding/json, it distinguishes keys by case, rejects null in place of
// a value, and reports unknown keys. Of equal keys the last one counts, as in Python.
// It accepts what Python's json module writes beyond JSON; see [Clean].
package metajson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Object is a JSON object whose members are taken one by one. The remaining members are
// those that the reader does not know.
type Object struct {
	what    string
	members map[string]json.RawMessage
}

// ParseObject parses a JSON object. The string what names the object in errors.
func ParseObject(what string, raw []byte) (*Object, error) {
	o := &Object{what: what, members: map[string]json.RawMessage{}}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil, fmt.Errorf("%s: expected a JSON object, got %s", what, Excerpt(raw))
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, truncated(err))
		}
		name := key.(string) // a token in key position is a string
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, fmt.Errorf("%s: key %q: %w", what, name, truncated(err))
		}
		o.members[name] = value
	}
	if _, err := dec.Token(); err != nil {
		return nil, fmt.Errorf("%s: %w", what, truncated(err))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: more text after the JSON object", what)
	}
	return o, nil
}

// truncated says that a JSON object has no end, in place of io.EOF.
func truncated(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the JSON object has no end")
	}
	return err
}

// Has reports whether a member remains.
func (o *Object) Has(key string) bool {
	_, ok := o.members[key]
	return ok
}

// Take removes a member and returns its text, or false if it is absent.
func (o *Object) Take(key string) (json.RawMessage, bool) {
	raw, ok := o.members[key]
	delete(o.members, key)
	return raw, ok
}

// DecodeRequired takes and decodes a member. It returns an error if the member is
// absent.
func (o *Object) DecodeRequired(key string, dst any) error {
	ok, err := o.DecodeOptional(key, dst)
	if err == nil && !ok {
		return fmt.Errorf("%s: key %q is missing", o.what, key)
	}
	return err
}

// DecodeOptional takes and decodes a member, and reports whether it was present.
func (o *Object) DecodeOptional(key string, dst any) (bool, error) {
	raw, ok := o.Take(key)
	if !ok {
		return false, nil
	}
	return true, Decode(fmt.Sprintf("%s: key %q", o.what, key), raw, dst)
}

// DropNulls removes members that are null, for parsers to which they mean the default.
func (o *Object) DropNulls() {
	maps.DeleteFunc(o.members, func(_ string, raw json.RawMessage) bool { return string(raw) == "null" })
}

// TakeAll removes the remaining members and returns them as an object, sorted by key.
func (o *Object) TakeAll() (json.RawMessage, error) {
	all := make(Members, 0, len(o.members))
	for _, key := range o.Keys() {
		all = append(all, Member{key, o.members[key]})
	}
	clear(o.members)
	return all.MarshalJSON()
}

// Keys returns the keys of the remaining members, sorted.
func (o *Object) Keys() []string { return slices.Sorted(maps.Keys(o.members)) }

// CheckEmpty returns an error that names the remaining members, if any.
func (o *Object) CheckEmpty() error {
	if len(o.members) == 0 {
		return nil
	}
	return fmt.Errorf("%s: unknown key %q", o.what, strings.Join(o.Keys(), `", "`))
}

// Decode decodes one JSON value. It rejects null, also as an element of a list of
// integers. For integers, see [ParseInt].
func Decode(what string, raw json.RawMessage, dst any) error {
	if string(bytes.TrimSpace(raw)) == "null" {
		return fmt.Errorf("%s: null where a value is expected", what)
	}
	switch dst := dst.(type) {
	case *[]int64:
		return decodeInts(what, raw, dst)
	case *int:
		n, err := ParseInt(string(raw))
		if err == nil && int64(int(n)) != n {
			err = errors.New("more than an int")
		}
		if err != nil {
			return fmt.Errorf("%s: expected an integer, got %s: %w", what, Excerpt(raw), err)
		}
		*dst = int(n)
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber() // preserves integers beyond 2^53 in attributes
	var mismatch *json.UnmarshalTypeError
	switch err := dec.Decode(dst); {
	case err == nil:
		return nil
	case errors.As(err, &mismatch): // its text has types of Go
		return fmt.Errorf("%s: expected %s, got %s", what, describe(reflect.TypeOf(dst).Elem()), Excerpt(raw))
	default:
		return fmt.Errorf("%s: %s: %w", what, Excerpt(raw), err)
	}
}

// describe returns the JSON values that decode to a type.
func describe(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Map, reflect.Struct:
		return "a JSON object"
	case reflect.Slice, reflect.Array:
		switch t.Elem() {
		case reflect.TypeFor[string]():
			return "a list of strings"
		case reflect.TypeFor[*string]():
			return "a list of strings and null"
		}
		return "a list"
	default:
		return "a number"
	}
}

func decodeInts(what string, raw json.RawMessage, dst *[]int64) error {
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return fmt.Errorf("%s: expected a list of integers, got %s", what, Excerpt(raw))
	}
	*dst = make([]int64, len(list))
	for i, item := range list {
		n, err := ParseInt(string(item))
		if err != nil {
			return fmt.Errorf("%s: expected a list of integers, got %s: %w", what, Excerpt(raw), err)
		}
		(*dst)[i] = n
	}
	return nil
}

// ParseInt parses a JSON number that is an integer of 64 bits. It may have a fraction
// of zeros, as in 4.0, which some writers append to integers.
func ParseInt(number string) (int64, error) {
	n, err := strconv.ParseInt(TrimFraction(number), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is not an integer of 64 bits", Excerpt([]byte(number)))
	}
	return n, nil
}

// TrimFraction removes a fraction of zeros from a JSON number.
func TrimFraction(number string) string {
	whole, fraction, ok := strings.Cut(number, ".")
	if ok && whole != "" && whole != "-" && fraction != "" && strings.Trim(fraction, "0") == "" {
		return whole
	}
	return number
}

// Excerpt truncates foreign text for an error message.
func Excerpt(raw []byte) string {
	const most = 60
	raw = Restore(raw)
	if len(raw) <= most {
		return string(raw)
	}
	return string(raw[:most]) + "..."
}

// Extension is a data type, chunk grid, chunk key encoding or codec in metadata: an
// object with "name", "configuration" and "must_understand", or the name alone (Zarr
// core 3.1, "Extension definition").
type Extension struct {
	Name           string
	Config         *Object // never nil; empty if absent
	MustUnderstand bool    // true if absent
}

// ParseExtension parses either form of an extension.
func ParseExtension(what string, raw json.RawMessage) (Extension, error) {
	ext := Extension{MustUnderstand: true}
	if json.Unmarshal(raw, &ext.Name) == nil && ext.Name != "" {
		ext.Config = &Object{what: what + " " + ext.Name}
		return ext, nil
	}
	o, err := ParseObject(what, raw)
	if err != nil {
		return ext, err
	}
	if err := o.DecodeRequired("name", &ext.Name); err != nil {
		return ext, err
	}
	if _, err := o.DecodeOptional("must_understand", &ext.MustUnderstand); err != nil {
		return ext, err
	}
	ext.Config = &Object{what: what + " " + ext.Name}
	if config, ok := o.Take("configuration"); ok {
		if ext.Config, err = ParseObject(what+" "+ext.Name, config); err != nil {
			return ext, err
		}
	}
	return ext, o.CheckEmpty()
}

// Member is one key and value of an object.
type Member struct {
	Key   string
	Value any
}

// Members is an object that keeps the order of its members.
type Members []Member

// MarshalJSON writes the object.
func (m Members) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for i, member := range m {
		if i > 0 {
			out = append(out, ',')
		}
		key, err := MarshalLine(member.Key)
		if err != nil {
			return nil, err
		}
		value, err := MarshalLine(member.Value)
		if err != nil {
			return nil, err
		}
		out = append(append(append(out, key...), ':'), value...)
	}
	return append(out, '}'), nil
}

// FormatExtension returns an extension in the object form, which readers of Zarr 3.0
// require. A nil configuration is omitted.
func FormatExtension(name string, configuration any) Members {
	m := Members{{"name", name}}
	if configuration != nil {
		m = append(m, Member{"configuration", configuration})
	}
	return m
}

// MarshalDocument encodes a metadata document, indented by two spaces.
func MarshalDocument(v any) ([]byte, error) { return encode(v, "  ") }

// MarshalLine encodes a value on one line, without the HTML escapes of encoding/json.
func MarshalLine(v any) ([]byte, error) { return encode(v, "") }

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

// NonNil returns a copy of items that encodes as [] instead of null.
func NonNil[T any](items []T) []T { return append([]T{}, items...) }
