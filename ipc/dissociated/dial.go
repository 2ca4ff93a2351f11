package dissociated

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"

	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

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
