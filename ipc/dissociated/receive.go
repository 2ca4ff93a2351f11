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

// ReceiveOptions bounds the memory that a server can make a client use. 0 means
// the default.
type ReceiveOptions struct {
	// MaxMetadata is the maximum length of a metadata message, 64 MiB by default.
	MaxMetadata int64
	// MaxBody is the maximum length of a packed body, 4 GiB by default.
	MaxBody int64
	// MaxBuffered bounds the bytes of messages that arrive before their turn, 256
	// MiB by default. A single body may be longer. It also bounds how far the
	// client reads ahead.
	MaxBuffered int64

	first uint32 // the first sequence number; not 0 only in tests
}

func (o ReceiveOptions) withDefaults() ReceiveOptions {
	for _, option := range []struct {
		value    *int64
		default_ int64
	}{{&o.MaxMetadata, 64 << 20}, {&o.MaxBody, 4 << 30}, {&o.MaxBuffered, 256 << 20}} {
		if *option.value <= 0 {
			*option.value = option.default_
		}
	}
	return o
}

// Receive reads a requested stream and returns a reader of its batches on a
// device. It returns when the schema has arrived. Packed bodies are read into
// memory of the device. Located buffers on the device are used in place; others
// are copied. A located buffer is reported as free when its last reference is
// released and the device no longer uses it.
//
// Receive takes ownership of the link. The link ends when ctx is done, or with
// the reader's last Release and the release of all memory of the server. If the
// server is gone, the next batch's error wraps ErrPeerGone; earlier batches stay
// valid. Invalid messages return errors that wrap ErrProtocol or
// arrow.ErrInvalid. The values of columns are not validated; see
// arrowipc.Decoder.
func Receive(ctx context.Context, link Link, endpoint Endpoint, dev arrowbuf.Device, o ReceiveOptions) (array.RecordReader, error) {
	if err := link.check(); err != nil {
		return nil, fmt.Errorf("dissociated.Receive: %w", err)
	}
	if dev == nil {
		return nil, errors.Join(fmt.Errorf("dissociated.Receive: nil device: %w", arrowbuf.ErrDevice), link.Close())
	}
	r := &receiver{link: link, dev: dev, options: o.withDefaults()}
	r.buffer = newReorderBuffer(o.first, r.options.MaxBuffered)
	if err := r.openRemote(endpoint); err != nil {
		return nil, errors.Join(err, link.Close())
	}
	r.stop = context.AfterFunc(ctx, func() {
		r.buffer.fail(true, true, context.Cause(ctx))
		_ = link.Close()
	})
	r.startReading()
	if err := r.readSchema(); err != nil {
		r.close()
		return nil, fmt.Errorf("dissociated.Receive: %w", err)
	}
	return arrowbuf.NewReaderFunc(r.decoder.Schema(), r.next, r.close), nil
}

// receiver holds the state of a stream that is received.
type receiver struct {
	link    Link
	dev     arrowbuf.Device
	options ReceiveOptions
	buffer  *reorderBuffer
	stop    func() bool
	readers sync.WaitGroup

	remote   *remoteMemory // nil without a remote handle
	notifier *freeNotifier // nil if remote is nil
	decoder  *arrowipc.Decoder
}

// openRemote opens the server's memory.
func (r *receiver) openRemote(endpoint Endpoint) (err error) {
	if len(endpoint.RemoteHandle) == 0 {
		return nil
	}
	if endpoint.FreeData == nil {
		return fmt.Errorf("%w: the endpoint has a remote_handle but no free_data", ErrProtocol)
	}
	if r.remote, err = openRemote(endpoint.RemoteHandle, r.dev, serverProcessOf(r.link.Data)); err != nil {
		return err
	}
	r.notifier = &freeNotifier{conn: r.link.Data, tag: *endpoint.FreeData, remote: r.remote}
	return nil
}

// startReading starts the goroutines that read the connections.
func (r *receiver) startReading() {
	if r.link.singleConn() {
		r.readers.Go(func() { r.buffer.fail(true, true, r.readConn(r.link.Data, true, true)) })
		return
	}
	r.readers.Go(func() { r.buffer.fail(true, false, r.readConn(r.link.Metadata, true, false)) })
	r.readers.Go(func() { r.buffer.fail(false, true, r.readConn(r.link.Data, false, true)) })
}

