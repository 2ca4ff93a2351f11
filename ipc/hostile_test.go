//go:build linux

package ipc_test

import (
	"encoding/binary"
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ipc"
	"github.com/quiver-gpu/quiver/ipc/handle"
	"github.com/quiver-gpu/quiver/ipc/internal/wire"
)

// raw is a client that speaks for itself.
type raw struct {
	t testing.TB
	*wire.Conn
}

func connect(t testing.TB, path string) raw {
	t.Helper()
	c, err := net.Dial("unix", path)
	require.NoError(t, err)
	r := raw{t, wire.NewConn(c.(*net.UnixConn))}
	t.Cleanup(func() { _ = r.Close() })
	require.NoError(t, r.SetReadDeadline(time.Now().Add(5*time.Second)))
	return r
}

func hello(t testing.TB) wire.HelloMessage {
	self, err := handle.Self()
	require.NoError(t, err)
	return wire.HelloMessage{Lowest: 1, Highest: 1, Process: self, Mechanisms: handle.Mechanisms{handle.Memory}}
}

// meet is connect, and HELLO.
func meet(t testing.TB, path string) raw {
	t.Helper()
	r := connect(t, path)
	m := hello(t)
	r.send(wire.Hello, 0, m.Append(nil))
	assert.Equal(t, wire.Welcome, r.next().Type)
	return r
}

func (r raw) send(typ wire.Type, request uint32, payload []byte) {
	r.t.Helper()
	require.NoError(r.t, r.Write(wire.Frame{Type: typ, Request: request, Payload: payload}))
}

func (r raw) next() wire.Frame {
	r.t.Helper()
	f, err := r.Read()
	require.NoError(r.t, err)
	f.CloseFile()
	return f
}

// refused reads up to the end of the connection and returns the code that it was
// ended with.
func (r raw) refused() wire.Code {
	r.t.Helper()
	var code wire.Code
	for {
		f, err := r.Read()
		if err != nil {
			require.False(r.t, errors.Is(err, os.ErrDeadlineExceeded), "the server does not end the connection")
			return code
		}
		f.CloseFile()
		if f.Type == wire.Error && f.Request == 0 {
			var m wire.ErrorMessage
			require.NoError(r.t, m.Parse(f.Payload))
			code = m.Code
		}
	}
}

// bytes sends bytes as they are. A server that has ended the connection before
// they are sent is fine.
func (r raw) bytes(b []byte) { _, _ = r.Unix().Write(b) }

func frame(length uint32, typ, files byte, reserved uint16, request uint32, payload ...byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, length)
	b = append(b, typ, files)
	b = binary.LittleEndian.AppendUint16(b, reserved)
	b = binary.LittleEndian.AppendUint32(b, request)
	return append(b, payload...)
}

