package metajson

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
)

// Python's json module writes the bare words NaN, Infinity and -Infinity, which JSON
// lacks. [Clean] replaces them by numbers that encoding/json accepts and that occur
// nowhere else: the exponents are far beyond those of any float.
const (
	nanToken      = "9e9000000001"
	infinityToken = "9e9000000002"
)

// Clean returns a document without the byte order mark and the bare words of Python's
// json module. Functions of this package then decode those as the floats they mean.
func Clean(raw []byte) []byte {
	raw = bytes.TrimPrefix(raw, []byte("\ufeff"))
	if !bytes.Contains(raw, []byte("NaN")) && !bytes.Contains(raw, []byte("Infinity")) {
		return raw
	}
	return replaceOutsideStrings(raw, func(rest []byte) (old int, with string) {
		switch {
		case bytes.HasPrefix(rest, []byte("NaN")):
			return len("NaN"), nanToken
		case bytes.HasPrefix(rest, []byte("Infinity")):
			return len("Infinity"), infinityToken
		}
		return 1, string(rest[:1])
	})
}

// Restore returns a cleaned document in strict JSON: what were bare words are strings.
func Restore(raw []byte) []byte {
	if !bytes.Contains(raw, []byte(nanToken)) && !bytes.Contains(raw, []byte(infinityToken)) {
		return raw
	}
	return replaceOutsideStrings(raw, func(rest []byte) (old int, with string) {
		number := rest[:len(rest)-len(bytes.TrimLeft(rest, "0123456789+-.eE"))]
		if f, ok := NonFinite(string(number)); ok {
			name, _ := nonFiniteName(f)
			return len(number), `"` + name + `"`
		}
		n := max(len(number), 1)
		return n, string(rest[:n])
	})
}

// replaceOutsideStrings replaces parts of a JSON text that are outside of its strings.
// The function replace returns the length of the part at the start of rest, which is at
// least 1, and what replaces it.
func replaceOutsideStrings(raw []byte, replace func(rest []byte) (old int, with string)) []byte {
	out := make([]byte, 0, len(raw)+64)
	inString := false
	for i := 0; i < len(raw); {
		n := 1
		switch {
		case raw[i] == '"':
			inString = !inString
		case inString && raw[i] == '\\' && i+1 < len(raw):
			n = 2
		case !inString:
			old, with := replace(raw[i:])
			out = append(out, with...)
			i += old
			continue
		}
		out = append(out, raw[i:i+n]...)
		i += n
	}
	return out
}

// NonFinite returns the float that a number of a cleaned document means, if it was a
// bare word.
func NonFinite(number string) (float64, bool) {
	switch number {
	case nanToken:
		return math.NaN(), true
	case infinityToken:
		return math.Inf(1), true
	case "-" + infinityToken:
		return math.Inf(-1), true
	}
	return 0, false
}

// DecodeNonFinite returns a decoded value of a cleaned document, in which the numbers
// that were bare words are float64. It changes maps and slices in place.
func DecodeNonFinite(v any) any {
	switch v := v.(type) {
	case json.Number:
		if f, ok := NonFinite(string(v)); ok {
			return f
		}
	case []any:
		for i := range v {
			v[i] = DecodeNonFinite(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = DecodeNonFinite(v[key])
		}
	}
	return v
}

// EncodeNonFinite returns a value for encoding/json, in which floats that JSON lacks are
// the strings "NaN", "Infinity" and "-Infinity", as in fill values. It looks into maps,
// slices and pointers, and copies those that it changes.
func EncodeNonFinite(v any) any {
	if changed, ok := encodeNonFinite(reflect.ValueOf(v), 0); ok {
		return changed
	}
	return v
}

// maxDepth bounds the recursion into values that contain themselves. encoding/json
// reports those, and decodes no more levels.
const maxDepth = 10_000

// encodeNonFinite returns a changed copy of a value, or false if nothing changes.
func encodeNonFinite(v reflect.Value, depth int) (any, bool) {
	if depth > maxDepth {
		return nil, false
	}
	switch v.Kind() {
	case reflect.Float32, reflect.Float64:
		name, ok := nonFiniteName(v.Float())
		return name, ok
	case reflect.Interface, reflect.Pointer:
		return encodeNonFinite(v.Elem(), depth+1) // the Elem of nil is of no kind
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 { // encoding/json writes base64
			return nil, false
		}
		var out []any
		for i := range v.Len() {
			item, changed := encodeNonFinite(v.Index(i), depth+1)
			if changed && out == nil {
				out = make([]any, v.Len())
				for k := range i {
					out[k] = v.Index(k).Interface()
				}
			}
			if out != nil && !changed {
				item = v.Index(i).Interface()
			}
			if out != nil {
				out[i] = item
			}
		}
		return out, out != nil
	case reflect.Map:
		changes := map[any]any{}
		for entries := v.MapRange(); entries.Next(); {
			if item, changed := encodeNonFinite(entries.Value(), depth+1); changed {
				changes[entries.Key().Interface()] = item
			}
		}
		if len(changes) == 0 {
			return nil, false
		}
		out := reflect.MakeMapWithSize(reflect.MapOf(v.Type().Key(), reflect.TypeFor[any]()), v.Len())
		for entries := v.MapRange(); entries.Next(); {
			value := entries.Value()
			if item, changed := changes[entries.Key().Interface()]; changed {
				value = reflect.ValueOf(item)
			}
			out.SetMapIndex(entries.Key(), value)
		}
		return out.Interface(), true
	}
	return nil, false
}

// nonFiniteName returns the string for a float that JSON lacks.
func nonFiniteName(f float64) (string, bool) {
	switch {
	case math.IsNaN(f):
		return "NaN", true
	case math.IsInf(f, 1):
		return "Infinity", true
	case math.IsInf(f, -1):
		return "-Infinity", true
	}
	return "", false
}
