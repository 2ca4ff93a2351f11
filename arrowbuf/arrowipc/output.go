package arrowipc

import (
	"io"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// output is where messages are written.
type output struct {
	w      io.Writer
	ram    *ramFile     // that w is, or nil
	memory BufferWriter // that w is, or nil
	at     int64        // bytes written
}

// BufferWriter writes to memory that may be a device's, and gives the room for what
// comes next as a buffer, which whoever asks for it fills.
type BufferWriter interface {
	io.Writer
	NextBuffer(n int64) (arrowbuf.Buffer, error)
}

// NewBufferWriter returns a writer to a buffer of any device, to which the caller
// keeps a reference as long as he writes. What does not fit is
// arrowbuf.ErrOutOfRange.
func NewBufferWriter(b arrowbuf.Buffer) BufferWriter { return &bufferWriter{buffer: b} }

type bufferWriter struct {
	buffer arrowbuf.Buffer
	pos    int64
}

func (w *bufferWriter) Write(p []byte) (int, error) {
	n, err := w.buffer.CopyFromHost(p, w.pos)
	w.pos += n
	return int(n), err
}

func (w *bufferWriter) NextBuffer(n int64) (arrowbuf.Buffer, error) {
	room, err := w.buffer.Slice(w.pos, n)
	if err == nil {
		w.pos += n
	}
	return room, err
}

func newOutput(w io.Writer) *output {
	memory, _ := w.(BufferWriter)
	return &output{w: w, ram: newRAMFile(w), memory: memory}
}

func (o *output) write(b []byte) error {
	n, err := o.w.Write(b)
	o.at += int64(max(n, 0))
	if err == nil && n != len(b) {
		err = io.ErrShortWrite
	}
	return err
}

// body writes the body of a message.
func (o *output) body(m *Message) error {
	dev := m.device()
	switch {
	case m.BodyLength == 0:
		return nil
	case o.memory != nil:
		room, err := o.memory.NextBuffer(m.BodyLength)
		if err != nil {
			return err
		}
		defer room.Release()
		o.at += m.BodyLength
		return m.copyBody(room)
	case dev != nil && o.ram != nil && m.BodyLength >= leastMapped:
		err := o.ram.body(m, dev)
		o.at += m.BodyLength
		return err
	case dev != nil:
		return o.pieces(m, dev)
	}
	for i := range m.parts {
		p := &m.parts[i]
		b, err := p.bytes()
		if err == nil {
			err = o.write(b)
		}
		if rest := padded(p.length) - p.length; err == nil && rest > 0 {
			err = o.write(make([]byte, rest))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pieces writes a body that is on a device, while what comes next is copied.
func (o *output) pieces(m *Message, dev arrowbuf.Device) error {
	type piece struct {
		b   []byte
		err error
	}
	ready, written := make(chan piece, 1), make(chan struct{})
	go func() {
		defer close(ready)
		for pos := int64(0); pos < m.BodyLength; pos += mostOfPiece {
			b, err := stage(dev, min(mostOfPiece, m.BodyLength-pos))
			if err == nil {
				err = m.read(b, pos)
			}
			select {
			case ready <- piece{b, err}:
			case <-written: // the writer failed
				ready <- piece{b, nil} // for its memory
				return
			}
			if err != nil {
				return
			}
		}
	}()
	var failure error
	for p := range ready {
		if failure == nil {
			if failure = p.err; failure == nil {
				failure = o.write(p.b)
			}
			if failure != nil {
				close(written)
			}
		}
		if p.b != nil {
			dev.HostAllocator().Free(p.b)
		}
	}
	return failure
}

// device is where the bytes of a body come from: the first that the host does not
// reach, or nil.
func (m *Message) device() arrowbuf.Device {
	for i := range m.parts {
		if p := &m.parts[i]; p.src != nil && !arrowbuf.OnHost(p.src) {
			if b, ok := arrowbuf.FromArrow(p.src); ok {
				defer b.Release()
				return b.Device()
			}
		}
	}
	return nil
}
