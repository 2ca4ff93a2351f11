package dissociated

import (
	"encoding/binary"
	"fmt"
)

// The types of metadata messages, and the length of what each begins with.
const (
	endOfStream  = 0
	ipcHeader    = 1
	prefixLength = 5
)

// Metadata is a message of the metadata stream.
type Metadata struct {
	Sequence uint32
	// Header is the flatbuffer of an Arrow IPC message, without the marker and
	// the length that go before it in an Arrow IPC stream; nil ends the stream.
	Header []byte
}

// End tells whether the message ends the stream.
func (m Metadata) End() bool { return m.Header == nil }

// Append writes the message: its type, the sequence number, and the header.
func (m Metadata) Append(b []byte) []byte {
	kind := byte(ipcHeader)
	if m.End() {
		kind = endOfStream
	}
	b = binary.LittleEndian.AppendUint32(append(b, kind), m.Sequence)
	return append(b, m.Header...)
}

// ParseMetadata reads what Append writes; anything else is ErrProtocol. The
// header is part of b, and is not looked at.
func ParseMetadata(b []byte) (Metadata, error) {
	if len(b) < prefixLength {
		return Metadata{}, fmt.Errorf("%w: a metadata message of %d bytes, expected at least %d", ErrProtocol, len(b), prefixLength)
	}
	m := Metadata{Sequence: binary.LittleEndian.Uint32(b[1:])}
	switch rest := b[prefixLength:]; b[0] {
	case endOfStream:
		if len(rest) != 0 {
			return Metadata{}, fmt.Errorf("%w: an end of stream of %d bytes, expected exactly %d", ErrProtocol, len(b), prefixLength)
		}
	case ipcHeader:
		if len(rest) == 0 {
			return Metadata{}, fmt.Errorf("%w: metadata message %d has no header", ErrProtocol, m.Sequence)
		}
		m.Header = rest
	default:
		return Metadata{}, fmt.Errorf("%w: metadata message of type %d, expected 0 (end of stream) or 1 (header)", ErrProtocol, b[0])
	}
	return m, nil
}