func TestHostileClientsAreRefused(t *testing.T) {
	catalog, s := serve(t, ipc.ServerOptions{})
	require.NoError(t, put(catalog, arrowbuf.CPU(), "table", 1))
	good := hello(t)
	changed := func(change func(m *wire.HelloMessage)) []byte {
		m := hello(t)
		change(&m)
		return m.Append(nil)
	}
	welcome := wire.WelcomeMessage{Version: 1}
	for name, tt := range map[string]struct {
		before bool // HELLO
		bytes  []byte
		want   wire.Code
	}{
		"another protocol":             {true, []byte("GET / HTTP/1.1\r\nHost: here\r\n\r\n"), wire.CodeFault},
		"a length of 4 GiB":            {true, frame(1<<32-1, 1, 0, 0, 0), wire.CodeFault},
		"a length beyond the limit":    {true, frame(1<<24+1, 1, 0, 0, 0), wire.CodeFault},
		"no HELLO":                     {true, frame(0, 3, 0, 0, 1), wire.CodeFault},
		"HELLO of a request":           {true, append(frame(uint32(len(good.Append(nil))), 1, 0, 0, 9), good.Append(nil)...), wire.CodeFault},
		"an empty HELLO":               {true, frame(0, 1, 0, 0, 0), wire.CodeFault},
		"an old version":               {true, withHeader(1, changed(func(m *wire.HelloMessage) { m.Lowest, m.Highest = 0, 0 })), wire.CodeVersion},
		"a later version":              {true, withHeader(1, changed(func(m *wire.HelloMessage) { m.Lowest, m.Highest = 2, 9 })), wire.CodeVersion},
		"versions the wrong way round": {true, withHeader(1, changed(func(m *wire.HelloMessage) { m.Lowest, m.Highest = 1, 0 })), wire.CodeFault},
		"another's process id":         {true, withHeader(1, changed(func(m *wire.HelloMessage) { m.Process.PID++ })), wire.CodeRefused},
		"a second HELLO":               {false, withHeader(1, good.Append(nil)), wire.CodeFault},
		"a message of servers":         {false, withHeader(2, welcome.Append(nil)), wire.CodeFault},
		"an unknown type":              {false, frame(0, 99, 0, 0, 1), wire.CodeFault},
		"reserved bytes":               {false, frame(0, 3, 0, 7, 1), wire.CodeFault},
		"a descriptor that is missing": {false, frame(0, 3, 1, 0, 1), wire.CodeFault},
		"request 0":                    {false, frame(0, 3, 0, 0, 0), wire.CodeFault},
		"a payload where none is":      {false, frame(1, 3, 0, 0, 1, 0), wire.CodeFault},
		"a name that is cut":           {false, frame(3, 5, 0, 0, 1, 9, 0, 'x'), wire.CodeFault},
		"an empty name":                {false, frame(2, 5, 0, 0, 1, 0, 0), wire.CodeFault},
		"a name with a line feed":      {false, frame(3, 5, 0, 0, 1, 1, 0, '\n'), wire.CodeFault},
		"bytes behind a name":          {false, frame(4, 5, 0, 0, 1, 1, 0, 'x', 0), wire.CodeFault},
		"more leases than bytes":       {false, frame(12, 13, 0, 0, 0, 255, 255, 255, 255, 1, 0, 0, 0, 0, 0, 0, 0), wire.CodeFault},
		"a lease that nobody gave":     {false, withHeader(13, wire.AppendNumbers(nil, []uint64{1})), wire.CodeFault},
		"a block that nobody retired":  {false, withHeader(15, wire.AppendNumbers(nil, []uint64{1})), wire.CodeFault},
		"credit without end":           {false, frame(7, 6, 0, 0, 1, 255, 255, 255, 255, 1, 0, 'x'), wire.CodeFault},
	} {
		t.Run(name, func(t *testing.T) {
			r := connect(t, s.Path())
			if !tt.before {
				r = meet(t, s.Path())
			}
			r.bytes(tt.bytes)
			assert.Equal(t, tt.want, r.refused())
			settles(t, "the client is gone", func() bool { return len(s.Stat().Clients) == 0 })
		})
	}
}

func withHeader(typ byte, payload []byte) []byte {
	return frame(uint32(len(payload)), typ, 0, 0, 0, payload...)
}

func TestLeasesAreEndedOnce(t *testing.T) {
	catalog, s := serve(t, ipc.ServerOptions{})
	require.NoError(t, put(catalog, arrowbuf.CPU(), "table", 1))
	holds, err := ipc.Dial(soon(t), s.Path(), ipc.DialOptions{Mechanisms: handle.Mechanisms{handle.Memory}})
	require.NoError(t, err)
	table, err := holds.Table(soon(t), "table")
	require.NoError(t, err)

	get := func() (raw, uint64) {
		r := meet(t, s.Path())
		r.send(wire.Get, 1, wire.AppendName(nil, "table"))
		var m wire.BatchMessage
		for f := r.next(); f.Type != wire.End; f = r.next() {
			if f.Type == wire.Batch {
				require.NoError(t, m.Parse(f.Payload))
			}
		}
		return r, m.Lease
	}
	r, lease := get()
	assert.EqualValues(t, 1, lease, "numbers are of a connection: nobody ends another's lease")
	r.send(wire.Release, 0, wire.AppendNumbers(nil, []uint64{lease}))
	r.send(wire.Release, 0, wire.AppendNumbers(nil, []uint64{lease}))
	assert.Equal(t, wire.CodeFault, r.refused(), "released before")
	r, lease = get()
	r.send(wire.Release, 0, wire.AppendNumbers(nil, []uint64{lease, lease}))
	assert.Equal(t, wire.CodeFault, r.refused(), "released twice")
	r, lease = get()
	r.send(wire.Release, 0, wire.AppendNumbers(nil, []uint64{lease + 1}))
	assert.Equal(t, wire.CodeFault, r.refused(), "not yet given")
	r, _ = get()
	r.send(wire.Forgotten, 0, wire.AppendNumbers(nil, []uint64{1}))
	assert.Equal(t, wire.CodeFault, r.refused(), "not asked for")

	settles(t, "the others are gone", func() bool { return leasesOf(s) == 1 })
	require.NoError(t, check("table", 0, table.Batches[0]))
	table.Release()
	require.NoError(t, holds.Close())
}

