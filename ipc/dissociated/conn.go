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

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// Conn is a transport's connection: delimited messages in both directions, in
// order, with an optional tag. NewConn makes one from a socket. A transport that
// moves device memory itself, such as UCX, can implement it too. One goroutine
// may send while another receives.
type Conn interface {
	// Send sends a message: the bytes of all parts, in order, from any device.
	// When it returns, the parts have been read. The caller keeps them.
	Send(tag *Tag, parts ...arrowbuf.Buffer) error
	// Receive waits for the next message, calls allocate for the memory of its
	// body, and returns when the body is complete. The error is io.EOF if the
	// peer closed the connection between two messages.
	Receive(place AllocateFunc) (Message, error)
	// CloseSend tells the peer that no more messages follow. Messages from the
	// peer still arrive.
	CloseSend() error
	// Close makes the other calls return an error.
	Close() error
}

// Message is a received message.
type Message struct {
	Tag  *Tag // nil for a message without a tag
	Body arrowbuf.Buffer
}

// AllocateFunc returns a buffer of n bytes, on any device, for the body of a
// message. The receiver of the message owns the reference. AllocateFunc must
// check the size n; an error ends the connection.
type AllocateFunc func(tag *Tag, n int64) (arrowbuf.Buffer, error)

// Link is the pair of connections of a stream. They may be the same connection:
// metadata messages have no tag, bodies have one.
type Link struct{ Metadata, Data Conn }

// check returns an error wrapping arrow.ErrInvalid if a connection is nil.
func (l Link) check() error {
	if l.Metadata == nil || l.Data == nil {
		return fmt.Errorf("nil connection of a link: %w", arrow.ErrInvalid)
	}
	return nil
}

// singleConn reports whether metadata and bodies use one connection.
func (l Link) singleConn() bool { return l.Metadata == l.Data }

func (l Link) forEach(f func(Conn) error) error {
	if err := l.check(); err != nil {
		return err
	}
	if l.singleConn() {
		return f(l.Data)
	}
	return errors.Join(f(l.Metadata), f(l.Data))
}

func (l Link) closeSend() error { return l.forEach(Conn.CloseSend) }

// Close closes both connections.
func (l Link) Close() error { return l.forEach(Conn.Close) }

// A frame on a socket is a header of frameHeaderSize bytes, then the message.
//
//	byte 0      1 if the message has a tag, else 0
//	bytes 1-7   0
//	bytes 8-15  the tag, little-endian, 0 without one
//	bytes 16-23 the length of the message, little-endian
const frameHeaderSize = 24

// stagingSize is the size of the pinned memory through which device memory is
// sent and received.
const stagingSize = 4 << 20

// NewConn returns a Conn over a byte stream, such as a Unix domain socket, and
// takes ownership of the stream. Messages to and from a device go through pinned
// memory. docs/dissociated.md defines the framing, since the protocol leaves it
// to the transport.
//
// Of a nil stream it returns nil, which every use of a Link refuses.
func NewConn(stream net.Conn) Conn {
	if stream == nil {
		return nil
	}
	return &framedConn{stream: stream, out: bufio.NewWriterSize(nil, writeBufferSize)}
}

// writeBufferSize is the size of the buffer that combines small parts into one
// write.
const writeBufferSize = 64 << 10

type framedConn struct {
	stream net.Conn

	mu  sync.Mutex // held by Send, so that messages do not interleave
	out *bufio.Writer
}

func (c *framedConn) Close() error { return c.stream.Close() }

// CloseSend closes the whole stream if it cannot close one direction.
func (c *framedConn) CloseSend() error {
	if half, ok := c.stream.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.stream.Close()
}

func (c *framedConn) Send(tag *Tag, parts ...arrowbuf.Buffer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var header [frameHeaderSize]byte
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
	w := deviceWriter{output: c.out}
	defer w.free()
	for _, part := range parts {
		if err == nil {
			err = w.write(part)
		}
	}
	if err == nil {
		err = c.out.Flush()
	}
	return peerError(err)
}

