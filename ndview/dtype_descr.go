package ndview

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// The fields of a NumPy dict that makes a structured type. Titles, a second
// name of fields, are not kept.
type structuredDict struct {
	Names    []string          `json:"names"`
	Formats  []json.RawMessage `json:"formats"`
	Offsets  []int64           `json:"offsets,omitempty"`
	Titles   []any             `json:"titles,omitempty"`
	ItemSize int64             `json:"itemsize,omitempty"`
	Aligned  bool              `json:"aligned,omitempty"`
}

func parseStructured(s string) (DType, ByteOrder, error) { return parseFormat(json.RawMessage(s), 0) }

// parseFormat reads what may stand for a field's type: a string, a list or a
// dict. The order NoOrder goes with every other.
func parseFormat(raw json.RawMessage, depth int) (DType, ByteOrder, error) {
	raw = bytes.TrimSpace(raw)
	switch {
	case depth > maxDepth:
		return DType{}, 0, fmt.Errorf("records nested more than %d deep: %w", maxDepth, ErrDType)
	case bytes.HasPrefix(raw, []byte("[")):
		return parseDescr(raw, depth)
	case bytes.HasPrefix(raw, []byte("{")):
		return parseDict(raw, depth)
	}
	var s string
	if err := decodeJSON(raw, &s); err != nil {
		return DType{}, 0, err
	}
	return parseSimple(s)
}

func parseDescr(raw json.RawMessage, depth int) (DType, ByteOrder, error) {
	var list [][]json.RawMessage
	if err := decodeJSON(raw, &list); err != nil {
		return DType{}, 0, err
	}
	var fields []Field
	var end int64
	order := NoOrder
	for i, item := range list {
		if len(item) != 2 && len(item) != 3 {
			return DType{}, 0, fmt.Errorf("field %d: expected [name, format] or [name, format, shape]: %w", i, ErrDType)
		}
		f, fieldOrder, err := parseField(item, depth)
		if err == nil {
			order, err = sameOrder(order, fieldOrder)
		}
		var n int64
		if err == nil {
			n, err = f.check()
		}
		if err != nil {
			return DType{}, 0, fmt.Errorf("field %d: %w", i, err)
		}
		f.Offset = end
		end += n
		if f.Name == "" && f.DType.kind == KindBytes { // a gap
			continue
		}
		if f.Name == "" {
			f.Name = fmt.Sprint("f", i)
		}
		fields = append(fields, f)
	}
	t, err := Record(end, fields...)
	return t, order, err
}

func parseField(item []json.RawMessage, depth int) (Field, ByteOrder, error) {
	var f Field
	var titled []string // title and name
	if decodeJSON(item[0], &titled) == nil && len(titled) == 2 {
		f.Name = titled[1]
	} else if err := decodeJSON(item[0], &f.Name); err != nil {
		return f, 0, err
	}
	var err error
	if len(item) == 3 {
		if f.Shape, err = parseShape(item[2]); err != nil {
			return f, 0, err
		}
	}
	var order ByteOrder
	f.DType, order, err = parseFormat(item[1], depth+1)
	return f, order, err
}

// parseShape reads the shape of a subarray, one extent or a list of them.
func parseShape(raw json.RawMessage) ([]int64, error) {
	var one int64
	if decodeJSON(raw, &one) == nil {
		return []int64{one}, nil
	}
	var shape []int64
	err := decodeJSON(raw, &shape)
	if len(shape) == 0 {
		shape = nil
	}
	return shape, err
}

func parseDict(raw json.RawMessage, depth int) (DType, ByteOrder, error) {
	var d structuredDict
	if err := decodeJSON(raw, &d); err != nil {
		return DType{}, 0, err
	}
	if len(d.Formats) != len(d.Names) || d.Offsets != nil && len(d.Offsets) != len(d.Names) {
		return DType{}, 0, fmt.Errorf("expected as many formats and offsets as names: %w", ErrDType)
	}
	order := NoOrder
	fields := make([]Field, len(d.Names))
	for i, format := range d.Formats {
		var err error
		if fields[i], err = d.field(i, format, depth, &order); err != nil {
			return DType{}, 0, fmt.Errorf("field %q: %w", d.Names[i], err)
		}
	}
	t, err := d.record(fields)
	return t, order, err
}