func TestASilentClientIsNotWaitedFor(t *testing.T) {
	_, s := serve(t, ipc.ServerOptions{}.Impatient(50*time.Millisecond))
	r := connect(t, s.Path())
	r.bytes([]byte{1})
	assert.Zero(t, r.refused())
}

func TestAClientThatDoesNotReadIsNotWaitedFor(t *testing.T) {
	catalog, s := serve(t, ipc.ServerOptions{}.Impatient(50*time.Millisecond))
	require.NoError(t, put(catalog, arrowbuf.CPU(), "table", 1))
	r := meet(t, s.Path())
	require.NoError(t, r.SetWriteDeadline(time.Now().Add(5*time.Second)))
	for n := uint32(1); ; n++ {
		if err := r.Write(wire.Frame{Type: wire.List, Request: n}); err != nil {
			require.False(t, errors.Is(err, os.ErrDeadlineExceeded), "the server neither reads nor ends the connection")
			break
		}
	}
	settles(t, "the client is gone", func() bool { return len(s.Stat().Clients) == 0 })
}

func TestDescriptorsThatNobodyWantsAreClosed(t *testing.T) {
	_, s := serve(t, ipc.ServerOptions{})
	before := openFiles(t)
	for _, n := range []int{1, 100} {
		r := meet(t, s.Path())
		null, err := os.Open(os.DevNull)
		require.NoError(t, err)
		fds := make([]int, n)
		for i := range fds {
			fds[i] = int(null.Fd())
		}
		_, _, err = r.Unix().WriteMsgUnix(frame(0, 3, 0, 0, 1), syscall.UnixRights(fds...), nil)
		require.NoError(t, err)
		assert.Equal(t, wire.CodeFault, r.refused())
		require.NoError(t, null.Close())
		require.NoError(t, r.Close())
	}
	settles(t, "all descriptors are closed", func() bool { return openFiles(t) <= before })
}

func openFiles(t testing.TB) int {
	files, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(files)
}

// lie serves one connection with what a test says.
func lie(t *testing.T, say func(r raw)) string {
	path := folder(t) + "/s"
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		r := raw{t, wire.NewConn(c.(*net.UnixConn))}
		defer func() { _ = r.Close() }()
		if f, err := r.Read(); err != nil || f.Type != wire.Hello {
			return
		}
		say(r)
		for {
			f, err := r.Read()
			if err != nil {
				return
			}
			if f.Type == wire.Ping {
				_ = r.Write(wire.Frame{Type: wire.Pong, Request: f.Request})
			}
		}
	}()
	return path
}

