package element

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/dtype"
	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
)

// ErrObject reports the dtype "|O" of Zarr v2: a filter determines the type of the
// elements. Test with errors.Is.
var ErrObject = errors.New("dtype |O: the filters determine the type")

// objectDType is the dtype of elements of variable length in Zarr v2.
const objectDType = "|O"

// ParseV2 parses the dtype member of a .zarray document: a NumPy type string, or a list
// of the fields of a struct (Zarr v2, "Data type encoding"). It also returns the byte
// order of stored elements, dtype.NoOrder if it does not affect them. "<U5" is
// UTF32(5), "|S5" is NullTerminated(5), "|V5" is Of(ndview.Bytes(5)). It also accepts
// the names that tensorstore writes, such as "bfloat16" and "int4".
//
// A struct of both byte orders is little-endian, with fields that are BigEndian. The
// error wraps [ErrObject] for "|O", and errors.ErrUnsupported for types that this package
// lacks.
func ParseV2(raw json.RawMessage) (Type, ndview.ByteOrder, error) {
	t, order, err := parseV2(raw, 0)
	if err != nil {
		return Type{}, 0, fmt.Errorf("dtype %s: %w", metajson.Excerpt(raw), err)
	}
	return t, order, nil
}

func parseV2(raw json.RawMessage, depth int) (Type, ndview.ByteOrder, error) {
	if depth > maxStructDepth {
		return Type{}, 0, fmt.Errorf("structs nest deeper than %d", maxStructDepth)
	}
	if text, ok := unquote(raw); ok {
		return parseV2Name(text)
	}
	var items [][]json.RawMessage
	if err := metajson.Decode("dtype", raw, &items); err != nil {
		return Type{}, 0, errors.New("expected a string or a list of fields")
	}
	fields, orders := make([]Field, len(items)), make([]ndview.ByteOrder, len(items))
	order := dtype.NoOrder
	for i, item := range items {
		var err error
		if fields[i], orders[i], err = parseV2Field(item, i, depth); err != nil {
			return Type{}, 0, fmt.Errorf("field %d: %w", i, err)
		}
		if order == dtype.NoOrder {
			order = orders[i]
		}
	}
	if slices.Contains(orders, dtype.LittleEndian) && slices.Contains(orders, dtype.BigEndian) {
		order = dtype.LittleEndian
		for i := range fields {
			fields[i].BigEndian = orders[i] == dtype.BigEndian
		}
	}
	t, err := Struct(fields...)
	return t, order, err
}

// parseV2Field parses [name, dtype] or [name, dtype, shape]. A field without a name is
// padding, which gets the name that NumPy makes up.
func parseV2Field(item []json.RawMessage, i, depth int) (Field, ndview.ByteOrder, error) {
	var f Field
	if len(item) != 2 && len(item) != 3 {
		return f, 0, errors.New("expected [name, dtype] or [name, dtype, shape]")
	}
	name := item[0]
	var titled []json.RawMessage // [title, name], where NumPy's dtype has titles
	if json.Unmarshal(name, &titled) == nil && len(titled) == 2 {
		name = titled[1]
	}
	if err := metajson.Decode("name", name, &f.Name); err != nil {
		return f, 0, err
	}
	if f.Name == "" {
		f.Name = "f" + strconv.Itoa(i)
	}
	if len(item) == 3 {
		if n, err := metajson.ParseInt(string(item[2])); err == nil {
			f.Shape = []int64{n}
		} else if err := metajson.Decode("shape", item[2], &f.Shape); err != nil {
			return f, 0, err
		}
		if len(f.Shape) == 0 {
			f.Shape = nil
		}
	}
	var order ndview.ByteOrder
	var err error
	f.Type, order, err = parseV2(item[1], depth+1)
	return f, order, err
}

func parseV2Name(name string) (Type, ndview.ByteOrder, error) {
	if name == objectDType {
		return Type{}, 0, ErrObject
	}
	if t, ok := names[name]; ok && (t.kind() == formInt || t.kind() == formFloat) {
		return t, dtype.NoOrder, nil
	}
	if name == "bfloat16" {
		return Of(ndview.BFloat16), dtype.LittleEndian, nil
	}
	if name == "" || !strings.ContainsRune("<>|=", rune(name[0])) {
		return Type{}, 0, fmt.Errorf(`want a byte order, one of "<", ">" and "|", and a type: %w`, errors.ErrUnsupported)
	}
	if t, ok, err := parseV2Text(name[1:]); ok {
		order := dtype.NoOrder
		if t.HasByteOrder() {
			order = dtype.LittleEndian
			if name[0] == '>' {
				order = dtype.BigEndian
			}
		}
		return t, order, err
	}
	known, order, err := ndview.ParseDType(name)
	if err != nil {
		return Type{}, 0, fmt.Errorf("%w: %w", err, errors.ErrUnsupported)
	}
	return Of(known), order, nil
}

