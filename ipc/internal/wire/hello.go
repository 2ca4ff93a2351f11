package wire

import (
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ipc/handle"
)

// Version is the version of the protocol that this package speaks.
const Version = 1

const (
	magic       = "QVSHARE1"
	opensEvents = 1 // a flag of HELLO
)

// HelloMessage is what a client says of itself.
type HelloMessage struct {
	Lowest, Highest uint16
	Process         handle.Process
	Events          bool              // it opens event handles
	Mechanisms      handle.Mechanisms // best first
	Devices         []cudabuf.UUID
}

// Append writes the payload.
func (m *HelloMessage) Append(b []byte) []byte {
	b = append(b, magic...)
	b = order.AppendUint16(b, m.Lowest)
	b = order.AppendUint16(b, m.Highest)
	b = m.Process.Append(b)
	b = append(b, 0, byte(len(m.Mechanisms)))
	if m.Events {
		b[len(b)-2] = opensEvents
	}
	for _, way := range m.Mechanisms {
		b = append(b, byte(way))
	}
	b = append(b, byte(len(m.Devices)))
	for _, id := range m.Devices {
		b = append(b, id[:]...)
	}
	return b
}

// Parse reads a payload. Mechanisms that this version does not know are left
// out.
func (m *HelloMessage) Parse(b []byte) error {
	c := cursor{rest: b}
	c.magic()
	read := HelloMessage{Lowest: c.u16(), Highest: c.u16(), Process: c.process()}
	if c.err == nil && read.Lowest > read.Highest {
		c.fail("versions %d to %d", read.Lowest, read.Highest)
	}
	flags := c.u8()
	if c.err == nil && flags > opensEvents {
		c.fail("flags %#x", flags)
	}
	read.Events = flags == opensEvents
	for _, way := range c.take(int(c.u8())) {
		if handle.Mechanism(way).Valid() {
			read.Mechanisms = append(read.Mechanisms, handle.Mechanism(way))
		}
	}
	for range c.u8() {
		var id cudabuf.UUID
		copy(id[:], c.take(len(id)))
		read.Devices = append(read.Devices, id)
	}
	if err := c.end(); err != nil {
		return err
	}
	*m = read
	return nil
}

// WelcomeMessage is what a server answers.
type WelcomeMessage struct {
	Version  uint16
	Process  handle.Process
	Instance [16]byte
	Silence  uint32 // milliseconds, 0 for no limit
}

// Append writes the payload.
func (m *WelcomeMessage) Append(b []byte) []byte {
	b = append(b, magic...)
	b = order.AppendUint16(b, m.Version)
	b = append(b, 0, 0)
	b = m.Process.Append(b)
	b = append(b, m.Instance[:]...)
	b = order.AppendUint32(b, m.Silence)
	return append(b, 0, 0, 0, 0)
}

// Parse reads a payload.
func (m *WelcomeMessage) Parse(b []byte) error {
	c := cursor{rest: b}
	c.magic()
	read := WelcomeMessage{Version: c.u16()}
	c.reserved(2)
	read.Process = c.process()
	copy(read.Instance[:], c.take(len(read.Instance)))
	read.Silence = c.u32()
	c.reserved(4)
	if err := c.end(); err != nil {
		return err
	}
	*m = read
	return nil
}

func (c *cursor) magic() {
	if b := c.take(len(magic)); b != nil && string(b) != magic {
		c.fail("it begins with %q, not %q", b, magic)
	}
}

func (c *cursor) process() (p handle.Process) {
	b := c.take(handle.ProcessSize)
	if b == nil {
		return p
	}
	p, err := handle.ParseProcess(b)
	if err != nil {
		c.fail("%v", err)
	}
	return p
}
