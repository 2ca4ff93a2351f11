package arrowipc

import (
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow/ipc"
)

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
	return Info{Type: h.kind, BodyLength: h.bodyLength, Codec: h.rows.codec, Buffers: h.rows.buffers}, nil
}

// CheckFile reads the metadata of all messages of a file, for who has it read by
// arrow-go, which believes what it says. It tells whether the file is of the other
// byte order. What is wrong is an error that is arrow.ErrInvalid, or one of reading.
func CheckFile(file io.ReaderAt, size int64) (swapped bool, err error) {
	s := store{ReaderAt: file, size: size}
	f, err := s.footer()
	if err != nil {
		return false, err
	}
	h, err := parseMessage(f.schema)
	if err != nil {
		return false, err
	}
	for _, all := range [][]block{f.dictionaries, f.batches} {
		for i, at := range all {
			if _, err := s.metadata(at); err != nil {
				return false, fmt.Errorf("message %d: %w", i, err)
			}
		}
	}
	return h.fields.bigEndian, nil
}
