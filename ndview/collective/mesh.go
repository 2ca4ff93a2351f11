package collective

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// mesh connects one rank with all others. Each pair of ranks has three connections. The one
// for control carries notices, and ends when a process dies. The others carry headers, and the
// elements of the host implementation, one in each direction. On one machine, ranks without
// NCCL have shared memory for these (ring.go), and the sockets only wake the other rank.
type mesh struct {
	rank, size int
	members    []member
	peers      []*peer       // peers[rank] is nil
	failed     chan struct{} // closed when the communicator fails
	readers    sync.WaitGroup

	mu     sync.Mutex
	cause  error // why failed is closed
	closed bool
}

// peer is another rank.
type peer struct {
	sockets [connections]net.Conn
	to      outgoing
	from    incoming
	memory  *shared    // nil if to and from are sockets
	sending sync.Mutex // of notices
	left    chan struct{}
}

// outgoing and incoming are the two directions of a pair: sockets, or ends of rings.
type outgoing interface {
	io.Writer
	SetDeadline(t time.Time) error
}

type incoming interface {
	io.Reader
	SetDeadline(t time.Time) error
}

// notice is a message on a control connection.
type notice struct {
	Kind string // "closed", or one of failureKinds
	Rank int    // that failed first
	Text string
}

// failureKinds are the errors that a rank reports to the others, by name.
var failureKinds = map[string]error{"peer": ErrPeer, "mismatch": ErrMismatch, "timeout": ErrTimeout, "aborted": ErrAborted}

// readNotice waits for the one notice of a rank, or the end of its control connection.
func (m *mesh) readNotice(rank int, p *peer) {
	defer m.readers.Done()
	var n notice
	if err := json.NewDecoder(io.LimitReader(p.sockets[control], 1<<20)).Decode(&n); err != nil {
		m.fail(fmt.Errorf("rank %d has died: %w", rank, ErrPeer), rank)
		return
	}
	if n.Kind == "closed" {
		close(p.left)
		return
	}
	kind, ok := failureKinds[n.Kind]
	if !ok {
		kind = ErrPeer
	}
	m.fail(&reported{fmt.Sprintf("rank %d reports: %s", rank, n.Text), kind}, n.Rank)
}

// reported is the error of another rank. Its text ends with that of kind already.
type reported struct {
	text string
	kind error
}

func (e *reported) Error() string { return e.text }
func (e *reported) Unwrap() error { return e.kind }

// fail ends the communicator at all ranks. Only the first error counts. origin is the rank
// that failed.
func (m *mesh) fail(err error, origin int) {
	m.mu.Lock()
	if m.cause != nil || m.closed {
		m.mu.Unlock()
		return
	}
	m.cause = err
	close(m.failed)
	m.mu.Unlock()
	n := notice{Kind: "peer", Rank: origin, Text: err.Error()}
	for kind, sentinel := range failureKinds {
		if errors.Is(err, sentinel) {
			n.Kind = kind
		}
	}
	for rank, p := range m.peers {
		if p != nil && rank != origin {
			_ = p.send(n) // a rank that has died needs none
		}
	}
	m.closeConnections()
}

func (p *peer) send(n notice) error {
	p.sending.Lock()
	defer p.sending.Unlock()
	_ = p.sockets[control].SetWriteDeadline(time.Now().Add(time.Second))
	body, err := json.Marshal(n)
	if err == nil {
		_, err = p.sockets[control].Write(body)
	}
	return err
}

// failure returns why the communicator has failed, or nil.
func (m *mesh) failure() error {
	select {
	case <-m.failed:
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.cause
	default:
		return nil
	}
}

// close ends the communicator of this rank, while no transfer runs. The others can still read
// what was sent.
func (m *mesh) close() {
	m.mu.Lock()
	orderly := !m.closed && m.cause == nil
	m.closed = true
	m.mu.Unlock()
	if orderly {
		for _, p := range m.peers {
			if p != nil {
				_ = p.send(notice{Kind: "closed", Rank: m.rank})
			}
		}
		m.closeConnections()
	}
	m.readers.Wait()
	m.unmap()
}

func (m *mesh) closeConnections() {
	for _, p := range m.peers {
		if p == nil {
			continue
		}
		for _, c := range p.sockets {
			if c != nil {
				c.Close()
			}
		}
	}
}

// unmap unmaps the shared memory.
func (m *mesh) unmap() {
	for _, p := range m.peers {
		if p != nil && p.memory != nil {
			_ = p.memory.unmap() // fails only for memory that is not mapped
			p.memory = nil
		}
	}
}

// patience is how long an operation waits for the notice that explains a broken connection.
const patience = 500 * time.Millisecond

// broken ends the communicator because a connection for data has failed, and returns the
// cause.
func (m *mesh) broken(rank int, err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		m.fail(fmt.Errorf("waiting for rank %d: %w", rank, ErrTimeout), m.rank)
		return m.failureOrClosed()
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-m.failed:
	case <-m.peers[rank].left:
		m.fail(fmt.Errorf("rank %d has closed the communicator: %w", rank, ErrPeer), m.rank)
	case <-timer.C:
		m.fail(fmt.Errorf("rank %d: %w: %w", rank, ErrPeer, err), m.rank)
	}
	return m.failureOrClosed()
}

// usable returns an error if the communicator has failed or is closed.
func (m *mesh) usable() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cause == nil && m.closed {
		return ErrClosed
	}
	return m.cause
}

// failureOrClosed is failure for operations that this rank's Close has interrupted.
func (m *mesh) failureOrClosed() error {
	if err := m.failure(); err != nil {
		return err
	}
	return ErrClosed
}

// transfer is bytes sent to a rank, or received from it.
type transfer struct {
	rank  int
	send  bool
	bytes []byte
	check func() error // of the received bytes
}

// lane is a direction to or from a rank.
type lane struct {
	rank int
	send bool
}

// move runs transfers at the same time, those of one rank and direction in order. It returns
// when all are done, or with the cause of the failure that ends the communicator.
func (m *mesh) move(transfers []transfer, deadline time.Time) error {
	lanes := map[lane][]transfer{}
	for _, t := range transfers {
		l := lane{t.rank, t.send}
		lanes[l] = append(lanes[l], t)
	}
	if err := m.usable(); err != nil {
		return err
	}
	var wg errgroup.Group
	for l, list := range lanes {
		wg.Go(func() error { return m.moveLane(l, list, deadline) })
	}
	return wg.Wait()
}

func (m *mesh) moveLane(l lane, list []transfer, deadline time.Time) error {
	p := m.peers[l.rank]
	if l.send {
		_ = p.to.SetDeadline(deadline)
	} else {
		_ = p.from.SetDeadline(deadline)
	}
	for _, t := range list {
		var err error
		if l.send {
			_, err = p.to.Write(t.bytes)
		} else {
			_, err = io.ReadFull(p.from, t.bytes)
		}
		if err != nil {
			return m.broken(l.rank, err)
		}
		if t.check == nil {
			continue
		}
		if err := t.check(); err != nil {
			m.fail(err, m.rank)
			return m.failureOrClosed()
		}
	}
	return nil
}
