package arrowipc

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	flatbuffers "github.com/google/flatbuffers/go"
)

// Metadata of record batches, dictionaries and files, in the order in which
// arrow-go builds them: a flatbuffer grows from its end, and the same steps give
// the same bytes. (Message.fbs and File.fbs for the numbers of the fields.)

// encode builds the metadata of a record batch or a dictionary.
func (h *header) encode() []byte {
	b := flatbuffers.NewBuilder(1024)
	at := h.rows.encode(b)
	if h.kind == ipc.MessageDictionaryBatch {
		b.StartObject(3)
		b.PrependInt64Slot(0, h.dictionary, 0)
		b.PrependUOffsetTSlot(1, at, 0)
		b.PrependBoolSlot(2, h.delta, false)
		at = b.EndObject()
	}
	custom := encodePairs(b, h.custom)
	b.StartObject(5)
	b.PrependInt16Slot(0, int16(ipc.MetadataV5), 0)
	b.PrependByteSlot(1, byte(h.kind), 0)
	b.PrependUOffsetTSlot(2, at, 0)
	b.PrependInt64Slot(3, h.bodyLength, 0)
	b.PrependUOffsetTSlot(4, custom, 0)
	b.Finish(b.EndObject())
	return b.FinishedBytes()
}

func (r *rows) encode(b *flatbuffers.Builder) flatbuffers.UOffsetT {
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

// block is where a message lies in a file.
type block struct {
	offset   int64
	metadata int32 // with prefix and padding
	body     int64
}

// encodeFooter builds the footer of a file, whose schema is as in the message of
// the schema: that is the end of both.
func encodeFooter(schema []byte, dictionaries, batches []block) ([]byte, error) {
	h, err := parseMessage(schema)
	if err != nil {
		return nil, err
	}
	b := flatbuffers.NewBuilder(1024)
	at := behind(b, schema[h.fields.start:], h.fields.at-h.fields.start)
	first, second := encodeBlocks(b, dictionaries), encodeBlocks(b, batches)
	b.StartObject(5)
	b.PrependInt16Slot(0, int16(ipc.MetadataV5), 0)
	b.PrependUOffsetTSlot(1, at, 0)
	b.PrependUOffsetTSlot(2, first, 0)
	b.PrependUOffsetTSlot(3, second, 0)
	b.Finish(b.EndObject())
	return b.FinishedBytes(), nil
}

// schemaMessage builds the metadata of the message of a schema that lies in another
// flatbuffer.
func schemaMessage(raw []byte, schema int) []byte {
	b := flatbuffers.NewBuilder(1024)
	at := behind(b, raw, schema)
	b.StartObject(5)
	b.PrependInt16Slot(0, int16(ipc.MetadataV5), 0)
	b.PrependByteSlot(1, byte(ipc.MessageSchema), 0)
	b.PrependUOffsetTSlot(2, at, 0)
	b.Finish(b.EndObject())
	return b.FinishedBytes()
}

// behind puts the bytes of a flatbuffer, which refers to nothing outside of them,
// at the end of one that was just begun, and returns where the table in them is.
func behind(b *flatbuffers.Builder, raw []byte, table int) flatbuffers.UOffsetT {
	b.Prep(1, len(raw)) // room, no padding
	for i := len(raw) - 1; i >= 0; i-- {
		b.PlaceByte(raw[i])
	}
	return flatbuffers.UOffsetT(len(raw) - table)
}

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
