package dissociated

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// message is a message that a test sends itself. Without a tag it goes to the
// metadata connection.
type message struct {
	tag  *Tag
	body []byte
}

func header(sequence uint32, b []byte) message {
	return message{nil, Metadata{sequence, b}.Append(nil)}
}
func end(sequence uint32) message { return header(sequence, nil) }
func packedBody(sequence uint32, b []byte) message {
	tag := BodyTag(sequence, Packed)
	return message{&tag, b}
}
func locatedBody(l Locations) message { // of message 1
	tag := BodyTag(1, Located)
	return message{&tag, l.Append(nil)}
}

// encoded returns a batch without dictionaries, its encoded schema and metadata,
// and its packed body.
func encoded(t testing.TB) (batch arrow.RecordBatch, schema, metadata, body []byte) {
	t.Helper()
	whole := hostBatch(t, 1, 50)
	batch, err := arrowbuf.NewRecordBatch(arrow.NewSchema(whole.Schema().Fields()[:2], nil), whole.Columns()[:2], 50)
	require.NoError(t, err)
	t.Cleanup(batch.Release)
	schema, err = arrowipc.EncodeSchema(batch.Schema())
	require.NoError(t, err)
	m, err := arrowipc.EncodeRecordBatch(batch)
	require.NoError(t, err)
	defer m.Release()
	parts, err := m.Parts()
	require.NoError(t, err)
	defer parts.Release()
	for _, b := range packBody(parts, m.BodyLength) {
		bytes, _ := arrowbuf.HostBytes(b)
		body = append(body, bytes...)
	}
	return batch, schema, m.Metadata, body
}

// sendMessages sends messages to a client as a server does. Then it closes the
// sending side if closes is true.
func sendMessages(t testing.TB, single, closes bool, messages ...message) Link {
	t.Helper()
	server, client := links(t, single)
	t.Cleanup(func() { _ = server.Close() })
	go func() {
		for _, m := range messages {
			to := server.Data
			if m.tag == nil {
				to = server.Metadata
			}
			if to.Send(m.tag, hostBuffer(m.body)) != nil {
				return // the client has closed the connection
			}
		}
		if closes {
			_ = server.closeSend()
		}
	}()
	return client
}

func receiveAll(t testing.TB, link Link, at Endpoint, o ReceiveOptions) ([]arrow.RecordBatch, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	r, err := Receive(ctx, link, at, arrowbuf.CPU(), o)
	if err != nil {
		return nil, err
	}
	defer r.Release()
	var all []arrow.RecordBatch
	for r.Next() {
		r.RecordBatch().Retain()
		all = append(all, r.RecordBatch())
	}
	return all, r.Err()
}

func TestMessagesMayArriveInAnyOrder(t *testing.T) {
	batch, schema, metadata, body := encoded(t)
	for name, messages := range map[string][]message{
		"each body after its metadata": {header(0, schema), header(1, metadata), packedBody(1, body), header(2, metadata), packedBody(2, body), end(3)},
		"all bodies first":             {packedBody(1, body), packedBody(2, body), header(0, schema), header(1, metadata), header(2, metadata), end(3)},
		"all bodies last":              {header(0, schema), header(1, metadata), header(2, metadata), end(3), packedBody(1, body), packedBody(2, body)},
		"backwards":                    {end(3), packedBody(2, body), header(2, metadata), packedBody(1, body), header(1, metadata), header(0, schema)},
	} {
		for _, single := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				got, err := receiveAll(t, sendMessages(t, single, true, messages...), Endpoint{}, ReceiveOptions{})
				require.NoError(t, err)
				require.Len(t, got, 2)
				for _, one := range got {
					requireSame(t, batch, one)
					one.Release()
				}
			})
		}
	}
}

