package cdevice

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
)

// ExportSchema fills out with the fields and metadata of a schema, as a struct type.
// An extension type is exported as its storage type, with its name in the metadata.
// ExportSchema returns an error wrapping arrow.ErrNotImplemented for an extension
// type over another, and arrow.ErrInvalid for a name with a zero byte. Both name the
// field.
func ExportSchema(schema *arrow.Schema, out *Schema) error {
	if schema == nil {
		return fmt.Errorf("cdevice.ExportSchema: %w", invalidf("nil schema"))
	}
	rows := arrow.Field{Type: arrow.StructOf(schema.Fields()...), Metadata: schema.Metadata()}
	return exportField(rows, out, "cdevice.ExportSchema")
}

// ExportField fills out with the name, type, nullability and metadata of an array's
// field. Otherwise it is ExportSchema.
func ExportField(field arrow.Field, out *Schema) error {
	return exportField(field, out, fmt.Sprintf("cdevice.ExportField: %q", field.Name))
}

func exportField(field arrow.Field, out *Schema, operation string) error {
	if err := checkSupported(); err != nil {
		return err
	}
	if out == nil {
		return errNilStruct(operation)
	}
	node, err := newSchemaNode(field, rootPath)
	if err != nil {
		return fmt.Errorf("%s: %w", operation, err)
	}
	node.publish()
	*out = node.schema
	return nil
}

// schemaNode is a Schema that C uses, and the memory that it points to.
type schemaNode struct {
	schema                 Schema // the parent points to it; that of the root is copied
	format, name, metadata []byte
	children               []*schemaNode
	pointers               []uintptr // to the children
	dictionary             *schemaNode
	pinned                 runtime.Pinner
}

func newSchemaNode(field arrow.Field, at path) (*schemaNode, error) {
	if field.Type == nil {
		return nil, at.invalidf("nil type")
	}
	n := &schemaNode{}
	metadata := field.Metadata
	if t, ok := field.Type.(arrow.ExtensionType); ok {
		if _, again := t.StorageType().(arrow.ExtensionType); again {
			return nil, at.wrap(fmt.Errorf("%s over an extension type: %w", t, arrow.ErrNotImplemented))
		}
		metadata = withExtension(metadata, t)
	}
	storage := storageOf(field.Type)
	format, flags, err := formatOf(storage)
	if err != nil {
		return nil, at.wrap(err)
	}
	if field.Nullable {
		flags |= flagNullable
	}
	n.schema.flags = flags
	if n.metadata, err = encodeMetadata(metadata); err != nil {
		return nil, at.wrap(err)
	}
	if strings.ContainsRune(field.Name+format, 0) {
		return nil, at.invalidf("zero byte in a name or time zone")
	}
	n.format, n.name = append([]byte(format), 0), append([]byte(field.Name), 0)
	for _, child := range fieldsOf(storage) {
		c, err := newSchemaNode(child, at.child(child.Name))
		if err != nil {
			return nil, err
		}
		n.children = append(n.children, c)
	}
	if t, ok := storage.(*arrow.DictionaryType); ok {
		n.dictionary, err = newSchemaNode(arrow.Field{Type: t.ValueType, Nullable: true}, at.child("dictionary"))
	}
	return n, err
}

// publish pins the node and all nodes below it, and registers them for C.
func (n *schemaNode) publish() {
	n.pinned.Pin(n)
	s := &n.schema
	s.format, s.name, s.metadata = pinSlice(&n.pinned, n.format), pinSlice(&n.pinned, n.name), pinSlice(&n.pinned, n.metadata)
	for _, child := range n.children {
		child.publish()
		n.pointers = append(n.pointers, addressOf(&child.schema))
	}
	s.nChildren, s.children = int64(len(n.pointers)), pinSlice(&n.pinned, n.pointers)
	if n.dictionary != nil {
		n.dictionary.publish()
		s.dictionary = addressOf(&n.dictionary.schema)
	}
	s.release, s.private = functions().releaseSchema, newHandle(n)
}

