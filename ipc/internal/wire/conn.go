package wire

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// maxQueuedFiles bounds the descriptors that arrive before their frames.
const maxQueuedFiles = 16

// Conn carries frames over a Unix socket. At most one goroutine may read and one
// may write.
type Conn struct {
	unix     *net.UnixConn
	readBuf  []byte // bytes that were read and are not yet part of a frame
	start    int
	files    []*os.File
	oob      []byte
	writeBuf []byte
}

// NewConn returns a connection and takes ownership of the socket.
func NewConn(unix *net.UnixConn) *Conn {
	return &Conn{unix: unix, readBuf: make([]byte, 0, 64<<10), oob: make([]byte, rightsSpace)}
}

// Unix returns the socket.
func (c *Conn) Unix() *net.UnixConn { return c.unix }

// Close closes the socket; reads and writes in progress return an error.
func (c *Conn) Close() error { return c.unix.Close() }

// shutdown ends writes. Reads return what has arrived and then io.EOF (shutdown(2)
// of a Unix socket on Linux).
func (c *Conn) shutdown() { _, _ = c.unix.CloseWrite(), c.unix.CloseRead() }

// SetReadDeadline bounds current and later reads. The zero time means no bound.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.unix.SetReadDeadline(t) }

// SetWriteDeadline bounds current and later writes.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.unix.SetWriteDeadline(t) }

// Read returns the next frame. The error wraps ErrFault if the peer violates the
// protocol. It is io.EOF if the connection ends between frames, and
// io.ErrUnexpectedEOF within one. After an error no more frames can be read, and
// received descriptors are closed.
func (c *Conn) Read() (f Frame, err error) {
	defer func() {
		if err != nil {
			c.dropFiles()
		}
	}()
	if err := c.fill(headerSize); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) && len(c.readBuf) == c.start {
			err = io.EOF
		}
		return Frame{}, err
	}
	h, err := parseHeader(c.readBuf[c.start : c.start+headerSize])
	if err != nil {
		return Frame{}, err
	}
	if err := c.fill(headerSize + h.length); err != nil {
		return Frame{}, err
	}
	f = Frame{Type: h.typ, Request: h.request}
	c.start += headerSize
	f.Payload = append([]byte(nil), c.readBuf[c.start:c.start+h.length]...)
	c.start += h.length
	if h.files > len(c.files) {
		return Frame{}, fault("%v announces a descriptor, which was not sent", h.typ)
	}
	if h.files > 0 {
		f.File, c.files = c.files[0], c.files[1:]
	}
	if c.start == len(c.readBuf) && len(c.files) > 0 {
		f.CloseFile()
		return Frame{}, fault("%v was sent with a descriptor that it does not announce", h.typ)
	}
	return f, nil
}

// fill reads until n bytes are buffered. The buffer grows with the received
// bytes, not with the length in a header.
func (c *Conn) fill(n int) error {
	for len(c.readBuf)-c.start < n {
		if c.start > 0 && (c.start == len(c.readBuf) || len(c.readBuf) == cap(c.readBuf)) {
			c.readBuf = c.readBuf[:copy(c.readBuf[:cap(c.readBuf)], c.readBuf[c.start:])]
			c.start = 0
		}
		if len(c.readBuf) == cap(c.readBuf) {
			c.readBuf = append(make([]byte, 0, 2*cap(c.readBuf)), c.readBuf...)
		}
		got, rights, flags, _, err := c.unix.ReadMsgUnix(c.readBuf[len(c.readBuf):cap(c.readBuf)], c.oob)
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
			return fault("got more descriptors than frames announce")
		}
		c.readBuf = c.readBuf[:len(c.readBuf)+got]
	}
	if cap(c.readBuf) > 1<<20 && len(c.readBuf)-c.start < 64<<10 && n < 64<<10 {
		c.readBuf = append(make([]byte, 0, 64<<10), c.readBuf[c.start:]...) // shrink the buffer after a large frame
		c.start = 0
	}
	return nil
}

func (c *Conn) dropFiles() {
	for _, f := range c.files {
		_ = f.Close()
	}
	c.files = nil
}

