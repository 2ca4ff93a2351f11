package element

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr/internal/grid"
	"github.com/quiver-gpu/quiver/zarr/internal/metajson"
)

const (
	structName = "struct"
	// legacyStructName is the name that zarr-python 3.0 and 3.1 wrote. Its fields are
	// [name, data type], and its fill value is base64.
	legacyStructName = "structured"
)

// Field is a part of a struct: one element of a type, or a subarray in C order.
type Field struct {
	Name string
	Type Type
	// Shape is that of a subarray, or nil for one element. Only Zarr v2 has subarrays.
	Shape []int64
	// BigEndian means that the numbers of this field are stored in big-endian byte order,
	// and others of the struct in little-endian. Only Zarr v2 has such structs.
	BigEndian bool
}

// maxStructDepth bounds the nesting of structs.
const maxStructDepth = 32

var structs sync.Map // from the text of the fields to their Type

// Struct returns the type of packed records of fields, which are stored one after
// another without padding. Its dtype is a record. It returns an error unless names are
// distinct and not empty, and all fields have a fixed size of at most 2^20 bytes in
// total.
func Struct(fields ...Field) (Type, error) {
	var text strings.Builder
	parts := make([]ndview.Field, len(fields))
	var l layout
	var end int64
	for i, f := range fields {
		if f.Type.IsVLen() || f.Type == (Type{}) {
			return Type{}, fmt.Errorf("element.Struct: field %q is %s, want a type of fixed size", f.Name, f.Type)
		}
		n, err := grid.ByteSize(f.Shape, f.Type.Size())
		if err != nil || n < 1 || n > maxConfiguredSize-end {
			return Type{}, fmt.Errorf("element.Struct: field %q of %s %v, want a struct of at most %d bytes: %w", f.Name, f.Type, f.Shape, maxConfiguredSize, errors.ErrUnsupported)
		}
		if f.BigEndian && f.Type.hasBigEndianFields() {
			return Type{}, fmt.Errorf("element.Struct: field %q is big-endian, and has fields that are: %w", f.Name, errors.ErrUnsupported)
		}
		parts[i] = ndview.Field{Name: f.Name, DType: f.Type.dtype, Offset: end, Shape: slices.Clone(f.Shape)}
		if !l.add(f, end, n/f.Type.Size()) {
			return Type{}, fmt.Errorf("element.Struct: field %q: more than %d runs of numbers per element: %w", f.Name, maxSpans, errors.ErrUnsupported)
		}
		end += n
		fmt.Fprintf(&text, "%q %s %p %d %t;", f.Name, f.Type.dtype, f.Type.form, f.Shape, f.BigEndian)
	}
	if len(fields) == 0 {
		return Type{}, errors.New("element.Struct: no fields")
	}
	record, err := ndview.Record(end, parts...)
	if err != nil {
		return Type{}, fmt.Errorf("element.Struct: %w", err)
	}
	if known, ok := structs.Load(text.String()); ok {
		return known.(Type), nil
	}
	fields = cloneFields(fields)
	t, _ := structs.LoadOrStore(text.String(), Type{record, &form{kind: formStruct, name: structName, fields: fields, layout: l}})
	return t.(Type), nil
}

// structOf returns the struct of a record without gaps. Other records have no name in
// metadata.
func structOf(record ndview.DType) Type {
	var fields []Field
	var end int64
	for _, f := range record.Fields() {
		if f.Offset != end {
			return Type{dtype: record}
		}
		end += f.Size()
		fields = append(fields, Field{Name: f.Name, Type: Of(f.DType), Shape: f.Shape})
	}
	t, err := Struct(fields...)
	if err != nil || t.dtype != record {
		return Type{dtype: record}
	}
	return t
}

// Fields returns a copy of the fields of a struct, otherwise nil.
func (t Type) Fields() []Field {
	if t.kind() != formStruct {
		return nil
	}
	return cloneFields(t.form.fields)
}

func cloneFields(fields []Field) []Field {
	fields = slices.Clone(fields)
	for i := range fields {
		fields[i].Shape = slices.Clone(fields[i].Shape)
	}
	return fields
}

