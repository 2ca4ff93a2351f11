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
	// ErrProtocol: a peer violated the protocol. The text says what was expected.
	ErrProtocol = errors.New("not the dissociated IPC protocol")
	// ErrPeerGone: the connection ended before the stream did.
	ErrPeerGone = errors.New("the peer is gone")
	// ErrRefused: the client's user may not connect.
	ErrRefused = errors.New("refused")
	// ErrNamespace: the server is in another PID namespace, for example another
	// container, so its memory cannot be opened. Packed bodies still work.
	ErrNamespace = errors.New("the server is in another PID namespace")
	// ErrTooLarge: a message or body exceeds the limits of the options.
	ErrTooLarge = errors.New("larger than allowed")
)

// Tag is the number that a tagged message carries. The server chooses the tags of
// want_data and free_data messages; BodyTag computes the tag of a body.
type Tag uint64

// BodyKind is the content of a body's message: the highest byte of its tag.
type BodyKind uint8

const (
	// Packed: the bytes of the body as in an Arrow IPC stream.
	Packed BodyKind = 0
	// Located: the location of each buffer of the body, as a Locations. The
	// memory is one that both sides can read.
	Located BodyKind = 1
)

// String returns the kind's name.
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

// kindShift is the position of a body's kind: bits 56 to 63 in the protocol's
// text. Its diagrams shift by 55, which would overlap a reserved bit.
const kindShift = 56

// BodyTag returns the tag of the body of a message.
func BodyTag(sequence uint32, kind BodyKind) Tag {
	return Tag(kind)<<kindShift | Tag(sequence)
}

// ParseBodyTag splits the tag of a body. The error wraps ErrProtocol if a
// reserved bit (32 to 55) is set or the kind is unknown.
func ParseBodyTag(t Tag) (sequence uint32, kind BodyKind, err error) {
	if reserved := t >> 32 & (1<<(kindShift-32) - 1); reserved != 0 {
		return 0, 0, fmt.Errorf("%w: body tag %#016x: bits 32 to 55 are reserved and must be 0", ErrProtocol, uint64(t))
	}
	sequence, kind = uint32(t), BodyKind(t>>kindShift)
	if kind > Located {
		return 0, 0, fmt.Errorf("%w: body tag %#016x: kind: got kind %d, want 0 (packed) or 1 (located)", ErrProtocol, uint64(t), uint8(kind))
	}
	return sequence, kind, nil
}

// The types of metadata messages, and the length of their type and sequence number.
const (
	endOfStream  = 0
	ipcHeader    = 1
	prefixLength = 5
)

// Metadata is a message of the metadata stream.
type Metadata struct {
	Sequence uint32
	// Header is the flatbuffer of an Arrow IPC message, without the marker and
	// length that precede it in an Arrow IPC stream; nil ends the stream.
	Header []byte
}

// EndOfStream reports whether the message ends the stream.
func (m Metadata) EndOfStream() bool { return m.Header == nil }

// Append appends the message: its type, the sequence number, and the header.
func (m Metadata) Append(b []byte) []byte {
	kind := byte(ipcHeader)
	if m.EndOfStream() {
		kind = endOfStream
	}
	b = binary.LittleEndian.AppendUint32(append(b, kind), m.Sequence)
	return append(b, m.Header...)
}

// ParseMetadata parses the result of Append. The error wraps ErrProtocol. Header
// is part of b and is not validated.
func ParseMetadata(b []byte) (Metadata, error) {
	if len(b) < prefixLength {
		return Metadata{}, fmt.Errorf("%w: metadata message: got %d bytes, want at least %d", ErrProtocol, len(b), prefixLength)
	}
	m := Metadata{Sequence: binary.LittleEndian.Uint32(b[1:])}
	switch rest := b[prefixLength:]; b[0] {
	case endOfStream:
		if len(rest) != 0 {
			return Metadata{}, fmt.Errorf("%w: end of stream: got %d bytes, want %d", ErrProtocol, len(b), prefixLength)
		}
	case ipcHeader:
		if len(rest) == 0 {
			return Metadata{}, fmt.Errorf("%w: metadata message %d has no header", ErrProtocol, m.Sequence)
		}
		m.Header = rest
	default:
		return Metadata{}, fmt.Errorf("%w: metadata message: got type %d, want 0 (end of stream) or 1 (header)", ErrProtocol, b[0])
	}
	return m, nil
}

// Location is the memory of a buffer: an address, or an offset in the memory of
// the server's remote handle, and a length in bytes.
type Location struct{ Address, Length uint64 }

// Locations are the buffers of a body, in the order of its metadata.
type Locations []Location

// total returns the sum of the lengths; ok is false if it overflows.
func (l Locations) total() (sum uint64, ok bool) {
	for _, location := range l {
		var carry uint64
		if sum, carry = bits.Add64(sum, location.Length, 0); carry != 0 {
			return 0, false
		}
	}
	return sum, true
}

