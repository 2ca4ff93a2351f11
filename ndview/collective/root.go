package collective

import (
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"time"
)

// The ranks meet at a root, which listens at the address of an ID or of a rendezvous:
//
//  1. Each rank listens at an address of its own, dials the root, and sends a hello.
//  2. When all ranks have said hello, the root sends them the list of all, and is done.
//  3. Each rank dials all lower ranks, so that each pair is connected (join.go).
//
// Messages of the handshake are JSON after their length in 4 bytes, little endian.

// protocolVersion changes when ranks of an older Quiver would misunderstand a newer one.
const protocolVersion = 1

const (
	handshakeLimit = 10 * time.Second // for one message of a connected rank
	helloMax       = 4 << 10          // bytes
	rosterMax      = 64 << 20         // bytes
	ranksMax       = 1 << 16
)

// hello is what a rank sends to the root.
type hello struct {
	Version  int
	Token    string // of the ID; empty at the address of a rendezvous
	Rank     int
	Size     int
	Listen   string // where higher ranks dial
	Local    string // where those on the same machine dial first; may be empty
	WaitMS   int64  // how long the rank waits for the others
	Endpoint endpoint
}

const (
	hostBackend = "host"
	ncclBackend = "nccl"
)

// endpoint describes the device of a rank, so that ranks which do not fit are an error.
type endpoint struct {
	Backend string // hostBackend or ncclBackend
	Version int    // of NCCL
	GPU     string // UUID of the GPU, empty for hosts
	Device  string // name, for errors
	Host    string // where the process runs
}

// roster is the root's reply: an error, or all ranks.
type roster struct {
	Error string
	Token string // of the connections between ranks
	Ranks []member
}

type member struct {
	Listen, Local string
	Endpoint      endpoint
}

// root waits for all ranks of one communicator.
type root struct {
	listener net.Listener
	token    [idTokenBytes]byte
	open     bool // hellos need no token: the address is known to the ranks only by agreement
}

func newRoot(address string) (*root, error) {
	l, err := listen(address)
	if err != nil {
		return nil, err
	}
	return &root{listener: l, token: newToken()}, nil
}

func (r *root) close() { _ = r.listener.Close() }

// id returns the ID of the root.
func (r *root) id() (ID, error) { return makeID(r.token, addressOf(r.listener)) }

// arrival is a rank that has said hello, or has left again.
type arrival struct {
	conn  net.Conn
	hello hello
	left  bool
}

// serve waits for the ranks, and returns when all have their roster or an error.
func (r *root) serve(deadline time.Time) {
	arrivals, done := make(chan arrival), make(chan struct{})
	defer close(done)
	defer r.close()
	go func() {
		for {
			conn, err := r.listener.Accept()
			if err != nil {
				return // closed
			}
			go r.greet(conn, arrivals, done)
		}
	}()
	joined := map[int]arrival{}
	size := 0
	finish := func(reply roster, refused ...arrival) {
		r.close() // first: a rank of the next communicator at this address must not find this root
		for _, a := range slices.AppendSeq(refused, maps.Values(joined)) {
			_ = a.conn.SetWriteDeadline(time.Now().Add(handshakeLimit))
			_ = writeMessage(a.conn, reply) // a rank that has died is found by the others
			a.conn.Close()
		}
	}
	for size == 0 || len(joined) < size {
		timer := time.NewTimer(time.Until(deadline))
		select {
		case <-timer.C:
			finish(roster{Error: missing(joined, size)})
			return
		case a := <-arrivals:
			timer.Stop()
			if a.left {
				if known, ok := joined[a.hello.Rank]; ok && known.conn == a.conn {
					finish(roster{Error: fmt.Sprintf("rank %d left before all had joined", a.hello.Rank)})
					return
				}
				continue
			}
			_, taken := joined[a.hello.Rank]
			if size == 0 {
				size = a.hello.Size
			}
			var problem string
			switch {
			case a.hello.Size != size:
				problem = fmt.Sprintf("rank %d wants %d ranks, others want %d", a.hello.Rank, a.hello.Size, size)
			case taken:
				problem = fmt.Sprintf("two processes are rank %d", a.hello.Rank)
			}
			if problem != "" {
				finish(roster{Error: problem}, a)
				return
			}
			joined[a.hello.Rank] = a
			if latest := time.Now().Add(time.Duration(a.hello.WaitMS) * time.Millisecond); latest.Before(deadline) {
				deadline = latest
			}
		}
	}
	token := newToken()
	reply := roster{Token: tokenText(token), Ranks: make([]member, size)}
	for rank, a := range joined {
		reply.Ranks[rank] = member{a.hello.Listen, a.hello.Local, a.hello.Endpoint}
	}
	reply.Error = incompatible(reply.Ranks)
	finish(reply)
}

