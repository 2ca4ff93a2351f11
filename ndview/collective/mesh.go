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

// mesh connects one rank with all others. Each pair of ranks has two connections. The one for
// data carries headers and elements of the host implementation. The one for control carries
// notices, and ends when a process dies.
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
	control, data net.Conn
	sending       sync.Mutex // of notices
	left          chan struct{}
}

// notice is a message on a control connection.
type notice struct {
	Kind string // "closed", or one of failureKinds
	Rank int    // that failed first
	Text string
}

// failureKinds are the errors that a rank reports to the others, by name.
var failureKinds = map[string]error{"peer": ErrPeer, "mismatch": ErrMismatch, "timeout": ErrTimeout, "aborted": ErrAborted}

// link is the first message of a connection between ranks.
type link struct {
	Token   string
	Rank    int
	Control bool
}

// join says hello to the root at an address and connects to all ranks that it lists. at is
// the address in the form of splitAddress.
func join(at string, h hello, deadline time.Time) (_ *mesh, err error) {
	conn, err := dialRoot(at, deadline)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	own := "unix"
	if tcp, ok := conn.LocalAddr().(*net.TCPAddr); ok {
		own = "tcp:" + net.JoinHostPort(tcp.IP.String(), "0")
	}
	l, err := listen(own)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	h.Version, h.Listen, h.WaitMS = protocolVersion, addressOf(l), max(time.Until(deadline).Milliseconds(), 0)
	// The root reports at the deadline which ranks are missing.
	_ = conn.SetDeadline(deadline.Add(time.Second))
	if err := writeMessage(conn, h); err != nil {
		return nil, fmt.Errorf("the rendezvous at %s: %w: %w", at, ErrRendezvous, err)
	}
	var list roster
	switch err := readMessage(conn, rosterMax, &list); {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, fmt.Errorf("the rendezvous at %s does not reply: %w: %w", at, ErrRendezvous, ErrTimeout)
	case err != nil:
		return nil, fmt.Errorf("the rendezvous at %s ended: %w: %w", at, ErrRendezvous, err)
	case list.Error != "":
		if len(list.Error) > 7 && list.Error[:7] == "timeout" {
			return nil, fmt.Errorf("%s: %w: %w", list.Error, ErrRendezvous, ErrTimeout)
		}
		return nil, fmt.Errorf("%s: %w", list.Error, ErrRendezvous)
	case len(list.Ranks) != h.Size:
		return nil, fmt.Errorf("got a list of %d ranks, want %d: %w", len(list.Ranks), h.Size, ErrRendezvous)
	}
	m := &mesh{rank: h.Rank, size: h.Size, members: list.Ranks, peers: make([]*peer, h.Size), failed: make(chan struct{})}
	for rank := range m.peers {
		if rank != m.rank {
			m.peers[rank] = &peer{left: make(chan struct{})}
		}
	}
	// Ranks that have said hello are alive, so they connect soon.
	if soon := time.Now().Add(3 * handshakeLimit); soon.Before(deadline) {
		deadline = soon
	}
	if err := m.connect(l, list.Token, deadline); err != nil {
		m.closeConnections()
		return nil, fmt.Errorf("connecting the ranks: %w: %w", ErrRendezvous, err)
	}
	for rank, p := range m.peers {
		if p != nil {
			m.readers.Add(1)
			go m.readNotice(rank, p)
		}
	}
	return m, nil
}

// dialRoot dials until the root listens.
func dialRoot(at string, deadline time.Time) (net.Conn, error) {
	network, rest, err := splitAddress(at)
	if err != nil {
		return nil, err
	}
	pause := 2 * time.Millisecond
	for {
		conn, err := (&net.Dialer{Deadline: deadline}).Dial(network, rest)
		if err == nil {
			return conn, nil
		}
		if time.Now().Add(pause).After(deadline) {
			return nil, fmt.Errorf("no rank 0 at %s: %w: %w: %w", at, ErrRendezvous, ErrTimeout, err)
		}
		time.Sleep(pause)
		pause = min(2*pause, 200*time.Millisecond)
	}
}

