package dissociated

import (
	"io"
	"net"
	"testing"
)

// FuzzReceive has a client read two streams of arbitrary bytes, framed.
func FuzzReceive(f *testing.F) {
	_, schema, metadata, body := encoded(f)
	frame := func(m message) []byte {
		a, b := net.Pipe()
		go func() { _ = NewConn(a).Send(m.tag, hostBuffer(m.body)); _ = a.Close() }()
		bytes, _ := io.ReadAll(b)
		return bytes
	}
	meta := append(frame(header(0, schema)), append(frame(header(1, metadata)), frame(end(2))...)...)
	f.Add(meta, frame(packedBody(1, body)))
	f.Add(meta, frame(locatedBody(1, Locations{{64, 3}})))
	f.Fuzz(func(t *testing.T, meta, data []byte) {
		write := func(b []byte) Conn {
			client, server := net.Pipe()
			go func() { _, _ = server.Write(b); _ = server.Close() }()
			return NewConn(client)
		}
		link := Link{write(meta), write(data)}
		got, err := receiveAll(t, link, Endpoint{}, ReceiveOptions{MaxMetadata: 1 << 16, MaxBody: 1 << 16, MaxWaiting: 1 << 16})
		for _, one := range got {
			if err == nil {
				_ = one.NumRows()
			}
			one.Release()
		}
	})
}
