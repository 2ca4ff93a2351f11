package dissociated

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
)

// ReceiveOptions bound what a server can make a client spend. Zero stands for
// the default.
type ReceiveOptions struct {
	// MaxMetadata is the longest metadata message in bytes, 64 MiB by default.
	MaxMetadata int64
	// MaxBody is the longest packed body in bytes, 4 GiB by default.
	MaxBody int64
	// MaxWaiting is how many bytes may arrive before their turn, 256 MiB by
	// default; one body may be longer. Reading ahead goes as far.
	MaxWaiting int64

	first uint32 // the first sequence number, 0 but in tests
}

func (o ReceiveOptions) withDefaults() ReceiveOptions {
	for _, one := range []struct {
		value    *int64
		default_ int64
	}{{&o.MaxMetadata, 64 << 20}, {&o.MaxBody, 4 << 30}, {&o.MaxWaiting, 256 << 20}} {
		if *one.value <= 0 {
			*one.value = one.default_
		}
	}
	return o
}

// Receive reads a stream that was asked for, and gives its batches on a device.
// It returns when the schema is there. Packed bodies are read into memory of the
// device. The buffers of located ones are used in place where they lie on the
// device, and copied there otherwise; the server is told that they are free when
// the last reference to each is released and the device is done with it.
//
// It takes over the link, which ends with the reader's last Release and that of
// what lies in the server's memory, or when the context ends. A server that is
// gone is ErrPeerGone at the next batch; a batch that came before is whole. What
// a server sends wrongly is ErrProtocol or arrow.ErrInvalid; bytes of columns are
// not looked at (see arrowipc.Decoder).
func Receive(ctx context.Context, link Link, at Endpoint, dev arrowbuf.Device, o ReceiveOptions) (array.RecordReader, error) {
	r := &receiver{link: link, dev: dev, options: o.withDefaults()}
	r.inbox = newInbox(o.first, r.options.MaxWaiting)
	if err := r.open(at); err != nil {
		return nil, errors.Join(err, link.Close())
	}
	r.stop = context.AfterFunc(ctx, func() {
		r.inbox.fail(true, true, context.Cause(ctx))
		_ = link.Close()
	})
	r.start()
	if err := r.begin(); err != nil {
		r.end()
		return nil, fmt.Errorf("receiving a stream: %w", err)
	}
	return arrowbuf.NewReaderFunc(r.decoder.Schema(), r.next, r.end), nil
}

// receiver is a stream on its way in.
type receiver struct {
	link    Link
	dev     arrowbuf.Device
	options ReceiveOptions
	inbox   *inbox
	stop    func() bool
	readers sync.WaitGroup

	remote  *remote  // nil where there is none
	freeing *freeing // nil without remote
	decoder *arrowipc.Decoder
}

// open opens the memory of the server.
func (r *receiver) open(at Endpoint) (err error) {
	if len(at.RemoteHandle) == 0 {
		return nil
	}
	if at.FreeData == nil {
		return fmt.Errorf("%w: an endpoint with a remote_handle has no free_data", ErrProtocol)
	}
	if r.remote, err = openRemote(at.RemoteHandle, r.dev, serverOf(r.link.Data)); err != nil {
		return err
	}
	r.freeing = &freeing{conn: r.link.Data, tag: *at.FreeData, remote: r.remote}
	return nil
}

// start has the connections read.
func (r *receiver) start() {
	if r.link.single() {
		r.readers.Go(func() { r.inbox.fail(true, true, r.read(r.link.Data, true, true)) })
		return
	}
	r.readers.Go(func() { r.inbox.fail(true, false, r.read(r.link.Metadata, true, false)) })
	r.readers.Go(func() { r.inbox.fail(false, true, r.read(r.link.Data, false, true)) })
}

