package arrowipc

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// EmptyListType is the fixed_size_list of size 0, which arrow-go panics to make: an
// extension type over lists that have no elements. Messages have the format's own type
// and layout; arrow-go's schemas and arrays have this one.
type EmptyListType struct{ arrow.ExtensionBase }

// NewEmptyListType returns the type of fixed-size lists of no elements of a field. It
// returns an error wrapping arrow.ErrInvalid if the field has no type.
func NewEmptyListType(elem arrow.Field) (*EmptyListType, error) {
	if elem.Type == nil {
		return nil, fmt.Errorf("arrowipc.NewEmptyListType: field %q without a type: %w", elem.Name, arrow.ErrInvalid)
	}
	return &EmptyListType{arrow.ExtensionBase{Storage: arrow.ListOfField(elem)}}, nil
}

// ElemField returns the field of the elements, without a type for a nil or zero
// EmptyListType.
func (t *EmptyListType) ElemField() arrow.Field {
	if t == nil || t.Storage == nil {
		return arrow.Field{}
	}
	return t.Storage.(*arrow.ListType).ElemField()
}

// ArrayType returns the type of arrays, as arrow.ExtensionType requires.
func (*EmptyListType) ArrayType() reflect.Type { return reflect.TypeFor[emptyListArray]() }

// ExtensionName returns a name that no message has: see EmptyListType.
func (*EmptyListType) ExtensionName() string { return "quiver.fixed_size_list_0" }

// Serialize returns no metadata.
func (*EmptyListType) Serialize() string { return "" }

// Deserialize returns the type over a list type.
func (*EmptyListType) Deserialize(storage arrow.DataType, _ string) (arrow.ExtensionType, error) {
	list, ok := storage.(*arrow.ListType)
	if !ok {
		return nil, fmt.Errorf("arrowipc.EmptyListType: storage of type %v, want a list: %w", storage, arrow.ErrInvalid)
	}
	return NewEmptyListType(list.ElemField())
}

// ExtensionEquals reports whether other is the type of lists of equal elements.
func (t *EmptyListType) ExtensionEquals(other arrow.ExtensionType) bool {
	o, ok := other.(*EmptyListType)
	if !ok || t == nil || o == nil {
		return ok && t == o
	}
	return arrow.TypeEqual(t.Storage, o.Storage)
}

// String returns the type as arrow-go writes that of other sizes.
func (t *EmptyListType) String() string {
	elem := t.ElemField()
	nullable := ""
	if elem.Nullable {
		nullable = ", nullable"
	}
	return fmt.Sprintf("fixed_size_list<%s: %s%s>[0]", elem.Name, elem.Type, nullable)
}

// emptyListArray is the array of an EmptyListType.
type emptyListArray struct{ array.ExtensionArrayBase }

// emptyListOf returns the EmptyListType that defines the layout of a type, or nil.
func emptyListOf(dtype arrow.DataType) *EmptyListType {
	for {
		ext, ok := dtype.(arrow.ExtensionType)
		if !ok {
			return nil
		}
		if t, ok := ext.(*EmptyListType); ok {
			return t
		}
		dtype = ext.StorageType()
	}
}

// The members of enum Type in Schema.fbs that are exchanged for arrow-go. Their tables
// are alike: a struct has no members, and the size 0 is absent. The layouts are, too,
// except that the child of a list of size 0 is shorter.
const (
	flatStruct        = 13
	flatFixedSizeList = 16
)

// typeField is where the metadata of a schema has the type of a field. Fields are in
// the order of the metadata, outer before inner.
type typeField struct {
	position int // of the member of enum Type
	empty    bool
}

// parseType adds the type of the field at a position.
func (f *flatReader) parseType(s *flatSchema, field int) {
	at := typeField{position: f.field(field, 2)}
	if table, ok := f.table(field, 3); ok && at.position >= 0 {
		at.empty = f.integer(field, 2, 1) == flatFixedSizeList && f.integer(table, 0, 4) == 0
	}
	s.types = append(s.types, at)
	s.emptyLists = s.emptyLists || at.empty
}