// Append appends the body of a Located message: the sum of the lengths, the
// number of buffers, and the address-length pairs.
func (l Locations) Append(b []byte) []byte {
	total, _ := l.total()
	b = binary.LittleEndian.AppendUint64(b, total)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(l)))
	for _, location := range l {
		b = binary.LittleEndian.AppendUint64(b, location.Address)
		b = binary.LittleEndian.AppendUint64(b, location.Length)
	}
	return b
}

// ParseLocations parses the result of Append. The error wraps ErrProtocol. It
// does not check that the locations are in memory.
func ParseLocations(b []byte) (Locations, error) {
	const pair = 16
	if len(b) < pair || len(b)%pair != 0 {
		return nil, fmt.Errorf("%w: located body: got %d bytes, want pairs of uint64", ErrProtocol, len(b))
	}
	total, count := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	if b = b[pair:]; count != uint64(len(b)/pair) {
		return nil, fmt.Errorf("%w: located body: got %[3]d pairs, want %[2]d", ErrProtocol, count, len(b)/pair)
	}
	l := make(Locations, count)
	for i := range l {
		l[i] = Location{binary.LittleEndian.Uint64(b[i*pair:]), binary.LittleEndian.Uint64(b[i*pair+8:])}
	}
	if sum, ok := l.total(); !ok || sum != total {
		return nil, fmt.Errorf("%w: located body: got a total of %d bytes, want %d", ErrProtocol, total, sum)
	}
	return l, nil
}

// AppendFreed appends the body of a free_data message: the addresses that the
// server may reuse.
func AppendFreed(b []byte, addresses ...uint64) []byte {
	for _, address := range addresses {
		b = binary.LittleEndian.AppendUint64(b, address)
	}
	return b
}

// ParseFreed parses the result of AppendFreed: at least one address. The error
// wraps ErrProtocol.
func ParseFreed(b []byte) ([]uint64, error) {
	if len(b) == 0 || len(b)%8 != 0 {
		return nil, fmt.Errorf("%w: free_data message: got %d bytes, want at least one uint64", ErrProtocol, len(b))
	}
	freed := make([]uint64, len(b)/8)
	for i := range freed {
		freed[i] = binary.LittleEndian.Uint64(b[i*8:])
	}
	return freed, nil
}

// Endpoint holds the parameters that a client needs of a server: the query
// parameters of its URI.
type Endpoint struct {
	// WantData is the tag of the message that requests a stream (want_data).
	WantData Tag
	// FreeData is the tag of messages that free memory (free_data). It is nil if
	// the server sends packed bodies only.
	FreeData *Tag
	// RemoteHandle opens the memory that locations refer to (remote_handle). It
	// may be empty.
	RemoteHandle []byte
}

// AddTo sets the parameters in the query of a URI.
func (e Endpoint) AddTo(u *url.URL) {
	if u == nil {
		return
	}
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

// ParseEndpoint parses the parameters of a URI and ignores others. The error
// wraps ErrProtocol if a parameter is missing, repeated or malformed, or if the
// two tags are equal.
func ParseEndpoint(u *url.URL) (Endpoint, error) {
	fail := func(err error) (Endpoint, error) {
		return Endpoint{}, fmt.Errorf("dissociated.ParseEndpoint: %w: %w", ErrProtocol, err)
	}
	if u == nil {
		return fail(errors.New("nil URI"))
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return fail(fmt.Errorf("query: %w", err))
	}
	want, err := parseTag(q, "want_data")
	if err != nil {
		return fail(err)
	}
	if want == nil {
		return fail(fmt.Errorf("want_data is missing"))
	}
	e := Endpoint{WantData: *want}
	if e.FreeData, err = parseTag(q, "free_data"); err != nil {
		return fail(err)
	}
	if e.FreeData != nil && *e.FreeData == e.WantData {
		return fail(fmt.Errorf("free_data and want_data are both %d", e.WantData))
	}
	handle, _, err := queryValue(q, "remote_handle")
	if err != nil {
		return fail(err)
	}
	if e.RemoteHandle, err = decodeBase64(handle); err != nil {
		return fail(fmt.Errorf("remote_handle: %w", err))
	}
	return e, nil
}

// decodeBase64 decodes either alphabet of base64, padded or not, since the
// protocol does not specify which. In a query a plus sign decodes to a space.
func decodeBase64(text string) ([]byte, error) {
	text = strings.NewReplacer("-", "+", "_", "/", " ", "+").Replace(text)
	if len(text)%4 == 0 {
		text = strings.TrimSuffix(strings.TrimSuffix(text, "="), "=")
	}
	return base64.RawStdEncoding.Strict().DecodeString(text)
}

func parseTag(q url.Values, name string) (*Tag, error) {
	text, ok, err := queryValue(q, name)
	if err != nil || !ok {
		return nil, err
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%s: got %q, want a uint64", name, text)
	}
	t := Tag(n)
	return &t, nil
}

func queryValue(q url.Values, name string) (value string, ok bool, err error) {
	switch all := q[name]; len(all) {
	case 0:
		return "", false, nil
	case 1:
		return all[0], true, nil
	default:
		return "", false, fmt.Errorf("%s: got %d values, want 1", name, len(all))
	}
}
