package ipc

import (
	"time"

	"github.com/quiver-gpu/quiver/ipc/handle"
	"github.com/quiver-gpu/quiver/ipc/internal/wire"
)

// Kind is the kind of a published name.
type Kind uint8

// The kinds of published names.
const (
	KindTable  = Kind(wire.Table)  // record batches that do not change
	KindStream = Kind(wire.Stream) // record batches, one after the other
	KindBuffer = Kind(wire.Buffer) // bytes
	KindArray  = Kind(wire.Array)  // bytes and the layout of an N-dimensional array in them
)

// String returns "table", "stream", "buffer" or "array".
func (k Kind) String() string { return wire.Kind(k).String() }

// Entry describes a published name. The counts of a stream cover the batches written so
// far.
type Entry struct {
	Kind                 Kind
	Name                 string
	Rows, Batches, Bytes int64
	Device               string // such as "cuda:0"
	Subscribers          uint32 // of a stream
}

// LeaseStat describes a lease: a batch or a buffer that a client holds.
type LeaseStat struct {
	Lease    uint64 // number of the lease
	Sequence uint64 // number of the batch in its stream or table
	Bytes    int64
	Since    time.Time
	Name     string // under which the batch or buffer is published
}

// ClientStat describes a client of a server.
type ClientStat struct {
	// PID and UID are those that the server sees. PID is 0 if the server does not see
	// the client's PID namespace.
	PID, UID  uint32
	Process   handle.Process // as the client says
	Connected time.Time
	Leases    []LeaseStat
}

// BlockStat describes an allocation that a server shares.
type BlockStat struct {
	Block           uint64 // number of the block
	Size            int64  // bytes
	Mechanism       handle.Mechanism
	Leases, Clients uint32 // that use it
	Device          string
}

// Stats lists the clients of a server with their leases, and its shared blocks.
type Stats struct {
	Clients []ClientStat
	Blocks  []BlockStat
}

// entriesOf and statsOf convert what the protocol sends.
func entriesOf(listing []wire.Entry) []Entry {
	entries := make([]Entry, len(listing))
	for i, e := range listing {
		entries[i] = Entry{Kind(e.Kind), e.Name, e.Rows, e.Batches, e.Bytes, e.Device, e.Subscribers}
	}
	return entries
}

func statsOf(m wire.StatsMessage) Stats {
	var stats Stats
	for _, c := range m.Clients {
		client := ClientStat{PID: c.PID, UID: c.UID, Process: c.Process, Connected: c.Connected}
		for _, l := range c.Leases {
			client.Leases = append(client.Leases, LeaseStat(l))
		}
		stats.Clients = append(stats.Clients, client)
	}
	for _, b := range m.Blocks {
		stats.Blocks = append(stats.Blocks, BlockStat{Block: b.Block, Size: b.Size, Mechanism: b.Mechanism, Leases: b.Leases, Clients: b.Clients, Device: b.Device})
	}
	return stats
}

// listing converts entries to what the protocol sends.
func listing(entries []Entry) []wire.Entry {
	out := make([]wire.Entry, len(entries))
	for i, e := range entries {
		out[i] = wire.Entry{Kind: wire.Kind(e.Kind), Name: e.Name, Rows: e.Rows, Batches: e.Batches, Bytes: e.Bytes, Device: e.Device, Subscribers: e.Subscribers}
	}
	return out
}