// read puts what a connection brings into the inbox, until that fails: untagged
// messages are metadata, tagged ones bodies.
func (r *receiver) read(from Conn, metadata, data bool) error {
	for {
		var sequence uint32
		var kind BodyKind
		m, err := from.Receive(func(tag *Tag, n int64) (_ arrowbuf.Buffer, err error) {
			if tag == nil {
				if !metadata {
					return nil, fmt.Errorf("%w: a message without a tag on the connection for bodies", ErrProtocol)
				}
				return hostPlace(n, r.options.MaxMetadata)
			}
			if !data {
				return nil, fmt.Errorf("%w: a message with tag %#x on the connection for metadata", ErrProtocol, uint64(*tag))
			}
			if sequence, kind, err = ParseBodyTag(*tag); err != nil {
				return nil, err
			}
			return r.bodyPlace(sequence, kind, n)
		})
		if err == nil && m.Tag != nil {
			err = r.inbox.addBody(sequence, body{kind, m.Body})
		} else if err == nil {
			err = r.addMetadata(m.Body)
		}
		if err != nil {
			return err
		}
	}
}

func (r *receiver) addMetadata(b arrowbuf.Buffer) error {
	bytes, _ := arrowbuf.HostBytes(b) // which is never given back: others keep parts of it
	m, err := ParseMetadata(bytes)
	if err != nil {
		return err
	}
	return r.inbox.addMetadata(m)
}

// bodyPlace is memory for a body: of the device where it is packed.
func (r *receiver) bodyPlace(sequence uint32, kind BodyKind, n int64) (arrowbuf.Buffer, error) {
	if n > r.options.MaxBody {
		return nil, fmt.Errorf("%w: body %d of %d bytes, at most %d are", ErrTooLarge, sequence, n, r.options.MaxBody)
	}
	if kind == Located {
		if r.remote == nil {
			return nil, fmt.Errorf("%w: body %d has locations, and the endpoint no remote_handle", ErrProtocol, sequence)
		}
		if n > r.options.MaxMetadata {
			return nil, fmt.Errorf("%w: %d bytes of locations, at most %d are", ErrTooLarge, n, r.options.MaxMetadata)
		}
	}
	if err := r.inbox.admit(sequence, n); err != nil {
		return nil, err
	}
	if kind == Located {
		return hostPlace(n, n)
	}
	return r.dev.Alloc(n)
}

// hostPlace is memory of the host for at most so many bytes.
func hostPlace(n, limit int64) (arrowbuf.Buffer, error) {
	if n > limit {
		return nil, fmt.Errorf("%w: a message of %d bytes, at most %d are", ErrTooLarge, n, limit)
	}
	return arrowbuf.WrapExternal(make([]byte, n), func() {}), nil
}

// begin takes the schema, which is the first message.
func (r *receiver) begin() error {
	m, err := r.inbox.nextMetadata()
	if err != nil {
		return err
	}
	if m.End() {
		return fmt.Errorf("%w: the stream ends before its schema", ErrProtocol)
	}
	if r.decoder, err = arrowipc.NewDecoder(m.Header, r.dev); err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	return r.inbox.advance()
}

// next is the next batch, io.EOF after the last.
func (r *receiver) next() (arrow.RecordBatch, error) {
	for {
		m, err := r.inbox.nextMetadata()
		if err != nil {
			return nil, err
		}
		if m.End() {
			if err := r.inbox.ended(); err != nil {
				return nil, err
			}
			return nil, io.EOF
		}
		batch, err := r.decode(m)
		if err == nil {
			err = r.inbox.advance()
		}
		if err != nil {
			if batch != nil {
				batch.Release()
			}
			return nil, fmt.Errorf("message %d: %w", m.Sequence, err)
		}
		if batch != nil {
			return batch, nil
		}
	}
}

// end gives back what the stream holds itself.
func (r *receiver) end() {
	r.stop()
	r.inbox.close()
	if !r.link.single() {
		_ = r.link.Metadata.Close()
	}
	if r.decoder != nil {
		r.decoder.Release()
	}
	if r.freeing != nil {
		r.freeing.end() // closes the connection, perhaps later
		return
	}
	_ = r.link.Data.Close()
	r.readers.Wait()
}

