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
	"github.com/quiver-gpu/quiver/ipc/internal/ipctest"
	"github.com/quiver-gpu/quiver/ipc/internal/wire"
)

// rawConn is a connection on which a test sends its own frames.
type rawConn struct {
	t testing.TB
	*wire.Conn
}

func connect(t testing.TB, path string) rawConn {
	t.Helper()
	c, err := net.Dial("unix", path)
	require.NoError(t, err)
	r := rawConn{t, wire.NewConn(c.(*net.UnixConn))}
	t.Cleanup(func() { _ = r.Close() })
	require.NoError(t, r.SetReadDeadline(time.Now().Add(5*time.Second)))
	return r
}

func helloMessage(t testing.TB) wire.HelloMessage {
	self, err := handle.Self()
	require.NoError(t, err)
	return wire.HelloMessage{Lowest: 1, Highest: 1, Process: self, Mechanisms: handle.Mechanisms{handle.Memory}}
}

// handshake connects and exchanges HELLO and WELCOME.
func handshake(t testing.TB, path string) rawConn {
	t.Helper()
	r := connect(t, path)
	m := helloMessage(t)
	r.send(wire.Hello, 0, m.Append(nil))
	assert.Equal(t, wire.Welcome, r.next().Type)
	return r
}

func (r rawConn) send(typ wire.Type, request uint32, payload []byte) {
	r.t.Helper()
	require.NoError(r.t, r.Write(wire.Frame{Type: typ, Request: request, Payload: payload}))
}

func (r rawConn) next() wire.Frame {
	r.t.Helper()
	f, err := r.Read()
	require.NoError(r.t, err)
	f.CloseFile()
	return f
}

// readToEnd reads to the end of the connection and returns the code of the last
// ERROR.
func (r rawConn) readToEnd() wire.Code {
	r.t.Helper()
	var code wire.Code
	for {
		f, err := r.Read()
		if err != nil {
			require.False(r.t, errors.Is(err, os.ErrDeadlineExceeded), "the server did not end the connection")
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

// writeBytes sends bytes unchanged. It ignores errors, since the server may have
// ended the connection.
func (r rawConn) writeBytes(b []byte) { _, _ = r.Unix().Write(b) }

func frame(length uint32, typ, files byte, reserved uint16, request uint32, payload ...byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, length)
	b = append(b, typ, files)
	b = binary.LittleEndian.AppendUint16(b, reserved)
	b = binary.LittleEndian.AppendUint32(b, request)
	return append(b, payload...)
}

func TestServerRejectsInvalidClientFrames(t *testing.T) {
	catalog, s := ipctest.Serve(t, ipc.ServerOptions{})
	require.NoError(t, publishFixtures(catalog, arrowbuf.CPU(), "table", 1))
	good := helloMessage(t)
	changed := func(change func(m *wire.HelloMessage)) []byte {
		m := helloMessage(t)
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
		"bytes after a name":           {false, frame(4, 5, 0, 0, 1, 1, 0, 'x', 0), wire.CodeFault},
		"more leases than bytes":       {false, frame(12, 13, 0, 0, 0, 255, 255, 255, 255, 1, 0, 0, 0, 0, 0, 0, 0), wire.CodeFault},
		"a lease that was not granted": {false, withHeader(13, wire.AppendNumbers(nil, []uint64{1})), wire.CodeFault},
		"a block that was not retired": {false, withHeader(15, wire.AppendNumbers(nil, []uint64{1})), wire.CodeFault},
		"credit without end":           {false, frame(7, 6, 0, 0, 1, 255, 255, 255, 255, 1, 0, 'x'), wire.CodeFault},
	} {
		t.Run(name, func(t *testing.T) {
			r := connect(t, s.Path())
			if !tt.before {
				r = handshake(t, s.Path())
			}
			r.writeBytes(tt.bytes)
			assert.Equal(t, tt.want, r.readToEnd())
			eventually(t, "the client is gone", func() bool { return len(s.Stat().Clients) == 0 })
		})
	}
}

func withHeader(typ byte, payload []byte) []byte {
	return frame(uint32(len(payload)), typ, 0, 0, 0, payload...)
}

func TestServerDropsClientWithoutHello(t *testing.T) {
	_, s := ipctest.Serve(t, ipc.ServerOptions{}.WithPeerTimeout(50*time.Millisecond))
	r := connect(t, s.Path())
	r.writeBytes([]byte{1})
	assert.Zero(t, r.readToEnd())
}

func TestServerDropsClientThatDoesNotRead(t *testing.T) {
	catalog, s := ipctest.Serve(t, ipc.ServerOptions{}.WithPeerTimeout(50*time.Millisecond))
	require.NoError(t, publishFixtures(catalog, arrowbuf.CPU(), "table", 1))
	r := handshake(t, s.Path())
	require.NoError(t, r.SetWriteDeadline(time.Now().Add(5*time.Second)))
	for n := uint32(1); ; n++ {
		if err := r.Write(wire.Frame{Type: wire.List, Request: n}); err != nil {
			require.False(t, errors.Is(err, os.ErrDeadlineExceeded), "the server neither read nor ended the connection")
			break
		}
	}
	eventually(t, "the client is gone", func() bool { return len(s.Stat().Clients) == 0 })
}

func TestUnexpectedDescriptorsAreClosed(t *testing.T) {
	_, s := ipctest.Serve(t, ipc.ServerOptions{})
	before := openFiles(t)
	for _, n := range []int{1, 100} {
		r := handshake(t, s.Path())
		null, err := os.Open(os.DevNull)
		require.NoError(t, err)
		fds := make([]int, n)
		for i := range fds {
			fds[i] = int(null.Fd())
		}
		_, _, err = r.Unix().WriteMsgUnix(frame(0, 3, 0, 0, 1), syscall.UnixRights(fds...), nil)
		require.NoError(t, err)
		assert.Equal(t, wire.CodeFault, r.readToEnd())
		require.NoError(t, null.Close())
		require.NoError(t, r.Close())
	}
	eventually(t, "all descriptors are closed", func() bool { return openFiles(t) <= before })
}

func openFiles(t testing.TB) int {
	files, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(files)
}
