package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
)

// ErrFault: a message that breaks the protocol. The text says what was expected.
var ErrFault = errors.New("fault in the sharing protocol")

func fault(format string, a ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrFault}, a...)...)
}

// cursor reads the fields of a payload in turn. After the first that does not
// fit, all are zero, and end tells.
type cursor struct {
	rest []byte
	err  error
}

func (c *cursor) take(n int) []byte {
	if c.err == nil && n > len(c.rest) {
		c.err = fault("a field of %d bytes where %d are left", n, len(c.rest))
	}
	if c.err != nil {
		return nil
	}
	b := c.rest[:n]
	c.rest = c.rest[n:]
	return b
}

func (c *cursor) u8() uint8 {
	if b := c.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (c *cursor) u16() uint16 {
	if b := c.take(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (c *cursor) u32() uint32 {
	if b := c.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (c *cursor) u64() uint64 {
	if b := c.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// size is a u64 that counts something of this machine.
func (c *cursor) size() int64 {
	n := c.u64()
	if n > math.MaxInt64 {
		c.fail("a size of %d", n)
		return 0
	}
	return int64(n)
}

func (c *cursor) str() string {
	b := c.take(int(c.u16()))
	if !utf8.Valid(b) {
		c.fail("text that is not UTF-8")
		return ""
	}
	return string(b)
}

// reserved takes n bytes that are 0.
func (c *cursor) reserved(n int) {
	for _, b := range c.take(n) {
		if b != 0 {
			c.fail("reserved bytes are not 0")
		}
	}
}

// count is how many elements of at least size bytes follow. It bounds what is
// allocated for them by what was sent.
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

// end tells what was wrong, bytes that are left over included.
func (c *cursor) end() error {
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