// parseV2Text parses the types whose number is a length: U, S, a and V. It returns
// false for other types.
func parseV2Text(code string) (Type, bool, error) {
	if code == "" || !strings.ContainsRune("USaV", rune(code[0])) {
		return Type{}, false, nil
	}
	n, err := strconv.ParseInt(code[1:], 10, 32)
	width := int64(1)
	if code[0] == 'U' {
		width = 4
	}
	if err != nil || n < 1 || n > maxConfiguredSize/width {
		return Type{}, true, fmt.Errorf("length %q, want 1 to %d: %w", code[1:], maxConfiguredSize/width, errors.ErrUnsupported)
	}
	switch code[0] {
	case 'U':
		return UTF32(int32(n)), true, nil
	case 'V':
		return Of(ndview.Bytes(int32(n))), true, nil
	default:
		return NullTerminated(int32(n)), true, nil
	}
}

// V2 returns the dtype member of a .zarray document for elements that are stored in a
// byte order: the inverse of [ParseV2]. Variable-length types are "|O". It returns an
// error wrapping errors.ErrUnsupported for types that Zarr v2 lacks.
func (t Type) V2(order ndview.ByteOrder) (json.RawMessage, error) {
	if order != dtype.BigEndian { // also of types with none
		order = dtype.LittleEndian
	}
	switch t.kind() {
	case formString, formBytes:
		return metajson.MarshalLine(objectDType)
	case formInt, formFloat:
		return metajson.MarshalLine(t.String())
	case formUTF32:
		return metajson.MarshalLine(fmt.Sprintf("%cU%d", order, t.Size()/4))
	case formTerminated:
		return metajson.MarshalLine(fmt.Sprintf("|S%d", t.Size()))
	case formRawBytes:
		return metajson.MarshalLine(fmt.Sprintf("|V%d", t.Size()))
	case formStruct:
		items := make([][]any, len(t.form.fields))
		for i, f := range t.form.fields {
			fieldOrder := order
			if f.BigEndian {
				fieldOrder = dtype.BigEndian
			}
			format, err := f.Type.V2(fieldOrder)
			if err != nil {
				return nil, fmt.Errorf("field %q: %w", f.Name, err)
			}
			items[i] = []any{f.Name, format}
			if f.Shape != nil {
				items[i] = append(items[i], f.Shape)
			}
		}
		return metajson.MarshalLine(items)
	}
	big := t.dtype == ndview.BFloat16 && order == dtype.BigEndian
	if _, err := t.dtype.ZarrName(); err != nil || t.kind() != 0 || big {
		return nil, fmt.Errorf("%s: %w in Zarr v2", t, errors.ErrUnsupported)
	}
	return metajson.MarshalLine(t.dtype.NumPyIn(order))
}

// ParseV2Fill parses the fill_value member of a .zarray document, which is not null,
// into one element (Zarr v2, "Fill value encoding"). Bytes and structs are base64 of an
// element in the byte order of the array. The number 0, which old writers stored for
// any type, is an element of zeros.
func (t Type) ParseV2Fill(raw json.RawMessage, order ndview.ByteOrder) ([]byte, error) {
	fill, err := t.parseV2Fill(raw, order)
	if err == nil {
		t.Normalize(fill)
		err = t.CheckFill(fill)
	}
	if err != nil {
		return nil, fmt.Errorf("fill_value %s of %s: %w", metajson.Excerpt(raw), t, err)
	}
	return fill, nil
}

func (t Type) parseV2Fill(raw json.RawMessage, order ndview.ByteOrder) ([]byte, error) {
	if t.isBase64V2() && metajson.TrimFraction(string(raw)) == "0" {
		return make([]byte, t.Size()), nil
	}
	switch {
	case t.kind() == formStruct:
		fill, err := t.parseStructFill(raw) // zarr-python also reads an object of the fields
		if _, isBase64 := unquote(raw); isBase64 && err == nil {
			err = t.swapFill(fill, order)
		}
		return fill, err
	case t.kind() == 0 && t.dtype.Kind() == ndview.KindBytes:
		return t.parsePadded(raw) // as NumPy pads
	case t.dtype.Kind() == ndview.KindComplex:
		if fill, err := t.floatFormat().parse(raw); err == nil { // a real number
			return append(fill, make([]byte, len(fill))...), nil
		}
	}
	return t.parseFill(raw)
}

// swapFill changes a fill value between the byte order of an array and that of the host.
func (t Type) swapFill(fill []byte, order ndview.ByteOrder) error {
	swapped, err := t.IsSwapped(order)
	if swapped {
		t.SwapBytes(fill, fill)
	}
	return err
}

// isBase64V2 reports whether fill values are not numbers in Zarr v2.
func (t Type) isBase64V2() bool {
	return t.IsVLen() || t.dtype.Kind() == ndview.KindBytes || t.kind() == formStruct
}

// FormatV2Fill formats one element as the fill_value member of a .zarray document: the
// inverse of [Type.ParseV2Fill].
func (t Type) FormatV2Fill(fill []byte, order ndview.ByteOrder) (json.RawMessage, error) {
	if err := t.CheckFill(fill); err != nil {
		return nil, err
	}
	if t.kind() != formStruct && (t.kind() != 0 || t.dtype.Kind() != ndview.KindBytes) {
		return t.formatFill(fill)
	}
	fill = slices.Clone(fill)
	if err := t.swapFill(fill, order); err != nil {
		return nil, err
	}
	return json.Marshal(base64.StdEncoding.EncodeToString(fill))
}