// exchangeTypes returns the metadata of a schema with another type of some fields.
func (s *flatSchema) exchangeTypes(metadata []byte, to byte, chosen func(i int) bool) []byte {
	changed := slices.Clone(metadata)
	for i, t := range s.types {
		if chosen(i) && t.position >= 0 {
			changed[t.position] = to
		}
	}
	return changed
}

// withoutEmptyLists returns a schema with structs for lists of size 0, and the numbers
// of these fields in the order of the metadata.
func withoutEmptyLists(schema *arrow.Schema) (*arrow.Schema, map[int]bool, error) {
	found := map[int]bool{}
	plain, err := mapFields(schema, func(i int, t arrow.DataType) (arrow.DataType, error) {
		empty, ok := t.(*EmptyListType)
		if !ok {
			return t, nil
		}
		found[i] = true
		return arrow.StructOf(empty.ElemField()), nil
	})
	return plain, found, err
}

// withEmptyLists returns a schema in which some fields, which are structs, are lists of
// size 0.
func (s *flatSchema) withEmptyLists(schema *arrow.Schema) (*arrow.Schema, error) {
	return mapFields(schema, func(i int, t arrow.DataType) (arrow.DataType, error) {
		if i >= len(s.types) || !s.types[i].empty {
			return t, nil
		}
		pair, ok := t.(*arrow.StructType)
		if !ok || pair.NumFields() != 1 {
			return nil, fmt.Errorf("a fixed_size_list without one field of elements: %w", arrow.ErrInvalid)
		}
		return NewEmptyListType(pair.Field(0))
	})
}

// fieldMapper replaces types of fields, which it counts in the order of the metadata.
type fieldMapper struct {
	next    int
	replace func(i int, t arrow.DataType) (arrow.DataType, error)
}

// mapFields returns a schema with the types that replace returns, of inner fields first.
// It passes the numbers of the fields, and their types without extensions and dictionaries.
func mapFields(schema *arrow.Schema, replace func(i int, t arrow.DataType) (arrow.DataType, error)) (*arrow.Schema, error) {
	m := fieldMapper{replace: replace}
	fields, err := m.fields(schema.Fields())
	if err != nil {
		return nil, err
	}
	metadata := schema.Metadata()
	return arrow.NewSchemaWithEndian(fields, &metadata, schema.Endianness()), nil
}

func (m *fieldMapper) fields(fields []arrow.Field) ([]arrow.Field, error) {
	mapped := slices.Clone(fields)
	for i, f := range fields {
		number := m.next
		m.next++
		var err error
		if mapped[i].Type, err = m.field(number, f.Type); err != nil {
			return nil, fmt.Errorf("field %q: %w", f.Name, err)
		}
	}
	return mapped, nil
}

// field returns the type of field i.
func (m *fieldMapper) field(i int, dtype arrow.DataType) (arrow.DataType, error) {
	switch t := dtype.(type) {
	case *EmptyListType:
		inner, err := m.fields([]arrow.Field{t.ElemField()})
		if err != nil {
			return nil, err
		}
		made, err := NewEmptyListType(inner[0])
		if err != nil {
			return nil, err
		}
		return m.replace(i, made)
	case arrow.ExtensionType:
		storage, err := m.field(i, t.StorageType())
		if err != nil || arrow.TypeEqual(storage, t.StorageType()) {
			return t, err
		}
		return t.Deserialize(storage, t.Serialize())
	case *arrow.DictionaryType:
		values, err := m.field(i, t.ValueType)
		if err != nil || arrow.TypeEqual(values, t.ValueType) {
			return t, err
		}
		return &arrow.DictionaryType{IndexType: t.IndexType, ValueType: values, Ordered: t.Ordered}, nil
	case arrow.NestedType:
		fields := t.Fields()
		inner, err := m.fields(fields)
		if err != nil {
			return nil, err
		}
		if slices.EqualFunc(inner, fields, func(a, b arrow.Field) bool { return arrow.TypeEqual(a.Type, b.Type) }) {
			return m.replace(i, t)
		}
		made, err := withFields(t, inner)
		if err != nil {
			return nil, err
		}
		return m.replace(i, made)
	}
	return m.replace(i, dtype)
}

