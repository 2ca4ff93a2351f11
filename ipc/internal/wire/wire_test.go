package wire_test

import (
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ipc/handle"
	"github.com/quiver-gpu/quiver/ipc/internal/wire"
)

type message interface{ Parse([]byte) error }

var process = handle.Process{Machine: [16]byte{1, 2}, Namespace: 3, Start: 4, PID: 5}

func block(t testing.TB) []byte {
	m := wire.BlockMessage{Block: 7, Descriptor: handle.Descriptor{Mechanism: handle.CUDAIPC, AllocationSize: 9, Length: 9, Exporter: process, Event: &cudabuf.EventHandle{1}}}
	b, err := m.Append(nil)
	require.NoError(t, err)
	return b
}

// messages returns one payload of each type.
func messages(t testing.TB) map[wire.Type][]byte {
	hello := wire.HelloMessage{Lowest: 1, Highest: 3, Process: process, Events: true, Mechanisms: handle.Mechanisms{handle.CUDAFD, handle.Memory}, Devices: []cudabuf.UUID{{1}, {2}}}
	welcome := wire.WelcomeMessage{Version: 1, Process: process, Instance: [16]byte{6}, KeepAliveMillis: 1000}
	batch := wire.BatchMessage{Lease: 1, Sequence: 2, Pending: true, Parts: []wire.Part{
		{Metadata: []byte("metadata"), Regions: []wire.Region{{BodyOffset: 0, Length: 8, Block: 1}, {BodyOffset: 64, Length: 9, Block: 2, Offset: 5}}},
		{Metadata: []byte("empty"), Regions: []wire.Region{}},
	}}
	stats := wire.StatsMessage{
		Clients: []wire.ClientStat{{PID: 1, UID: 2, Process: process, Connected: time.Unix(0, 5), Leases: []wire.LeaseStat{{Lease: 1, Sequence: 2, Bytes: 3, Since: time.Unix(0, 6), Name: "a"}}}},
		Blocks:  []wire.BlockStat{{Block: 1, Size: 2, Mechanism: handle.Memory, Leases: 3, Clients: 4, Device: "cpu"}},
	}
	text := wire.ErrorMessage{Code: wire.CodeFault, Text: "what is wrong"}
	return map[wire.Type][]byte{
		wire.Hello: hello.Append(nil), wire.Welcome: welcome.Append(nil), wire.Block: block(t), wire.Batch: batch.Append(nil),
		wire.Stats: stats.Append(nil), wire.Error: text.Append(nil),
		wire.Listing:   wire.AppendListing(nil, []wire.Entry{{Kind: wire.Stream, Name: "n", Rows: 1, Batches: 2, Bytes: 3, Device: "cuda:0", Subscribers: 4}}),
		wire.Get:       wire.AppendName(nil, "name"),
		wire.Subscribe: wire.AppendSubscribe(nil, 3, "name"),
		wire.Credit:    wire.AppendCredit(nil, 9),
		wire.Release:   wire.AppendNumbers(nil, []uint64{1, 1 << 40}),
	}
}

// reencode parses a payload and encodes the result.
func reencode(t wire.Type, b []byte) ([]byte, error) {
	switch t {
	case wire.Hello:
		var m wire.HelloMessage
		err := m.Parse(b)
		return m.Append(nil), err
	case wire.Welcome:
		var m wire.WelcomeMessage
		err := m.Parse(b)
		return m.Append(nil), err
	case wire.Block:
		var m wire.BlockMessage
		if err := m.Parse(b); err != nil {
			return nil, err
		}
		return m.Append(nil)
	case wire.Batch:
		var m wire.BatchMessage
		err := m.Parse(b)
		return m.Append(nil), err
	case wire.Stats:
		var m wire.StatsMessage
		err := m.Parse(b)
		return m.Append(nil), err
	case wire.Error:
		var m wire.ErrorMessage
		err := m.Parse(b)
		return m.Append(nil), err
	case wire.Listing:
		m, err := wire.ParseListing(b)
		return wire.AppendListing(nil, m), err
	case wire.Get:
		m, err := wire.ParseName(b)
		return wire.AppendName(nil, m), err
	case wire.Subscribe:
		n, m, err := wire.ParseSubscribe(b)
		return wire.AppendSubscribe(nil, n, m), err
	case wire.Credit:
		m, err := wire.ParseCredit(b)
		return wire.AppendCredit(nil, m), err
	default:
		m, err := wire.ParseNumbers(b)
		return wire.AppendNumbers(nil, m), err
	}
}

