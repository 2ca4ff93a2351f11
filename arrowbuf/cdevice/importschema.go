package cdevice

import (
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
)

// maxDepth is how deep fields may be nested: a producer's struct that holds
// itself ends there.
const maxDepth = 64

// ImportSchema takes over the schema of batches, which is of a struct type.
// Extension types that arrow-go knows come as such, others as their storage, with
// their name in the metadata. What is malformed, or of a type that arrow-go does
// not have, is an error that is arrow.ErrInvalid and names the field.
func ImportSchema(in *Schema) (*arrow.Schema, error) {
	rows, err := importField(in, "importing a schema")
	if err != nil {
		return nil, err
	}
	t, ok := rows.Type.(*arrow.StructType)
	if !ok {
		return nil, fmt.Errorf("importing a schema: it is of %s, not of a struct: %w", rows.Type, arrow.ErrInvalid)
	}
	return arrow.NewSchema(t.Fields(), &rows.Metadata), nil
}

// ImportField takes over the schema of an array. Otherwise it is as ImportSchema.
func ImportField(in *Schema) (arrow.Field, error) { return importField(in, "importing a field") }

func importField(in *Schema, doing string) (field arrow.Field, err error) {
	if err := supported(); err != nil {
		return arrow.Field{}, err
	}
	if in == nil || in.Released() {
		return arrow.Field{}, fmt.Errorf("%s: there is none, or it is released: %w", doing, arrow.ErrInvalid)
	}
	s := move(in)
	defer s.Release()
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", doing, err)
		}
	}()
	defer guard(&err)
	return readSchema(s, top, 0)
}

// readSchema copies a Schema, which may be part of another.
func readSchema(s *Schema, at path, depth int) (arrow.Field, error) {
	fail := func(err error) (arrow.Field, error) { return arrow.Field{}, err }
	switch {
	case depth > maxDepth:
		return fail(at.refuse("fields are nested deeper than %d times", maxDepth))
	case s.Released():
		return fail(at.refuse("the schema is released"))
	case s.format == 0:
		return fail(at.refuse("there is no format"))
	case s.nChildren < 0 || s.nChildren > 0 && s.children == 0:
		return fail(at.refuse("%d children at %#x", s.nChildren, s.children))
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
			return fail(at.refuse("a dictionary with indices of %s", field.Type))
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
	for i, address := range addresses(s.children, s.nChildren) {
		if address == 0 {
			return nil, at.refuse("child %d is missing", i)
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
