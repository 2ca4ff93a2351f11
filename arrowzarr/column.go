package arrowzarr

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/zarr"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// form is the way a column's values are stored.
type form int

const (
	formFixed      form = iota // elements of a fixed width: one N-d array
	formText                   // utf8: an array of strings
	formBinary                 // binary: an array of byte strings
	formDictionary             // codes and categories
	formNull                   // nothing but missing values
)

// column is the plan for one column: what it is in Arrow, and what it becomes.
type column struct {
	name   string
	field  arrow.Field
	kind   arrow.DataType // the type without extensions
	form   form
	layout fixedLayout        // of formFixed, and of the codes of formDictionary
	tensor *ndview.TensorType // of a fixed_shape_tensor
}

// onDevice tells whether the column goes to the device. Text, and the codes of
// dictionaries, are encoded by the host, so sending them there and back would
// only cost time.
func (c *column) onDevice() bool { return c.form == formFixed }

// planColumns chooses the columns of a conversion and says what each becomes.
// No names means all. It returns, with the plans, their indices in the schema.
func planColumns(schema *arrow.Schema, names []string) ([]*column, []int, error) {
	fields, err := chooseFields(schema, names)
	if err != nil {
		return nil, nil, err
	}
	columns := make([]*column, len(fields))
	seen := map[string]bool{}
	for i, f := range fields {
		field := schema.Field(f)
		if seen[field.Name] {
			return nil, nil, failedf(PartInput, "column %q occurs more than once: a Zarr group has one child of a name", field.Name)
		}
		seen[field.Name] = true
		if columns[i], err = planColumn(field); err != nil {
			return nil, nil, failed(PartInput, err)
		}
	}
	return columns, fields, nil
}

func chooseFields(schema *arrow.Schema, names []string) ([]int, error) {
	if len(names) == 0 {
		fields := make([]int, schema.NumFields())
		for i := range fields {
			fields[i] = i
		}
		return fields, nil
	}
	var fields []int
	for _, name := range names {
		found := schema.FieldIndices(name)
		if len(found) == 0 {
			return nil, failedf(PartUsage, "no column is named %q: expected some of %s", name, strings.Join(columnNames(schema), ", "))
		}
		for _, f := range found {
			if !slices.Contains(fields, f) {
				fields = append(fields, f)
			}
		}
	}
	// The order of the columns is the input's, however they were asked for.
	slices.Sort(fields)
	return fields, nil
}

func columnNames(schema *arrow.Schema) []string {
	names := make([]string, schema.NumFields())
	for i, f := range schema.Fields() {
		names[i] = fmt.Sprintf("%q", f.Name)
	}
	return names
}

// longestName is how many bytes the name of a file has at most.
const longestName = 255

func planColumn(field arrow.Field) (*column, error) {
	if err := zarr.CheckName(field.Name); err != nil {
		return nil, fmt.Errorf("column %q: %w", field.Name, err)
	}
	switch { // that a directory cannot have
	case len(field.Name) > longestName:
		return nil, fmt.Errorf("column %.40q...: the name has %d bytes, where files have %d at most", field.Name, len(field.Name), longestName)
	case strings.HasPrefix(field.Name, store.TempPrefix):
		return nil, fmt.Errorf("column %q: names that begin with %q are for files that are being written", field.Name, store.TempPrefix)
	}
	c := &column{name: field.Name, field: field, kind: storage(field.Type)}
	if err := c.settle(); err != nil {
		return nil, fmt.Errorf("column %q of type %s: %w", field.Name, field.Type, err)
	}
	return c, nil
}

// settle finds the form of the column's type.
func (c *column) settle() (err error) {
	switch t := c.kind.(type) {
	case *arrow.NullType:
		c.form = formNull
		return nil
	case *arrow.StringType, *arrow.LargeStringType, *arrow.StringViewType:
		c.form = formText
		return nil
	case *arrow.BinaryType, *arrow.LargeBinaryType, *arrow.BinaryViewType:
		c.form = formBinary
		return nil
	case *arrow.DictionaryType:
		c.form = formDictionary
		if c.layout, err = codesLayout(t.IndexType); err != nil {
			return err
		}
		values, err := planColumn(categoriesField(t))
		if err == nil && (values.form == formNull || values.form == formDictionary) {
			err = fmt.Errorf("dictionary values of type %s have no Zarr form", t.ValueType)
		}
		return err
	}
	var ok bool
	if c.layout, ok = fixedLayoutOf(c.kind); !ok {
		return fmt.Errorf("the type has no Zarr form here (choose other columns with --columns)")
	}
	if c.tensor, err = tensorOf(c.field); err != nil || c.tensor == nil {
		return err
	}
	return c.layout.shapeAsTensors(c.tensor)
}

// categoriesField is the field of a dictionary's values.
func categoriesField(t *arrow.DictionaryType) arrow.Field {
	return arrow.Field{Name: "categories", Type: t.ValueType}
}
