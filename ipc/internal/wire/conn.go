package wire

import (
	"errors"
	"io"
	"net"
	"os"
	"time"
)

// maxQueuedFiles bounds the descriptors that have come before their frames.
const maxQueuedFiles = 16

// Conn carries frames over a Unix socket. One goroutine reads, and one writes.
type Conn struct {
	unix  *net.UnixConn
	buf   []byte // what was read and is not yet part of a frame
	begin int
	files []*os.File
	oob   []byte
	wrote []byte
}

// NewConn takes over a socket.
func NewConn(unix *net.UnixConn) *Conn {
	return &Conn{unix: unix, buf: make([]byte, 0, 64<<10), oob: make([]byte, rightsSpace)}
}

// Unix is the socket.
func (c *Conn) Unix() *net.UnixConn { return c.unix }

// Close ends reads and writes that are under way, too.
func (c *Conn) Close() error { return c.unix.Close() }

// SetReadDeadline bounds later reads, and the one under way. The zero time is
// no bound.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.unix.SetReadDeadline(t) }

// SetWriteDeadline bounds later writes, and the one under way.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.unix.SetWriteDeadline(t) }

// Read returns the next frame. What breaks the protocol is ErrFault; the end of
// the connection between frames is io.EOF, within one io.ErrUnexpectedEOF. After
// an error there is nothing more to read; the descriptors that came are closed.
func (c *Conn) Read() (f Frame, err error) {
	defer func() {
		if err != nil {
			c.dropFiles()
		}
	}()
	if err := c.fill(headerSize); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) && len(c.buf) == c.begin {
			err = io.EOF
		}
		return Frame{}, err
	}
	h, err := parseHeader(c.buf[c.begin : c.begin+headerSize])
	if err != nil {
		return Frame{}, err
	}
	if err := c.fill(headerSize + h.length); err != nil {
		return Frame{}, err
	}
	f = Frame{Type: h.typ, Request: h.request}
	c.begin += headerSize
	f.Payload = append([]byte(nil), c.buf[c.begin:c.begin+h.length]...)
	c.begin += h.length
	if h.files > len(c.files) {
		return Frame{}, fault("%v announces a descriptor that did not come", h.typ)
	}
	if h.files > 0 {
		f.File, c.files = c.files[0], c.files[1:]
	}
	if c.begin == len(c.buf) && len(c.files) > 0 {
		f.CloseFile()
		return Frame{}, fault("%v brings a descriptor that it does not announce", h.typ)
	}
	return f, nil
}

// fill reads until n bytes are there. Memory grows with what comes, not with
// what a header claims.
func (c *Conn) fill(n int) error {
	for len(c.buf)-c.begin < n {
		if c.begin > 0 && (c.begin == len(c.buf) || len(c.buf) == cap(c.buf)) {
			c.buf = c.buf[:copy(c.buf[:cap(c.buf)], c.buf[c.begin:])]
			c.begin = 0
		}
		if len(c.buf) == cap(c.buf) {
			c.buf = append(make([]byte, 0, 2*cap(c.buf)), c.buf...)
		}
		got, rights, flags, _, err := c.unix.ReadMsgUnix(c.buf[len(c.buf):cap(c.buf)], c.oob)
		if rights > 0 {
			files, err := parseRights(c.oob[:rights])
			c.files = append(c.files, files...)
			if err != nil {
				return err
			}
		}
		switch {
		case err != nil && !errors.Is(err, io.EOF):
			return err
		case err != nil || got == 0:
			return io.ErrUnexpectedEOF
		case truncatedRights(flags) || len(c.files) > maxQueuedFiles:
			return fault("more descriptors than frames need")
		}
		c.buf = c.buf[:len(c.buf)+got]
	}
	if cap(c.buf) > 1<<20 && len(c.buf)-c.begin < 64<<10 && n < 64<<10 {
		c.buf = append(make([]byte, 0, 64<<10), c.buf[c.begin:]...) // a large frame is over
		c.begin = 0
	}
	return nil
}

func (c *Conn) dropFiles() {
	for _, f := range c.files {
		_ = f.Close()
	}
	c.files = nil
}

// Write sends frames in their order, those without a descriptor together. It
// keeps no frame, and closes no file.
func (c *Conn) Write(frames ...Frame) error {
	c.wrote = c.wrote[:0]
	for _, f := range frames {
		files := 0
		if f.File != nil {
			if err := c.flush(); err != nil {
				return err
			}
			files = 1
		}
		c.wrote = header{len(f.Payload), f.Type, files, f.Request}.append(c.wrote)
		c.wrote = append(c.wrote, f.Payload...)
		if f.File != nil {
			if err := c.flushWith(f.File); err != nil {
				return err
			}
		}
	}
	err := c.flush()
	if cap(c.wrote) > 1<<20 {
		c.wrote = nil
	}
	return err
}

func (c *Conn) flush() error {
	if len(c.wrote) == 0 {
		return nil
	}
	_, err := c.unix.Write(c.wrote)
	c.wrote = c.wrote[:0]
	return err
}

// flushWith sends a file's descriptor with the first byte.
func (c *Conn) flushWith(file *os.File) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var failure error
	err = raw.Control(func(fd uintptr) {
		var n int
		if n, _, failure = c.unix.WriteMsgUnix(c.wrote, rights(int(fd)), nil); failure == nil {
			c.wrote = c.wrote[n:]
		}
	})
	if err = errors.Join(err, failure); err != nil {
		return err
	}
	return c.flush()
}
