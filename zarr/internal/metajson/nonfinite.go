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
	if !hasNonFinite(reflect.ValueOf(v)) {
		return v
	}
	return encodeNonFinite(reflect.ValueOf(v))
}

func hasNonFinite(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Float32, reflect.Float64:
		return math.IsNaN(v.Float()) || math.IsInf(v.Float(), 0)
	case reflect.Interface, reflect.Pointer:
		return !v.IsNil() && hasNonFinite(v.Elem())
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if hasNonFinite(v.Index(i)) {
				return true
			}
		}
	case reflect.Map:
		for entries := v.MapRange(); entries.Next(); {
			if hasNonFinite(entries.Value()) {
				return true
			}
		}
	}
	return false
}

// encodeNonFinite returns a copy of a value in which hasNonFinite is true.
func encodeNonFinite(v reflect.Value) any {
	if !hasNonFinite(v) {
		if v.IsValid() && v.CanInterface() {
			return v.Interface()
		}
		return nil
	}
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		return encodeNonFinite(v.Elem())
	case reflect.Slice, reflect.Array:
		out := make([]any, v.Len())
		for i := range out {
			out[i] = encodeNonFinite(v.Index(i))
		}
		return out
	case reflect.Map:
		out := reflect.MakeMapWithSize(reflect.MapOf(v.Type().Key(), reflect.TypeFor[any]()), v.Len())
		for entries := v.MapRange(); entries.Next(); {
			value := reflect.ValueOf(encodeNonFinite(entries.Value()))
			if !value.IsValid() {
				value = reflect.Zero(reflect.TypeFor[any]())
			}
			out.SetMapIndex(entries.Key(), value)
		}
		return out.Interface()
	}
	switch f := v.Float(); {
	case math.IsNaN(f):
		return "NaN"
	case f > 0:
		return "Infinity"
	default:
		return "-Infinity"
	}
}