// Write sends frames in order; it combines frames without descriptors. It does
// not keep frames or close files.
func (c *Conn) Write(frames ...Frame) error {
	c.writeBuf = c.writeBuf[:0]
	for _, f := range frames {
		files := 0
		if f.File != nil {
			if err := c.flush(); err != nil {
				return err
			}
			files = 1
		}
		c.writeBuf = header{len(f.Payload), f.Type, files, f.Request}.append(c.writeBuf)
		c.writeBuf = append(c.writeBuf, f.Payload...)
		if f.File != nil {
			if err := c.flushWith(f.File); err != nil {
				return err
			}
		}
	}
	err := c.flush()
	if cap(c.writeBuf) > 1<<20 {
		c.writeBuf = nil
	}
	return err
}

func (c *Conn) flush() error {
	if len(c.writeBuf) == 0 {
		return nil
	}
	_, err := c.unix.Write(c.writeBuf)
	c.writeBuf = c.writeBuf[:0]
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
		if n, _, failure = c.unix.WriteMsgUnix(c.writeBuf, rightsMessage(int(fd)), nil); failure == nil {
			c.writeBuf = c.writeBuf[n:]
		}
	})
	if err = errors.Join(err, failure); err != nil {
		return err
	}
	return c.flush()
}

// Queue sends frames in order from its own goroutine, so that Put never waits for
// the peer. If it fails, it ends the connection, but leaves closing to Drain or
// Abort: a peer that closed its end may have sent the reason before, which the
// reader must still get.
type Queue struct {
	conn         *Conn
	writeTimeout time.Duration // of each write
	maxBytes     int

	mu     sync.Mutex
	wake   sync.Cond
	frames []Frame
	bytes  int
	ending bool // queued frames are sent, and no more accepted
	err    error
	done   chan struct{}
}

// NewQueue returns a queue, which must end in Drain or Abort. The queue and the
// connection end if a write takes longer than writeTimeout, or if more than
// maxBytes are queued; the reader then gets what has arrived and io.EOF.
func NewQueue(conn *Conn, writeTimeout time.Duration, maxBytes int) *Queue {
	q := &Queue{conn: conn, writeTimeout: writeTimeout, maxBytes: maxBytes, done: make(chan struct{})}
	q.wake.L = &q.mu
	go q.send()
	return q
}

// Put queues a frame. The payload and the file must not change until they are
// sent; Put does not close the file. After the end of the queue, Put drops the
// frame.
func (q *Queue) Put(f Frame) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ending || q.err != nil {
		return
	}
	q.frames = append(q.frames, f)
	if q.bytes += headerSize + len(f.Payload); q.bytes > q.maxBytes {
		q.fail(fault("the peer did not read %d queued bytes", q.bytes))
	}
	q.wake.Signal()
}

// fail ends the queue and the connection. The caller holds mu.
func (q *Queue) fail(err error) {
	if q.err == nil {
		q.err = err
		q.conn.shutdown()
	}
	q.frames = nil
	q.wake.Signal()
}

// Drain sends the queued frames and closes the connection. It waits until that is
// done.
func (q *Queue) Drain() {
	q.mu.Lock()
	q.ending = true
	q.wake.Signal()
	q.mu.Unlock()
	<-q.done
	_ = q.conn.Close()
}

// Abort closes the connection without sending the queued frames.
func (q *Queue) Abort(err error) {
	q.mu.Lock()
	q.fail(err)
	q.mu.Unlock()
	_ = q.conn.Close()
	<-q.done
}

// Err returns the error that ended the queue, if any.
func (q *Queue) Err() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err
}

func (q *Queue) send() {
	defer close(q.done)
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

// write sends frames in groups of about 1 MiB, each within writeTimeout.
func (q *Queue) write(frames []Frame) error {
	const part = 1 << 20
	for len(frames) > 0 {
		n, bytes := 0, 0
		for n < len(frames) && (n == 0 || bytes+len(frames[n].Payload) <= part) {
			bytes += headerSize + len(frames[n].Payload)
			n++
		}
		if err := q.conn.SetWriteDeadline(time.Now().Add(q.writeTimeout)); err != nil {
			return err
		}
		if err := q.conn.Write(frames[:n]...); err != nil {
			return err
		}
		frames = frames[n:]
	}
	return nil
}
