package text

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/extensions"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/source"
)

// jsonShape is what the first rows have at one place of an object.
type jsonShape struct {
	name    string
	kinds   textKinds
	members []*jsonShape // of objects, in the order of their first occurrence
	items   *jsonShape   // of lists
}

// inferJSON returns the fields of the objects, and their number.
func (i inference) inferJSON(in io.Reader) (fields []arrow.Field, rows int, err error) {
	root, objects := &jsonShape{}, &jsonObjects{}
	scanner := bufio.NewScanner(in)
	scanner.Buffer(make([]byte, 64<<10), i.limit)
	scanner.Split(func(data []byte, atEOF bool) (int, []byte, error) { return objects.split(data, atEOF && i.whole) })
	for rows < i.rows && scanner.Scan() && root.add(scanner.Bytes()) == nil { // reading the rows returns the error
		rows++
	}
	fields = append(fields, i.known...)
	has := func(name string) bool {
		return slices.ContainsFunc(fields, func(f arrow.Field) bool { return f.Name == name })
	}
	for _, m := range root.members {
		if has(m.name) {
			continue
		}
		f := arrow.Field{Name: m.name, Type: i.given[m.name], Nullable: true}
		if f.Type == nil {
			if f.Type, err = m.dataType(); err != nil {
				return nil, 0, fmt.Errorf("column %q: %w", m.name, err)
			}
		}
		fields = append(fields, f)
	}
	for _, name := range slices.Sorted(maps.Keys(i.given)) {
		if !has(name) { // it may come later
			fields = append(fields, arrow.Field{Name: name, Type: i.given[name], Nullable: true})
		}
	}
	return fields, rows, nil
}

// add adds a value.
func (s *jsonShape) add(raw []byte) error {
	switch raw[0] {
	case 'n':
	case 't', 'f':
		s.kinds |= kindIsBool
	case '{':
		s.kinds |= kindIsObject
		return forEachMember(raw, func(name string, value []byte) error {
			i := slices.IndexFunc(s.members, func(m *jsonShape) bool { return m.name == name })
			if i < 0 {
				i = len(s.members)
				s.members = append(s.members, &jsonShape{name: name})
			}
			return s.members[i].add(value)
		})
	case '[':
		s.kinds |= kindIsList
		if s.items == nil {
			s.items = &jsonShape{}
		}
		return forEachItem(raw, s.items.add)
	case '"':
		text, err := unquote(raw)
		if err != nil {
			return err
		}
		if kinds := timeKinds(text); kinds != kindIsOther {
			s.kinds |= kinds
		} else {
			s.kinds |= kindIsJSONText
		}
	default:
		s.kinds |= kindsOf(string(raw))
	}
	return nil
}

// dataType returns the type that has all values: JSON if they are objects or lists, and
// others.
func (s *jsonShape) dataType() (arrow.DataType, error) {
	switch {
	case s.kinds&(kindIsObject|kindIsList) == 0:
		return s.kinds.csvType(), nil
	case s.kinds == kindIsList:
		item, err := s.items.dataType()
		if err != nil {
			return nil, err
		}
		return arrow.ListOf(item), nil
	case s.kinds == kindIsObject:
		var fields []arrow.Field
		for _, m := range s.members {
			t, err := m.dataType()
			if err != nil {
				return nil, fmt.Errorf("member %q: %w", m.name, err)
			}
			fields = append(fields, arrow.Field{Name: m.name, Type: t, Nullable: true})
		}
		return arrow.StructOf(fields...), nil
	}
	return extensions.NewJSONType(arrow.BinaryTypes.String)
}

// forEachMember calls f for each member of an object.
func forEachMember(raw []byte, f func(name string, value []byte) error) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	first, err := d.Token()
	if err == nil && first != json.Delim('{') {
		err = fmt.Errorf("%.40s, expected an object", raw)
	}
	for err == nil && d.More() {
		var name json.Token
		var value json.RawMessage
		if name, err = d.Token(); err == nil {
			if err = d.Decode(&value); err == nil {
				err = f(name.(string), value)
			}
		}
	}
	return endOfJSON(d, raw, err)
}

// forEachItem calls f for each item of a list.
func forEachItem(raw []byte, f func(value []byte) error) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	_, err := d.Token()
	for err == nil && d.More() {
		var value json.RawMessage
		if err = d.Decode(&value); err == nil {
			err = f(value)
		}
	}
	return endOfJSON(d, raw, err)
}

// endOfJSON returns an error unless the object or list ends where the text does.
func endOfJSON(d *json.Decoder, raw []byte, err error) error {
	if err == nil {
		_, err = d.Token()
	}
	if err == nil && len(bytes.TrimSpace(raw[d.InputOffset():])) > 0 {
		err = errors.New("more after the object")
	}
	return source.UnexpectedEOF(err)
}

// unquote returns a text of JSON. encoding/json replaces one half of a surrogate pair,
// which is no text, by U+FFFD.
func unquote(raw []byte) (text string, err error) {
	if err = json.Unmarshal(raw, &text); err != nil {
		return "", err
	}
	halves := strings.Count(text, "\uFFFD") - bytes.Count(raw, []byte("\uFFFD")) - bytes.Count(bytes.ToLower(raw), []byte(`\ufffd`))
	if halves > 0 {
		return "", fmt.Errorf("%.100s has half of a surrogate pair", raw)
	}
	return text, nil
}

// jsonRows reads objects.
type jsonRows struct {
	scanner *bufio.Scanner
	objects jsonObjects
	fields  []arrow.Field
	index   map[string]int
	seen    []int // by field, the number of the last object that has it
}

