package dissociated

import (
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
)

// FuzzReceive has a client read two streams of arbitrary bytes, framed, whose
// locations are in a window.
func FuzzReceive(f *testing.F) {
	w, err := NewWindow(arrowbuf.CPU(), 1<<16)
	require.NoError(f, err)
	f.Cleanup(func() { require.NoError(f, w.Close()) })
	batch, _, _, _ := encoded(f)
	located, err := arrowipc.EncodeRecordBatch(batch)
	require.NoError(f, err)
	defer located.Release()
	info, err := arrowipc.Inspect(located.Metadata)
	require.NoError(f, err)
	var locations Locations
	for _, b := range info.Buffers {
		locations = append(locations, Location{uint64(alignment + b.Offset), uint64(b.Length)})
	}
	_, schema, metadata, body := encoded(f)
	frame := func(m message) []byte {
		a, b := net.Pipe()
		go func() { _ = NewConn(a).Send(m.tag, hostBuffer(m.body)); _ = a.Close() }()
		bytes, _ := io.ReadAll(b)
		return bytes
	}
	meta := append(frame(header(0, schema)), append(frame(header(1, metadata)), frame(end(2))...)...)
	f.Add(meta, frame(packedBody(1, body)))
	f.Add(meta, frame(locatedBody(Locations{{64, 3}})))
	f.Add(meta, frame(locatedBody(locations)))
	f.Fuzz(func(t *testing.T, meta, data []byte) {
		write := func(b []byte) Conn {
			client, server := net.Pipe()
			go func() { _, _ = server.Write(b); _ = server.Close() }()
			return NewConn(client)
		}
		link := Link{write(meta), write(data)}
		got, err := receiveAll(t, link, endpointOf(w), ReceiveOptions{MaxMetadata: 1 << 16, MaxBody: 1 << 16, MaxWaiting: 1 << 16})
		for _, one := range got {
			if err == nil {
				_ = one.NumRows()
			}
			one.Release()
		}
	})
}
