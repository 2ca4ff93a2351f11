package collective

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// storeServer is a TCPStore of PyTorch, for the queries that ranks make.
type storeServer struct {
	mu     sync.Mutex
	values map[string]string
	set    *sync.Cond
}

func serveStore(t *testing.T) (address string, s *storeServer) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	s = &storeServer{values: map[string]string{}}
	s.set = sync.NewCond(&s.mu)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer conn.Close(); _ = s.serve(conn) }()
		}
	}()
	return l.Addr().String(), s
}

func (s *storeServer) serve(conn net.Conn) error {
	r := bufio.NewReader(conn)
	number := func() (n uint64) { _ = binary.Read(r, binary.NativeEndian, &n); return n }
	text := func() string {
		b := make([]byte, number())
		_, _ = io.ReadFull(r, b)
		return string(b)
	}
	for {
		query, err := r.ReadByte()
		if err != nil {
			return err
		}
		switch query {
		case storeValidate:
			var magic uint32
			if err := binary.Read(r, binary.NativeEndian, &magic); err != nil || magic != storeMagic {
				return errors.New("not validated")
			}
		case storeSet:
			key := text()
			s.mu.Lock()
			s.values[key] = text()
			s.set.Broadcast()
			s.mu.Unlock()
		case storeWait:
			number()
			s.get(text())
			_, _ = conn.Write([]byte{storeFound})
		case storeGet:
			value := s.get(text())
			_, _ = conn.Write(append(binary.NativeEndian.AppendUint64(nil, uint64(len(value))), value...))
		default:
			return errors.New("unknown query")
		}
	}
}

// get waits for a value.
func (s *storeServer) get(key string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.values[key] == "" {
		s.set.Wait()
	}
	return s.values[key]
}

// Ranks meet through the store of torchrun's agent, several times.
func TestRanksMeetAtTheStoreOfTorchrun(t *testing.T) {
	address, s := serveStore(t)
	for range 2 {
		// Both ranks are in this process, so that they count meetings twice.
		before := storeMeetings.Load()
		id, err := NewID("unix")
		require.NoError(t, err)
		key := "/quiver/test/" + id.String()
		meet := func(set bool) (ID, error) {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				return ID{}, err
			}
			defer conn.Close()
			return exchangeByStore(conn, key, set, id)
		}
		other := make(chan ID, 1)
		go func() { got, _ := meet(false); other <- got }()
		time.Sleep(5 * time.Millisecond)
		got, err := meet(true)
		require.NoError(t, err)
		assert.Equal(t, id, got)
		assert.Equal(t, id, <-other)
		assert.Equal(t, before, storeMeetings.Load())
	}
	t.Setenv("TORCHELASTIC_RUN_ID", "run7")
	c, err := Connect(arrowbuf.CPU(), Rendezvous{Address: "torch:" + address, Rank: 0, Size: 1}, Options{Timeout: 20 * time.Second})
	require.NoError(t, err)
	require.NoError(t, c.Close())
	s.mu.Lock()
	defer s.mu.Unlock()
	found := false
	for key, value := range s.values {
		found = found || strings.HasPrefix(key, "/quiver/collective/run7/") && len(value) == IDBytes
	}
	assert.True(t, found, "rank 0 sets the ID under a key of the run")
}

func TestRepliesOfOtherServersAreErrors(t *testing.T) {
	for _, reply := range []string{"", "\x01", "\x00", "\x00\x05\x00\x00\x00\x00\x00\x00\x00hello", "\x00\x80\x00\x00\x00\x00\x00\x00\x00" + strings.Repeat("x", 128)} {
		_, err := exchangeByStore(struct {
			io.Reader
			io.Writer
		}{strings.NewReader(reply), io.Discard}, "key", false, ID{})
		assert.Error(t, err, "%q", reply)
	}
}

// A rank that leaves before all have joined is an error of the others, not a wait.
func TestRankThatLeavesWhileJoiningIsAnError(t *testing.T) {
	id, err := NewID("unix")
	require.NoError(t, err)
	at, token, err := id.address()
	require.NoError(t, err)
	network, name, err := splitAddress(at)
	require.NoError(t, err)
	conn, err := net.Dial(network, name)
	require.NoError(t, err)
	require.NoError(t, writeMessage(conn, hello{Version: protocolVersion, Token: tokenText(token), Rank: 1, Size: 3, WaitMS: 60_000}))
	joining := make(chan error)
	go func() {
		_, err := New(arrowbuf.CPU(), id, 0, 3, Options{Timeout: time.Minute})
		joining <- err
	}()
	time.Sleep(20 * time.Millisecond) // in either order, the result is the same
	require.NoError(t, conn.Close())
	err = <-joining
	assert.ErrorIs(t, err, ErrRendezvous)
	assert.ErrorContains(t, err, "rank 1 left before all had joined")
}

// FuzzMessages reads what a stranger may send to a root, a rank or as an ID.
func FuzzMessages(f *testing.F) {
	f.Add([]byte("\x02\x00\x00\x00{}"))
	f.Add(signature{kind: opReduce, op: Max, root: 1, count: 5}.header())
	r, err := newRoot("unix")
	require.NoError(f, err)
	id, err := r.id()
	require.NoError(f, err)
	f.Add(id[:])
	r.close()
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, into := range []any{new(hello), new(roster), new(link)} {
			_ = readMessage(strings.NewReader(string(b)), helloMax, into)
		}
		if h, err := r.readHello(reader{strings.NewReader(string(b))}); err == nil {
			assert.True(t, h.Rank >= 0 && h.Rank < h.Size)
			t.Error("a hello without the secret is accepted")
		}
		assert.NotEmpty(t, describe(b))
		if parsed, err := ParseID(b); err == nil {
			assert.Equal(t, string(b), string(parsed[:]))
		}
	})
}

// reader is a connection that is only read.
type reader struct{ *strings.Reader }

func (reader) Write([]byte) (int, error)        { return 0, io.ErrClosedPipe }
func (reader) Close() error                     { return nil }
func (reader) LocalAddr() net.Addr              { return nil }
func (reader) RemoteAddr() net.Addr             { return nil }
func (reader) SetDeadline(time.Time) error      { return nil }
func (reader) SetReadDeadline(time.Time) error  { return nil }
func (reader) SetWriteDeadline(time.Time) error { return nil }