// readConn puts the messages of a connection into the reorder buffer until an
// error. Messages without a tag are metadata, others are bodies.
func (r *receiver) readConn(from Conn, metadata, data bool) error {
	for {
		var sequence uint32
		var kind BodyKind
		m, err := from.Receive(func(tag *Tag, n int64) (_ arrowbuf.Buffer, err error) {
			if tag == nil {
				if !metadata {
					return nil, fmt.Errorf("%w: message without a tag on the body connection", ErrProtocol)
				}
				return allocateHostBuffer(n, r.options.MaxMetadata)
			}
			if !data {
				return nil, fmt.Errorf("%w: message with tag %#x on the metadata connection", ErrProtocol, uint64(*tag))
			}
			if sequence, kind, err = ParseBodyTag(*tag); err != nil {
				return nil, err
			}
			return r.allocateBody(sequence, kind, n)
		})
		if err == nil && m.Tag != nil {
			err = r.buffer.addBody(sequence, body{kind, m.Body})
		} else if err == nil {
			err = r.addMetadata(m.Body)
		}
		if err != nil {
			return err
		}
	}
}

func (r *receiver) addMetadata(b arrowbuf.Buffer) error {
	bytes, _ := arrowbuf.HostBytes(b) // never released: decoded metadata refers to it
	m, err := ParseMetadata(bytes)
	if err != nil {
		return err
	}
	return r.buffer.addMetadata(m)
}

// allocateBody allocates the memory of a body: on the device if the body is
// packed, else on the host.
func (r *receiver) allocateBody(sequence uint32, kind BodyKind, n int64) (arrowbuf.Buffer, error) {
	if n > r.options.MaxBody {
		return nil, fmt.Errorf("%w: body %d: got %d bytes, want at most %d", ErrTooLarge, sequence, n, r.options.MaxBody)
	}
	if kind == Located {
		if r.remote == nil {
			return nil, fmt.Errorf("%w: body %d has locations, but the endpoint has no remote_handle", ErrProtocol, sequence)
		}
		if n > r.options.MaxMetadata {
			return nil, fmt.Errorf("%w: locations: got %d bytes, want at most %d", ErrTooLarge, n, r.options.MaxMetadata)
		}
	}
	if err := r.buffer.reserve(sequence, n); err != nil {
		return nil, err
	}
	if kind == Located {
		return allocateHostBuffer(n, n)
	}
	return r.dev.Alloc(n)
}

// allocateHostBuffer returns a host buffer of n bytes. The error wraps
// ErrTooLarge if n exceeds limit.
func allocateHostBuffer(n, limit int64) (arrowbuf.Buffer, error) {
	if n > limit {
		return nil, fmt.Errorf("%w: message: got %d bytes, want at most %d", ErrTooLarge, n, limit)
	}
	return arrowbuf.WrapExternal(make([]byte, n), func() {}), nil
}

// readSchema reads the schema, which is the first message.
func (r *receiver) readSchema() error {
	m, err := r.buffer.nextMetadata()
	if err != nil {
		return err
	}
	if m.EndOfStream() {
		return fmt.Errorf("%w: the stream ends before its schema", ErrProtocol)
	}
	if r.decoder, err = arrowipc.NewDecoder(m.Header, r.dev); err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	return r.buffer.advance()
}

