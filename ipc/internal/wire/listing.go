package wire

import "fmt"

// Kind is what a name stands for.
type Kind uint8

// The kinds of docs/sharing.md.
const (
	Table  Kind = 1
	Stream Kind = 2
	Buffer Kind = 3
)

var kindNames = [...]string{Table: "table", Stream: "stream", Buffer: "buffer"}

func (k Kind) String() string {
	if k >= Table && k <= Buffer {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Entry is one published name.
type Entry struct {
	Kind                 Kind
	Name                 string
	Rows, Batches, Bytes int64
	Device               string
	Subscribers          uint32
}

// AppendListing writes the payload of LISTING.
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

// ParseListing reads the payload of LISTING.
func ParseListing(b []byte) ([]Entry, error) {
	c := cursor{rest: b}
	entries := make([]Entry, c.count(c.u32(), 34))
	for i := range entries {
		e := Entry{Kind: Kind(c.u8())}
		c.reserved(1)
		e.Name, e.Rows, e.Batches, e.Bytes = c.name(), c.size(), c.size(), c.size()
		e.Device, e.Subscribers = c.str(), c.u32()
		if c.err == nil && (e.Kind < Table || e.Kind > Buffer) {
			c.fail("kind %d", e.Kind)
		}
		entries[i] = e
	}
	return entries, c.end()
}