func TestReceiveRejectsInvalidMessages(t *testing.T) {
	_, schema, metadata, body := encoded(t)
	w := newWindow(t, arrowbuf.CPU(), 1<<20)
	with := endpointOf(w)
	info, err := arrowipc.Inspect(metadata)
	require.NoError(t, err)
	locations := func(change func(Locations) Locations) message {
		l := Locations{}
		for _, b := range info.Buffers {
			l = append(l, Location{alignment + uint64(b.Offset), uint64(b.Length)})
		}
		return locatedBody(change(l))
	}
	tagged := func(tag Tag, b []byte) message { return message{&tag, b} }
	for _, c := range []struct {
		name     string
		at       Endpoint
		messages []message
		is       error
		says     string
	}{
		{"nothing", Endpoint{}, nil, ErrPeerGone, "ended before"},
		{"no end", Endpoint{}, []message{header(0, schema)}, ErrPeerGone, "ended before"},
		{"no body", Endpoint{}, []message{header(0, schema), header(1, metadata), end(2)}, ErrPeerGone, "message 1"},
		{"no metadata", Endpoint{}, []message{header(0, schema), packedBody(1, body), end(2)}, ErrPeerGone, "ended before"},
		{"an end at once", Endpoint{}, []message{end(0)}, ErrProtocol, "before its schema"},
		{"a batch first", Endpoint{}, []message{header(0, metadata)}, arrow.ErrInvalid, "schema"},
		{"a schema again", Endpoint{}, []message{header(0, schema), header(1, schema)}, ErrProtocol, "got Schema"},
		// Bodies have a connection of their own: this one is found beside the schema, or late.
		{"a body of a schema", Endpoint{}, []message{packedBody(0, body), header(0, schema), header(1, metadata), packedBody(1, body), end(2)}, ErrProtocol, "message 0 has a body|got 0, but|messages after the end"},
		{"metadata that is no flatbuffer", Endpoint{}, []message{header(0, schema), header(1, []byte("no flatbuffer"))}, arrow.ErrInvalid, "message 1"},
		{"metadata of three bytes", Endpoint{}, []message{header(0, schema), {nil, []byte{1, 1, 0}}}, ErrProtocol, "3 bytes"},
		{"a message of an unknown type", Endpoint{}, []message{header(0, schema), {nil, []byte{7, 1, 0, 0, 0}}}, ErrProtocol, "type 7"},
		{"a number twice", Endpoint{}, []message{header(0, schema), header(2, metadata), header(2, metadata)}, ErrProtocol, "arrived twice"},
		{"a body twice", Endpoint{}, []message{packedBody(2, body), packedBody(2, body), header(0, schema)}, ErrProtocol, "arrived twice"},
		{"a number far ahead", Endpoint{}, []message{header(0, schema), header(maxSequenceGap+1, metadata)}, ErrProtocol, "is next"},
		{"a number from before", Endpoint{}, []message{header(0, schema), header(1<<31, metadata)}, ErrProtocol, "is next"},
		{"a short body", Endpoint{}, []message{header(0, schema), header(1, metadata), packedBody(1, body[:8])}, ErrProtocol, "the metadata has"},
		{"a long body", Endpoint{}, []message{header(0, schema), header(1, metadata), packedBody(1, append(body[:len(body):len(body)], 0))}, ErrProtocol, "the metadata has"},
		{"a tag with a reserved bit", Endpoint{}, []message{header(0, schema), tagged(1<<40|1, body)}, ErrProtocol, "reserved"},
		{"a body of an unknown kind", Endpoint{}, []message{header(0, schema), tagged(3<<56|1, body)}, ErrProtocol, "kind 3"},
		{"locations without a handle", Endpoint{}, []message{header(0, schema), header(1, metadata), locatedBody(nil)}, ErrProtocol, "remote_handle"},
		{"messages after the end", Endpoint{}, []message{header(3, metadata), packedBody(4, body), header(0, schema), packedBody(1, body), header(1, metadata), end(2)}, ErrProtocol, "after the end"},
		{"locations of another number", with, []message{header(0, schema), header(1, metadata), locations(func(l Locations) Locations { return l[1:] })}, ErrProtocol, "locations"},
		{"a location that is too short", with, []message{header(0, schema), header(1, metadata), locations(func(l Locations) Locations { l[1].Length--; return l })}, ErrProtocol, "the metadata has"},
		{"a location after the memory", with, []message{header(0, schema), header(1, metadata), locations(func(l Locations) Locations { l[1].Address = 1 << 20; return l })}, ErrProtocol, "memory of 1048576"},
		{"a location that wraps", with, []message{header(0, schema), header(1, metadata), locations(func(l Locations) Locations { l[1].Address = ^uint64(7); return l })}, ErrProtocol, "memory of 1048576"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := receiveAll(t, sendMessages(t, false, errors.Is(c.is, ErrPeerGone), c.messages...), c.at, ReceiveOptions{})
			for _, one := range got {
				one.Release()
			}
			require.ErrorIs(t, err, c.is)
			assert.True(t, slices.ContainsFunc(strings.Split(c.says, "|"), func(says string) bool { return strings.Contains(err.Error(), says) }), "%v: want %s", err, c.says)
		})
	}
}

