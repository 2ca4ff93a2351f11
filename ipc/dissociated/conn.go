package dissociated

import "github.com/quiver-gpu/quiver/arrowbuf"

// Conn is a transport's connection: delimited messages in both directions, in
// order, some of which carry a tag. NewConn makes one of a socket; a transport
// that moves device memory by itself, as UCX does, is another. One goroutine may
// send while another receives.
type Conn interface {
	// Send sends a message: the bytes of all parts, which may live on any device,
	// one part after the other. They have been read when it returns, and stay the
	// caller's.
	Send(tag *Tag, parts ...arrowbuf.Buffer) error
	// Receive waits for the next message, asks for the memory to put it into, and
	// answers when it is there. The error is io.EOF where the peer closed the
	// connection between two messages.
	Receive(place Place) (Message, error)
	// CloseSend tells the peer that no other message follows. What the peer sends
	// still arrives.
	CloseSend() error
	// Close ends what the other calls are doing with an error.
	Close() error
}

// Message is one that was received.
type Message struct {
	Tag  *Tag // nil for one without
	Body arrowbuf.Buffer
}

// Place answers a buffer of n bytes, on any device, for a message to be read
// into; the message's reader gets the reference. Whether n is too much is its
// business. An error ends the connection.
type Place func(tag *Tag, n int64) (arrowbuf.Buffer, error)
