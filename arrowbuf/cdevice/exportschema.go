package cdevice

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// ExportSchema fills out with the fields and metadata of a schema, as the struct
// type that its batches are. Extension types go as their storage, with their
// name in the metadata; one over another is arrow.ErrNotImplemented. A name with
// a zero byte in it is an error that is arrow.ErrInvalid. Both name the field.
func ExportSchema(schema *arrow.Schema, out *Schema) error {
	if schema == nil {
		return fmt.Errorf("exporting a schema: %w", refuse("there is none"))
	}
	rows := arrow.Field{Type: arrow.StructOf(schema.Fields()...), Metadata: schema.Metadata()}
	return exportField(rows, out, "exporting a schema")
}

// ExportField fills out with a field: the name, type, nullability and metadata
// of an array.
func ExportField(field arrow.Field, out *Schema) error {
	return exportField(field, out, fmt.Sprintf("exporting field %q", field.Name))
}

func exportField(field arrow.Field, out *Schema, doing string) error {
	if err := supported(); err != nil {
		return err
	}
	if out == nil {
		return nowhere(doing)
	}
	node, err := newSchemaNode(field, top)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	node.give()
	*out = node.schema
	return nil
}

// schemaNode is a Schema that C has, and what it points to.
type schemaNode struct {
	schema                 Schema // where the parent points to; the first is copied
	format, name, metadata []byte
	children               []*schemaNode
	pointers               []uintptr // to the children
	dictionary             *schemaNode
	pinned                 runtime.Pinner
}

func newSchemaNode(field arrow.Field, at path) (*schemaNode, error) {
	if field.Type == nil {
		return nil, at.refuse("a field without a type")
	}
	n := &schemaNode{}
	metadata := field.Metadata
	if t, ok := field.Type.(arrow.ExtensionType); ok {
		if _, again := t.StorageType().(arrow.ExtensionType); again {
			return nil, at.wrap(fmt.Errorf("%s over an extension type, which metadata cannot say: %w", t, arrow.ErrNotImplemented))
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
		return nil, at.refuse("a name or a time zone with a zero byte")
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

// give hands the node and all below it to C.
func (n *schemaNode) give() {
	n.pinned.Pin(n)
	s := &n.schema
	s.format, s.name, s.metadata = keep(&n.pinned, n.format), keep(&n.pinned, n.name), keep(&n.pinned, n.metadata)
	for _, child := range n.children {
		child.give()
		n.pointers = append(n.pointers, addressOf(&child.schema))
	}
	s.nChildren, s.children = int64(len(n.pointers)), keep(&n.pinned, n.pointers)
	if n.dictionary != nil {
		n.dictionary.give()
		s.dictionary = addressOf(&n.dictionary.schema)
	}
	s.release, s.private = functions().releaseSchema, give(n)
}

// endSchema is the release of every Schema.
func endSchema(s *Schema) {
	n, ok := takeBack[*schemaNode](s.private)
	if !ok {
		return
	}
	for _, child := range n.children {
		if !child.schema.Released() { // it was not moved away
			endSchema(&child.schema)
		}
	}
	if n.dictionary != nil && !n.dictionary.schema.Released() {
		endSchema(&n.dictionary.schema)
	}
	n.pinned.Unpin()
	s.release = 0
}