// field reads one format of a dict: as in a list, or [format, shape].
func (d structuredDict) field(i int, format json.RawMessage, depth int, order *ByteOrder) (Field, error) {
	name, _ := json.Marshal(d.Names[i])
	item := []json.RawMessage{name, format}
	var pair []json.RawMessage
	if decodeJSON(format, &pair) == nil && len(pair) == 2 {
		if _, err := parseShape(pair[1]); err == nil {
			item = []json.RawMessage{name, pair[0], pair[1]}
		}
	}
	f, fieldOrder, err := parseField(item, depth)
	if err != nil {
		return f, err
	}
	if d.Offsets != nil {
		f.Offset = d.Offsets[i]
	}
	*order, err = sameOrder(*order, fieldOrder)
	return f, err
}

// record lays out the fields of a dict.
func (d structuredDict) record(fields []Field) (DType, error) {
	if d.Offsets == nil {
		packed, err := place(fields, d.Aligned)
		if err != nil || d.ItemSize == 0 || d.ItemSize == packed.Size() {
			return packed, err
		}
		fields = packed.Fields()
	}
	end, widest := int64(0), int64(1)
	for _, f := range fields {
		n, err := f.check()
		if err != nil {
			return DType{}, err
		}
		if a := f.DType.alignment(); d.Aligned && f.Offset%a != 0 {
			return DType{}, fmt.Errorf("field %q: offset %d, where a multiple of %d was expected: %w", f.Name, f.Offset, a, ErrDType)
		} else if d.Aligned {
			widest = max(widest, a)
		}
		end = max(end, f.Offset+n)
	}
	end = roundUp(end, widest)
	if size := d.ItemSize; size != 0 && (size < end || size%widest != 0) {
		return DType{}, fmt.Errorf("itemsize %d, where %d or a larger multiple of %d was expected: %w", size, end, widest, ErrDType)
	}
	return Record(max(end, d.ItemSize), fields...)
}

func sameOrder(a, b ByteOrder) (ByteOrder, error) {
	switch {
	case a == NoOrder:
		return b, nil
	case b == NoOrder, a == b:
		return a, nil
	default:
		return 0, fmt.Errorf("fields of both byte orders in one record: %w", ErrDType)
	}
}

func decodeJSON(raw json.RawMessage, v any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("%w: %w", err, ErrDType)
	}
	if d.More() {
		return fmt.Errorf("more after the end of the type: %w", ErrDType)
	}
	return nil
}

// structured is a record as JSON: see NumPy.
func (t DType) structured(order ByteOrder) string {
	fields := t.record.fields
	inOrder, end := true, int64(0)
	for _, f := range fields {
		inOrder = inOrder && f.Offset >= end
		end = f.Offset + f.Size()
	}
	if inOrder {
		return t.descr(order)
	}
	d := structuredDict{ItemSize: t.Size()}
	for _, f := range fields {
		d.Names, d.Offsets = append(d.Names, f.Name), append(d.Offsets, f.Offset)
		format := f.DType.format(order)
		if f.Shape != nil {
			format = encodeJSON([]any{format, f.Shape})
		}
		d.Formats = append(d.Formats, format)
	}
	return string(encodeJSON(d))
}

func (t DType) descr(order ByteOrder) string {
	var items []any
	end := int64(0)
	gap := func(to int64) {
		if to > end {
			items = append(items, []any{"", Bytes(int32(to - end)).NumPy()})
		}
	}
	for _, f := range t.record.fields {
		gap(f.Offset)
		item := []any{f.Name, f.DType.format(order)}
		if f.Shape != nil {
			item = append(item, f.Shape)
		}
		items, end = append(items, item), f.Offset+f.Size()
	}
	gap(t.Size())
	return string(encodeJSON(items))
}

// format is the type as JSON within a structured type.
func (t DType) format(order ByteOrder) json.RawMessage {
	if t.kind == KindRecord {
		return json.RawMessage(t.structured(order))
	}
	return encodeJSON(t.NumPyIn(order))
}

// encodeJSON is the JSON of what cannot fail to have one, "<" kept as it is.
func encodeJSON(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v)
	return bytes.TrimSpace(b.Bytes())
}
