package arrowipc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
)

// header is what the metadata of a message says.
type header struct {
	kind       ipc.MessageType
	version    ipc.MetadataVersion
	bodyLength int64
	custom     arrow.Metadata
	batch      recordBatch // of a record batch or a dictionary
	dictionary int64       // which one a dictionary batch is of
	delta      bool        // it adds to what the dictionary had
	fields     flatSchema  // of a schema
}

// recordBatch is the table RecordBatch: arrays, depth first, and where their buffers lie
// in the body.
type recordBatch struct {
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
	err = readFlat(metadata, func(f *flatReader) {
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
			h.fields = f.parseSchema(at)
		case ipc.MessageRecordBatch:
			h.batch = f.recordBatch(at)
		case ipc.MessageDictionaryBatch:
			data, ok := f.table(at, 1)
			if !ok {
				panic(flatError("a dictionary without data"))
			}
			h.dictionary, h.delta, h.batch = f.integer(at, 0, 8), f.integer(at, 2, 1) != 0, f.recordBatch(data)
		}
	})
	return h, err
}

func (f *flatReader) recordBatch(at int) (r recordBatch) {
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

// checkType tells whether the message is of a type.
func (h *header) checkType(kind ipc.MessageType) error {
	if h.kind != kind {
		return fmt.Errorf("a message of type %v, expected %v: %w", h.kind, kind, arrow.ErrInvalid)
	}
	return nil
}

// Message is an IPC message of columns that stay where they are: metadata that is
// encoded, and which bytes follow it.
type Message struct {
	// Metadata is the flatbuffer, without prefix and padding.
	Metadata []byte
	// BodyLength is how long the body is, with the padding of its buffers to 8.
	BodyLength int64

	header
	buffers []bodyBuffer
	owner   interface{ Release() }
}

// Type tells what the message is.
func (m *Message) Type() ipc.MessageType { return m.kind }

// Release gives the columns back. Parts that were returned stay valid.
func (m *Message) Release() {
	if m.owner != nil {
		m.owner.Release()
	}
	m.owner, m.buffers = nil, nil
}

// Parts returns the body, as buffers at offsets, without those that are empty:
// the columns' own memory, on their device, where the body has the same bytes,
// and elsewhere (rebased offsets, bitmaps of slices, what is compressed) memory
// of the host. The padding between them is nowhere. The caller owns a reference
// to each.
func (m *Message) Parts() (parts Parts, err error) {
	for i := range m.buffers {
		p := &m.buffers[i]
		if p.length == 0 {
			continue
		}
		b, err := p.buffer()
		if err != nil {
			parts.Release()
			return nil, fmt.Errorf("buffer %d of a message: %w", i, err)
		}
		parts = append(parts, Part{m.batch.buffers[i].Offset, b})
	}
	return parts, nil
}

// Info is what the metadata of a message says of its body.
type Info struct {
	Type       ipc.MessageType
	BodyLength int64
	Codec      Codec
	// Buffers are where each buffer lies in the body. Whether they lie within it
	// is not checked.
	Buffers []Extent
}

// Extent is a range of a body.
type Extent struct{ Offset, Length int64 }

// Inspect reads the metadata of a message, without prefix, before there is a body.
// What is no such metadata is an error that is arrow.ErrInvalid.
func Inspect(metadata []byte) (Info, error) {
	h, err := parseMessage(metadata)
	if err != nil {
		return Info{}, err
	}
	return Info{Type: h.kind, BodyLength: h.bodyLength, Codec: h.batch.codec, Buffers: h.batch.buffers}, nil
}

// continuation is what a message begins with since Arrow 0.15; before, it began
// with the length of its metadata.
const continuation = 0xFFFFFFFF

// endOfStream is a message of no metadata.
var endOfStream = []byte{0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0}

// magic begins and ends a file.
const magic = "ARROW1"

// frame puts the prefix before metadata, and padding behind it.
func frame(metadata []byte) []byte {
	framed := make([]byte, padTo8(int64(len(metadata)))+8)
	binary.LittleEndian.PutUint32(framed, continuation)
	binary.LittleEndian.PutUint32(framed[4:], uint32(len(framed)-8))
	copy(framed[8:], metadata)
	return framed
}

const (
	// maxMetadata is the most that the metadata of one message may take.
	maxMetadata = 64 << 20
	// firstMetadata is what is allocated for it before any came; then, as much as
	// did.
	firstMetadata = 64 << 10
)

// ReadMetadata reads the metadata of the next message of a stream, of which it takes
// 64 MiB at most, and leaves r at the body. At the end of the stream, which may just
// end, the error is io.EOF. What was read is not checked; see Inspect.
func ReadMetadata(r io.Reader) ([]byte, error) {
	var word [4]byte
	if _, err := io.ReadFull(r, word[:]); err != nil {
		return nil, err
	}
	length := binary.LittleEndian.Uint32(word[:])
	if length == continuation {
		if _, err := io.ReadFull(r, word[:]); err != nil {
			return nil, unexpectedEOF(err)
		}
		length = binary.LittleEndian.Uint32(word[:])
	}
	switch {
	case length == 0:
		return nil, io.EOF
	case length < 8 || length > maxMetadata:
		return nil, fmt.Errorf("metadata of %d bytes, expected 8 to %d: %w", length, maxMetadata, arrow.ErrInvalid)
	}
	metadata := make([]byte, 0, min(length, firstMetadata))
	for len(metadata) < int(length) {
		from := len(metadata)
		metadata = slices.Grow(metadata, min(max(from, firstMetadata), int(length)-from))
		metadata = metadata[:min(cap(metadata), int(length))]
		if _, err := io.ReadFull(r, metadata[from:]); err != nil {
			return nil, fmt.Errorf("metadata of %d bytes: %w", length, unexpectedEOF(err))
		}
	}
	return metadata, nil
}

// unframe finds metadata behind its prefix, in all that a block of a file has of
// it.
func unframe(b []byte) ([]byte, error) {
	prefix := 4
	if len(b) >= 8 && binary.LittleEndian.Uint32(b) == continuation {
		prefix = 8
	}
	if len(b) < prefix+8 {
		return nil, fmt.Errorf("a message of %d bytes: %w", len(b), arrow.ErrInvalid)
	}
	if n := binary.LittleEndian.Uint32(b[prefix-4:]); int64(n) != int64(len(b)-prefix) {
		return nil, fmt.Errorf("metadata of %d bytes where the file has %d: %w", n, len(b)-prefix, arrow.ErrInvalid)
	}
	return b[prefix:], nil
}

// unexpectedEOF is the error of an input that ends where it should go on.
func unexpectedEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
