package collective

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// The connections between two ranks, which the higher rank dials.
const (
	control     = iota // notices of failures
	upward             // what the lower rank sends
	downward           // what the higher rank sends
	connections        // how many
)

// link is the first message of a connection between ranks.
type link struct {
	Token string
	Rank  int
	Use   int
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
	listeners := []net.Listener{l}
	h.Version, h.Listen, h.WaitMS = protocolVersion, addressOf(l), max(time.Until(deadline).Milliseconds(), 0)
	if own != "unix" && runtime.GOOS == "linux" {
		local, err := listenLocally()
		if err != nil {
			return nil, err
		}
		defer local.Close()
		listeners, h.Local = append(listeners, local), addressOf(local)
	}
	list, err := h.exchange(conn, at, deadline)
	if err != nil {
		return nil, err
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
	if err := m.connect(listeners, list.Token, deadline); err != nil {
		m.closeConnections()
		m.unmap()
		return nil, fmt.Errorf("connecting the ranks: %w: %w", ErrRendezvous, err)
	}
	for rank, p := range m.peers {
		if p != nil {
			p.direct(rank > m.rank)
			m.readers.Add(1)
			go m.readNotice(rank, p)
		}
	}
	return m, nil
}

// exchange sends the hello to the root and returns the roster.
func (h hello) exchange(conn net.Conn, at string, deadline time.Time) (list roster, err error) {
	// The root reports at the deadline which ranks are missing.
	_ = conn.SetDeadline(deadline.Add(time.Second))
	if err := writeMessage(conn, h); err != nil {
		return list, fmt.Errorf("the rendezvous at %s: %w: %w", at, ErrRendezvous, err)
	}
	switch err := readMessage(conn, rosterMax, &list); {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return list, fmt.Errorf("the rendezvous at %s does not reply: %w: %w", at, ErrRendezvous, ErrTimeout)
	case err != nil:
		return list, fmt.Errorf("the rendezvous at %s ended: %w: %w", at, ErrRendezvous, err)
	case strings.HasPrefix(list.Error, "timeout"):
		return list, fmt.Errorf("%s: %w: %w", list.Error, ErrRendezvous, ErrTimeout)
	case list.Error != "":
		return list, fmt.Errorf("%s: %w", list.Error, ErrRendezvous)
	case len(list.Ranks) != h.Size:
		return list, fmt.Errorf("got a list of %d ranks, want %d: %w", len(list.Ranks), h.Size, ErrRendezvous)
	}
	return list, nil
}

// dialRoot dials until the root listens. An error that does not pass is returned at once.
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
		if permanent(err) {
			return nil, fmt.Errorf("the rendezvous at %s: %w: %w", at, ErrRendezvous, err)
		}
		if time.Now().Add(pause).After(deadline) {
			return nil, fmt.Errorf("no rank 0 at %s: %w: %w: %w", at, ErrRendezvous, ErrTimeout, err)
		}
		time.Sleep(pause)
		pause = min(2*pause, 200*time.Millisecond)
	}
}

// permanent reports whether dialing fails for a reason that does not pass: an invalid address,
// or a missing permission. The name of a machine may become known while a cluster starts.
func permanent(err error) bool {
	if _, ok := errors.AsType[*net.AddrError](err); ok {
		return true
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return dns.Err == "unknown port"
	}
	for _, reason := range []error{syscall.EACCES, syscall.EPERM, syscall.EINVAL, syscall.EAFNOSUPPORT, syscall.ENAMETOOLONG, syscall.ENOTDIR, syscall.EPROTOTYPE} {
		if errors.Is(err, reason) {
			return true
		}
	}
	return false
}

// connect dials the lower ranks and accepts the higher ones.
func (m *mesh) connect(listeners []net.Listener, token string, deadline time.Time) error {
	ctx, cancel := context.WithDeadlineCause(context.Background(), deadline, ErrTimeout)
	defer cancel()
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error { return m.accept(ctx, listeners, token) })
	both.Go(func() error {
		for rank := range m.rank {
			for use := range connections {
				if err := m.dial(ctx, rank, use, token); err != nil {
					return fmt.Errorf("rank %d: %w", rank, err)
				}
			}
		}
		return nil
	})
	return both.Wait()
}

