package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"unicode/utf8"
)

// Type is the type of a frame.
type Type uint8

// The types of docs/sharing.md.
const (
	Hello Type = 1 + iota
	Welcome
	List
	Listing
	Get
	Subscribe
	Credit
	Cancel
	Schema
	Block
	Batch
	End
	Release
	Forget
	Forgotten
	Stat
	Stats
	Ping
	Pong
	Error
)

var typeNames = [...]string{
	Hello: "HELLO", Welcome: "WELCOME", List: "LIST", Listing: "LISTING", Get: "GET", Subscribe: "SUBSCRIBE",
	Credit: "CREDIT", Cancel: "CANCEL", Schema: "SCHEMA", Block: "BLOCK", Batch: "BATCH", End: "END",
	Release: "RELEASE", Forget: "FORGET", Forgotten: "FORGOTTEN", Stat: "STAT", Stats: "STATS",
	Ping: "PING", Pong: "PONG", Error: "ERROR",
}

func (t Type) String() string {
	if t >= Hello && t <= Error {
		return typeNames[t]
	}
	return fmt.Sprintf("frame type %d", uint8(t))
}

// MaxPayload is the maximum length of a frame's payload.
const MaxPayload = 1 << 24

const headerSize = 12

// Frame is one message. The reader of a frame owns its file.
type Frame struct {
	Type    Type
	Request uint32
	Payload []byte
	File    *os.File // nil if no descriptor was sent with the frame
}

// CloseFile closes the file of a frame, if any.
func (f *Frame) CloseFile() {
	if f.File != nil {
		_ = f.File.Close()
		f.File = nil
	}
}

// header precedes a payload.
type header struct {
	length  int
	typ     Type
	files   int
	request uint32
}

func (h header) append(b []byte) []byte {
	b = order.AppendUint32(b, uint32(h.length))
	b = append(b, byte(h.typ), byte(h.files), 0, 0)
	return order.AppendUint32(b, h.request)
}

func parseHeader(b []byte) (header, error) {
	c := cursor{rest: b}
	h := header{length: int(c.u32()), typ: Type(c.u8()), files: int(c.u8())}
	c.reserved(2)
	h.request = c.u32()
	switch {
	case c.err != nil:
	case h.typ < Hello || h.typ > Error:
		c.fail("%v", h.typ)
	case h.length > MaxPayload:
		c.fail("%v: payload: got %d bytes, want at most %d", h.typ, h.length, MaxPayload)
	case h.files > 1 || h.files == 1 && h.typ != Block:
		c.fail("%v: got %d descriptors", h.typ, h.files)
	}
	return h, c.finish()
}

// ExpectEmpty returns a fault if the frame has a payload.
func (f *Frame) ExpectEmpty() error {
	if len(f.Payload) > 0 {
		return fault("%v: payload: got %d bytes, want 0", f.Type, len(f.Payload))
	}
	return nil
}

// ErrFault means that a message violates the protocol. The text says what was expected.
var ErrFault = errors.New("fault in the sharing protocol")

func fault(format string, a ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrFault}, a...)...)
}

// cursor reads the fields of a payload in order. After the first error, all
// fields read as zero, and finish returns the error.
type cursor struct {
	rest []byte
	err  error
}

func (c *cursor) bytes(n int) []byte {
	if c.err == nil && n > len(c.rest) {
		c.err = fault("got %d bytes, want a field of %d", len(c.rest), n)
	}
	if c.err != nil {
		return nil
	}
	b := c.rest[:n]
	c.rest = c.rest[n:]
	return b
}

func (c *cursor) u8() uint8 {
	if b := c.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (c *cursor) u16() uint16 {
	if b := c.bytes(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (c *cursor) u32() uint32 {
	if b := c.bytes(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (c *cursor) u64() uint64 {
	if b := c.bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// size reads a u64 that must fit an int64.
func (c *cursor) size() int64 {
	n := c.u64()
	if n > math.MaxInt64 {
		c.fail("size: got %d, want at most %d", n, int64(math.MaxInt64))
		return 0
	}
	return int64(n)
}

func (c *cursor) str() string {
	b := c.bytes(int(c.u16()))
	if !utf8.Valid(b) {
		c.fail("text that is not UTF-8")
		return ""
	}
	return string(b)
}

// reserved reads n bytes that must be 0.
func (c *cursor) reserved(n int) {
	for _, b := range c.bytes(n) {
		if b != 0 {
			c.fail("reserved bytes are not 0")
		}
	}
}

// count checks that n elements of at least size bytes can follow. This bounds the
// memory that is allocated for them by the bytes that were sent.
func (c *cursor) count(n uint32, size int) int {
	if c.err == nil && uint64(n)*uint64(size) > uint64(len(c.rest)) {
		c.fail("%d elements in %d bytes", n, len(c.rest))
	}
	if c.err != nil {
		return 0
	}
	return int(n)
}

func (c *cursor) fail(format string, a ...any) {
	if c.err == nil {
		c.err = fault(format, a...)
	}
}

// finish returns the first error. Bytes that are left over are an error, too.
func (c *cursor) finish() error {
	if c.err == nil && len(c.rest) > 0 {
		c.fail("%d bytes left over", len(c.rest))
	}
	return c.err
}

func appendStr(b []byte, s string) []byte {
	s = s[:min(len(s), math.MaxUint16)]
	return append(binary.LittleEndian.AppendUint16(b, uint16(len(s))), s...)
}

var order = binary.LittleEndian
