package wire

import (
	"fmt"
	"math"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ipc/handle"
)

// Version is the version of the protocol that this package implements.
const Version = 1

const (
	magic      = "QVSHARE1"
	flagEvents = 1 // a flag of HELLO
)

// HelloMessage is the payload of HELLO, with which a client introduces itself.
type HelloMessage struct {
	Lowest, Highest uint16
	Process         handle.Process
	Events          bool              // the client opens event handles
	Mechanisms      handle.Mechanisms // best first
	Devices         []cudabuf.UUID
}

// Append appends the payload.
func (m *HelloMessage) Append(b []byte) []byte {
	b = append(b, magic...)
	b = order.AppendUint16(b, m.Lowest)
	b = order.AppendUint16(b, m.Highest)
	b = m.Process.Append(b)
	b = append(b, 0, byte(len(m.Mechanisms)))
	if m.Events {
		b[len(b)-2] = flagEvents
	}
	for _, mechanism := range m.Mechanisms {
		b = append(b, byte(mechanism))
	}
	b = append(b, byte(len(m.Devices)))
	for _, id := range m.Devices {
		b = append(b, id[:]...)
	}
	return b
}

// Parse parses a payload. It skips unknown mechanisms.
func (m *HelloMessage) Parse(b []byte) error {
	c := cursor{rest: b}
	c.magic()
	read := HelloMessage{Lowest: c.u16(), Highest: c.u16(), Process: c.process()}
	if c.err == nil && read.Lowest > read.Highest {
		c.fail("versions %d to %d", read.Lowest, read.Highest)
	}
	flags := c.u8()
	if c.err == nil && flags > flagEvents {
		c.fail("flags %#x", flags)
	}
	read.Events = flags == flagEvents
	for _, mechanism := range c.bytes(int(c.u8())) {
		if handle.Mechanism(mechanism).Valid() {
			read.Mechanisms = append(read.Mechanisms, handle.Mechanism(mechanism))
		}
	}
	for range c.u8() {
		var id cudabuf.UUID
		copy(id[:], c.bytes(len(id)))
		read.Devices = append(read.Devices, id)
	}
	if err := c.finish(); err != nil {
		return err
	}
	*m = read
	return nil
}

// WelcomeMessage is the payload of WELCOME, a server's reply to HELLO.
type WelcomeMessage struct {
	Version         uint16
	Process         handle.Process
	Instance        [16]byte
	KeepAliveMillis uint32 // in milliseconds, 0 for no limit
}

// Append appends the payload.
func (m *WelcomeMessage) Append(b []byte) []byte {
	b = append(b, magic...)
	b = order.AppendUint16(b, m.Version)
	b = append(b, 0, 0)
	b = m.Process.Append(b)
	b = append(b, m.Instance[:]...)
	b = order.AppendUint32(b, m.KeepAliveMillis)
	return append(b, 0, 0, 0, 0)
}

// Parse parses a payload.
func (m *WelcomeMessage) Parse(b []byte) error {
	c := cursor{rest: b}
	c.magic()
	read := WelcomeMessage{Version: c.u16()}
	c.reserved(2)
	read.Process = c.process()
	copy(read.Instance[:], c.bytes(len(read.Instance)))
	read.KeepAliveMillis = c.u32()
	c.reserved(4)
	if err := c.finish(); err != nil {
		return err
	}
	*m = read
	return nil
}

func (c *cursor) magic() {
	if b := c.bytes(len(magic)); b != nil && string(b) != magic {
		c.fail("magic: got %q, want %q", b, magic)
	}
}

func (c *cursor) process() (p handle.Process) {
	b := c.bytes(handle.ProcessSize)
	if b == nil {
		return p
	}
	p, err := handle.ParseProcess(b)
	if err != nil {
		c.fail("%v", err)
	}
	return p
}

// MaxName is the maximum length of a name in bytes.
const MaxName = 255

