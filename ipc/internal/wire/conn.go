package wire

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
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

// Queue sends frames in the order in which they are put, by a goroutine of its
// own, so that who puts one never waits for the peer.
type Queue struct {
	conn  *Conn
	limit time.Duration // for a write
	most  int

	mu     sync.Mutex
	wake   sync.Cond
	frames []Frame
	bytes  int
	ending bool // what is there is sent, no more is taken
	err    error
	done   chan struct{}
}

// NewQueue makes a queue. A peer that takes nothing for the limit of time, or
// leaves more than most bytes lying here, ends it, and the connection.
func NewQueue(conn *Conn, limit time.Duration, most int) *Queue {
	q := &Queue{conn: conn, limit: limit, most: most, done: make(chan struct{})}
	q.wake.L = &q.mu
	go q.send()
	return q
}

// Put queues a frame. Its payload and file stay as they are until they are sent;
// the file is not closed. What is put after the end is dropped.
func (q *Queue) Put(f Frame) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ending || q.err != nil {
		return
	}
	q.frames = append(q.frames, f)
	if q.bytes += headerSize + len(f.Payload); q.bytes > q.most {
		q.fail(fault("the peer has left %d bytes unread", q.bytes))
	}
	q.wake.Signal()
}

// fail ends the queue and the connection. The caller holds mu.
func (q *Queue) fail(err error) {
	if q.err == nil {
		q.err = err
		_ = q.conn.Close()
	}
	q.frames = nil
	q.wake.Signal()
}

// End sends what is there and closes the connection then. It waits for that.
func (q *Queue) End() {
	q.mu.Lock()
	q.ending = true
	q.wake.Signal()
	q.mu.Unlock()
	<-q.done
}

// Abort closes the connection, whatever is there.
func (q *Queue) Abort(err error) {
	q.mu.Lock()
	q.fail(err)
	q.mu.Unlock()
	<-q.done
}

// Err is why the queue ended, if it failed.
func (q *Queue) Err() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err
}

func (q *Queue) send() {
	defer close(q.done)
	defer func() { _ = q.conn.Close() }()
	var batch []Frame
	for {
		q.mu.Lock()
		for len(q.frames) == 0 && !q.ending && q.err == nil {
			q.wake.Wait()
		}
		if q.err != nil || len(q.frames) == 0 {
			q.mu.Unlock()
			return
		}
		batch, q.frames = q.frames, batch[:0]
		q.bytes = 0
		q.mu.Unlock()

		if err := q.write(batch); err != nil {
			q.mu.Lock()
			q.fail(err)
			q.mu.Unlock()
			return
		}
		clear(batch)
	}
}

// write sends frames, a part at a time: the peer has the limit for each.
func (q *Queue) write(frames []Frame) error {
	const part = 1 << 20
	for len(frames) > 0 {
		n, bytes := 0, 0
		for n < len(frames) && (n == 0 || bytes+len(frames[n].Payload) <= part) {
			bytes += headerSize + len(frames[n].Payload)
			n++
		}
		if err := q.conn.SetWriteDeadline(time.Now().Add(q.limit)); err != nil {
			return err
		}
		if err := q.conn.Write(frames[:n]...); err != nil {
			return err
		}
		frames = frames[n:]
	}
	return nil
}
