package arrowipc

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	flatbuffers "github.com/google/flatbuffers/go"
)

// The metadata of a message is a flatbuffer from an untrusted source. A few bytes can
// claim 4 billion fields, or a field a gigabyte away. The methods of flatReader check
// each position, and limit the number of elements by the size of the flatbuffer.
// See https://flatbuffers.dev/internals, and for the numbers of the fields Arrow's
// Schema.fbs, Message.fbs and File.fbs.

// readFlat reads a flatbuffer with the function read. It returns an error wrapping
// arrow.ErrInvalid if the flatbuffer is invalid.
func readFlat(raw []byte, read func(*flatReader)) (err error) {
	defer func() {
		if p := recover(); p != nil {
			bad, ok := p.(flatError)
			if !ok {
				panic(p)
			}
			err = bad
		}
	}()
	read(&flatReader{raw: raw, elementsLeft: len(raw) / 4, textLeft: 16 * len(raw)})
	return nil
}

// flatError is the panic with which the methods of flatReader report an invalid
// flatbuffer. readFlat recovers it.
type flatError string

func (e flatError) Error() string { return "Arrow metadata: " + string(e) }
func (e flatError) Unwrap() error { return arrow.ErrInvalid }

// flatReader reads a flatbuffer. A table is identified by its position.
type flatReader struct {
	raw          []byte
	elementsLeft int // of vectors, limited by the size of the flatbuffer
	textLeft     int // bytes of strings, of which several fields may share one
}

// bytes returns n bytes, after a range check.
func (f *flatReader) bytes(at, n int) []byte {
	if at < 0 || n < 0 || at > len(f.raw)-n {
		panic(flatError(fmt.Sprintf("%d bytes at %d exceed the %d bytes", n, at, len(f.raw))))
	}
	return f.raw[at : at+n]
}

func (f *flatReader) uint32(at int) uint32 { return binary.LittleEndian.Uint32(f.bytes(at, 4)) }
func (f *flatReader) int64(at int) int64   { return int64(binary.LittleEndian.Uint64(f.bytes(at, 8))) }

// follow returns the position that an offset refers to.
func (f *flatReader) follow(at int) int { return at + int(f.uint32(at)) }

// vtable returns the position of a table's vtable.
func (f *flatReader) vtable(table int) int { return table - int(int32(f.uint32(table))) }

// field returns the position of field n of a table, or -1 if it is absent.
func (f *flatReader) field(table, n int) int {
	layout := f.vtable(table)
	size := int(binary.LittleEndian.Uint16(f.bytes(layout, 2)))
	if 4+2*n >= size {
		return -1
	}
	offset := binary.LittleEndian.Uint16(f.bytes(layout+4+2*n, 2))
	if offset == 0 {
		return -1
	}
	return table + int(offset)
}

// table returns the position of the table in field n of a table.
func (f *flatReader) table(table, n int) (at int, ok bool) {
	at = f.field(table, n)
	if at < 0 {
		return 0, false
	}
	at = f.follow(at)
	f.bytes(at, 4) // checks that the offset of the vtable exists
	return at, true
}

// integer returns field n of a table, a signed integer of size bytes, or 0 if it is
// absent.
func (f *flatReader) integer(table, n, size int) int64 {
	at := f.field(table, n)
	if at < 0 {
		return 0
	}
	var wide [8]byte
	copy(wide[8-size:], f.bytes(at, size))
	return int64(binary.LittleEndian.Uint64(wide[:])) >> (64 - 8*size)
}

// vector calls visit with the position of each element of the vector in field n of a
// table. An element has size bytes.
func (f *flatReader) vector(table, n, size int, visit func(element int)) {
	at := f.field(table, n)
	if at < 0 {
		return
	}
	start := f.follow(at)
	count := int(f.uint32(start))
	if f.elementsLeft -= count; f.elementsLeft < 0 || count > math.MaxInt32 {
		panic(flatError(fmt.Sprintf("a vector of %d elements in %d bytes", count, len(f.raw))))
	}
	f.bytes(start+4, count*size)
	for i := range count {
		visit(start + 4 + i*size)
	}
}

// text returns the string in field n of a table.
func (f *flatReader) text(table, n int) string {
	at := f.field(table, n)
	if at < 0 {
		return ""
	}
	start := f.follow(at)
	raw := f.bytes(start+4, int(f.uint32(start)))
	if f.textLeft -= len(raw); f.textLeft < 0 {
		panic(flatError(fmt.Sprintf("strings exceed %d bytes", len(f.raw))))
	}
	return string(raw)
}

// pairs returns the custom metadata in field n of a table.
func (f *flatReader) pairs(table, n int) arrow.Metadata {
	var keys, values []string
	f.vector(table, n, 4, func(element int) {
		pair := f.follow(element)
		keys, values = append(keys, f.text(pair, 0)), append(values, f.text(pair, 1))
	})
	return arrow.NewMetadata(keys, values)
}

// The functions below build the metadata of record batches, dictionaries and files in
// the same order as arrow-go. A flatbuffer grows from its end, so the same steps give
// the same bytes. See Message.fbs and File.fbs for the numbers of the fields.

