package arrowzarr

import (
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
)

// messages reads the messages of an IPC stream for arrow-go, whose own reader
// believes what they say of their size.
type messages struct {
	input io.Reader
	mem   memory.Allocator
	limit int64 // of the bytes of a body
	last  *ipc.Message
}

// Message returns the next message, which is good until the next call, or
// io.EOF.
func (m *messages) Message() (*ipc.Message, error) {
	m.Release()
	metadata, err := arrowipc.ReadMetadata(m.input)
	if err != nil {
		return nil, err
	}
	info, err := arrowipc.Inspect(metadata)
	if err != nil {
		return nil, err
	}
	if size := info.BodyLength; size > m.limit {
		return nil, fmt.Errorf("a message of %d bytes, expected at most %d (half of --max-memory)", size, m.limit)
	}
	body := memory.NewResizableBuffer(m.mem)
	defer body.Release()
	meta := memory.NewBufferBytes(metadata)
	defer meta.Release()
	m.last = ipc.NewMessage(meta, body)
	body.Resize(int(info.BodyLength))
	if _, err := io.ReadFull(m.input, body.Bytes()); err != nil {
		return nil, fmt.Errorf("message of %d bytes: %w", info.BodyLength, cutShort(err))
	}
	return m.last, nil
}

// cutShort is the error of an input that ends where it should go on.
func cutShort(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Release drops the last message. arrow-go counts references to a reader of
// messages; this one has a single owner.
func (m *messages) Release() {
	if m.last != nil {
		m.last.Release()
		m.last = nil
	}
}

// Retain is there for the interface.
func (m *messages) Retain() {}
