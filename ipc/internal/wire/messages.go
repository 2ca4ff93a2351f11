package wire

import (
	"unicode"
	"unicode/utf8"

	"github.com/quiver-gpu/quiver/ipc/handle"
)

// MaxName bounds a name, in bytes.
const MaxName = 255

// CheckName returns an error for what cannot be published.
func CheckName(name string) error {
	if len(name) == 0 || len(name) > MaxName || !utf8.ValidString(name) {
		return fault("the name %.300q: 1 to %d bytes of UTF-8 expected", name, MaxName)
	}
	for _, r := range name {
		if unicode.IsControl(r) {
			return fault("the name %q: it has a control character", name)
		}
	}
	return nil
}

func (c *cursor) name() string {
	name := c.str()
	if c.err == nil {
		c.err = CheckName(name)
	}
	return name
}

// AppendName writes the payload of GET.
func AppendName(b []byte, name string) []byte { return appendStr(b, name) }

// ParseName reads the payload of GET.
func ParseName(b []byte) (string, error) {
	c := cursor{rest: b}
	name := c.name()
	return name, c.end()
}

// AppendSubscribe writes the payload of SUBSCRIBE.
func AppendSubscribe(b []byte, credit uint32, name string) []byte {
	return appendStr(order.AppendUint32(b, credit), name)
}

// ParseSubscribe reads the payload of SUBSCRIBE.
func ParseSubscribe(b []byte) (credit uint32, name string, err error) {
	c := cursor{rest: b}
	credit, name = c.u32(), c.name()
	return credit, name, c.end()
}

// AppendU32 writes the payload of CREDIT.
func AppendU32(b []byte, n uint32) []byte { return order.AppendUint32(b, n) }

// ParseU32 reads the payload of CREDIT.
func ParseU32(b []byte) (uint32, error) {
	c := cursor{rest: b}
	n := c.u32()
	return n, c.end()
}

// AppendNumbers writes the payload of RELEASE, FORGET and FORGOTTEN.
func AppendNumbers(b []byte, numbers []uint64) []byte {
	b = order.AppendUint32(b, uint32(len(numbers)))
	for _, n := range numbers {
		b = order.AppendUint64(b, n)
	}
	return b
}

// ParseNumbers reads the payload of RELEASE, FORGET and FORGOTTEN.
func ParseNumbers(b []byte) ([]uint64, error) {
	c := cursor{rest: b}
	numbers := make([]uint64, c.count(c.u32(), 8))
	for i := range numbers {
		numbers[i] = c.u64()
	}
	return numbers, c.end()
}

// BlockMessage announces a block.
type BlockMessage struct {
	Block      uint64
	Descriptor handle.Descriptor
}

// Append writes the payload. The descriptor is valid.
func (m *BlockMessage) Append(b []byte) ([]byte, error) {
	d, err := m.Descriptor.MarshalBinary()
	if err != nil {
		return nil, err
	}
	b = order.AppendUint64(b, m.Block)
	return append(b, d...), nil
}

// Parse reads a payload.
func (m *BlockMessage) Parse(b []byte) error {
	c := cursor{rest: b}
	read := BlockMessage{Block: c.u64()}
	d := c.take(len(c.rest))
	if c.err == nil {
		if err := read.Descriptor.UnmarshalBinary(d); err != nil {
			c.fail("%v", err)
		}
	}
	switch {
	case c.err != nil:
	case read.Block == 0:
		c.fail("a block of number 0")
	case read.Descriptor.Offset != 0 || read.Descriptor.Length != read.Descriptor.AllocationSize:
		c.fail("a block that is a part of its allocation")
	}
	if err := c.end(); err != nil {
		return err
	}
	*m = read
	return nil
}

// Code is what an ERROR means.
type Code uint16

// The codes of docs/sharing.md.
const (
	CodeFault Code = 1 + iota
	CodeVersion
	CodeRefused
	CodeNotFound
	CodeKind
	CodeMechanism
	CodeMemory
	CodeFailed
	CodeClosing
	CodeExpired
)

// ErrorMessage is the payload of ERROR.
type ErrorMessage struct {
	Code Code
	Text string
}

const maxText = 4096

// Append writes the payload. Long text is cut.
func (m *ErrorMessage) Append(b []byte) []byte {
	text := m.Text
	for len(text) > maxText || !utf8.ValidString(text) {
		text = text[:min(len(text)-1, maxText)]
	}
	return appendStr(order.AppendUint16(b, uint16(m.Code)), text)
}

// Parse reads a payload.
func (m *ErrorMessage) Parse(b []byte) error {
	c := cursor{rest: b}
	read := ErrorMessage{Code: Code(c.u16()), Text: c.str()}
	if c.err == nil && (read.Code == 0 || len(read.Text) > maxText) {
		c.fail("error %d of %d bytes", read.Code, len(read.Text))
	}
	if err := c.end(); err != nil {
		return err
	}
	*m = read
	return nil
}