func TestReceiveBoundsMemory(t *testing.T) {
	_, schema, metadata, body := encoded(t)
	n := int64(len(body))
	for _, c := range []struct {
		name     string
		options  ReceiveOptions
		messages []message
	}{
		{"long metadata", ReceiveOptions{MaxMetadata: 4}, []message{header(0, schema)}},
		{"a long body", ReceiveOptions{MaxBody: n - 1}, []message{header(0, schema), header(1, metadata), packedBody(1, body)}},
		{"bodies before their turn", ReceiveOptions{MaxBuffered: n + 1}, []message{header(0, schema), header(1, metadata), packedBody(2, body), packedBody(3, body), packedBody(1, body)}},
		{"metadata before its turn", ReceiveOptions{MaxBuffered: 600}, []message{header(1, metadata), header(2, metadata), header(3, metadata), header(4, metadata), header(0, schema)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := receiveAll(t, sendMessages(t, false, false, c.messages...), Endpoint{}, c.options)
			require.ErrorIs(t, err, ErrTooLarge)
		})
	}
}

func TestConnRejectsInvalidFrames(t *testing.T) {
	for name, header := range map[string][frameHeaderSize]byte{
		"another kind":         {0: 2},
		"a reserved byte":      {0: 1, 3: 1},
		"a tag of no tag":      {8: 1},
		"a length beyond 2^63": {23: 0x80},
	} {
		a, b := sockets(t)
		defer func() { _ = b.Close() }()
		_, err := a.Write(header[:])
		require.NoError(t, err)
		conn := NewConn(b)
		_, err = conn.Receive(func(*Tag, int64) (arrowbuf.Buffer, error) { panic("no body is expected") })
		assert.ErrorIs(t, err, ErrProtocol, name)
		_ = a.Close()
	}
	for n := 1; n < frameHeaderSize; n += 7 {
		a, b := sockets(t)
		_, err := a.Write(make([]byte, n))
		require.NoError(t, err)
		_ = a.Close()
		_, err = NewConn(b).Receive(nil)
		assert.ErrorIs(t, err, ErrPeerGone)
		assert.NotErrorIs(t, err, io.EOF)
		_ = b.Close()
	}
}

func TestSendRejectsInvalidFreeData(t *testing.T) {
	batch := hostBatch(t, 1, 50)
	free, other := freeData, Tag(99)
	for name, m := range map[string]message{
		"an address that was never sent": {&free, AppendFreed(nil, 12345)},
		"half an address":                {&free, make([]byte, 4)},
		"a tag of something else":        {&other, AppendFreed(nil, 0)},
		"no tag":                         {nil, AppendFreed(nil, 0)},
		"too many addresses":             {&free, make([]byte, maxFreedLength+8)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWindow(t, arrowbuf.CPU(), 1<<20)
			server, client := links(t, false)
			sendAsync(t, server, readerOn(t, arrowbuf.CPU(), batch), SendOptions{Window: w}, func(err error) bool {
				return errors.Is(err, ErrProtocol) || errors.Is(err, ErrTooLarge)
			})
			_ = client.Data.Send(m.tag, hostBuffer(m.body))
			_, _ = io.Copy(io.Discard, client.Data.(*framedConn).stream)
			_ = client.Close()
		})
	}
}