// dial makes one connection to a lower rank: on this machine, if the rank is there.
func (m *mesh) dial(ctx context.Context, rank, use int, token string) error {
	var conn net.Conn
	err := errors.ErrUnsupported
	for _, address := range []string{m.members[rank].Local, m.members[rank].Listen} {
		if address == "" {
			continue
		}
		network, rest, invalid := splitAddress(address)
		if invalid != nil {
			return invalid
		}
		if conn, err = (&net.Dialer{}).DialContext(ctx, network, rest); err == nil {
			break
		}
	}
	if err != nil {
		return err
	}
	return handshake(ctx, conn, func() error {
		err := writeMessage(conn, link{token, m.rank, use})
		if err != nil {
			return err
		}
		return m.add(rank, use, conn)
	})
}

// handshake calls f, which uses a new connection, and ends it with the context. It closes the
// connection if f fails.
func handshake(ctx context.Context, conn net.Conn, f func() error) error {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(handshakeLimit))
	err := f()
	_ = conn.SetDeadline(time.Time{})
	if !stop() {
		err = errors.Join(context.Cause(ctx), err)
	}
	if err != nil {
		conn.Close()
	}
	return err
}

// errStranger means that a connection is not from a rank, or has been made already.
var errStranger = errors.New("not a rank")

// add stores a connection to a rank, and the memory that the two share for it.
func (m *mesh) add(rank, use int, conn net.Conn) (err error) {
	var memory *shared
	if use == upward && m.members[m.rank].Endpoint.Backend == hostBackend && onOneMachine(conn) {
		if memory, err = shareMemory(conn); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.peers[rank]
	if p.sockets[use] != nil {
		if memory != nil {
			_ = memory.unmap() // fails only for memory that is not mapped
		}
		return errStranger
	}
	p.sockets[use] = conn
	if memory != nil {
		p.memory = memory
	}
	return nil
}

// onOneMachine reports whether the ranks of a connection can share memory. Tests replace it.
var onOneMachine = func(conn net.Conn) bool {
	_, local := conn.(*net.UnixConn)
	return local && runtime.GOOS == "linux"
}

// direct sets the two directions of a pair. isHigher says that the other rank is the higher
// one.
func (p *peer) direct(isHigher bool) {
	to, from := p.sockets[downward], p.sockets[upward]
	if isHigher {
		to, from = from, to
	}
	p.to, p.from = to, from
	if p.memory != nil {
		p.to, p.from = p.memory.sender(to), p.memory.receiver(from)
	}
}

// accept accepts the connections of all higher ranks. It closes those of strangers.
func (m *mesh) accept(ctx context.Context, listeners []net.Listener, token string) error {
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	accepted := make(chan error)
	report := func(err error) {
		select {
		case accepted <- err:
		case <-ctx.Done():
		}
	}
	for _, l := range listeners {
		context.AfterFunc(ctx, func() { l.Close() })
		running.Go(func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					report(err)
					return
				}
				running.Go(func() { // a client that sends nothing delays no other
					if err := handshake(ctx, conn, func() error { return m.greet(conn, token) }); !errors.Is(err, errStranger) {
						report(err)
					}
				})
			}
		})
	}
	for range connections * (m.size - 1 - m.rank) {
		select {
		case err := <-accepted:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// greet reads the first message of a connection, and stores it if it is from a higher rank.
func (m *mesh) greet(conn net.Conn, token string) error {
	var first link
	err := readMessage(conn, helloMax, &first)
	if err != nil || first.Token != token || first.Rank <= m.rank || first.Rank >= m.size || first.Use < 0 || first.Use >= connections {
		return errors.Join(errStranger, err)
	}
	return m.add(first.Rank, first.Use, conn)
}