func (t Type) marshalStruct() ([]byte, error) {
	fields := []metajson.Members{}
	for _, f := range t.form.fields {
		if f.Shape != nil {
			return nil, fmt.Errorf("field %q of shape %v: subarrays in Zarr v3: %w", f.Name, f.Shape, errors.ErrUnsupported)
		}
		if f.BigEndian {
			return nil, fmt.Errorf("field %q: fields of both byte orders in Zarr v3: %w", f.Name, errors.ErrUnsupported)
		}
		fields = append(fields, metajson.Members{{Key: "name", Value: f.Name}, {Key: "data_type", Value: f.Type}})
	}
	return metajson.FormatExtension(structName, metajson.Members{{Key: "fields", Value: fields}}).MarshalJSON()
}

func parseStruct(ext metajson.Extension, depth int) (Type, error) {
	if depth >= maxStructDepth {
		return Type{}, fmt.Errorf("structs nest deeper than %d", maxStructDepth)
	}
	var raw []json.RawMessage
	if err := ext.Config.DecodeRequired("fields", &raw); err != nil {
		return Type{}, err
	}
	fields := make([]Field, len(raw))
	for i, item := range raw {
		name, dtype, err := parseField(ext.Name, item)
		if err == nil {
			fields[i].Name = name
			fields[i].Type, err = parseType(dtype, depth+1)
		}
		if err != nil {
			return Type{}, fmt.Errorf("%s: field %d: %w", ext.Name, i, err)
		}
	}
	return Struct(fields...)
}

// parseField parses {"name", "data_type"}, or [name, data type] of the legacy form.
func parseField(what string, raw json.RawMessage) (name string, dtype json.RawMessage, err error) {
	var pair []json.RawMessage
	if json.Unmarshal(raw, &pair) == nil && len(pair) == 2 {
		err = metajson.Decode("name", pair[0], &name)
		return name, pair[1], err
	}
	o, err := metajson.ParseObject(what, raw)
	if err != nil {
		return "", nil, err
	}
	if err := o.DecodeRequired("name", &name); err != nil {
		return "", nil, err
	}
	if err := o.DecodeRequired("data_type", &dtype); err != nil {
		return "", nil, err
	}
	return name, dtype, o.CheckEmpty()
}

// parseStructFill parses {"field": value}, or base64 of the packed record, which
// zarr-python wrote before it had a name for structs. As in zarr-python, an absent field
// has its default fill value.
func (t Type) parseStructFill(raw json.RawMessage) ([]byte, error) {
	if text, ok := unquote(raw); ok {
		fill, err := base64.StdEncoding.Strict().DecodeString(text)
		if err != nil {
			return nil, fmt.Errorf("expected base64: %w", err)
		}
		if int64(len(fill)) != t.Size() {
			return nil, fmt.Errorf("got %d bytes, want %d", len(fill), t.Size())
		}
		t.Normalize(fill)
		return fill, nil
	}
	o, err := metajson.ParseObject("struct", raw)
	if err != nil {
		return nil, err
	}
	fill := make([]byte, 0, t.Size())
	for _, f := range t.form.fields {
		value := bytes.Repeat(f.Type.DefaultFill(), int(grid.Size(f.Shape)))
		if part, ok := o.Take(f.Name); ok {
			var err error
			if value, err = f.parseFill(part); err != nil {
				return nil, fmt.Errorf("field %q: %w", f.Name, err)
			}
		}
		fill = append(fill, value...)
	}
	return fill, o.CheckEmpty()
}

func (f Field) parseFill(raw json.RawMessage) ([]byte, error) {
	if f.Shape != nil {
		return nil, fmt.Errorf("fill value of shape %v: %w", f.Shape, errors.ErrUnsupported)
	}
	return f.Type.parseFill(raw)
}

func (t Type) formatStructFill(fill []byte) (json.RawMessage, error) {
	var members metajson.Members
	for _, f := range t.form.fields {
		if f.Shape != nil {
			return nil, fmt.Errorf("field %q of shape %v: subarrays in Zarr v3: %w", f.Name, f.Shape, errors.ErrUnsupported)
		}
		n := f.Type.Size()
		value, err := f.Type.formatFill(fill[:n])
		if err != nil {
			return nil, fmt.Errorf("field %q: %w", f.Name, err)
		}
		members = append(members, metajson.Member{Key: f.Name, Value: value})
		fill = fill[n:]
	}
	return members.MarshalJSON()
}
