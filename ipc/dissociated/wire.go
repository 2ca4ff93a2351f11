package dissociated

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"net/url"
	"strconv"
	"strings"
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

// Location is where a buffer lies: at an address, or that many bytes from the
// start of the memory that the server's handle opens.
type Location struct{ Address, Length uint64 }

// Locations are the buffers of a body, in the order of its metadata.
type Locations []Location

// total is the sum of the lengths.
func (l Locations) total() (sum uint64, ok bool) {
	for _, one := range l {
		var carry uint64
		if sum, carry = bits.Add64(sum, one.Length, 0); carry != 0 {
			return 0, false
		}
	}
	return sum, true
}

// Append writes the body of a Located message: the sum of the lengths, the
// number of buffers, and the pairs.
func (l Locations) Append(b []byte) []byte {
	total, _ := l.total()
	b = binary.LittleEndian.AppendUint64(b, total)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(l)))
	for _, one := range l {
		b = binary.LittleEndian.AppendUint64(b, one.Address)
		b = binary.LittleEndian.AppendUint64(b, one.Length)
	}
	return b
}

// ParseLocations reads what Append writes; anything else is ErrProtocol. Whether
// the locations lie in memory is not known here.
func ParseLocations(b []byte) (Locations, error) {
	const pair = 16
	if len(b) < pair || len(b)%pair != 0 {
		return nil, fmt.Errorf("%w: a located body of %d bytes, expected pairs of uint64", ErrProtocol, len(b))
	}
	total, count := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	if b = b[pair:]; count != uint64(len(b)/pair) {
		return nil, fmt.Errorf("%w: a located body of %d buffers holds %d pairs", ErrProtocol, count, len(b)/pair)
	}
	l := make(Locations, count)
	for i := range l {
		l[i] = Location{binary.LittleEndian.Uint64(b[i*pair:]), binary.LittleEndian.Uint64(b[i*pair+8:])}
	}
	if sum, ok := l.total(); !ok || sum != total {
		return nil, fmt.Errorf("%w: a located body says %d bytes, its buffers have %d", ErrProtocol, total, sum)
	}
	return l, nil
}

// AppendFreed writes the body of a free_data message: the addresses that the
// server may use for something else.
func AppendFreed(b []byte, addresses ...uint64) []byte {
	for _, one := range addresses {
		b = binary.LittleEndian.AppendUint64(b, one)
	}
	return b
}

// ParseFreed reads what AppendFreed writes: one address at least. Anything else
// is ErrProtocol.
func ParseFreed(b []byte) ([]uint64, error) {
	if len(b) == 0 || len(b)%8 != 0 {
		return nil, fmt.Errorf("%w: a free_data message of %d bytes, expected one uint64 at least", ErrProtocol, len(b))
	}
	freed := make([]uint64, len(b)/8)
	for i := range freed {
		freed[i] = binary.LittleEndian.Uint64(b[i*8:])
	}
	return freed, nil
}

// Endpoint is what a client must know of a server: the query parameters of its
// URI.
type Endpoint struct {
	// WantData is the tag of the message that asks for a stream (want_data).
	WantData Tag
	// FreeData is the tag of messages that free memory (free_data), nil where the
	// server sends packed bodies only.
	FreeData *Tag
	// RemoteHandle opens the memory that locations count from (remote_handle);
	// empty where there is none.
	RemoteHandle []byte
}

// AddTo sets the parameters in the query of a URI.
func (e Endpoint) AddTo(u *url.URL) {
	q := u.Query()
	q.Set("want_data", strconv.FormatUint(uint64(e.WantData), 10))
	if e.FreeData != nil {
		q.Set("free_data", strconv.FormatUint(uint64(*e.FreeData), 10))
	}
	if len(e.RemoteHandle) > 0 {
		q.Set("remote_handle", base64.StdEncoding.EncodeToString(e.RemoteHandle))
	}
	u.RawQuery = q.Encode()
}

// ParseEndpoint reads the parameters of a URI. It leaves others alone. A
// parameter that is missing, is there twice, or is no uint64 or no base64 is
// ErrProtocol, and so are two tags that are one.
func ParseEndpoint(u *url.URL) (Endpoint, error) {
	fail := func(err error) (Endpoint, error) {
		return Endpoint{}, fmt.Errorf("%w: the URI's %w", ErrProtocol, err)
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return fail(fmt.Errorf("query: %w", err))
	}
	want, err := tagOf(q, "want_data")
	if err != nil {
		return fail(err)
	}
	if want == nil {
		return fail(fmt.Errorf("want_data is missing"))
	}
	e := Endpoint{WantData: *want}
	if e.FreeData, err = tagOf(q, "free_data"); err != nil {
		return fail(err)
	}
	if e.FreeData != nil && *e.FreeData == e.WantData {
		return fail(fmt.Errorf("free_data is %d as want_data is", e.WantData))
	}
	handle, _, err := single(q, "remote_handle")
	if err != nil {
		return fail(err)
	}
	if e.RemoteHandle, err = decode(handle); err != nil {
		return fail(fmt.Errorf("remote_handle: %w", err))
	}
	return e, nil
}

// decode reads base64 of either alphabet, padded or not: the document does not
// say which, and a plus sign is a space in a query.
func decode(text string) ([]byte, error) {
	text = strings.NewReplacer("-", "+", "_", "/", " ", "+").Replace(text)
	if len(text)%4 == 0 {
		text = strings.TrimSuffix(strings.TrimSuffix(text, "="), "=")
	}
	return base64.RawStdEncoding.Strict().DecodeString(text)
}

func tagOf(q url.Values, name string) (*Tag, error) {
	text, ok, err := single(q, name)
	if err != nil || !ok {
		return nil, err
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%s: %q is no uint64", name, text)
	}
	t := Tag(n)
	return &t, nil
}

func single(q url.Values, name string) (value string, ok bool, err error) {
	switch all := q[name]; len(all) {
	case 0:
		return "", false, nil
	case 1:
		return all[0], true, nil
	default:
		return "", false, fmt.Errorf("%s is there %d times", name, len(all))
	}
}