// withFields returns a nested type with other fields, which have the names of its own.
func withFields(dtype arrow.NestedType, fields []arrow.Field) (arrow.DataType, error) {
	switch t := dtype.(type) {
	case *arrow.StructType:
		return arrow.StructOf(fields...), nil
	case *arrow.ListType:
		return arrow.ListOfField(fields[0]), nil
	case *arrow.LargeListType:
		return arrow.LargeListOfField(fields[0]), nil
	case *arrow.ListViewType:
		return arrow.ListViewOfField(fields[0]), nil
	case *arrow.LargeListViewType:
		return arrow.LargeListViewOfField(fields[0]), nil
	case *arrow.FixedSizeListType:
		return arrow.FixedSizeListOfField(t.Len(), fields[0]), nil
	case *arrow.MapType:
		pair := fields[0].Type.(*arrow.StructType)
		made := arrow.MapOfFields(pair.Field(0), pair.Field(1))
		made.KeysSorted = t.KeysSorted
		return made, nil
	case *arrow.SparseUnionType:
		return arrow.SparseUnionOf(fields, t.TypeCodes()), nil
	case *arrow.DenseUnionType:
		return arrow.DenseUnionOf(fields, t.TypeCodes()), nil
	case *arrow.RunEndEncodedType:
		made := arrow.RunEndEncodedOf(fields[0].Type, fields[1].Type)
		made.ValueNullable = t.ValueNullable
		return made, nil
	}
	return nil, fmt.Errorf("fields of type %s: %w", dtype, arrow.ErrNotImplemented)
}

// maxEmptyLists is the most lists of size 0 in an array. The format has no bytes for
// them, so that a short message can claim any number, and their offsets take memory.
const maxEmptyLists = 1 << 26

// planEmptyLists assigns the child of lists of size 0, of which nothing is used.
func (p *planner) planEmptyLists(n *arrayNode, t *EmptyListType) error {
	if n.length > maxEmptyLists {
		return fmt.Errorf("%d lists of size 0, want at most %d in a batch: %w", n.length, maxEmptyLists, arrow.ErrInvalid)
	}
	n.emptyLists = true
	return p.planChildren(n, t.Storage.(*arrow.ListType), 0)
}

// zeroOffsets returns a buffer on the device with offsets of n lists of size 0. The
// decoder keeps it for later arrays. The caller owns one reference.
func (d *Decoder) zeroOffsets(n int) (*memory.Buffer, error) {
	need := 4 * (int64(n) + 1)
	if d.zeros == nil || d.zeros.Len() < need {
		grown, err := d.dev.Alloc(need)
		if err != nil {
			return nil, err
		}
		if _, err := grown.CopyFromHost(make([]byte, need), 0); err != nil {
			grown.Release()
			return nil, err
		}
		if d.zeros != nil {
			d.zeros.Release()
		}
		d.zeros = grown
	}
	return d.zeros.Arrow(), nil
}

// walkEmptyLists adds the child of lists of size 0. It returns an error if one has
// elements, which the format could not hold.
func (w *walker) walkEmptyLists(r elementRange, t *EmptyListType) error {
	children, err := r.children(1)
	if err != nil {
		return err
	}
	if r.length > 0 {
		var ends [2]int32
		for i, at := range [...]int{r.offset, r.offset + r.length} {
			b, err := bufferBytes(r.buffer(1), 4*int64(at), 4)
			if err != nil {
				return fmt.Errorf("offsets: %w", err)
			}
			ends[i] = int32(binary.NativeEndian.Uint32(b))
		}
		if ends[0] != ends[1] {
			return fmt.Errorf("%d elements in lists of size 0: %w", ends[1]-ends[0], arrow.ErrInvalid)
		}
	}
	none, err := children[0].slice(0, 0)
	if err != nil {
		return err
	}
	return w.walkChild(none, t.ElemField())
}

var _ arrow.ExtensionType = (*EmptyListType)(nil)
