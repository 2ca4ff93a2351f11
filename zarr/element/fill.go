package element

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
)

const natJSON = `"NaT"`

// DefaultFill returns the fill value of arrays that set none: zero, false, the empty
// string, or NaT ("not a time"). All fields of a struct are zero, also times, as in
// zarr-python.
func (t Type) DefaultFill() []byte {
	fill := make([]byte, t.Size())
	if t.isTime() {
		binary.LittleEndian.PutUint64(fill, 1<<63)
	}
	return fill
}

// CheckFill returns an error unless fill is one element of the type: Size bytes in the
// layout of an NDBuffer, or a byte string of any length.
func (t Type) CheckFill(fill []byte) error {
	if !t.IsVLen() && int64(len(fill)) != t.Size() {
		return fmt.Errorf("fill value of %s has %d bytes, want %d", t, len(fill), t.Size())
	}
	switch {
	case t == String && !utf8.Valid(fill):
		return fmt.Errorf("fill value %q is not UTF-8", fill)
	case t.IsVLen():
		return nil
	}
	if err := t.CheckElements(fill); err != nil {
		return fmt.Errorf("fill value of %s: %w", t, err)
	}
	return nil
}

// ParseFill parses the fill_value member of metadata into one element (Zarr core 3.1,
// "Fill value").
func (t Type) ParseFill(raw json.RawMessage) ([]byte, error) {
	fill, err := t.parseFill(raw)
	if err != nil {
		return nil, fmt.Errorf("fill_value %s of %s: %w", metajson.Excerpt(raw), t, err)
	}
	return fill, nil
}

func (t Type) parseFill(raw json.RawMessage) ([]byte, error) {
	if t.isNumber() {
		raw = numberOfBool(raw)
	}
	switch t.kind() {
	case formString:
		text, ok := unquote(raw)
		if !ok {
			return nil, errors.New("expected a string")
		}
		return []byte(text), nil
	case formBytes:
		return parseByteString(raw)
	case formInt:
		return t.parseSmallInt(raw)
	case formFloat:
		return t.form.float.parse(raw)
	case formComplex:
		return t.parseComplex(raw)
	case formUTF32:
		return t.parseUTF32(raw)
	case formTerminated, formRawBytes:
		return t.parsePadded(raw)
	case formStruct:
		return t.parseStructFill(raw)
	}
	size := int(t.Size())
	switch t.dtype.Kind() {
	case ndview.KindBool:
		x, err := strconv.ParseFloat(string(numberOfBool(raw)), 64)
		switch {
		case err != nil:
			return nil, errors.New("expected true or false")
		case x == 0:
			return []byte{0}, nil
		default:
			return []byte{1}, nil // zarr-python also reads numbers
		}
	case ndview.KindDatetime, ndview.KindTimedelta:
		if string(raw) == natJSON {
			return t.DefaultFill(), nil
		}
		return parseInt(raw, size)
	case ndview.KindInt:
		return parseInt(raw, size)
	case ndview.KindUint:
		n, err := strconv.ParseUint(integerText(raw), 10, size*8)
		if err != nil {
			return nil, fmt.Errorf("expected an integer of %d bits, not negative", size*8)
		}
		return encodeLittleEndian(n, size), nil
	case ndview.KindFloat, ndview.KindBFloat:
		return t.floatFormat().parse(raw)
	case ndview.KindComplex:
		return t.parseComplex(raw)
	default:
		return parseRawBits(raw, size)
	}
}

// isNumber reports whether a fill value is a JSON number, or two of them.
func (t Type) isNumber() bool {
	switch t.kind() {
	case formInt, formFloat, formComplex:
		return true
	case 0:
		kind := t.dtype.Kind()
		return kind != ndview.KindBool && kind != ndview.KindBytes
	default:
		return false
	}
}

// numberOfBool returns 1 and 0 for true and false, which are numbers in Python.
func numberOfBool(raw json.RawMessage) json.RawMessage {
	switch string(raw) {
	case "true":
		return json.RawMessage("1")
	case "false":
		return json.RawMessage("0")
	default:
		return raw
	}
}

// integerText returns the text of an integer. Some writers store 0.0, 1e3 or "0".
func integerText(raw json.RawMessage) string {
	text := string(raw)
	if inner, ok := unquote(raw); ok {
		text = strings.TrimPrefix(strings.TrimSpace(inner), "+")
	}
	if x, err := strconv.ParseFloat(text, 64); err == nil && json.Valid([]byte(text)) && strings.ContainsAny(text, "eE") && x == math.Trunc(x) && math.Abs(x) < 1<<53 {
		text = strconv.FormatInt(int64(x), 10)
	}
	if text = metajson.TrimFraction(text); text == "-0" {
		return "0"
	}
	return text
}

// unquote returns the value of a JSON string, or false for other values.
func unquote(raw json.RawMessage) (string, bool) {
	var s string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return "", false
	}
	return s, true
}

func parseInt(raw json.RawMessage, size int) ([]byte, error) {
	n, err := strconv.ParseInt(integerText(raw), 10, size*8)
	if err != nil {
		return nil, fmt.Errorf("expected an integer of %d bits", size*8)
	}
	return encodeLittleEndian(uint64(n), size), nil
}

