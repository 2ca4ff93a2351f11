package dissociated

import (
	"errors"
	"fmt"
)

// Errors that a caller can act on; test with errors.Is.
var (
	// ErrProtocol: a peer sent what the protocol does not allow. The text says
	// what was expected.
	ErrProtocol = errors.New("not the dissociated IPC protocol")
	// ErrPeerGone: the connection ended before the stream did.
	ErrPeerGone = errors.New("the peer is gone")
	// ErrRefused: a client is of a user that may not connect.
	ErrRefused = errors.New("refused")
	// ErrNamespace: the server's memory cannot be opened since it is in another
	// PID namespace, as in another container. Packed bodies cross.
	ErrNamespace = errors.New("the server is in another PID namespace")
	// ErrTooLarge: a peer sent more than the options allow.
	ErrTooLarge = errors.New("larger than allowed")
)

// Tag is the number that a tagged message carries. Those of want_data and
// free_data messages are of the server's choice; a body's is BodyTag.
type Tag uint64

// BodyKind says what the message of a body holds: the highest byte of its tag.
type BodyKind uint8

const (
	// Packed: the bytes of the body as in an Arrow IPC stream.
	Packed BodyKind = 0
	// Located: where each buffer of the body lies, in memory that both sides
	// reach: a Locations.
	Located BodyKind = 1
)

// String is the kind's name.
func (k BodyKind) String() string {
	switch k {
	case Packed:
		return "packed"
	case Located:
		return "located"
	default:
		return fmt.Sprintf("body(%d)", uint8(k))
	}
}

// kindShift is where the document's text has a body's kind, bits 56 to 63. Its
// diagrams shift by 55, which would lay the kind over a reserved bit.
const kindShift = 56

// BodyTag is the tag of the body of a message.
func BodyTag(sequence uint32, kind BodyKind) Tag {
	return Tag(kind)<<kindShift | Tag(sequence)
}

// ParseBodyTag takes the tag of a body apart. A reserved bit (32 to 55) that is
// set and a kind that is not known are ErrProtocol.
func ParseBodyTag(t Tag) (sequence uint32, kind BodyKind, err error) {
	if reserved := t >> 32 & (1<<(kindShift-32) - 1); reserved != 0 {
		return 0, 0, fmt.Errorf("%w: body tag %#016x: bits 32 to 55 are reserved and must be 0", ErrProtocol, uint64(t))
	}
	sequence, kind = uint32(t), BodyKind(t>>kindShift)
	if kind > Located {
		return 0, 0, fmt.Errorf("%w: body tag %#016x: kind %d, expected 0 (packed) or 1 (located)", ErrProtocol, uint64(t), uint8(kind))
	}
	return sequence, kind, nil
}
