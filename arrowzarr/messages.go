package arrowzarr

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// maxMetadata is the most that the metadata of one message may take.
const maxMetadata = 64 << 20

// continuation is what a message begins with since Arrow 0.15; before, it began
// with its length.
const continuation = 0xFFFFFFFF

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
	length, err := m.length()
	if err != nil {
		return nil, err
	}
	metadata := make([]byte, length)
	if _, err := io.ReadFull(m.input, metadata); err != nil {
		return nil, fmt.Errorf("metadata of %d bytes: %w", length, cutShort(err))
	}
	if err := checkMessage(metadata); err != nil {
		return nil, err
	}
	body := memory.NewResizableBuffer(m.mem)
	defer body.Release()
	meta := memory.NewBufferBytes(metadata)
	defer meta.Release()
	m.last = ipc.NewMessage(meta, body)
	size := m.last.BodyLen()
	if size < 0 || size > m.limit {
		return nil, fmt.Errorf("a message of %d bytes, expected at most %d (half of --max-memory)", size, m.limit)
	}
	body.Resize(int(size))
	if _, err := io.ReadFull(m.input, body.Bytes()); err != nil {
		return nil, fmt.Errorf("message of %d bytes: %w", size, cutShort(err))
	}
	return m.last, nil
}

// length reads how long the metadata of the next message is.
func (m *messages) length() (int, error) {
	var word [4]byte
	if _, err := io.ReadFull(m.input, word[:]); err != nil {
		return 0, err // io.EOF too: a stream may just end
	}
	length := binary.LittleEndian.Uint32(word[:])
	if length == continuation {
		if _, err := io.ReadFull(m.input, word[:]); err != nil {
			return 0, cutShort(err)
		}
		length = binary.LittleEndian.Uint32(word[:])
	}
	switch {
	case length == 0:
		return 0, io.EOF
	case length < 8 || length > maxMetadata:
		return 0, fmt.Errorf("metadata of %d bytes, expected 8 to %d", length, maxMetadata)
	}
	return int(length), nil
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

// checkFile checks the metadata of all messages of an IPC file. It tells whether
// the file has the other byte order.
func checkFile(file io.ReaderAt, size int64) (swapped bool, err error) {
	const magicAtEnd = "ARROW1"
	var tail [4 + len(magicAtEnd)]byte
	if _, err := file.ReadAt(tail[:], size-int64(len(tail))); err != nil || string(tail[4:]) != magicAtEnd {
		return false, errors.New("the file does not end as one: it is cut short, or was never finished")
	}
	length := int64(binary.LittleEndian.Uint32(tail[:]))
	if length < 8 || length > min(maxMetadata, size-int64(len(tail))) {
		return false, fmt.Errorf("a footer of %d bytes in a file of %d", length, size)
	}
	footer := make([]byte, length)
	if _, err := file.ReadAt(footer, size-int64(len(tail))-length); err != nil {
		return false, err
	}
	left := size // blocks do not overlap
	return checkFooter(footer, func(offset, length int64) error {
		if left -= length; offset < 0 || length < 8 || length > maxMetadata || offset > size-length || left < 0 {
			return fmt.Errorf("a message of %d bytes at offset %d of a file of %d", length, offset, size)
		}
		block := make([]byte, length)
		if _, err := file.ReadAt(block, offset); err != nil {
			return err
		}
		if binary.LittleEndian.Uint32(block) == continuation {
			return checkMessage(block[8:])
		}
		return checkMessage(block[4:])
	})
}
