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