func newJSONRows(in io.Reader, fields []arrow.Field, maxObject int) *jsonRows {
	j := &jsonRows{scanner: bufio.NewScanner(in), fields: fields, index: map[string]int{}, seen: make([]int, len(fields))}
	j.scanner.Buffer(make([]byte, 64<<10), maxObject)
	j.scanner.Split(j.objects.split)
	for i, f := range fields {
		j.index[f.Name] = i
	}
	return j
}

func (j *jsonRows) append(builders []array.Builder) error {
	if j.scanner.Scan() {
		if err := j.appendObject(builders, j.scanner.Bytes()); err != nil {
			return fmt.Errorf("line %d%w", j.objects.start, err)
		}
		return nil
	}
	err := j.scanner.Err()
	switch {
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("line %d: an object of more than an eighth of the memory for batches: %w", j.objects.line+1, err)
	case err == nil:
		return io.EOF
	}
	return err
}

// inColumn is an error, after the words "line N".
type inColumn struct {
	column string
	err    error
}

func (e *inColumn) Unwrap() error { return e.err }

func (e *inColumn) Error() string {
	if e.column == "" {
		return ": " + e.err.Error()
	}
	return fmt.Sprintf(", column %q: %v", e.column, e.err)
}

func (j *jsonRows) appendObject(builders []array.Builder, object []byte) error {
	if !utf8.Valid(object) { // encoding/json would replace what is not
		return &inColumn{"", errNotUTF8}
	}
	err := forEachMember(object, func(name string, value []byte) error {
		i, ok := j.index[name]
		switch {
		case !ok:
			return &inColumn{name, &typeError{column: name, member: "it"}}
		case j.seen[i] == j.objects.objects:
			return &inColumn{name, errors.New("it occurs twice")}
		}
		j.seen[i] = j.objects.objects
		if builders[i] == nil {
			return nil
		}
		if err := appendJSON(builders[i], j.fields[i], value); err != nil {
			var bad *typeError
			if errors.As(err, &bad) { // perhaps of an inner field
				bad.column = name
			}
			return &inColumn{name, err}
		}
		return nil
	})
	var located *inColumn
	if err != nil && !errors.As(err, &located) {
		return &inColumn{"", fmt.Errorf("no object of JSON: %w", err)}
	}
	for i, b := range builders {
		if b != nil && j.seen[i] != j.objects.objects {
			b.AppendNull()
		}
	}
	return err
}

// appendJSON appends a value.
func appendJSON(b array.Builder, f arrow.Field, raw []byte) error {
	if string(raw) == "null" {
		b.AppendNull()
		return nil
	}
	switch b := b.(type) {
	case *array.ExtensionBuilder:
		var text bytes.Buffer
		if err := json.Compact(&text, raw); err != nil {
			return err
		}
		b.StorageBuilder().(*array.StringBuilder).Append(text.String())
		return nil
	case *array.StructBuilder:
		return appendObject(b, f, raw)
	case *array.ListBuilder:
		if raw[0] != '[' {
			return notOfType(string(raw), f)
		}
		b.Append(true)
		item := f.Type.(*arrow.ListType).ElemField()
		return forEachItem(raw, func(value []byte) error { return appendJSON(b.ValueBuilder(), item, value) })
	}
	isText := raw[0] == '"'
	text := string(raw)
	if isText {
		var err error
		if text, err = unquote(raw); err != nil {
			return err
		}
	}
	var fits bool
	switch f.Type.ID() {
	case arrow.STRING, arrow.LARGE_STRING:
		fits = raw[0] != '{' && raw[0] != '['
	case arrow.BOOL:
		fits = text == "true" || text == "false"
	case arrow.TIMESTAMP, arrow.DATE32:
		fits = isText
	default:
		fits = !isText
	}
	if !fits || appendText(b, f, text) != nil {
		return notOfType(string(raw), f)
	}
	return nil
}

func appendObject(b *array.StructBuilder, f arrow.Field, raw []byte) error {
	if raw[0] != '{' {
		return notOfType(string(raw), f)
	}
	b.Append(true)
	t := f.Type.(*arrow.StructType)
	seen := make([]bool, t.NumFields())
	err := forEachMember(raw, func(name string, value []byte) error {
		i, ok := t.FieldIdx(name)
		switch {
		case !ok:
			return &typeError{member: fmt.Sprintf("the member %q", name)}
		case seen[i]:
			return fmt.Errorf("the member %q occurs twice", name)
		}
		seen[i] = true
		if err := appendJSON(b.FieldBuilder(i), t.Field(i), value); err != nil {
			return fmt.Errorf("member %q: %w", name, err)
		}
		return nil
	})
	for i, s := range seen {
		if !s && err == nil {
			b.FieldBuilder(i).AppendNull()
		}
	}
	return err
}

// appendText appends a value of a type that is not nested, given as text.
func appendText(b array.Builder, f arrow.Field, text string) error {
	if b, ok := b.(array.StringLikeBuilder); ok {
		b.Append(text)
		return nil
	}
	if text == array.NullValueStr { // which arrow-go would take for a null
		return fmt.Errorf("%q is no %s", text, f.Type)
	}
	if t, ok := f.Type.(*arrow.TimestampType); ok {
		_, zoned, err := arrow.TimestampFromStringInLocation(text, t.Unit, time.UTC)
		if err != nil || zoned != (t.TimeZone != "") {
			return fmt.Errorf("%q is no %s", text, t)
		}
	}
	if f.Type.ID() == arrow.DATE32 && strings.ContainsAny(text, "T ") {
		return fmt.Errorf("%q is no date", text)
	}
	return b.AppendValueFromString(text)
}
