package parquet

import (
	"errors"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/arrow-go/v18/parquet/schema"
	"golang.org/x/sync/errgroup"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/arrowdata"
	"github.com/quiver-gpu/quiver/arrowzarr/internal/source/parquet/parquetcolumn"
)

// simplifySchema removes from the schema what arrow-go does not read: groups without columns,
// which hold no values and which it takes for columns, and the annotation of decimals with
// more digits than Arrow's have, which are then bytes.
func simplifySchema(footer *metadata.FileMetaData) error {
	elements := footer.FileMetaData.Schema
	kept, at, changed := elements[:0:0], 0, false
	var visit func()
	visit = func() {
		if at >= len(elements) {
			return
		}
		element, place := elements[at], len(kept)
		kept = append(kept, element)
		if at++; element.IsSetType() {
			digits := element.GetPrecision()
			if t := element.GetLogicalType(); t != nil && t.IsSetDECIMAL() {
				digits = max(digits, t.GetDECIMAL().GetPrecision())
			}
			if digits > maxDecimalDigits {
				element.ConvertedType, element.LogicalType, element.Precision, element.Scale, changed = nil, nil, nil, nil, true
			}
			return
		}
		var children int32
		for range element.GetNumChildren() {
			before := len(kept)
			if visit(); len(kept) > before {
				children++
			}
		}
		if children == 0 && place > 0 {
			kept, changed = kept[:place], true
			return
		}
		element.NumChildren = &children
	}
	if visit(); !changed {
		return nil
	}
	footer.FileMetaData.Schema = kept
	return remakeSchema(footer)
}

// maxDecimalDigits is the precision of decimal256.
const maxDecimalDigits = 76

// remakeSchema makes the schema of the elements of a footer that has been changed.
func remakeSchema(footer *metadata.FileMetaData) error {
	root, err := schema.FromParquet(footer.FileMetaData.Schema)
	if err != nil {
		return err
	}
	footer.Schema = schema.NewSchema(root.(*schema.GroupNode))
	return nil
}

// newArrowReader returns arrow-go's reader of a file. If arrow-go refuses the schema,
// groups that are no valid list, map or variant are read as the lists and structs that
// they are without that annotation. It returns the maps that correctLists makes of them again.
func newArrowReader(f *file.Reader, properties pqarrow.ArrowReadProperties, mem memory.Allocator) (*pqarrow.FileReader, repeatedMaps, error) {
	r, err := pqarrow.NewFileReader(f, properties, mem)
	if err == nil {
		return r, nil, nil
	}
	maps := repeatedMaps{}
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
			if isMapGroup(group) {
				maps[group.Path()] = true
			}
			element.ConvertedType, element.LogicalType, changed = nil, nil, true
		}
		for i := range group.NumFields() {
			visit(group.Field(i))
		}
	}
	if visit(footer.Schema.Root()); !changed {
		return nil, nil, err
	}
	if failed := remakeSchema(footer); failed != nil {
		return nil, nil, errors.Join(err, failed)
	}
	r, err = pqarrow.NewFileReader(f, properties, mem)
	return r, maps, err
}

// repeatedMaps are the paths of repeated groups that have been maps, see newArrowReader.
// parquet-avro writes lists of maps so.
type repeatedMaps map[string]bool

// has reports whether a repeated group is a map, or has been one.
func (m repeatedMaps) has(n schema.Node) bool {
	group, ok := n.(*schema.GroupNode)
	return ok && (m[group.Path()] || isMapGroup(group))
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
	return isMapGroup(n) && n.RepetitionType() != parquet.Repetitions.Repeated
}

// isMapGroup reports whether a group is a map and has its entries.
func isMapGroup(n *schema.GroupNode) bool {
	if !n.LogicalType().Equals(schema.MapLogicalType{}) || n.NumFields() != 1 || n.Field(0).RepetitionType() != parquet.Repetitions.Repeated {
		return false
	}
	entries, ok := n.Field(0).(*schema.GroupNode)
	return ok && (entries.NumFields() == 1 || entries.NumFields() == 2) && entries.Field(0).RepetitionType() == parquet.Repetitions.Required
}

