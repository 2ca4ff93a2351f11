package collective

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// A client that connects and sends nothing does not delay the ranks.
func TestSilentClientsDelayNoRank(t *testing.T) {
	l, err := listenLocally()
	require.NoError(t, err)
	defer l.Close()
	for range 3 {
		silent, err := net.Dial("unix", l.Addr().String())
		require.NoError(t, err)
		defer silent.Close()
	}
	lower := &mesh{rank: 0, size: 2, members: make([]member, 2), peers: []*peer{nil, {}}}
	higher := &mesh{rank: 1, size: 2, members: []member{{Listen: addressOf(l)}, {}}, peers: []*peer{{}, nil}}
	defer lower.closeConnections()
	defer higher.closeConnections()
	start := time.Now()
	dialed := make(chan error, 1)
	go func() { dialed <- higher.connect(nil, "secret", start.Add(time.Minute)) }()
	require.NoError(t, lower.connect([]net.Listener{l}, "secret", start.Add(time.Minute)))
	require.NoError(t, <-dialed)
	assert.Less(t, time.Since(start), handshakeLimit)
	for _, c := range lower.peers[1].sockets {
		assert.NotNil(t, c)
	}
}

// Clients without the secret are no ranks, and the limit holds without ranks.
func TestStrangersAreNotConnected(t *testing.T) {
	l, err := listenLocally()
	require.NoError(t, err)
	defer l.Close()
	m := &mesh{rank: 0, size: 2, members: make([]member, 2), peers: []*peer{nil, {}}}
	for _, first := range []any{link{"wrong", 1, 0}, link{"secret", 0, 0}, link{"secret", 2, 0}, link{"secret", 1, connections}, link{"secret", 1, -1}, "text"} {
		stranger, err := net.Dial("unix", l.Addr().String())
		require.NoError(t, err)
		defer stranger.Close()
		require.NoError(t, writeMessage(stranger, first))
	}
	err = m.connect([]net.Listener{l}, "secret", time.Now().Add(50*time.Millisecond))
	assert.ErrorIs(t, err, ErrTimeout)
	assert.Equal(t, [connections]net.Conn{}, m.peers[1].sockets)
}

// A rank that cannot reach another one is an error at once.
func TestUnreachableRanksAreErrors(t *testing.T) {
	m := &mesh{rank: 1, size: 2, members: []member{{Listen: "unix:/nowhere/socket"}, {}}, peers: []*peer{{}, nil}}
	start := time.Now()
	err := m.connect(nil, "secret", start.Add(time.Minute))
	assert.ErrorContains(t, err, "rank 0: ")
	assert.Less(t, time.Since(start), 30*time.Second)
}

// A wrong address of a rendezvous is an error at once.
func TestWrongAddressesAreNotRetried(t *testing.T) {
	start := time.Now()
	for _, at := range []string{"tcp:127.0.0.1:70000", "tcp:127.0.0.1:nosuchservice", "tcp:127.0.0.1", "unix:/" + strings.Repeat("x", 200)} {
		_, err := Connect(arrowbuf.CPU(), Rendezvous{Address: at, Rank: 1, Size: 2}, Options{Timeout: time.Minute})
		assert.ErrorIs(t, err, ErrRendezvous, at)
		assert.False(t, errors.Is(err, ErrTimeout), "%s: %v", at, err)
	}
	assert.Less(t, time.Since(start), 30*time.Second)
}