func (c *framedConn) Receive(place AllocateFunc) (Message, error) {
	var header [frameHeaderSize]byte
	if _, err := io.ReadFull(c.stream, header[:]); err != nil {
		if errors.Is(err, io.EOF) { // not inside the header
			return Message{}, io.EOF
		}
		return Message{}, peerError(err)
	}
	tag, n, err := parseFrame(header)
	if err != nil {
		return Message{}, err
	}
	body, err := place(tag, n)
	if err != nil {
		return Message{}, err
	}
	if err := readInto(body, c.stream); err != nil {
		body.Release()
		return Message{}, peerError(err)
	}
	return Message{tag, body}, nil
}

// parseFrame parses the header of a frame.
func parseFrame(header [frameHeaderSize]byte) (tag *Tag, n int64, err error) {
	kind := binary.LittleEndian.Uint64(header[:])
	number := binary.LittleEndian.Uint64(header[8:])
	length := binary.LittleEndian.Uint64(header[16:])
	if kind > 1 || kind == 0 && number != 0 || length > math.MaxInt64 {
		return nil, 0, fmt.Errorf("%w: invalid frame header % x", ErrProtocol, header)
	}
	if kind == 1 {
		tag = (*Tag)(&number)
	}
	return tag, int64(length), nil
}

// peerError wraps ErrPeerGone into the errors with which sockets report that the
// peer closed the connection or died.
func peerError(err error) error {
	if err == nil {
		return nil
	}
	var network *net.OpError
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.As(err, &network) {
		return fmt.Errorf("%w: %w", ErrPeerGone, err)
	}
	return err
}

// deviceWriter writes buffers of any device to a stream. It copies device memory
// to pinned memory, which it keeps for the next buffer.
type deviceWriter struct {
	output io.Writer
	dev    arrowbuf.Device
	pinned []byte
}

func (w *deviceWriter) write(b arrowbuf.Buffer) error {
	if host, ok := arrowbuf.HostBytes(b); ok {
		_, err := w.output.Write(host)
		return err
	}
	if err := w.allocateStaging(b); err != nil {
		return err
	}
	for offset := int64(0); offset < b.Len(); {
		chunk := w.pinned[:min(int64(len(w.pinned)), b.Len()-offset)]
		if _, err := b.CopyToHost(chunk, offset); err != nil {
			return err
		}
		if _, err := w.output.Write(chunk); err != nil {
			return err
		}
		offset += int64(len(chunk))
	}
	return nil
}

// allocateStaging allocates pinned memory of the buffer's device.
func (w *deviceWriter) allocateStaging(b arrowbuf.Buffer) (err error) {
	if dev := b.Device(); w.dev != dev || int64(len(w.pinned)) < min(stagingSize, b.Len()) {
		w.free()
		if w.pinned, err = allocatePinned(dev, min(stagingSize, b.Len())); err != nil {
			return err
		}
		w.dev = dev
	}
	return nil
}

func (w *deviceWriter) free() {
	if w.pinned != nil {
		w.dev.HostAllocator().Free(w.pinned)
		w.pinned = nil
	}
}

// readInto reads all of a buffer, on any device, from a stream.
func readInto(b arrowbuf.Buffer, from io.Reader) error {
	if host, ok := arrowbuf.HostBytes(b); ok {
		_, err := io.ReadFull(from, host)
		return err
	}
	memory, err := allocatePinned(b.Device(), min(stagingSize, b.Len()))
	if err != nil {
		return err
	}
	defer b.Device().HostAllocator().Free(memory)
	for offset := int64(0); offset < b.Len(); {
		chunk := memory[:min(int64(len(memory)), b.Len()-offset)]
		if _, err := io.ReadFull(from, chunk); err != nil {
			return err
		}
		if _, err := b.CopyFromHost(chunk, offset); err != nil {
			return err
		}
		offset += int64(len(chunk))
	}
	return nil
}

// allocatePinned allocates memory of a device's HostAllocator. It turns the
// allocator's panic into an error.
func allocatePinned(dev arrowbuf.Device, n int64) (b []byte, err error) {
	defer func() {
		if failure := recover(); failure != nil {
			cause, ok := failure.(error)
			if !ok {
				panic(failure)
			}
			err = fmt.Errorf("pinned memory: %w", cause)
		}
	}()
	return dev.HostAllocator().Allocate(int(n)), nil
}
