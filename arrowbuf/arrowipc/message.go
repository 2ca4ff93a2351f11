package arrowipc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
)

// Message is an IPC message whose body has not been copied: encoded metadata, and
// references to the columns' memory.
type Message struct {
	// Metadata is the flatbuffer, without prefix and padding.
	Metadata []byte
	// BodyLength is the length of the body in bytes. Each of its buffers is padded
	// to a multiple of 8.
	BodyLength int64

	header
	buffers []bodyBuffer
	owner   interface{ Release() }
}

// Type returns the type of the message.
func (m *Message) Type() ipc.MessageType {
	if m == nil {
		return ipc.MessageNone
	}
	return m.kind
}

// Release releases the columns. Parts that were returned stay valid.
func (m *Message) Release() {
	if m == nil {
		return
	}
	if m.owner != nil {
		m.owner.Release()
	}
	m.owner, m.buffers = nil, nil
}

// Parts returns the non-empty buffers of the body at their offsets. A buffer is the
// column's own memory, on its device, if the body has the same bytes. Otherwise it
// is host memory: rebased offsets, bitmaps of slices, compressed buffers. Padding
// between buffers is not included. The caller must release the parts.
func (m *Message) Parts() (parts Parts, err error) {
	if m == nil {
		return nil, fmt.Errorf("arrowipc.Message.Parts: nil message: %w", arrow.ErrInvalid)
	}
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

// Info describes the body of a message.
type Info struct {
	Type       ipc.MessageType
	BodyLength int64
	Codec      Codec
	// Buffers are the positions of the buffers in the body. They are not checked
	// against BodyLength.
	Buffers []Extent
	// Rows is the number of rows of a record batch, or of values of a dictionary. It
	// is not checked.
	Rows int64
	// Nulls are the numbers of nulls of the arrays, depth first. They are not checked;
	// -1 means unknown.
	Nulls []int64
	// OldCodec reports whether the codec is in the message's own metadata, where only
	// Arrow 0.17 has it, see CurrentMetadata.
	OldCodec bool
	// EmptyLists reports whether a schema has a fixed_size_list of size 0, which arrow-go
	// refuses: see EmptyListType.
	EmptyLists bool
}

// Extent is a range of a body, in bytes.
type Extent struct{ Offset, Length int64 }

// Inspect parses the metadata of a message, without prefix. It needs no body. It
// returns an error wrapping arrow.ErrInvalid if the metadata is invalid.
func Inspect(metadata []byte) (Info, error) {
	h, err := parseMessage(metadata)
	if err != nil {
		return Info{}, err
	}
	return h.info(), nil
}

// oldCodecKey is the key under which Arrow 0.17 named the codec of a body, before the format
// had a place for it. pyarrow reads it in metadata of version 4.
const oldCodecKey = "ARROW:experimental_compression"

// CurrentMetadata returns the metadata of a record batch or a dictionary with the codec where
// the format has it since 1.0. It is for readers that ignore that of Arrow 0.17, and would
// take compressed bytes for values. It returns an error wrapping arrow.ErrInvalid if the
// metadata is invalid.
func CurrentMetadata(metadata []byte) ([]byte, error) {
	h, err := parseMessage(metadata)
	if err != nil || !h.oldCodec {
		return metadata, err
	}
	return h.encode(), nil
}

// readOldCodec takes the codec from the message's own metadata.
func (h *header) readOldCodec() error {
	name, ok := h.custom.GetValue(oldCodecKey)
	if !ok || h.version != ipc.MetadataV4 || h.batch.codec != Uncompressed {
		return nil
	}
	switch strings.ToLower(name) {
	case "lz4":
		h.batch.codec = LZ4
	case "zstd":
		h.batch.codec = Zstd
	case "uncompressed":
		return nil
	default:
		return fmt.Errorf("%s %q, want LZ4 or ZSTD: %w", oldCodecKey, name, arrow.ErrInvalid)
	}
	h.oldCodec = true
	return nil
}

func (h *header) info() Info {
	info := Info{OldCodec: h.oldCodec, EmptyLists: h.fields.emptyLists, Type: h.kind, BodyLength: h.bodyLength, Codec: h.batch.codec, Buffers: h.batch.buffers, Rows: h.batch.length}
	for _, n := range h.batch.nodes {
		info.Nulls = append(info.Nulls, n.nulls)
	}
	return info
}

// header is the parsed metadata of a message (table Message in Message.fbs).
type header struct {
	kind       ipc.MessageType
	version    ipc.MetadataVersion
	bodyLength int64
	custom     arrow.Metadata
	oldCodec   bool        // batch.codec is from custom
	batch      recordBatch // of a record batch or a dictionary
	dictionary int64       // id of a dictionary
	delta      bool        // the dictionary's values are appended
	fields     flatSchema  // of a schema
}

// recordBatch is table RecordBatch: the field nodes, depth first, and the positions
// of their buffers in the body.
type recordBatch struct {
	length   int64
	nodes    []fieldNode
	buffers  []Extent
	variadic []int64 // number of data buffers of each view array
	codec    Codec
}

type fieldNode struct{ length, nulls int64 }

// maxDepth is the maximum nesting of fields, as in arrow-go.
const maxDepth = 64

// parseMessage parses the metadata of a message, without its prefix. It returns an
// error wrapping arrow.ErrInvalid if the metadata is invalid.
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
			panic(flatError(fmt.Sprintf("version: got %v, want V4 or V5", h.version)))
		}
		at, ok := f.table(message, 2)
		if !ok {
			panic(flatError(fmt.Sprintf("a message of type %v without a header", h.kind)))
		}
		switch h.kind {
		case ipc.MessageSchema:
			h.fields = f.parseSchema(at)
		case ipc.MessageRecordBatch:
			h.batch = f.recordBatch(at)
		case ipc.MessageDictionaryBatch:
			data, ok := f.table(at, 1)
			if !ok {
				panic(flatError("a dictionary batch without data"))
			}
			h.dictionary, h.delta, h.batch = f.integer(at, 0, 8), f.integer(at, 2, 1) != 0, f.recordBatch(data)
		}
	})
	if err == nil {
		err = h.readOldCodec()
	}
	return h, err
}

