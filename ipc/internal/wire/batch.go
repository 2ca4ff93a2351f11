package wire

import "math"

// Region is a part of a block, and of the body of a message.
type Region struct {
	Place, Length int64 // in the body
	Block         uint64
	Offset        int64 // in the block
}

const regionSize = 32

// Part is an Arrow IPC message, or a bare buffer where Metadata is empty.
type Part struct {
	Metadata []byte
	Regions  []Region
}

// BatchMessage is the payload of BATCH.
type BatchMessage struct {
	Lease, Sequence uint64
	Pending         bool // wait for the blocks' events
	Parts           []Part
}

const flagPending = 1

// Append writes the payload.
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
			b = order.AppendUint64(b, uint64(r.Place))
			b = order.AppendUint64(b, uint64(r.Length))
			b = order.AppendUint64(b, r.Block)
			b = order.AppendUint64(b, uint64(r.Offset))
		}
	}
	return b
}

// Parse reads a payload. Metadata shows its bytes.
func (m *BatchMessage) Parse(b []byte) error {
	c := cursor{rest: b}
	read := BatchMessage{Lease: c.u64(), Sequence: c.u64()}
	flags := c.u8()
	c.reserved(1)
	parts := c.count(uint32(c.u16()), 8)
	if c.reserved(4); parts == 0 {
		c.fail("a batch without a message")
	}
	read.Pending = flags == flagPending
	switch {
	case c.err != nil:
	case flags > flagPending:
		c.fail("flags %#x", flags)
	case read.Lease == 0:
		c.fail("a lease of number 0")
	}
	for range parts {
		p := c.part()
		if c.err != nil {
			break
		}
		if len(p.Metadata) == 0 && (parts > 1 || len(p.Regions) > 1 || len(p.Regions) == 1 && p.Regions[0].Place != 0) {
			c.fail("a message without metadata that is not a buffer")
		}
		read.Parts = append(read.Parts, p)
	}
	if err := c.end(); err != nil {
		return err
	}
	*m = read
	return nil
}

func (c *cursor) part() (p Part) {
	metadata, regions := c.u32(), c.u32()
	p.Metadata = c.take(int(metadata))
	p.Regions = make([]Region, c.count(regions, regionSize))
	var end int64
	for i := range p.Regions {
		r := Region{Place: c.size(), Length: c.size(), Block: c.u64(), Offset: c.size()}
		if r.Length == 0 || r.Block == 0 || r.Place < end || r.Length > math.MaxInt64-r.Place {
			c.fail("region %d, %+v, behind %d", i, r, end)
		}
		end = r.Place + r.Length
		p.Regions[i] = r
	}
	return p
}
