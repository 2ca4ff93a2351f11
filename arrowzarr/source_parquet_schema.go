package arrowzarr

import (
	"errors"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/arrow-go/v18/parquet/schema"
	"golang.org/x/sync/errgroup"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/parquetcolumn"
)

// newArrowReader returns arrow-go's reader of a file. If arrow-go refuses the schema,
// groups that are no valid list, map or variant are read as the lists and structs that
// they are without that annotation.
func newArrowReader(f *file.Reader, properties pqarrow.ArrowReadProperties, mem memory.Allocator) (*pqarrow.FileReader, error) {
	r, err := pqarrow.NewFileReader(f, properties, mem)
	if err == nil {
		return r, nil
	}
	footer := f.MetaData()
	at, changed := 0, false
	var visit func(n schema.Node)
	visit = func(n schema.Node) {
		element := footer.FileMetaData.Schema[at] // parents are before their children
		at++
		group, ok := n.(*schema.GroupNode)
		if !ok {
			return
		}
		if !isValidGroup(group) {
			element.ConvertedType, element.LogicalType, changed = nil, nil, true
		}
		for i := range group.NumFields() {
			visit(group.Field(i))
		}
	}
	if visit(footer.Schema.Root()); !changed {
		return nil, err
	}
	root, failed := schema.FromParquet(footer.FileMetaData.Schema)
	if failed != nil {
		return nil, errors.Join(err, failed)
	}
	footer.Schema = schema.NewSchema(root.(*schema.GroupNode))
	return pqarrow.NewFileReader(f, properties, mem)
}

// isValidGroup reports whether arrow-go reads a group as the list or map that it is said to
// be. Any variant may be the one that it refuses.
func isValidGroup(n *schema.GroupNode) bool {
	t := n.LogicalType()
	isMap := t.Equals(schema.MapLogicalType{})
	switch {
	case t.Equals(schema.VariantLogicalType{}):
		return false
	case !isMap && !t.Equals(schema.NewListLogicalType()):
		return true
	case n.NumFields() != 1 || n.Field(0).RepetitionType() != parquet.Repetitions.Repeated:
		return false
	case !isMap:
		return true // a list inside of a list may be repeated
	}
	entries, ok := n.Field(0).(*schema.GroupNode)
	return ok && n.RepetitionType() != parquet.Repetitions.Repeated && (entries.NumFields() == 1 || entries.NumFields() == 2) &&
		entries.Field(0).RepetitionType() == parquet.Repetitions.Required
}

// correctLists gives a field the types that the specification says of old forms of lists,
// and that arrow-go does not infer: the elements of a repeated field without annotation have
// its name and are never null, and a list inside of a repeated group "array" is one.
func correctLists(f *pqarrow.SchemaField, n schema.Node) {
	switch t := f.Field.Type.(type) {
	case *arrow.StructType:
		correctFields(f, n)
	case *arrow.MapType:
		if entries, ok := onlyField(n); ok && len(f.Children) == 1 {
			correctFields(&f.Children[0], entries)
			if entry, ok := f.Children[0].Field.Type.(*arrow.StructType); ok && entry.NumFields() == 2 {
				made := arrow.MapOfFields(entry.Field(0), entry.Field(1))
				made.KeysSorted = t.KeysSorted
				f.Field.Type = made
			}
		}
	case *arrow.ListType:
		element := &f.Children[0]
		if n.RepetitionType() == parquet.Repetitions.Repeated {
			correctFields(element, n)
			element.Field.Name, element.Field.Nullable = n.Name(), false
		} else if repeated, ok := onlyField(n); ok {
			correctElement(element, repeated)
		}
		f.Field.Type = arrow.ListOfField(*element.Field)
	}
}

// correctElement is correctLists for the element of an annotated list.
func correctElement(element *pqarrow.SchemaField, repeated schema.Node) {
	child, ok := onlyField(repeated)
	if !ok {
		correctFields(element, repeated)
		return
	}
	isList := repeated.LogicalType().Equals(schema.NewListLogicalType()) &&
		child.Type() == schema.Primitive && child.RepetitionType() == parquet.Repetitions.Repeated
	switch _, isStruct := element.Field.Type.(*arrow.StructType); {
	case isStruct && isList && len(element.Children) == 1:
		id := element.Field.Metadata
		*element = element.Children[0]
		correctLists(element, child)
		element.Field.Name, element.Field.Nullable, element.Field.Metadata = repeated.Name(), false, id
	case isStruct && len(element.Children) == 1 && element.Field.Name == repeated.Name():
		correctFields(element, repeated)
	default:
		correctLists(element, child)
	}
}

// correctFields corrects the fields of a struct.
func correctFields(f *pqarrow.SchemaField, n schema.Node) {
	group, ok := n.(*schema.GroupNode)
	if t, isStruct := f.Field.Type.(*arrow.StructType); !ok || !isStruct || group.NumFields() != t.NumFields() || len(f.Children) != t.NumFields() {
		return
	}
	fields := make([]arrow.Field, len(f.Children))
	for i := range f.Children {
		correctLists(&f.Children[i], group.Field(i))
		fields[i] = *f.Children[i].Field
	}
	f.Field.Type = arrow.StructOf(fields...)
}

// onlyField returns the field of a group that has one.
func onlyField(n schema.Node) (schema.Node, bool) {
	group, ok := n.(*schema.GroupNode)
	if !ok || group.NumFields() != 1 {
		return nil, false
	}
	return group.Field(0), true
}

// chooseInt96Units makes columns of INT96 with times that nanoseconds of 64 bits cannot hold,
// such as the year 9999, columns of microseconds. The footer does not say which times there
// are, so these columns are read.
func (s *parquetSource) chooseInt96Units() error {
	var group errgroup.Group
	group.SetLimit(s.jobs)
	for i := range s.arrow.Manifest.Fields {
		field := &s.arrow.Manifest.Fields[i]
		// Those inside of nested types are rare, and their times beyond nanoseconds an error.
		if !field.IsLeaf() || s.reader.MetaData().Schema.Column(field.ColIndex).PhysicalType() != parquet.Types.Int96 {
			continue
		}
		group.Go(func() error {
			return catchPanic(func() error {
				err := s.readTimes(*field)
				if t, ok := field.Field.Type.(*arrow.TimestampType); ok && errors.Is(err, parquetcolumn.ErrTimeRange) {
					field.Field.Type = &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: t.TimeZone}
				}
				return nil // the conversion reports other errors
			})
		})
	}
	return group.Wait()
}

// readTimes reads a column until its first error.
func (s *parquetSource) readTimes(field pqarrow.SchemaField) error {
	footer := s.reader.MetaData()
	groups := make([]int, footer.NumRowGroups())
	for g := range groups {
		groups[g] = g
	}
	options := &parquetcolumn.Options{Source: s.file, Size: s.file.size, Memory: s.unzeroed, MaxPage: s.limit, Buffer: s.readSize}
	column, err := parquetcolumn.New(field, footer, groups, options)
	if err != nil {
		return err
	}
	defer column.Close()
	for _, g := range groups {
		for left := footer.RowGroup(g).NumRows(); left > 0; {
			rows := min(left, s.batchRows)
			if err := column.ReadLeaf(0, rows); err != nil {
				return err
			}
			times, err := column.Array()
			if err != nil {
				return err
			}
			times.Release()
			left -= rows
		}
	}
	return nil
}