func TestBatchesStayValidAfterServerEnds(t *testing.T) {
	batches := hostBatches(t)
	for range 3 {
		batches = append(batches, batches...)
	}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		w := newWindow(t, dev, 100<<10)
		server, client := links(t, false)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		from := readerOn(t, dev, batches...)
		defer from.Release()
		ended := make(chan error)
		go func() { ended <- Send(ctx, server, from, SendOptions{Window: w, FreeData: freeData}) }()
		r, err := Receive(context.Background(), client, endpointOf(w), dev, ReceiveOptions{})
		require.NoError(t, err)
		defer r.Release()
		var got []arrow.RecordBatch
		for r.Next() {
			r.RecordBatch().Retain()
			if got = append(got, r.RecordBatch()); len(got) == 2 {
				cancel()
				require.ErrorIs(t, <-ended, context.Canceled)
			}
		}
		require.ErrorIs(t, r.Err(), ErrPeerGone)
		used := w.Used()
		require.Positive(t, used)
		_, err = w.ranges.allocate(ctx, w.ranges.size) // no other allocation may overlap
		require.Error(t, err)
		for i, one := range got {
			requireSame(t, batches[i], one)
			one.Release()
		}
	})
}

func TestClosedClientFreesItsLocations(t *testing.T) {
	batches := hostBatches(t)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		w := newWindow(t, dev, 1<<20)
		server, client := links(t, false)
		sendAsync(t, server, readerOn(t, dev, batches...), SendOptions{Window: w}, anyError)
		for range 3 {
			_, err := client.Data.Receive(func(_ *Tag, n int64) (arrowbuf.Buffer, error) { return allocateHostBuffer(n, n) })
			require.NoError(t, err)
		}
		require.Positive(t, w.Used())
		_ = client.Close()
		require.Eventually(t, func() bool { return w.Used() == 0 }, 5*time.Second, time.Millisecond)
	})
}

func TestContextEndsSendAndReceive(t *testing.T) {
	batch := hostBatch(t, 1, 50)
	server, client := links(t, false)
	defer func() { _ = server.Close() }()
	require.NoError(t, server.Metadata.Send(nil, hostBuffer(header(0, schemaOf(t, batch)).body)))
	ctx, cancel := context.WithCancelCause(context.Background())
	r, err := Receive(ctx, client, Endpoint{}, arrowbuf.CPU(), ReceiveOptions{})
	require.NoError(t, err)
	defer r.Release()
	why := errors.New("enough")
	time.AfterFunc(10*time.Millisecond, func() { cancel(why) })
	require.False(t, r.Next())
	require.ErrorIs(t, r.Err(), why)

	w := newWindow(t, arrowbuf.CPU(), 1<<20)
	server, client = links(t, false)
	defer func() { _ = client.Close() }()
	ctx, cancel = context.WithCancelCause(context.Background())
	time.AfterFunc(10*time.Millisecond, func() { cancel(why) })
	batches := readerOn(t, arrowbuf.CPU(), batch)
	defer batches.Release()
	require.ErrorIs(t, Send(ctx, server, batches, SendOptions{Window: w, FreeData: freeData}), why)
}

func schemaOf(t testing.TB, batch arrow.RecordBatch) []byte {
	t.Helper()
	b, err := arrowipc.EncodeSchema(batch.Schema())
	require.NoError(t, err)
	return b
}

// FuzzReceive makes a client read two streams of arbitrary bytes, with locations
// in a window.
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
		got, err := receiveAll(t, link, endpointOf(w), ReceiveOptions{MaxMetadata: 1 << 16, MaxBody: 1 << 16, MaxBuffered: 1 << 16})
		for _, one := range got {
			if err == nil {
				_ = one.NumRows()
			}
			one.Release()
		}
	})
}
