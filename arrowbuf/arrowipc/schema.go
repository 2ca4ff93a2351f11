package arrowipc

import (
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/endian"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// EncodeSchema returns the metadata of the schema message, as arrow-go encodes it.
// It returns an error if arrow-go cannot encode the schema.
func EncodeSchema(schema *arrow.Schema) (metadata []byte, err error) {
	if schema == nil {
		return nil, fmt.Errorf("arrowipc: nil schema: %w", arrow.ErrInvalid)
	}
	defer panicToError("encoding a schema", &err)
	schema, emptyLists, err := withoutEmptyLists(schema)
	if err != nil {
		return nil, fmt.Errorf("arrowipc.EncodeSchema: %w", err)
	}
	payload := ipc.GetSchemaPayload(schema, memory.DefaultAllocator)
	defer payload.Release()
	encoded := payload.Meta()
	defer encoded.Release()
	if len(emptyLists) == 0 {
		return encoded.Bytes(), nil
	}
	h, err := parseMessage(encoded.Bytes())
	if err != nil {
		return nil, fmt.Errorf("arrowipc.EncodeSchema: %w", err)
	}
	return h.fields.exchangeTypes(encoded.Bytes(), flatFixedSizeList, func(i int) bool { return emptyLists[i] }), nil
}

// flatSchema has the fields of table Schema that this package reads. arrow-go reads
// the others.
type flatSchema struct {
	at    int // position of the table
	start int // position from which arrow-go's bytes of the table extend to the end
	// dictionaries are the ids of the dictionary fields, in the order of the fields,
	// outer before inner.
	dictionaries []int64
	bigEndian    bool
	types        []typeField
	emptyLists   bool // some type is a fixed_size_list of size 0
}

// parseSchema parses table Schema.
func (f *flatReader) parseSchema(at int) flatSchema {
	s := flatSchema{at: at, start: at, bigEndian: f.integer(at, 0, 2) != 0}
	if layout := f.vtable(at); layout < at {
		s.start = layout
	}
	f.vector(at, 1, 4, func(field int) { f.parseField(&s, f.follow(field), 0) })
	f.pairs(at, 2) // checks the lengths only
	return s
}

// parseField parses table Field.
func (f *flatReader) parseField(s *flatSchema, at, depth int) {
	if depth > maxDepth {
		panic(flatError(fmt.Sprintf("fields nested deeper than %d", maxDepth)))
	}
	if encoding, ok := f.table(at, 4); ok {
		s.dictionaries = append(s.dictionaries, f.integer(encoding, 0, 8))
	}
	f.text(at, 0)
	f.parseType(s, at)
	f.vector(at, 5, 4, func(child int) { f.parseField(s, f.follow(child), depth+1) })
	f.pairs(at, 6)
}

// parsedSchema is a schema with what is needed to decode messages.
type parsedSchema struct {
	schema  *arrow.Schema // in this machine's byte order
	swapped bool          // messages have the other byte order
	ids     []int64       // see flatSchema
	values  map[int64]valueType
}

// valueType is the type of a dictionary's values.
type valueType struct {
	dtype arrow.DataType
	ids   []int64 // of dictionaries inside the values
}

// decodeSchema parses a schema message.
func decodeSchema(metadata []byte) (parsedSchema, error) {
	h, err := parseMessage(metadata)
	if err == nil {
		err = h.checkType(ipc.MessageSchema)
	}
	if err != nil {
		return parsedSchema{}, fmt.Errorf("schema: %w", err)
	}
	if h.fields.emptyLists {
		metadata = h.fields.exchangeTypes(metadata, flatStruct, func(i int) bool { return h.fields.types[i].empty })
	}
	meta, body := memory.NewBufferBytes(metadata), memory.NewBufferBytes(nil)
	message := ipc.NewMessage(meta, body)
	defer message.Release()
	r, err := ipc.NewReaderFromMessageReader(singleMessage{message}, ipc.WithEnsureNativeEndian(false))
	if err != nil {
		return parsedSchema{}, fmt.Errorf("schema: %w: %w", arrow.ErrInvalid, err)
	}
	defer r.Release()
	schema := r.Schema()
	if h.fields.emptyLists {
		if schema, err = h.fields.withEmptyLists(schema); err != nil {
			return parsedSchema{}, fmt.Errorf("schema: %w", err)
		}
	}
	d := parsedSchema{schema: schema, ids: h.fields.dictionaries, values: map[int64]valueType{}}
	if !d.schema.IsNativeEndian() {
		d.swapped, d.schema = true, d.schema.WithEndianness(endian.NativeEndian)
	}
	rest := d.ids
	for _, field := range d.schema.Fields() {
		if rest, err = d.addDictionaries(field.Type, rest); err != nil {
			return parsedSchema{}, fmt.Errorf("schema: field %q: %w", field.Name, err)
		}
	}
	if len(rest) > 0 {
		return parsedSchema{}, fmt.Errorf("schema: %d dictionary ids without a field: %w", len(rest), arrow.ErrInvalid)
	}
	return d, nil
}

// addDictionaries records the dictionaries of a type, whose ids come first in ids,
// and returns the ids that are left.
func (d *parsedSchema) addDictionaries(dtype arrow.DataType, ids []int64) (rest []int64, err error) {
	dtype = storageOf(dtype)
	if dictionary, ok := dtype.(*arrow.DictionaryType); ok {
		if len(ids) == 0 {
			return nil, fmt.Errorf("a dictionary type without an id: %w", arrow.ErrInvalid)
		}
		id, inside := ids[0], ids[1:]
		if rest, err = d.addDictionaries(dictionary.ValueType, inside); err != nil {
			return nil, err
		}
		inside = inside[:len(inside)-len(rest)]
		if known, ok := d.values[id]; ok && !arrow.TypeEqual(known.dtype, dictionary.ValueType) {
			return nil, fmt.Errorf("dictionary %d has types %s and %s: %w", id, known.dtype, dictionary.ValueType, arrow.ErrInvalid)
		}
		d.values[id] = valueType{dictionary.ValueType, inside}
		return rest, nil
	}
	if nested, ok := dtype.(arrow.NestedType); ok {
		for _, field := range nested.Fields() {
			if ids, err = d.addDictionaries(field.Type, ids); err != nil {
				return nil, err
			}
		}
	}
	return ids, nil
}

// storageOf returns the type that defines the layout of an array: the storage type
// of an extension type, otherwise dtype.
func storageOf(dtype arrow.DataType) arrow.DataType {
	for {
		ext, ok := dtype.(arrow.ExtensionType)
		if !ok {
			return dtype
		}
		dtype = ext.StorageType()
	}
}

// singleMessage passes a single message to arrow-go's reader.
type singleMessage struct{ message *ipc.Message }

func (o singleMessage) Message() (*ipc.Message, error) {
	if o.message == nil {
		return nil, io.EOF
	}
	return o.message, nil
}
func (singleMessage) Retain()  {}
func (singleMessage) Release() {}

// panicToError recovers a panic of arrow-go, which panics on some invalid input, and
// sets *err. It must be deferred.
func panicToError(doing string, err *error) {
	if failure := recover(); failure != nil {
		*err = fmt.Errorf("%s: %v: %w", doing, failure, arrow.ErrInvalid)
	}
}
