package wire

import (
	"time"

	"github.com/quiver-gpu/quiver/ipc/handle"
)

// StatsMessage says what is held, and by whom.
type StatsMessage struct {
	Clients []ClientStat
	Blocks  []BlockStat
}

// ClientStat is a connection.
type ClientStat struct {
	PID, UID  uint32 // as the server sees them; PID 0 is of a namespace that it does not see
	Process   handle.Process
	Connected time.Time
	Leases    []LeaseStat
}

// LeaseStat is a batch or a buffer that a client holds.
type LeaseStat struct {
	Lease, Sequence uint64
	Bytes           int64
	Since           time.Time
	Name            string
}

// BlockStat is an allocation that is shared.
type BlockStat struct {
	Block           uint64
	Size            int64
	Mechanism       handle.Mechanism
	Leases, Clients uint32
	Device          string
}

// Append writes the payload.
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

// Parse reads a payload.
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
	if err := c.end(); err != nil {
		return err
	}
	*m = read
	return nil
}

func (c *cursor) time() time.Time { return time.Unix(0, c.size()) }
