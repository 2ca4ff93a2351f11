package arrowipc

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
)

// header is what the metadata of a message says.
type header struct {
	kind       ipc.MessageType
	version    ipc.MetadataVersion
	bodyLength int64
	custom     arrow.Metadata
	rows       rows       // of a record batch or a dictionary
	dictionary int64      // which one a dictionary batch is of
	delta      bool       // it adds to what the dictionary had
	fields     flatSchema // of a schema
}

// rows is the table RecordBatch: arrays, depth first, and where their buffers lie
// in the body.
type rows struct {
	length   int64
	nodes    []fieldNode
	buffers  []Extent
	variadic []int64 // how many buffers of data each array of views has
	codec    Codec
}

type fieldNode struct{ length, nulls int64 }

// maxDepth is how deep fields may be nested, as in arrow-go.
const maxDepth = 64

// parseMessage reads the metadata of a message, without its prefix.
func parseMessage(metadata []byte) (h header, err error) {
	err = readFlat(metadata, func(f *flat) {
		message := f.follow(0)
		h.version = ipc.MetadataVersion(f.integer(message, 0, 2))
		h.kind = ipc.MessageType(f.integer(message, 1, 1))
		h.bodyLength = f.integer(message, 3, 8)
		h.custom = f.pairs(message, 4)
		if h.bodyLength < 0 {
			panic(flatError(fmt.Sprintf("a body of %d bytes", h.bodyLength)))
		}
		if h.version < ipc.MetadataV4 || h.version > ipc.MetadataV5 {
			panic(flatError(fmt.Sprintf("version %v, expected V4 or V5", h.version)))
		}
		at, ok := f.table(message, 2)
		if !ok {
			panic(flatError(fmt.Sprintf("a message of type %v without its header", h.kind)))
		}
		switch h.kind {
		case ipc.MessageSchema:
			h.fields = f.schema(at)
		case ipc.MessageRecordBatch:
			h.rows = f.rows(at)
		case ipc.MessageDictionaryBatch:
			data, ok := f.table(at, 1)
			if !ok {
				panic(flatError("a dictionary without data"))
			}
			h.dictionary, h.delta, h.rows = f.integer(at, 0, 8), f.integer(at, 2, 1) != 0, f.rows(data)
		}
	})
	return h, err
}

func (f *flat) rows(at int) (r rows) {
	r.length = f.integer(at, 0, 8)
	f.vector(at, 1, 16, func(node int) { r.nodes = append(r.nodes, fieldNode{f.int64(node), f.int64(node + 8)}) })
	f.vector(at, 2, 16, func(buffer int) { r.buffers = append(r.buffers, Extent{f.int64(buffer), f.int64(buffer + 8)}) })
	left := int64(len(r.buffers))
	f.vector(at, 4, 8, func(count int) {
		n := f.int64(count)
		if n < 0 || n > left {
			panic(flatError(fmt.Sprintf("an array of %d buffers of values, of %d buffers in all", n, len(r.buffers))))
		}
		left -= n
		r.variadic = append(r.variadic, n)
	})
	if compression, ok := f.table(at, 3); ok {
		codec, method := f.integer(compression, 0, 1), f.integer(compression, 1, 1)
		if codec < 0 || codec > 1 || method != 0 {
			panic(flatError(fmt.Sprintf("compression by codec %d, method %d, expected LZ4_FRAME or ZSTD of each buffer", codec, method)))
		}
		r.codec = Codec(codec + 1)
	}
	return r
}

// expect tells whether the message is of a type.
func (h *header) expect(kind ipc.MessageType) error {
	if h.kind != kind {
		return fmt.Errorf("a message of type %v, expected %v: %w", h.kind, kind, arrow.ErrInvalid)
	}
	return nil
}
