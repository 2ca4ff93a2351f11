package wire

import (
	"fmt"
	"os"
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

// MaxPayload bounds the payload of a frame, in bytes.
const MaxPayload = 1 << 24

const headerSize = 12

// Frame is one message. Who reads one owns its file.
type Frame struct {
	Type    Type
	Request uint32
	Payload []byte
	File    *os.File // nil where none travels with it
}

// CloseFile closes the file of a frame that nobody took.
func (f *Frame) CloseFile() {
	if f.File != nil {
		_ = f.File.Close()
		f.File = nil
	}
}

// header is what stands before a payload.
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
		c.fail("%v of %d bytes, at most %d expected", h.typ, h.length, MaxPayload)
	case h.files > 1 || h.files == 1 && h.typ != Block:
		c.fail("%v with %d descriptors", h.typ, h.files)
	}
	return h, c.end()
}

// Expect returns a fault for a payload where there is none.
func (f *Frame) Expect(empty bool) error {
	if empty && len(f.Payload) > 0 {
		return fault("%v has %d bytes, none expected", f.Type, len(f.Payload))
	}
	return nil
}