var _ = []message{&wire.HelloMessage{}, &wire.WelcomeMessage{}, &wire.BlockMessage{}, &wire.BatchMessage{}, &wire.StatsMessage{}, &wire.ErrorMessage{}}

func TestPayloadsRoundTrip(t *testing.T) {
	for typ, b := range messages(t) {
		got, err := reencode(typ, b)
		require.NoError(t, err, typ)
		assert.Equal(t, b, got, typ)
	}
}

func TestTruncatedAndLongPayloadsAreFaults(t *testing.T) {
	for typ, b := range messages(t) {
		for n := range b {
			_, err := reencode(typ, b[:n])
			require.ErrorIs(t, err, wire.ErrFault, "%v of %d bytes of %d", typ, n, len(b))
		}
		_, err := reencode(typ, append(b[:len(b):len(b)], 0))
		require.ErrorIs(t, err, wire.ErrFault, "%v with an extra byte", typ)
	}
}

func TestInvalidRegionsAreFaults(t *testing.T) {
	for name, regions := range map[string][]wire.Region{
		"an empty one":    {{Block: 1}},
		"one of no block": {{Length: 1}},
		"overlapping":     {{Length: 9, Block: 1}, {BodyOffset: 8, Length: 1, Block: 1}},
		"backwards":       {{BodyOffset: 8, Length: 1, Block: 1}, {Length: 1, Block: 1}},
		"a negative one":  {{Length: -1, Block: 1}},
		"beyond the end":  {{BodyOffset: 1<<63 - 1, Length: 1, Block: 1}},
	} {
		m := wire.BatchMessage{Lease: 1, Parts: []wire.Part{{Metadata: []byte("m"), Regions: regions}}}
		assert.ErrorIs(t, m.Parse(m.Append(nil)), wire.ErrFault, name)
	}
	for name, m := range map[string]wire.BatchMessage{
		"no message":              {Lease: 1},
		"lease 0":                 {Parts: []wire.Part{{}}},
		"a buffer beside another": {Lease: 1, Parts: []wire.Part{{}, {}}},
	} {
		assert.ErrorIs(t, m.Parse(m.Append(nil)), wire.ErrFault, name)
	}
}

func TestLongErrorTextIsTruncated(t *testing.T) {
	m := wire.ErrorMessage{Code: wire.CodeFailed, Text: strings.Repeat("ü", 4096)}
	var got wire.ErrorMessage
	require.NoError(t, got.Parse(m.Append(nil)))
	assert.Equal(t, strings.Repeat("ü", 2048), got.Text)
}

// pair returns both ends of a connection.
func pair(t testing.TB) (a, b *wire.Conn) {
	l, err := net.Listen("unix", t.TempDir()+"/s")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	dialed, err := net.Dial("unix", l.Addr().String())
	require.NoError(t, err)
	accepted, err := l.Accept()
	require.NoError(t, err)
	a, b = wire.NewConn(dialed.(*net.UnixConn)), wire.NewConn(accepted.(*net.UnixConn))
	t.Cleanup(func() { _, _ = a.Close(), b.Close() })
	return a, b
}

func TestFramesKeepTheirDescriptors(t *testing.T) {
	a, b := pair(t)
	var files []*os.File
	for range 3 {
		f, err := os.CreateTemp(t.TempDir(), "")
		require.NoError(t, err)
		defer f.Close()
		files = append(files, f)
	}
	large := make([]byte, 3<<20)
	large[1<<20] = 7
	sent := []wire.Frame{
		{Type: wire.List, Request: 1},
		{Type: wire.Block, Payload: []byte("one"), File: files[0]},
		{Type: wire.Batch, Request: 2, Payload: large},
		{Type: wire.Block, Payload: []byte("two"), File: files[1]},
		{Type: wire.Block, Payload: large, File: files[2]},
		{Type: wire.End, Request: 2},
	}
	go func() { assert.NoError(t, a.Write(sent...)) }()
	for i, want := range sent {
		got, err := b.Read()
		require.NoError(t, err)
		assert.Equal(t, want.Type, got.Type)
		assert.Equal(t, want.Request, got.Request)
		require.Equal(t, len(want.Payload), len(got.Payload))
		assert.True(t, string(want.Payload) == string(got.Payload), "frame %d", i)
		require.Equal(t, want.File != nil, got.File != nil, "frame %d", i)
		if got.File != nil {
			sent, err := want.File.Stat()
			require.NoError(t, err)
			came, err := got.File.Stat()
			require.NoError(t, err)
			assert.True(t, os.SameFile(sent, came))
			got.CloseFile()
		}
	}
}