func (t Type) parseComplex(raw json.RawMessage) ([]byte, error) {
	var parts []json.RawMessage
	if err := json.Unmarshal(raw, &parts); err != nil || len(parts) != 2 {
		return nil, fmt.Errorf("expected [real, imaginary]")
	}
	var fill []byte
	for _, part := range parts {
		f, err := t.floatFormat().parse(numberOfBool(part))
		if err != nil {
			return nil, err
		}
		fill = append(fill, f...)
	}
	return fill, nil
}

func (t Type) formatComplex(fill []byte) json.RawMessage {
	half := len(fill) / 2
	return fmt.Appendf(nil, "[%s,%s]", t.floatFormat().format(fill[:half]), t.floatFormat().format(fill[half:]))
}

func (t Type) parseSmallInt(raw json.RawMessage) ([]byte, error) {
	n, err := metajson.ParseInt(integerText(raw))
	fill := []byte{byte(n)}
	t.Normalize(fill)
	value := int64(fill[0])
	if t.dtype.Kind() == ndview.KindInt {
		value = decodeSigned(fill)
	}
	if err != nil || value != n {
		return nil, fmt.Errorf("expected an integer of %d bits", t.form.bits)
	}
	return fill, nil
}

func parseByteString(raw json.RawMessage) ([]byte, error) {
	var s *string
	if json.Unmarshal(raw, &s) == nil && s != nil {
		b, err := base64.StdEncoding.Strict().DecodeString(*s)
		if err != nil {
			return nil, fmt.Errorf("expected base64: %w", err)
		}
		return b, nil
	}
	return parseByteList(raw)
}

// parsePadded parses the base64 of at most Size bytes and pads them with zeros.
func (t Type) parsePadded(raw json.RawMessage) ([]byte, error) {
	b, err := parseByteString(raw)
	if err == nil && int64(len(b)) > t.Size() {
		return nil, fmt.Errorf("got %d bytes, want at most %d", len(b), t.Size())
	}
	return append(b, make([]byte, t.Size()-min(int64(len(b)), t.Size()))...), err
}

// parseRawBits also accepts base64, which tensorstore writes.
func parseRawBits(raw json.RawMessage, size int) ([]byte, error) {
	b, err := parseByteString(raw)
	if err == nil && len(b) != size {
		return nil, fmt.Errorf("got %d bytes, want a list of %d bytes", len(b), size)
	}
	return b, err
}

func parseByteList(raw json.RawMessage) ([]byte, error) {
	var list []int64
	if err := metajson.Decode("bytes", raw, &list); err != nil {
		return nil, fmt.Errorf("expected a list of bytes, each 0 to 255")
	}
	b := make([]byte, len(list))
	for i, n := range list {
		if n < 0 || n > 255 {
			return nil, fmt.Errorf("byte %d is %d, want 0 to 255", i, n)
		}
		b[i] = byte(n)
	}
	return b, nil
}

// FormatFill formats one element as the fill_value member of metadata.
func (t Type) FormatFill(fill []byte) (json.RawMessage, error) {
	if err := t.CheckFill(fill); err != nil {
		return nil, err
	}
	return t.formatFill(fill)
}

// formatFill is FormatFill of a fill value that was checked.
func (t Type) formatFill(fill []byte) (json.RawMessage, error) {
	switch t.kind() {
	case formString:
		return metajson.MarshalLine(string(fill))
	case formTerminated:
		return json.Marshal(base64.StdEncoding.EncodeToString(bytes.TrimRight(fill, "\x00")))
	case formBytes, formRawBytes:
		// zarr-python accepts only this form.
		return json.Marshal(base64.StdEncoding.EncodeToString(fill))
	case formFloat:
		return t.form.float.format(fill), nil
	case formComplex:
		return t.formatComplex(fill), nil
	case formUTF32:
		text, err := decodeUTF32(fill)
		if err != nil {
			return nil, err
		}
		return metajson.MarshalLine(string(text))
	case formStruct:
		return t.formatStructFill(fill)
	}
	switch t.dtype.Kind() {
	case ndview.KindBool:
		return strconv.AppendBool(nil, fill[0] != 0), nil
	case ndview.KindDatetime, ndview.KindTimedelta:
		if bytes.Equal(fill, t.DefaultFill()) {
			return json.RawMessage(natJSON), nil
		}
		return strconv.AppendInt(nil, decodeSigned(fill), 10), nil
	case ndview.KindInt:
		return strconv.AppendInt(nil, decodeSigned(fill), 10), nil
	case ndview.KindUint:
		return strconv.AppendUint(nil, decodeUnsigned(fill), 10), nil
	case ndview.KindFloat, ndview.KindBFloat:
		return t.floatFormat().format(fill), nil
	case ndview.KindComplex:
		return t.formatComplex(fill), nil
	default:
		list := make([]uint16, len(fill)) // encoding/json writes []byte as base64
		for i, b := range fill {
			list[i] = uint16(b)
		}
		return json.Marshal(list)
	}
}

// encodeLittleEndian returns the low size bytes of n.
func encodeLittleEndian(n uint64, size int) []byte {
	return binary.LittleEndian.AppendUint64(nil, n)[:size]
}

func decodeUnsigned(b []byte) uint64 {
	var whole [8]byte
	copy(whole[:], b)
	return binary.LittleEndian.Uint64(whole[:])
}

func decodeSigned(b []byte) int64 {
	shift := 64 - 8*len(b)
	return int64(decodeUnsigned(b)<<shift) >> shift
}
