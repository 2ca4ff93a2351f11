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
	return replaceOutsideStrings(raw, "NaN", nanToken, "Infinity", infinityToken)
}

// Restore returns a cleaned document in strict JSON: what were bare words are strings.
func Restore(raw []byte) []byte {
	if !bytes.Contains(raw, []byte(nanToken)) && !bytes.Contains(raw, []byte(infinityToken)) {
		return raw
	}
	return replaceOutsideStrings(raw, nanToken, `"NaN"`, "-"+infinityToken, `"-Infinity"`, infinityToken, `"Infinity"`)
}

// replaceOutsideStrings replaces words by others, given as pairs, outside of the
// strings of a JSON text.
func replaceOutsideStrings(raw []byte, pairs ...string) []byte {
	out := make([]byte, 0, len(raw)+64)
	inString := false
next:
	for i := 0; i < len(raw); i++ {
		switch {
		case inString && raw[i] == '\\' && i+1 < len(raw):
			out = append(out, raw[i])
			i++
		case raw[i] == '"':
			inString = !inString
		case !inString:
			for k := 0; k < len(pairs); k += 2 {
				if bytes.HasPrefix(raw[i:], []byte(pairs[k])) {
					out = append(out, pairs[k+1]...)
					i += len(pairs[k]) - 1
					continue next
				}
			}
		}
		out = append(out, raw[i])
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
		return nonFiniteName(v.Float())
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
func nonFiniteName(f float64) (any, bool) {
	switch {
	case math.IsNaN(f):
		return "NaN", true
	case math.IsInf(f, 1):
		return "Infinity", true
	case math.IsInf(f, -1):
		return "-Infinity", true
	}
	return nil, false
}