// CheckName returns an error unless a name is 1 to MaxName bytes of UTF-8 without
// control characters.
func CheckName(name string) error {
	if len(name) == 0 || len(name) > MaxName || !utf8.ValidString(name) {
		return fault("name: got %.300q, want 1 to %d bytes of UTF-8", name, MaxName)
	}
	for _, r := range name {
		if unicode.IsControl(r) {
			return fault("name: got %q, want no control characters", name)
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

// AppendName appends the payload of GET.
func AppendName(b []byte, name string) []byte { return appendStr(b, name) }

// ParseName parses the payload of GET.
func ParseName(b []byte) (string, error) {
	c := cursor{rest: b}
	name := c.name()
	return name, c.finish()
}

// AppendSubscribe appends the payload of SUBSCRIBE.
func AppendSubscribe(b []byte, credit uint32, name string) []byte {
	return appendStr(order.AppendUint32(b, credit), name)
}

// ParseSubscribe parses the payload of SUBSCRIBE.
func ParseSubscribe(b []byte) (credit uint32, name string, err error) {
	c := cursor{rest: b}
	credit, name = c.u32(), c.name()
	return credit, name, c.finish()
}

// AppendCredit appends the payload of CREDIT.
func AppendCredit(b []byte, n uint32) []byte { return order.AppendUint32(b, n) }

// ParseCredit parses the payload of CREDIT.
func ParseCredit(b []byte) (uint32, error) {
	c := cursor{rest: b}
	n := c.u32()
	return n, c.finish()
}

// Kind is the kind of a published name.
type Kind uint8

// The kinds of docs/sharing.md.
const (
	Table  Kind = 1
	Stream Kind = 2
	Buffer Kind = 3
	Array  Kind = 4
)

var kindNames = [...]string{Table: "table", Stream: "stream", Buffer: "buffer", Array: "array"}

func (k Kind) String() string {
	if k >= Table && k <= Array {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Entry describes a published name.
type Entry struct {
	Kind                 Kind
	Name                 string
	Rows, Batches, Bytes int64
	Device               string
	Subscribers          uint32
}

// AppendListing appends the payload of LISTING.
func AppendListing(b []byte, entries []Entry) []byte {
	b = order.AppendUint32(b, uint32(len(entries)))
	for _, e := range entries {
		b = append(b, byte(e.Kind), 0)
		b = appendStr(b, e.Name)
		b = order.AppendUint64(b, uint64(e.Rows))
		b = order.AppendUint64(b, uint64(e.Batches))
		b = order.AppendUint64(b, uint64(e.Bytes))
		b = appendStr(b, e.Device)
		b = order.AppendUint32(b, e.Subscribers)
	}
	return b
}

// ParseListing parses the payload of LISTING.
func ParseListing(b []byte) ([]Entry, error) {
	c := cursor{rest: b}
	entries := make([]Entry, c.count(c.u32(), 34))
	for i := range entries {
		e := Entry{Kind: Kind(c.u8())}
		c.reserved(1)
		e.Name, e.Rows, e.Batches, e.Bytes = c.name(), c.size(), c.size(), c.size()
		e.Device, e.Subscribers = c.str(), c.u32()
		if c.err == nil && (e.Kind < Table || e.Kind > Array) {
			c.fail("kind %d", e.Kind)
		}
		entries[i] = e
	}
	return entries, c.finish()
}

// BlockMessage is the payload of BLOCK, which announces a block.
type BlockMessage struct {
	Block      uint64
	Descriptor handle.Descriptor
}

// Append appends the payload. The descriptor must be valid.
func (m *BlockMessage) Append(b []byte) ([]byte, error) {
	d, err := m.Descriptor.MarshalBinary()
	if err != nil {
		return nil, err
	}
	b = order.AppendUint64(b, m.Block)
	return append(b, d...), nil
}

// Parse parses a payload.
func (m *BlockMessage) Parse(b []byte) error {
	c := cursor{rest: b}
	read := BlockMessage{Block: c.u64()}
	d := c.bytes(len(c.rest))
	if c.err == nil {
		if err := read.Descriptor.UnmarshalBinary(d); err != nil {
			c.fail("%v", err)
		}
	}
	switch {
	case c.err != nil:
	case read.Block == 0:
		c.fail("block number: got 0")
	case read.Descriptor.Offset != 0 || read.Descriptor.Length != read.Descriptor.AllocationSize:
		c.fail("block: got a part of an allocation, want the whole allocation")
	}
	if err := c.finish(); err != nil {
		return err
	}
	*m = read
	return nil
}

// Region is a part of a message body that is in a block.
type Region struct {
	BodyOffset, Length int64 // in the body
	Block              uint64
	Offset             int64 // in the block
}

const regionSize = 32

// Part is an Arrow IPC message, an array's layout and memory, or a bare buffer if
// Metadata is empty.
type Part struct {
	Metadata []byte
	Regions  []Region
}

// BatchMessage is the payload of BATCH.
type BatchMessage struct {
	Lease, Sequence uint64
	Pending         bool // the client must wait for the blocks' events
	Parts           []Part
}

const flagPending = 1

// OfBuffer reports whether the message can be that of a buffer or of an array: it has
// one part, whose body is one region from offset 0 or empty.
func (m *BatchMessage) OfBuffer() bool {
	if len(m.Parts) != 1 {
		return false
	}
	r := m.Parts[0].Regions
	return len(r) == 0 || len(r) == 1 && r[0].BodyOffset == 0
}

// Append appends the payload.
func (m *BatchMessage) Append(b []byte) []byte {
	b = order.AppendUint64(b, m.Lease)
	b = order.AppendUint64(b, m.Sequence)
	var flags byte
	if m.Pending {
		flags = flagPending
	}
	b = append(b, flags, 0)
	b = order.AppendUint16(b, uint16(len(m.Parts)))
	b = append(b, 0, 0, 0, 0)
	for _, p := range m.Parts {
		b = order.AppendUint32(b, uint32(len(p.Metadata)))
		b = order.AppendUint32(b, uint32(len(p.Regions)))
		b = append(b, p.Metadata...)
		for _, r := range p.Regions {
			b = order.AppendUint64(b, uint64(r.BodyOffset))
			b = order.AppendUint64(b, uint64(r.Length))
			b = order.AppendUint64(b, r.Block)
			b = order.AppendUint64(b, uint64(r.Offset))
		}
	}
	return b
}

// Parse parses a payload. Metadata refers to b.
func (m *BatchMessage) Parse(b []byte) error {
	c := cursor{rest: b}
	read := BatchMessage{Lease: c.u64(), Sequence: c.u64()}
	flags := c.u8()
	c.reserved(1)
	parts := c.count(uint32(c.u16()), 8)
	if c.reserved(4); parts == 0 {
		c.fail("batch: got no message")
	}
	read.Pending = flags == flagPending
	switch {
	case c.err != nil:
	case flags > flagPending:
		c.fail("flags %#x", flags)
	case read.Lease == 0:
		c.fail("lease number: got 0")
	}
	for range parts {
		p := c.part()
		if c.err != nil {
			break
		}
		if len(p.Metadata) == 0 && (parts > 1 || len(p.Regions) > 1 || len(p.Regions) == 1 && p.Regions[0].BodyOffset != 0) {
			c.fail("message without metadata: want one buffer in one region")
		}
		read.Parts = append(read.Parts, p)
	}
	if err := c.finish(); err != nil {
		return err
	}
	*m = read
	return nil
}

func (c *cursor) part() (p Part) {
	metadata, regions := c.u32(), c.u32()
	p.Metadata = c.bytes(int(metadata))
	p.Regions = make([]Region, c.count(regions, regionSize))
	var end int64
	for i := range p.Regions {
		r := Region{BodyOffset: c.size(), Length: c.size(), Block: c.u64(), Offset: c.size()}
		if r.Length == 0 || r.Block == 0 || r.BodyOffset < end || r.Length > math.MaxInt64-r.BodyOffset {
			c.fail("region %d, %+v, after offset %d", i, r, end)
		}
		end = r.BodyOffset + r.Length
		p.Regions[i] = r
	}
	return p
}

// AppendNumbers appends the payload of RELEASE, FORGET and FORGOTTEN.
func AppendNumbers(b []byte, numbers []uint64) []byte {
	b = order.AppendUint32(b, uint32(len(numbers)))
	for _, n := range numbers {
		b = order.AppendUint64(b, n)
	}
	return b
}

// ParseNumbers parses the payload of RELEASE, FORGET and FORGOTTEN.
func ParseNumbers(b []byte) ([]uint64, error) {
	c := cursor{rest: b}
	numbers := make([]uint64, c.count(c.u32(), 8))
	for i := range numbers {
		numbers[i] = c.u64()
	}
	return numbers, c.finish()
}

// StatsMessage is the payload of STATS: the clients with their leases, and the
// blocks.
type StatsMessage struct {
	Clients []ClientStat
	Blocks  []BlockStat
}

// ClientStat describes a connection.
type ClientStat struct {
	PID, UID  uint32 // as the server sees them; PID is 0 if the client's namespace is not visible to the server
	Process   handle.Process
	Connected time.Time
	Leases    []LeaseStat
}

// LeaseStat describes a batch or a buffer that a client holds.
type LeaseStat struct {
	Lease, Sequence uint64
	Bytes           int64
	Since           time.Time
	Name            string
}

// BlockStat describes a shared allocation.
type BlockStat struct {
	Block           uint64
	Size            int64
	Mechanism       handle.Mechanism
	Leases, Clients uint32
	Device          string
}

// Append appends the payload.
func (m *StatsMessage) Append(b []byte) []byte {
	b = order.AppendUint32(b, uint32(len(m.Clients)))
	for _, s := range m.Clients {
		b = order.AppendUint32(b, s.PID)
		b = order.AppendUint32(b, s.UID)
		b = s.Process.Append(b)
		b = order.AppendUint64(b, uint64(s.Connected.UnixNano()))
		b = order.AppendUint32(b, uint32(len(s.Leases)))
		for _, l := range s.Leases {
			b = order.AppendUint64(b, l.Lease)
			b = order.AppendUint64(b, l.Sequence)
			b = order.AppendUint64(b, uint64(l.Bytes))
			b = order.AppendUint64(b, uint64(l.Since.UnixNano()))
			b = appendStr(b, l.Name)
		}
	}
	b = order.AppendUint32(b, uint32(len(m.Blocks)))
	for _, s := range m.Blocks {
		b = order.AppendUint64(b, s.Block)
		b = order.AppendUint64(b, uint64(s.Size))
		b = append(b, byte(s.Mechanism), 0, 0, 0)
		b = order.AppendUint32(b, s.Leases)
		b = order.AppendUint32(b, s.Clients)
		b = appendStr(b, s.Device)
	}
	return b
}

// Parse parses a payload.
func (m *StatsMessage) Parse(b []byte) error {
	c := cursor{rest: b}
	read := StatsMessage{Clients: make([]ClientStat, c.count(c.u32(), 60))}
	for i := range read.Clients {
		s := ClientStat{PID: c.u32(), UID: c.u32(), Process: c.process(), Connected: c.time()}
		s.Leases = make([]LeaseStat, c.count(c.u32(), 34))
		for j := range s.Leases {
			s.Leases[j] = LeaseStat{Lease: c.u64(), Sequence: c.u64(), Bytes: c.size(), Since: c.time(), Name: c.name()}
		}
		read.Clients[i] = s
	}
	read.Blocks = make([]BlockStat, c.count(c.u32(), 30))
	for i := range read.Blocks {
		s := BlockStat{Block: c.u64(), Size: c.size(), Mechanism: handle.Mechanism(c.u8())}
		c.reserved(3)
		s.Leases, s.Clients, s.Device = c.u32(), c.u32(), c.str()
		if c.err == nil && !s.Mechanism.Valid() {
			c.fail("%v", s.Mechanism)
		}
		read.Blocks[i] = s
	}
	if err := c.finish(); err != nil {
		return err
	}
	*m = read
	return nil
}

func (c *cursor) time() time.Time { return time.Unix(0, c.size()) }

// Code is the error code of an ERROR.
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

// Append appends the payload. It truncates long text.
func (m *ErrorMessage) Append(b []byte) []byte {
	text := m.Text
	for len(text) > maxText || !utf8.ValidString(text) {
		text = text[:min(len(text)-1, maxText)]
	}
	return appendStr(order.AppendUint16(b, uint16(m.Code)), text)
}

// Parse parses a payload.
func (m *ErrorMessage) Parse(b []byte) error {
	c := cursor{rest: b}
	read := ErrorMessage{Code: Code(c.u16()), Text: c.str()}
	if c.err == nil && (read.Code == 0 || len(read.Text) > maxText) {
		c.fail("error code %d with a text of %d bytes", read.Code, len(read.Text))
	}
	if err := c.finish(); err != nil {
		return err
	}
	*m = read
	return nil
}