// releaseSchema is the release function of every exported Schema.
func releaseSchema(s *Schema) {
	n, ok := removeHandle[*schemaNode](s.private)
	if !ok {
		return
	}
	for _, child := range n.children {
		if !child.schema.Released() { // not moved away
			releaseSchema(&child.schema)
		}
	}
	if n.dictionary != nil && !n.dictionary.schema.Released() {
		releaseSchema(&n.dictionary.schema)
	}
	n.pinned.Unpin()
	s.release = 0
}

// maxDepth is the maximum nesting of fields. It ends the walk over a struct that
// contains itself.
const maxDepth = 64

// ImportSchema imports the schema of batches, which must be a struct type. Extension
// types that are registered with arrow-go are imported as such, others as their
// storage type, with their name in the metadata. ImportSchema returns an error
// wrapping arrow.ErrInvalid, which names the field, if the struct is malformed or
// arrow-go lacks the type.
func ImportSchema(in *Schema) (*arrow.Schema, error) {
	rows, err := importField(in, "cdevice.ImportSchema")
	if err != nil {
		return nil, err
	}
	t, ok := rows.Type.(*arrow.StructType)
	if !ok {
		return nil, fmt.Errorf("cdevice.ImportSchema: got a schema of %s, want a struct: %w", rows.Type, arrow.ErrInvalid)
	}
	return arrow.NewSchema(t.Fields(), &rows.Metadata), nil
}

// ImportField imports the schema of an array. Otherwise it is ImportSchema.
func ImportField(in *Schema) (arrow.Field, error) { return importField(in, "cdevice.ImportField") }

func importField(in *Schema, operation string) (field arrow.Field, err error) {
	if err := checkSupported(); err != nil {
		return arrow.Field{}, err
	}
	if in == nil || in.Released() {
		return arrow.Field{}, fmt.Errorf("%s: the struct is nil or released: %w", operation, arrow.ErrInvalid)
	}
	s := move(in)
	defer s.Release()
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", operation, err)
		}
	}()
	defer panicToError(&err)
	return readSchema(s, rootPath, 0)
}

// readSchema copies a Schema, which may be a child.
func readSchema(s *Schema, at path, depth int) (arrow.Field, error) {
	fail := func(err error) (arrow.Field, error) { return arrow.Field{}, err }
	switch {
	case depth > maxDepth:
		return fail(at.invalidf("fields are nested deeper than %d", maxDepth))
	case s.Released():
		return fail(at.invalidf("the schema is released"))
	case s.format == 0:
		return fail(at.invalidf("NULL format"))
	case s.nChildren < 0 || s.nChildren > 0 && s.children == 0:
		return fail(at.invalidf("%d children at %#x", s.nChildren, s.children))
	}
	format := cString(s.format)
	field := arrow.Field{Name: cString(s.name), Nullable: s.flags&flagNullable != 0}
	var err error
	if field.Metadata, err = decodeMetadata(s.metadata); err != nil {
		return fail(at.wrap(err))
	}
	children, err := readChildren(s, at, depth)
	if err != nil {
		return fail(err)
	}
	if field.Type, err = parseFormat(format, s.flags, children); err != nil {
		return fail(at.wrap(err))
	}
	if s.dictionary != 0 {
		values, err := readSchema((*Schema)(pointer(s.dictionary)), at.child("dictionary"), depth+1)
		if err != nil {
			return fail(err)
		}
		if !arrow.IsInteger(field.Type.ID()) {
			return fail(at.invalidf("indices of a dictionary: got %s, want integers", field.Type))
		}
		field.Type = &arrow.DictionaryType{IndexType: field.Type, ValueType: values.Type, Ordered: s.flags&flagOrdered != 0}
	}
	extension, err := extensionOf(field.Type, field.Metadata)
	if err != nil {
		return fail(at.wrap(errors.Join(err, arrow.ErrInvalid)))
	}
	if extension != nil {
		field.Type, field.Metadata = extension, withoutExtension(field.Metadata)
	}
	return field, nil
}