// failed waits until a queue has failed and returns the error.
func failed(t testing.TB, q *wire.Queue) error {
	t.Helper()
	require.Eventually(t, func() bool { return q.Err() != nil }, 5*time.Second, time.Millisecond)
	return q.Err()
}

func TestLastFramesAreReadAfterWriteFails(t *testing.T) {
	a, b := pair(t)
	m := wire.ErrorMessage{Code: wire.CodeFault, Text: "why"}
	require.NoError(t, b.Write(wire.Frame{Type: wire.Pong, Request: 1}, wire.Frame{Type: wire.Error, Payload: m.Append(nil)}))
	require.NoError(t, b.Close())
	q := wire.NewQueue(a, time.Second, 1<<20)
	q.Put(wire.Frame{Type: wire.Ping, Request: 2})
	assert.ErrorIs(t, failed(t, q), syscall.EPIPE)

	f, err := a.Read()
	require.NoError(t, err)
	assert.Equal(t, wire.Pong, f.Type)
	f, err = a.Read()
	require.NoError(t, err)
	assert.Equal(t, m.Append(nil), f.Payload)
	_, err = a.Read()
	assert.ErrorIs(t, err, io.EOF)
	q.Abort(err)
	assert.ErrorIs(t, a.Unix().Close(), net.ErrClosed, "Abort closes the socket")
}

func TestQueueEndsConnectionOfPeerThatDoesNotRead(t *testing.T) {
	for name, tt := range map[string]struct {
		timeout time.Duration
		most    int
		want    error
	}{
		"a write takes too long": {50 * time.Millisecond, 1 << 30, os.ErrDeadlineExceeded},
		"too much is queued":     {time.Hour, 1 << 20, wire.ErrFault},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t)
			require.NoError(t, b.Write(wire.Frame{Type: wire.Ping, Request: 1}))
			q := wire.NewQueue(a, tt.timeout, tt.most)
			for range 4 {
				q.Put(wire.Frame{Type: wire.Batch, Payload: make([]byte, 1<<20)})
			}
			assert.ErrorIs(t, failed(t, q), tt.want)
			f, err := a.Read()
			require.NoError(t, err)
			assert.Equal(t, wire.Ping, f.Type)
			_, err = a.Read()
			assert.ErrorIs(t, err, io.EOF, "the reader does not wait for a peer that ignores it")
			q.Drain()
			assert.ErrorIs(t, a.Unix().Close(), net.ErrClosed, "Drain closes the socket")
		})
	}
}

func FuzzPayloads(f *testing.F) {
	for typ, b := range messages(f) {
		f.Add(byte(typ), b)
	}
	f.Fuzz(func(t *testing.T, typ byte, b []byte) {
		got, err := reencode(wire.Type(typ), b)
		if err != nil {
			assert.ErrorIs(t, err, wire.ErrFault)
		} else if wire.Type(typ) != wire.Hello { // HELLO may contain unknown mechanisms, which are skipped
			assert.Equal(t, b, got, "each payload has one form")
		}
	})
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x00\x03\x00\x00\x00\x01\x00\x00\x00"))
	f.Add([]byte("\xff\xff\xff\x00\x03\x00\x00\x00\x01\x00\x00\x00short"))
	f.Add([]byte("\x00\x00\x00\x00\x0a\x01\x00\x00\x01\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		x, y := pair(t)
		_, err := x.Unix().Write(b)
		require.NoError(t, err)
		require.NoError(t, x.Close())
		require.NoError(t, y.SetReadDeadline(time.Now().Add(5*time.Second)))
		for read := 0; ; {
			frame, err := y.Read()
			if err != nil {
				require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
				return
			}
			assert.Nil(t, frame.File)
			read += 12 + len(frame.Payload)
			require.LessOrEqual(t, read, len(b))
		}
	})
}