// recordBatch parses table RecordBatch.
func (f *flatReader) recordBatch(at int) (r recordBatch) {
	r.length = f.integer(at, 0, 8)
	f.vector(at, 1, 16, func(node int) { r.nodes = append(r.nodes, fieldNode{f.int64(node), f.int64(node + 8)}) })
	f.vector(at, 2, 16, func(buffer int) { r.buffers = append(r.buffers, Extent{f.int64(buffer), f.int64(buffer + 8)}) })
	left := int64(len(r.buffers))
	f.vector(at, 4, 8, func(count int) {
		n := f.int64(count)
		if n < 0 || n > left {
			panic(flatError(fmt.Sprintf("a view array of %d data buffers, but there are %d buffers in all", n, len(r.buffers))))
		}
		left -= n
		r.variadic = append(r.variadic, n)
	})
	if compression, ok := f.table(at, 3); ok {
		codec, method := f.integer(compression, 0, 1), f.integer(compression, 1, 1)
		if codec < 0 || codec > 1 || method != 0 {
			panic(flatError(fmt.Sprintf("compression: got codec %d, method %d, want LZ4_FRAME or ZSTD of each buffer", codec, method)))
		}
		r.codec = Codec(codec + 1)
	}
	return r
}

// checkType returns an error unless the message has the given type.
func (h *header) checkType(kind ipc.MessageType) error {
	if h.kind != kind {
		return fmt.Errorf("type of message: got %v, want %v: %w", h.kind, kind, arrow.ErrInvalid)
	}
	return nil
}

// continuation is the marker that begins a message since Arrow 0.15. Before, a
// message began with the length of its metadata.
const continuation = 0xFFFFFFFF

// endOfStream is a message without metadata.
var endOfStream = []byte{0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0}

// magic begins and ends a file.
const magic = "ARROW1"

// frame returns metadata with prefix and padding.
func frame(metadata []byte) []byte {
	framed := make([]byte, padTo8(int64(len(metadata)))+8)
	binary.LittleEndian.PutUint32(framed, continuation)
	binary.LittleEndian.PutUint32(framed[4:], uint32(len(framed)-8))
	copy(framed[8:], metadata)
	return framed
}

const (
	// maxMetadata is the maximum size of the metadata of one message.
	maxMetadata = 64 << 20
	// firstMetadata is the size of the first allocation for metadata. The memory
	// doubles as bytes arrive, so that a false length cannot cause a large
	// allocation.
	firstMetadata = 64 << 10
)

// ReadMetadata reads the metadata of the next message of a stream, at most 64 MiB,
// and leaves r at the body. It returns io.EOF at the end of the stream, with or
// without an end-of-stream marker. It does not check the metadata; see Inspect.
func ReadMetadata(r io.Reader) ([]byte, error) {
	if r == nil {
		return nil, fmt.Errorf("arrowipc.ReadMetadata: nil reader: %w", arrow.ErrInvalid)
	}
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
		return nil, fmt.Errorf("metadata of %d bytes, want 8 to %d: %w", length, maxMetadata, arrow.ErrInvalid)
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

// unframe returns the metadata in a block of a file, without prefix.
func unframe(b []byte) ([]byte, error) {
	prefix := 4
	if len(b) >= 8 && binary.LittleEndian.Uint32(b) == continuation {
		prefix = 8
	}
	if len(b) < prefix+8 {
		return nil, fmt.Errorf("a message of %d bytes: %w", len(b), arrow.ErrInvalid)
	}
	if n := binary.LittleEndian.Uint32(b[prefix-4:]); int64(n) != int64(len(b)-prefix) {
		return nil, fmt.Errorf("metadata of %d bytes, but the footer says %d: %w", n, len(b)-prefix, arrow.ErrInvalid)
	}
	return b[prefix:], nil
}

// unexpectedEOF returns err, or io.ErrUnexpectedEOF if err is io.EOF.
func unexpectedEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
