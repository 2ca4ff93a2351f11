package arrowipc

import (
	"fmt"
	"io"
)

// output is where messages are written.
type output struct {
	w  io.Writer
	at int64 // bytes written
}

func newOutput(w io.Writer) *output { return &output{w: w} }

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
	for i := range m.parts {
		p := &m.parts[i]
		b, err := p.bytes()
		if err != nil {
			return fmt.Errorf("buffer %d: %w", i, err)
		}
		if err := o.write(b); err != nil {
			return err
		}
		if err := o.write(make([]byte, padded(p.length)-p.length)); err != nil {
			return err
		}
	}
	return nil
}