// Dial asks a server for the stream that an identifier names, and gives its
// batches on a device: see Receive. The URIs are those of the server, that for
// data empty where both streams go by one connection. The schemes are unix and
// tcp; of other transports' connections Receive makes the same.
func Dial(ctx context.Context, metadata, data string, identifier []byte, dev arrowbuf.Device, o ReceiveOptions) (array.RecordReader, error) {
	at, first, err := dial(ctx, metadata, identifier)
	if err != nil {
		return nil, err
	}
	link := Link{first, first}
	if data != "" {
		// Where bodies lie is said by the server that sends them.
		if at, link.Data, err = dial(ctx, data, identifier); err != nil {
			return nil, errors.Join(err, first.Close())
		}
	}
	return Receive(ctx, link, at, dev, o)
}

// dial connects and asks.
func dial(ctx context.Context, uri string, identifier []byte) (Endpoint, Conn, error) {
	fail := func(err error) (Endpoint, Conn, error) {
		return Endpoint{}, nil, fmt.Errorf("asking %s for a stream: %w", uri, err)
	}
	u, err := url.Parse(uri)
	if err != nil {
		return fail(err)
	}
	at, err := ParseEndpoint(u)
	if err != nil {
		return fail(err)
	}
	address := u.Host
	switch {
	case u.Scheme == "unix" && u.Host == "":
		address = u.Path
	case u.Scheme != "tcp":
		return fail(errors.New("expected unix:///path or tcp://host:port"))
	}
	var dialer net.Dialer
	stream, err := dialer.DialContext(ctx, u.Scheme, address)
	if err != nil {
		return fail(err)
	}
	conn := NewConn(stream)
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if err := conn.Send(&at.WantData, hostBuffer(identifier)); err != nil {
		return fail(errors.Join(err, conn.Close()))
	}
	return at, conn, nil
}

// decode makes a batch of metadata and its body; of a dictionary nil.
func (r *receiver) decode(m Metadata) (arrow.RecordBatch, error) {
	info, err := arrowipc.Inspect(m.Header)
	if err != nil {
		return nil, err
	}
	if info.Type != ipc.MessageRecordBatch && info.Type != ipc.MessageDictionaryBatch {
		return nil, fmt.Errorf("%w: a message of type %v, expected a record batch or a dictionary", ErrProtocol, info.Type)
	}
	one, err := r.inbox.nextBody()
	if err != nil {
		return nil, err
	}
	defer one.buffer.Release()
	if one.kind == Packed {
		if one.buffer.Len() != info.BodyLength {
			return nil, fmt.Errorf("%w: a body of %d bytes, the metadata says %d", ErrProtocol, one.buffer.Len(), info.BodyLength)
		}
		return r.decoder.Decode(m.Header, one.buffer)
	}
	bytes, _ := arrowbuf.HostBytes(one.buffer)
	parts, err := r.locate(bytes, info)
	defer parts.Release()
	if err != nil {
		return nil, err
	}
	return r.decoder.Decode(m.Header, parts)
}

// locate opens what a located body names, also where it fails midway.
func (r *receiver) locate(message []byte, info arrowipc.Info) (arrowipc.Parts, error) {
	locations, err := ParseLocations(message)
	if err != nil {
		return nil, err
	}
	if len(locations) != len(info.Buffers) {
		return nil, fmt.Errorf("%w: %d locations, the metadata has %d buffers", ErrProtocol, len(locations), len(info.Buffers))
	}
	parts := make(arrowipc.Parts, 0, len(locations))
	for i, l := range locations {
		extent := info.Buffers[i]
		if l.Length != uint64(extent.Length) {
			return parts, fmt.Errorf("%w: buffer %d of %d bytes, the metadata says %d", ErrProtocol, i, l.Length, extent.Length)
		}
		release := r.freeing.hold(l.Address)
		if l.Length == 0 {
			release()
			continue
		}
		b, err := r.remote.at(l, release)
		if err != nil {
			release()
			return parts, fmt.Errorf("buffer %d: %w", i, err)
		}
		parts = append(parts, arrowipc.Part{Offset: extent.Offset, Buffer: b})
	}
	// Parts are in the order of the body, buffers need not be.
	slices.SortStableFunc(parts, func(a, b arrowipc.Part) int { return cmp.Compare(a.Offset, b.Offset) })
	return parts, nil
}