func TestHostileServersAreRefused(t *testing.T) {
	self, err := handle.Self()
	require.NoError(t, err)
	welcome := wire.WelcomeMessage{Version: 1, Process: self}
	block := func(d handle.Descriptor) []byte {
		d.Exporter = self
		m := wire.BlockMessage{Block: 1, Descriptor: d}
		b, err := m.Append(nil)
		require.NoError(t, err)
		return b
	}
	batch := func(lease uint64, r ...wire.Region) []byte {
		m := wire.BatchMessage{Lease: lease, Parts: []wire.Part{{Regions: r}}}
		return m.Append(nil)
	}
	local := handle.Descriptor{Mechanism: handle.Local, AllocationSize: 10, Length: 10}
	memory := handle.Descriptor{Mechanism: handle.Memory, AllocationSize: 4096, Length: 4096}
	plain, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	require.NoError(t, plain.Truncate(4096))
	defer plain.Close()
	for name, tt := range map[string]struct {
		frames []wire.Frame
		want   error
		text   string
	}{
		"a schema in answer to a buffer":      {[]wire.Frame{{Type: wire.Schema, Request: 1}}, ipc.ErrKind, ""},
		"an answer to nothing":                {[]wire.Frame{{Type: wire.Pong, Request: 7}}, ipc.ErrFault, "request 7"},
		"a message of clients":                {[]wire.Frame{{Type: wire.Get, Request: 1, Payload: wire.AppendName(nil, "x")}}, ipc.ErrFault, "a server does not send GET"},
		"a batch in no block":                 {[]wire.Frame{{Type: wire.Batch, Request: 1, Payload: batch(1, wire.Region{Length: 1, Block: 1})}}, ipc.ErrFault, "was not announced"},
		"lease 2 first":                       {[]wire.Frame{{Type: wire.Batch, Request: 1, Payload: batch(2)}}, ipc.ErrFault, "lease 2 behind 0"},
		"a batch beyond its block":            {[]wire.Frame{{Type: wire.Block, Payload: block(local)}, {Type: wire.Batch, Request: 1, Payload: batch(1, wire.Region{Length: 11, Block: 1})}}, ipc.ErrFault, "out of range"},
		"a block twice":                       {[]wire.Frame{{Type: wire.Block, Payload: block(local)}, {Type: wire.Block, Payload: block(local)}}, ipc.ErrFault, "second time"},
		"memory without a file":               {[]wire.Frame{{Type: wire.Block, Payload: block(memory)}}, ipc.ErrFault, "descriptor: false"},
		"a block to forget that nobody knows": {[]wire.Frame{{Type: wire.Forget, Payload: wire.AppendNumbers(nil, []uint64{3})}}, ipc.ErrFault, "was not announced"},
		"a server that is not in this process": {[]wire.Frame{{Type: wire.Block, Payload: block(local)}, {Type: wire.Batch, Request: 1, Payload: batch(1, wire.Region{Length: 1, Block: 1})}},
			ipc.ErrServerGone, "which no server of this process has"},
		"a file that may shrink": {[]wire.Frame{{Type: wire.Block, Payload: block(memory), File: plain}, {Type: wire.Batch, Request: 1, Payload: batch(1, wire.Region{Length: 1, Block: 1})}},
			nil, "opening memory"},
		"the end": {nil, ipc.ErrServerGone, ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := lie(t, func(r raw) {
				if r.Write(wire.Frame{Type: wire.Welcome, Payload: welcome.Append(nil)}) != nil {
					return
				}
				if _, err := r.Read(); err != nil { // GET
					return
				}
				_ = r.Write(tt.frames...)
				if tt.frames == nil {
					_ = r.Close()
				}
			})
			c, err := ipc.Dial(soon(t), path, ipc.DialOptions{})
			require.NoError(t, err)
			_, err = c.Buffer(soon(t), "x")
			require.Error(t, err)
			if tt.want != nil {
				assert.ErrorIs(t, err, tt.want)
			}
			assert.ErrorContains(t, err, tt.text)
			require.NoError(t, c.Close())
			assert.Empty(t, c.Held())
		})
	}
}

func TestWhatIsSharedCannotBeChanged(t *testing.T) {
	catalog, s := serve(t, ipc.ServerOptions{})
	b, err := arrowbuf.CPU().Alloc(10)
	require.NoError(t, err)
	_, err = b.CopyFromHost([]byte("0123456789"), 0)
	require.NoError(t, err)
	require.NoError(t, catalog.PublishBuffer("buffer", b))
	b.Release()
	r := meet(t, s.Path())
	r.send(wire.Get, 1, wire.AppendName(nil, "buffer"))
	f, err := r.Read()
	require.NoError(t, err)
	require.Equal(t, wire.Block, f.Type)
	defer f.CloseFile()
	assert.Error(t, f.File.Truncate(0))
	_, err = f.File.WriteAt([]byte("x"), 0)
	assert.ErrorIs(t, err, os.ErrPermission)
	fd := int(f.File.Fd())
	_, err = syscall.Mmap(fd, 0, 10, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	assert.ErrorIs(t, err, os.ErrPermission)
	data, err := syscall.Mmap(fd, 0, 10, syscall.PROT_READ, syscall.MAP_SHARED)
	require.NoError(t, err)
	assert.Equal(t, "0123456789", string(data))
	require.NoError(t, syscall.Munmap(data))
}