// connect dials the lower ranks and accepts the higher ones.
func (m *mesh) connect(l net.Listener, token string, deadline time.Time) error {
	accepted := make(chan error, 1)
	go func() { accepted <- m.accept(l, token, deadline) }()
	for rank := range m.rank {
		for _, control := range []bool{true, false} {
			network, rest, err := splitAddress(m.members[rank].Listen)
			if err == nil {
				var conn net.Conn
				if conn, err = (&net.Dialer{Deadline: deadline}).Dial(network, rest); err == nil {
					m.set(rank, control, conn)
					_ = conn.SetWriteDeadline(deadline)
					err = writeMessage(conn, link{token, m.rank, control})
					_ = conn.SetWriteDeadline(time.Time{})
				}
			}
			if err != nil {
				l.Close()
				<-accepted
				return fmt.Errorf("rank %d: %w", rank, err)
			}
		}
	}
	return <-accepted
}

// set stores a connection. It returns false if the rank has it already.
func (m *mesh) set(rank int, control bool, conn net.Conn) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := &m.peers[rank].data
	if control {
		at = &m.peers[rank].control
	}
	if *at != nil {
		return false
	}
	*at = conn
	return true
}

// accept accepts two connections of each higher rank. It closes those of strangers.
func (m *mesh) accept(l net.Listener, token string, deadline time.Time) error {
	if d, ok := l.(interface{ SetDeadline(time.Time) error }); ok {
		_ = d.SetDeadline(deadline)
	}
	for want := 2 * (m.size - 1 - m.rank); want > 0; {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		_ = conn.SetReadDeadline(time.Now().Add(handshakeLimit))
		var first link
		err = readMessage(conn, helloMax, &first)
		_ = conn.SetReadDeadline(time.Time{})
		if err != nil || first.Token != token || first.Rank <= m.rank || first.Rank >= m.size || !m.set(first.Rank, first.Control, conn) {
			conn.Close()
			continue
		}
		want--
	}
	return nil
}

// readNotice waits for the one notice of a rank, or the end of its control connection.
func (m *mesh) readNotice(rank int, p *peer) {
	defer m.readers.Done()
	var n notice
	if err := json.NewDecoder(io.LimitReader(p.control, 1<<20)).Decode(&n); err != nil {
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
	_ = p.control.SetWriteDeadline(time.Now().Add(time.Second))
	body, err := json.Marshal(n)
	if err == nil {
		_, err = p.control.Write(body)
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

// close ends the communicator of this rank. The others can still read what was sent.
func (m *mesh) close() {
	m.mu.Lock()
	if m.closed || m.cause != nil {
		m.mu.Unlock()
		m.readers.Wait()
		return
	}
	m.closed = true
	m.mu.Unlock()
	for _, p := range m.peers {
		if p != nil {
			_ = p.send(notice{Kind: "closed", Rank: m.rank})
		}
	}
	m.closeConnections()
	m.readers.Wait()
}

func (m *mesh) closeConnections() {
	for _, p := range m.peers {
		if p == nil {
			continue
		}
		for _, c := range []net.Conn{p.data, p.control} {
			if c != nil {
				c.Close()
			}
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
	if err := m.failure(); err != nil {
		return err
	}
	var wg errgroup.Group
	for l, list := range lanes {
		wg.Go(func() error { return m.moveLane(l, list, deadline) })
	}
	return wg.Wait()
}

func (m *mesh) moveLane(l lane, list []transfer, deadline time.Time) error {
	conn := m.peers[l.rank].data
	if l.send {
		_ = conn.SetWriteDeadline(deadline)
	} else {
		_ = conn.SetReadDeadline(deadline)
	}
	for _, t := range list {
		var err error
		if l.send {
			_, err = conn.Write(t.bytes)
		} else {
			_, err = io.ReadFull(conn, t.bytes)
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
