package dissociated

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"sync"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// A socket carries frames: 24 bytes, then the message.
//
//	byte 0      1 if the message has a tag, else 0
//	bytes 1-7   0
//	bytes 8-15  the tag, little-endian, 0 without one
//	bytes 16-23 the length of the message, little-endian
const frameHeader = 24

// staged is how much of a device's memory goes through pinned memory at a time.
const staged = 4 << 20

// NewConn returns a Conn over a stream of bytes, such as a Unix domain socket,
// which it closes. Messages to and from a device go through its pinned memory.
// The framing is this package's, for the document leaves it to the transport;
// it is described in docs/dissociated.md.
func NewConn(stream net.Conn) Conn {
	return &framed{stream: stream, out: bufio.NewWriterSize(nil, together)}
}

// together is up to how many bytes small parts go in one write.
const together = 64 << 10

type framed struct {
	stream net.Conn

	mu  sync.Mutex // held by a Send, so that messages do not mix
	out *bufio.Writer
}

func (c *framed) Close() error { return c.stream.Close() }

// CloseSend closes the stream altogether where it cannot close one direction.
func (c *framed) CloseSend() error {
	if half, ok := c.stream.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.stream.Close()
}

func (c *framed) Send(tag *Tag, parts ...arrowbuf.Buffer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var header [frameHeader]byte
	if tag != nil {
		header[0] = 1
		binary.LittleEndian.PutUint64(header[8:], uint64(*tag))
	}
	var n int64
	for _, part := range parts {
		n += part.Len()
	}
	binary.LittleEndian.PutUint64(header[16:], uint64(n))
	c.out.Reset(c.stream)
	_, err := c.out.Write(header[:])
	to := writer{to: c.out}
	defer to.free()
	for _, part := range parts {
		if err == nil {
			err = to.write(part)
		}
	}
	if err == nil {
		err = c.out.Flush()
	}
	return gone(err)
}

func (c *framed) Receive(place Place) (Message, error) {
	var header [frameHeader]byte
	if _, err := io.ReadFull(c.stream, header[:]); err != nil {
		if errors.Is(err, io.EOF) { // and not in the middle
			return Message{}, io.EOF
		}
		return Message{}, gone(err)
	}
	tag, n, err := parseFrame(header)
	if err != nil {
		return Message{}, err
	}
	body, err := place(tag, n)
	if err != nil {
		return Message{}, err
	}
	if err := fill(body, c.stream); err != nil {
		body.Release()
		return Message{}, gone(err)
	}
	return Message{tag, body}, nil
}

// parseFrame reads the header of a frame.
func parseFrame(header [frameHeader]byte) (tag *Tag, n int64, err error) {
	kind := binary.LittleEndian.Uint64(header[:])
	number := binary.LittleEndian.Uint64(header[8:])
	length := binary.LittleEndian.Uint64(header[16:])
	if kind > 1 || kind == 0 && number != 0 || length > math.MaxInt64 {
		return nil, 0, fmt.Errorf("%w: a frame begins with % x", ErrProtocol, header)
	}
	if kind == 1 {
		tag = (*Tag)(&number)
	}
	return tag, int64(length), nil
}

// gone says of the errors by which sockets tell that the peer closed them, or
// died, that it is gone.
func gone(err error) error {
	if err == nil {
		return nil
	}
	var network *net.OpError
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.As(err, &network) {
		return fmt.Errorf("%w: %w", ErrPeerGone, err)
	}
	return err
}
