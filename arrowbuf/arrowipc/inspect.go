package arrowipc

import "github.com/apache/arrow-go/v18/arrow/ipc"

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
	info := Info{Type: h.kind, BodyLength: h.bodyLength, Codec: h.rows.codec}
	for _, b := range h.rows.buffers {
		info.Buffers = append(info.Buffers, Extent{b.offset, b.length})
	}
	return info, nil
}