// missing says which ranks have not joined.
func missing(joined map[int]arrival, size int) string {
	var absent []int
	for rank := range size {
		if _, ok := joined[rank]; !ok {
			absent = append(absent, rank)
		}
	}
	if len(absent) > 8 {
		return fmt.Sprintf("timeout: %d of %d ranks have joined", len(joined), size)
	}
	return fmt.Sprintf("timeout: %d of %d ranks have joined, missing %v", len(joined), size, absent)
}

// incompatible says why ranks do not fit together, or returns "".
func incompatible(ranks []member) string {
	gpus := map[string]int{}
	for rank, m := range ranks {
		first, this := ranks[0].Endpoint, m.Endpoint
		if this.Backend != first.Backend {
			return fmt.Sprintf("rank %d communicates by %s (%s), rank 0 by %s (%s)", rank, this.Backend, this.Device, first.Backend, first.Device)
		}
		if this.Version != first.Version {
			return fmt.Sprintf("rank %d has version %d of NCCL, rank 0 has %d", rank, this.Version, first.Version)
		}
		if this.GPU == "" {
			continue
		}
		if other, ok := gpus[this.GPU]; ok {
			return fmt.Sprintf("ranks %d and %d have the same GPU %s, which NCCL does not support", other, rank, this.GPU)
		}
		gpus[this.GPU] = rank
	}
	return ""
}

// greet reads the hello of a connection. It then watches the connection until it ends or the
// root is done. Connections without a valid hello get an error, and are forgotten.
func (r *root) greet(conn net.Conn, arrivals chan<- arrival, done <-chan struct{}) {
	_ = conn.SetDeadline(time.Now().Add(handshakeLimit))
	h, err := r.readHello(conn)
	if err != nil {
		_ = writeMessage(conn, roster{Error: err.Error()})
		conn.Close()
		return
	}
	_ = conn.SetDeadline(time.Time{})
	a := arrival{conn: conn, hello: h}
	select {
	case arrivals <- a:
	case <-done:
		conn.Close()
		return
	}
	_, _ = conn.Read(make([]byte, 1)) // returns when the rank leaves, or the root closes
	a.left = true
	select {
	case arrivals <- a:
	case <-done:
	}
}

func (r *root) readHello(conn net.Conn) (h hello, err error) {
	if err := readMessage(conn, helloMax, &h); err != nil {
		return h, err
	}
	switch {
	case h.Version != protocolVersion:
		return h, fmt.Errorf("got version %d of the protocol, want %d", h.Version, protocolVersion)
	case h.WaitMS < 0 || h.WaitMS > never.Milliseconds():
		return h, fmt.Errorf("a wait of %d ms: %w", h.WaitMS, errMessage)
	case h.Size < 1 || h.Size > ranksMax || h.Rank < 0 || h.Rank >= h.Size:
		return h, fmt.Errorf("rank %d of %d: %w", h.Rank, h.Size, ErrRank)
	}
	token, err := hex.DecodeString(h.Token)
	if !r.open && (err != nil || subtle.ConstantTimeCompare(token, r.token[:]) != 1) {
		return h, fmt.Errorf("the secret is of another communicator: %w", ErrID)
	}
	return h, nil
}

// tokenText returns a secret as text.
func tokenText(token [idTokenBytes]byte) string { return hex.EncodeToString(token[:]) }

// errMessage means that a message of the handshake cannot be read.
var errMessage = errors.New("invalid message")

// readMessage reads a message of at most limit bytes.
func readMessage(r io.Reader, limit uint32, into any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n > limit {
		return fmt.Errorf("message of %d bytes, want at most %d: %w", n, limit, errMessage)
	}
	// The length is not trusted: memory grows as bytes arrive.
	body, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err != nil {
		return err
	}
	if len(body) < int(n) {
		return io.ErrUnexpectedEOF
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%w: %w", errMessage, err)
	}
	return nil
}

// writeMessage writes a message with its length.
func writeMessage(w io.Writer, message any) error {
	body, err := json.Marshal(message)
	if err != nil {
		return err
	}
	framed := binary.LittleEndian.AppendUint32(slices.Grow([]byte(nil), 4+len(body)), uint32(len(body)))
	_, err = w.Write(append(framed, body...))
	return err
}
