package wire

import (
	"sync"
	"time"
)

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