// next returns the next batch, or io.EOF after the last.
func (r *receiver) next() (arrow.RecordBatch, error) {
	for {
		m, err := r.buffer.nextMetadata()
		if err != nil {
			return nil, err
		}
		if m.EndOfStream() {
			if err := r.buffer.checkEnd(); err != nil {
				return nil, err
			}
			return nil, io.EOF
		}
		batch, err := r.decode(m)
		if err == nil {
			err = r.buffer.advance()
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

// close releases the resources of the stream. Located memory stays open until it
// is freed.
func (r *receiver) close() {
	r.stop()
	r.buffer.close()
	if !r.link.singleConn() {
		_ = r.link.Metadata.Close()
	}
	if r.decoder != nil {
		r.decoder.Release()
	}
	if r.notifier != nil {
		r.notifier.finish() // closes the connection when all locations are freed
		return
	}
	_ = r.link.Data.Close()
	r.readers.Wait()
}

// Dial requests a stream from a server and returns a reader of its batches on a
// device; see Receive. metadata and data are the server's URIs; data is empty if
// both use one connection. The schemes are unix and tcp. For other transports use
// Receive.
func Dial(ctx context.Context, metadata, data string, identifier []byte, dev arrowbuf.Device, o ReceiveOptions) (array.RecordReader, error) {
	endpoint, first, err := dial(ctx, metadata, identifier)
	if err != nil {
		return nil, err
	}
	link := Link{first, first}
	if data != "" {
		// The URI of the body connection holds the remote handle.
		if endpoint, link.Data, err = dial(ctx, data, identifier); err != nil {
			return nil, errors.Join(err, first.Close())
		}
	}
	return Receive(ctx, link, endpoint, dev, o)
}

// dial connects to a URI and sends the identifier.
func dial(ctx context.Context, uri string, identifier []byte) (Endpoint, Conn, error) {
	fail := func(err error) (Endpoint, Conn, error) {
		return Endpoint{}, nil, fmt.Errorf("dissociated.Dial: %s: %w", uri, err)
	}
	u, err := url.Parse(uri)
	if err != nil {
		return fail(err)
	}
	endpoint, err := ParseEndpoint(u)
	if err != nil {
		return fail(err)
	}
	address := u.Host
	switch {
	case u.Scheme == "unix" && u.Host == "":
		address = u.Path
	case u.Scheme != "tcp":
		return fail(errors.New("URI: want unix:///path or tcp://host:port"))
	}
	var dialer net.Dialer
	stream, err := dialer.DialContext(ctx, u.Scheme, address)
	if err != nil {
		return fail(err)
	}
	conn := NewConn(stream)
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if err := conn.Send(&endpoint.WantData, hostBuffer(identifier)); err != nil {
		return fail(errors.Join(err, conn.Close()))
	}
	return endpoint, conn, nil
}

// decode decodes a message and its body. For a dictionary the batch is nil.
func (r *receiver) decode(m Metadata) (arrow.RecordBatch, error) {
	info, err := arrowipc.Inspect(m.Header)
	if err != nil {
		return nil, err
	}
	if info.Type != ipc.MessageRecordBatch && info.Type != ipc.MessageDictionaryBatch {
		return nil, fmt.Errorf("%w: message type: got %v, want a record batch or a dictionary", ErrProtocol, info.Type)
	}
	body, err := r.buffer.nextBody()
	if err != nil {
		return nil, err
	}
	defer body.buffer.Release()
	if body.kind == Packed {
		if body.buffer.Len() != info.BodyLength {
			return nil, fmt.Errorf("%w: length of a body: got %d bytes, the metadata has %d", ErrProtocol, body.buffer.Len(), info.BodyLength)
		}
		return r.decoder.Decode(m.Header, body.buffer)
	}
	bytes, _ := arrowbuf.HostBytes(body.buffer)
	parts, err := r.openLocations(bytes, info)
	defer parts.Release()
	if err != nil {
		return nil, err
	}
	return r.decoder.Decode(m.Header, parts)
}

// openLocations opens the memory of a located body. On an error it returns the
// parts that were opened.
func (r *receiver) openLocations(message []byte, info arrowipc.Info) (arrowipc.Parts, error) {
	locations, err := ParseLocations(message)
	if err != nil {
		return nil, err
	}
	if len(locations) != len(info.Buffers) {
		return nil, fmt.Errorf("%w: got %d locations, want one for each of %d buffers", ErrProtocol, len(locations), len(info.Buffers))
	}
	parts := make(arrowipc.Parts, 0, len(locations))
	for i, l := range locations {
		extent := info.Buffers[i]
		if l.Length != uint64(extent.Length) {
			return parts, fmt.Errorf("%w: length of buffer %d: got %d bytes, the metadata has %d", ErrProtocol, i, l.Length, extent.Length)
		}
		release := r.notifier.add(l.Address)
		if l.Length == 0 {
			release()
			continue
		}
		b, err := r.remote.open(l, release)
		if err != nil {
			release()
			return parts, fmt.Errorf("buffer %d: %w", i, err)
		}
		parts = append(parts, arrowipc.Part{Offset: extent.Offset, Buffer: b})
	}
	// The decoder needs parts in the order of the body; the buffers may have another.
	slices.SortStableFunc(parts, func(a, b arrowipc.Part) int { return cmp.Compare(a.Offset, b.Offset) })
	return parts, nil
}