// correctLists gives a field the types that the specification says of old forms of lists,
// and that arrow-go does not infer: elements that are a repeated field have its name and are
// never null, and a list or a map inside of a repeated group "array" is one.
func (m repeatedMaps) correctLists(f *pqarrow.SchemaField, n schema.Node) {
	switch t := f.Field.Type.(type) {
	case *arrow.StructType:
		m.correctFields(f, n)
	case *arrow.MapType:
		if entries, ok := onlyField(n); ok && len(f.Children) == 1 {
			m.correctFields(&f.Children[0], entries)
			if entry, ok := f.Children[0].Field.Type.(*arrow.StructType); ok && entry.NumFields() == 2 {
				made := arrow.MapOfFields(entry.Field(0), entry.Field(1))
				made.KeysSorted = t.KeysSorted
				f.Field.Type = made
			}
		}
	case *arrow.ListType:
		element := &f.Children[0]
		if n.RepetitionType() == parquet.Repetitions.Repeated {
			m.correctFields(element, n)
			element.Field.Name, element.Field.Nullable = n.Name(), false
		} else if repeated, ok := onlyField(n); ok {
			m.correctElement(element, repeated)
		}
		f.Field.Type = arrow.ListOfField(*element.Field)
	}
}

// correctElement is correctLists for the element of an annotated list.
func (m repeatedMaps) correctElement(element *pqarrow.SchemaField, repeated schema.Node) {
	child, ok := onlyField(repeated)
	if !ok {
		m.correctFields(element, repeated)
		element.Field.Nullable = false
		return
	}
	isList := repeated.LogicalType().Equals(schema.NewListLogicalType()) &&
		child.Type() == schema.Primitive && child.RepetitionType() == parquet.Repetitions.Repeated
	switch _, isStruct := element.Field.Type.(*arrow.StructType); {
	case isStruct && isList && len(element.Children) == 1:
		id := element.Field.Metadata
		*element = element.Children[0]
		m.correctLists(element, child)
		element.Field.Name, element.Field.Nullable, element.Field.Metadata = repeated.Name(), false, id
	case isStruct && m.has(repeated) && len(element.Children) == 1:
		id := element.Field.Metadata
		m.correctFields(element, repeated)
		*element = element.Children[0]
		if entries, ok := element.Children[0].Field.Type.(*arrow.StructType); ok && entries.NumFields() == 2 {
			element.Field.Type = arrow.MapOfFields(entries.Field(0), entries.Field(1))
		}
		element.Field.Name, element.Field.Nullable, element.Field.Metadata = repeated.Name(), false, id
	case isStruct && len(element.Children) == 1 && element.Field.Name == repeated.Name():
		m.correctFields(element, repeated)
		element.Field.Nullable = false
	default:
		m.correctLists(element, child)
	}
}

// correctFields corrects the fields of a struct.
func (m repeatedMaps) correctFields(f *pqarrow.SchemaField, n schema.Node) {
	group, ok := n.(*schema.GroupNode)
	if t, isStruct := f.Field.Type.(*arrow.StructType); !ok || !isStruct || group.NumFields() != t.NumFields() || len(f.Children) != t.NumFields() {
		return
	}
	fields := make([]arrow.Field, len(f.Children))
	for i := range f.Children {
		m.correctLists(&f.Children[i], group.Field(i))
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
func (s *Source) chooseInt96Units() error {
	var group errgroup.Group
	group.SetLimit(s.jobs)
	for i := range s.arrow.Manifest.Fields {
		field := &s.arrow.Manifest.Fields[i]
		// Those inside of nested types are rare, and their times beyond nanoseconds an error.
		if !field.IsLeaf() || s.reader.MetaData().Schema.Column(field.ColIndex).PhysicalType() != parquet.Types.Int96 {
			continue
		}
		group.Go(func() error {
			return arrowdata.CatchPanic(func() error {
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
func (s *Source) readTimes(field pqarrow.SchemaField) error {
	footer := s.reader.MetaData()
	groups := make([]int, footer.NumRowGroups())
	for g := range groups {
		groups[g] = g
	}
	options := &parquetcolumn.Options{Source: s.file, Size: s.file.Size, Memory: s.unzeroed, MaxPage: s.limit, Buffer: s.readSize}
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
