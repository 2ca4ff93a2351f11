package arrowzarr

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// SkippedColumn is a column that a conversion left out, because its type has no Zarr
// form. See Options.SkipUnsupported.
type SkippedColumn struct {
	Name   string `json:"name"`
	Type   string `json:"type"`
	Reason string `json:"reason"`

	field int // its index in the schema
}

// columnError is the reason why a column cannot be converted.
type columnError struct {
	field arrow.Field
	err   error
}

func (e *columnError) Error() string {
	return fmt.Sprintf("column %q of type %s: %v", e.field.Name, typeText(e.field.Type), e.err)
}

// typeText returns a type as people read it: what is deep in a nested one is cut off.
func typeText(t arrow.DataType) string {
	const most = 200
	text := t.String()
	if len(text) > most {
		text = truncate(text, most) + "..."
	}
	return text
}

func (e *columnError) Unwrap() error { return e.err }

// chosenColumns are the columns of an input that are converted.
type chosenColumns struct {
	columns []*column
	fields  []int // their indices in the schema
	skipped []SkippedColumn
}

// chooseColumns returns the columns of a schema that the options choose. The error has
// every problem: names that match no column, and columns that cannot be converted.
func chooseColumns(schema *arrow.Schema, o Options) (*chosenColumns, error) {
	c, err := newChosenColumns(schema, o)
	if err == nil && len(c.columns) == 0 && schema.NumFields() > 0 {
		err = errNothingLeft(c.skipped)
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// newChosenColumns is chooseColumns without the error of choosing no column.
func newChosenColumns(schema *arrow.Schema, o Options) (*chosenColumns, error) {
	var refused []error
	chosen, unmatched := markChosen(schema, o.Columns, o.Exclude)
	for _, name := range slices.Sorted(maps.Keys(o.ColumnCodecs)) {
		if !schema.HasField(name) {
			unmatched = append(unmatched, fmt.Errorf("codec: no column is named %q", name))
		}
	}
	if len(unmatched) > 0 {
		unmatched = append(unmatched, fmt.Errorf("expected some of %s", columnNames(schema)))
	}
	c, codecsOf := &chosenColumns{}, o.codecsOf()
	for i, field := range schema.Fields() {
		if !chosen[i] {
			continue
		}
		column, err := newColumn(field)
		var why *columnError
		switch {
		case err == nil:
			column.codecs = codecsOf(field.Name)
			c.columns, c.fields = append(c.columns, column), append(c.fields, i)
		case o.SkipUnsupported && errors.As(err, &why):
			c.skipped = append(c.skipped, SkippedColumn{Name: field.Name, Type: typeText(field.Type), Reason: why.err.Error(), field: i})
		default:
			refused = append(refused, err)
		}
	}
	if err := errors.Join(append(unmatched, refused...)...); err != nil {
		if len(unmatched) > 0 {
			return nil, markPart(PartUsage, err)
		}
		return nil, markPart(PartInput, err)
	}
	nameColumns(c.columns)
	nameDimensions(c.columns)
	return c, nil
}

// markChosen returns which columns of a schema the patterns of Options.Columns and
// Options.Exclude choose, and an error for each pattern that matches none.
func markChosen(schema *arrow.Schema, columns, exclude []string) (chosen []bool, unmatched []error) {
	chosen = make([]bool, schema.NumFields())
	for i := range chosen {
		chosen[i] = len(columns) == 0
	}
	mark := func(option string, patterns []string, value bool) {
		for _, pattern := range patterns {
			if err := markColumns(schema, pattern, chosen, value); err != nil {
				unmatched = append(unmatched, fmt.Errorf("%s: %w", option, err))
			}
		}
	}
	mark("columns", columns, true)
	mark("exclude", exclude, false)
	return chosen, unmatched
}

// errNothingLeft is the error of an input with columns of which none is converted.
func errNothingLeft(skipped []SkippedColumn) error {
	if len(skipped) == 0 {
		return partErrorf(PartUsage, "every column is excluded, expected at least one that is not")
	}
	reasons := make([]string, len(skipped))
	for i, s := range skipped {
		reasons[i] = fmt.Sprintf("%q of type %s: %s", s.Name, s.Type, s.Reason)
	}
	return partErrorf(PartInput, "no column can be converted: %s", strings.Join(reasons, "; "))
}

// markColumns sets the value of the columns that a pattern matches: those of exactly this
// name, otherwise those that it matches as path.Match defines.
func markColumns(schema *arrow.Schema, pattern string, chosen []bool, value bool) error {
	found := schema.FieldIndices(pattern)
	if len(found) == 0 {
		for i, field := range schema.Fields() {
			matched, err := path.Match(pattern, field.Name)
			if err != nil {
				return fmt.Errorf("%q is neither the name of a column nor a valid pattern", pattern)
			}
			if matched {
				found = append(found, i)
			}
		}
	}
	if len(found) == 0 && strings.ContainsAny(pattern, `*?[\`) {
		return fmt.Errorf("no column matches %q", pattern)
	}
	if len(found) == 0 {
		return fmt.Errorf("no column is named %q", pattern)
	}
	for _, i := range found {
		chosen[i] = value
	}
	return nil
}

// columnNames lists the names of the columns, or the first of many.
func columnNames(schema *arrow.Schema) string {
	const most = 50
	var names []string
	for _, f := range schema.Fields()[:min(schema.NumFields(), most)] {
		names = append(names, fmt.Sprintf("%q", f.Name))
	}
	list := strings.Join(names, ", ")
	if more := schema.NumFields() - most; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return list
}