func readChildren(s *Schema, at path, depth int) ([]arrow.Field, error) {
	var fields []arrow.Field
	for i, address := range readPointers(s.children, s.nChildren) {
		if address == 0 {
			return nil, at.invalidf("child %d is NULL", i)
		}
		child := (*Schema)(pointer(address))
		field, err := readSchema(child, at.child(cString(child.name)), depth+1)
		if err != nil {
			return nil, err
		}
		fields = append(fields, field)
	}
	return fields, nil
}

// The metadata keys of extension types (Columnar.html, "Extension Types").
const (
	extensionName = "ARROW:extension:name"
	extensionData = "ARROW:extension:metadata"
)

// encodeMetadata encodes pairs for C: their number, then the length and bytes of
// each key and value, in native byte order. It returns nil if there are no pairs.
func encodeMetadata(m arrow.Metadata) ([]byte, error) {
	if m.Len() == 0 {
		return nil, nil
	}
	out := binary.NativeEndian.AppendUint32(nil, uint32(m.Len()))
	for i, key := range m.Keys() {
		for _, text := range []string{key, m.Values()[i]} {
			if len(text) > math.MaxInt32 {
				return nil, fmt.Errorf("metadata of %d bytes: %w", len(text), arrow.ErrInvalid)
			}
			out = append(binary.NativeEndian.AppendUint32(out, uint32(len(text))), text...)
		}
	}
	return out, nil
}

// decodeMetadata decodes the metadata at an address, which may be 0.
func decodeMetadata(address uintptr) (arrow.Metadata, error) {
	if address == 0 {
		return arrow.Metadata{}, nil
	}
	// Lengths may be misaligned. No pointer past the last string is made.
	read := func(n int) []byte {
		if n == 0 {
			return nil
		}
		b := unsafe.Slice((*byte)(pointer(address)), n)
		address += uintptr(n)
		return b
	}
	number := func() (int, error) {
		n := int32(binary.NativeEndian.Uint32(read(4)))
		if n < 0 {
			return 0, fmt.Errorf("length of metadata: got %d: %w", n, arrow.ErrInvalid)
		}
		return int(n), nil
	}
	text := func() (string, error) {
		n, err := number()
		if err != nil {
			return "", err
		}
		return string(read(n)), nil
	}
	pairs, err := number()
	if err != nil {
		return arrow.Metadata{}, err
	}
	var keys, values []string
	for range pairs {
		key, err := text()
		if err != nil {
			return arrow.Metadata{}, err
		}
		value, err := text()
		if err != nil {
			return arrow.Metadata{}, err
		}
		keys, values = append(keys, key), append(values, value)
	}
	return arrow.NewMetadata(keys, values), nil
}

// withExtension adds the keys of an extension type.
func withExtension(m arrow.Metadata, t arrow.ExtensionType) arrow.Metadata {
	plain := withoutExtension(m)
	return arrow.NewMetadata(
		append(plain.Keys(), extensionName, extensionData),
		append(plain.Values(), t.ExtensionName(), t.Serialize()))
}

func withoutExtension(m arrow.Metadata) arrow.Metadata {
	var keys, values []string
	for i, key := range m.Keys() {
		if key != extensionName && key != extensionData {
			keys, values = append(keys, key), append(values, m.Values()[i])
		}
	}
	return arrow.NewMetadata(keys, values)
}

// extensionOf returns the extension type that the metadata names over a storage
// type, or nil if it names none or an unregistered one.
func extensionOf(storage arrow.DataType, m arrow.Metadata) (arrow.ExtensionType, error) {
	i := m.FindKey(extensionName)
	if i < 0 {
		return nil, nil
	}
	known := arrow.GetExtensionType(m.Values()[i])
	if known == nil {
		return nil, nil
	}
	data, _ := m.GetValue(extensionData)
	t, err := known.Deserialize(storage, data)
	if err != nil {
		return nil, fmt.Errorf("extension type %q: %w", known.ExtensionName(), err)
	}
	return t, nil
}