// encode builds the metadata of a record batch or a dictionary.
func (h *header) encode() []byte {
	b := flatbuffers.NewBuilder(1024)
	at := h.batch.encode(b)
	if h.kind == ipc.MessageDictionaryBatch {
		b.StartObject(3)
		b.PrependInt64Slot(0, h.dictionary, 0)
		b.PrependUOffsetTSlot(1, at, 0)
		b.PrependBoolSlot(2, h.delta, false)
		at = b.EndObject()
	}
	custom := encodePairs(b, h.custom)
	b.StartObject(5)
	version := ipc.MetadataV5
	if h.oldCodec {
		version = h.version
	}
	b.PrependInt16Slot(0, int16(version), 0)
	b.PrependByteSlot(1, byte(h.kind), 0)
	b.PrependUOffsetTSlot(2, at, 0)
	b.PrependInt64Slot(3, h.bodyLength, 0)
	b.PrependUOffsetTSlot(4, custom, 0)
	b.Finish(b.EndObject())
	return b.FinishedBytes()
}

// encode builds table RecordBatch.
func (r *recordBatch) encode(b *flatbuffers.Builder) flatbuffers.UOffsetT {
	b.StartVector(16, len(r.nodes), 8)
	for i := len(r.nodes) - 1; i >= 0; i-- {
		b.Prep(8, 16)
		b.PrependInt64(r.nodes[i].nulls)
		b.PrependInt64(r.nodes[i].length)
	}
	nodes := b.EndVector(len(r.nodes))
	b.StartVector(16, len(r.buffers), 8)
	for i := len(r.buffers) - 1; i >= 0; i-- {
		b.Prep(8, 16)
		b.PrependInt64(r.buffers[i].Length)
		b.PrependInt64(r.buffers[i].Offset)
	}
	buffers := b.EndVector(len(r.buffers))
	var compression, variadic flatbuffers.UOffsetT
	if r.codec != Uncompressed {
		b.StartObject(2)
		b.PrependInt8Slot(0, int8(r.codec-1), 0)
		b.PrependInt8Slot(1, 0, 0)
		compression = b.EndObject()
	}
	if len(r.variadic) > 0 {
		b.StartVector(8, len(r.variadic), 8)
		for i := len(r.variadic) - 1; i >= 0; i-- {
			b.PrependInt64(r.variadic[i])
		}
		variadic = b.EndVector(len(r.variadic))
	}
	b.StartObject(5)
	b.PrependInt64Slot(0, r.length, 0)
	b.PrependUOffsetTSlot(1, nodes, 0)
	b.PrependUOffsetTSlot(2, buffers, 0)
	b.PrependUOffsetTSlot(4, variadic, 0)
	b.PrependUOffsetTSlot(3, compression, 0)
	return b.EndObject()
}

// encodePairs builds a vector of tables KeyValue.
func encodePairs(b *flatbuffers.Builder, pairs arrow.Metadata) flatbuffers.UOffsetT {
	if pairs.Len() == 0 {
		return 0
	}
	all := make([]flatbuffers.UOffsetT, pairs.Len())
	for i := range all {
		key, value := b.CreateString(pairs.Keys()[i]), b.CreateString(pairs.Values()[i])
		b.StartObject(2)
		b.PrependUOffsetTSlot(0, key, 0)
		b.PrependUOffsetTSlot(1, value, 0)
		all[i] = b.EndObject()
	}
	b.StartVector(4, len(all), 4)
	for i := len(all) - 1; i >= 0; i-- {
		b.PrependUOffsetT(all[i])
	}
	return b.EndVector(len(all))
}

// encodeFooter builds the footer of a file. schema is the metadata of the schema
// message. Its table Schema is at the end of both flatbuffers, so the bytes are
// copied.
func encodeFooter(schema []byte, dictionaries, batches []block) ([]byte, error) {
	h, err := parseMessage(schema)
	if err != nil {
		return nil, err
	}
	b := flatbuffers.NewBuilder(1024)
	at := prependTable(b, schema[h.fields.start:], h.fields.at-h.fields.start)
	first, second := encodeBlocks(b, dictionaries), encodeBlocks(b, batches)
	b.StartObject(5)
	b.PrependInt16Slot(0, int16(ipc.MetadataV5), 0)
	b.PrependUOffsetTSlot(1, at, 0)
	b.PrependUOffsetTSlot(2, first, 0)
	b.PrependUOffsetTSlot(3, second, 0)
	b.Finish(b.EndObject())
	return b.FinishedBytes(), nil
}

// schemaMessage builds the metadata of a schema message for the table Schema at a
// position of another flatbuffer.
func schemaMessage(raw []byte, schema int) []byte {
	b := flatbuffers.NewBuilder(1024)
	at := prependTable(b, raw, schema)
	b.StartObject(5)
	b.PrependInt16Slot(0, int16(ipc.MetadataV5), 0)
	b.PrependByteSlot(1, byte(ipc.MessageSchema), 0)
	b.PrependUOffsetTSlot(2, at, 0)
	b.Finish(b.EndObject())
	return b.FinishedBytes()
}

// prependTable copies the bytes of a flatbuffer, which has no references outside of
// them, to the end of one that has just been begun. It returns the position of a
// table in them.
func prependTable(b *flatbuffers.Builder, raw []byte, table int) flatbuffers.UOffsetT {
	b.Prep(1, len(raw)) // grows the buffer, without padding
	for i := len(raw) - 1; i >= 0; i-- {
		b.PlaceByte(raw[i])
	}
	return flatbuffers.UOffsetT(len(raw) - table)
}

// encodeBlocks builds a vector of structs Block.
func encodeBlocks(b *flatbuffers.Builder, blocks []block) flatbuffers.UOffsetT {
	b.StartVector(24, len(blocks), 8)
	for i := len(blocks) - 1; i >= 0; i-- {
		b.Prep(8, 24)
		b.PrependInt64(blocks[i].body)
		b.Pad(4)
		b.PrependInt32(blocks[i].metadata)
		b.PrependInt64(blocks[i].offset)
	}
	return b.EndVector(len(blocks))
}
