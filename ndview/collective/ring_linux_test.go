package collective

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// socketPair returns the ends of a Unix socket.
func socketPair(t *testing.T) (a, b net.Conn) {
	l, err := listenLocally()
	require.NoError(t, err)
	defer l.Close()
	a, err = net.Dial("unix", l.Addr().String())
	require.NoError(t, err)
	b, err = l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

// rings is a pair of ranks: what a sends b receives, and the reverse.
type rings struct {
	fromA, fromB *ringSender
	toA, toB     *ringReceiver
	memory       [2]*shared
}

func newRings(t *testing.T) *rings {
	upA, upB := socketPair(t)
	downA, downB := socketPair(t)
	r := &rings{}
	var both errgroup.Group
	for i, conn := range []net.Conn{upA, upB} {
		both.Go(func() (err error) { r.memory[i], err = shareMemory(conn); return err })
	}
	require.NoError(t, both.Wait())
	t.Cleanup(func() {
		for _, m := range r.memory {
			assert.NoError(t, m.unmap())
		}
	})
	r.fromA, r.toB = r.memory[0].sender(upA), r.memory[1].receiver(upB)
	r.fromB, r.toA = r.memory[1].sender(downB), r.memory[0].receiver(downA)
	return r
}

// Pieces of any size arrive in order, in both directions at the same time.
func TestBytesArriveThroughRings(t *testing.T) {
	r := newRings(t)
	random := func(seed uint64, n int) []byte {
		b := make([]byte, n)
		_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(b) // never fails
		return b
	}
	var all errgroup.Group
	for i, ring := range []struct {
		from io.Writer
		to   io.Reader
	}{{r.fromA, r.toB}, {r.fromB, r.toA}} {
		sent := random(uint64(i), 8*ringBytes+12345)
		// Sizes around those of a piece and of the ring, and small ones.
		size := func(g *rand.Rand) int {
			return []int{1 + g.IntN(100), pieceBytes - 1 + g.IntN(3), 1 + g.IntN(ringBytes), ringBytes - 1 + g.IntN(3), 2*ringBytes + g.IntN(9)}[g.IntN(5)]
		}
		all.Go(func() error {
			g := rand.New(rand.NewPCG(1, uint64(i)))
			for rest := sent; len(rest) > 0; {
				n := min(size(g), len(rest))
				if _, err := ring.from.Write(rest[:n]); err != nil {
					return err
				}
				rest = rest[n:]
				if g.IntN(4) == 0 {
					time.Sleep(time.Duration(g.IntN(200)) * time.Microsecond)
				}
			}
			return nil
		})
		all.Go(func() error {
			g := rand.New(rand.NewPCG(2, uint64(i)))
			got := make([]byte, len(sent))
			for rest := got; len(rest) > 0; {
				n := min(size(g), len(rest))
				if _, err := io.ReadFull(ring.to, rest[:n]); err != nil {
					return err
				}
				rest = rest[n:]
				if g.IntN(4) == 0 {
					time.Sleep(time.Duration(g.IntN(200)) * time.Microsecond)
				}
			}
			assert.True(t, bytes.Equal(sent, got), "direction %d", i)
			return nil
		})
	}
	require.NoError(t, all.Wait())
}

// What a rank has put into its ring is read after it is gone.
func TestRingOfAClosedRankIsReadToItsEnd(t *testing.T) {
	r := newRings(t)
	_, err := r.fromA.Write([]byte("the last"))
	require.NoError(t, err)
	require.NoError(t, r.fromA.Close())
	got, err := io.ReadAll(r.toB)
	require.NoError(t, err)
	assert.Equal(t, "the last", string(got))
	_, err = r.fromB.Write(make([]byte, ringBytes))
	require.NoError(t, err, "the ring has space")
	require.NoError(t, r.toA.Close())
	_, err = r.fromB.Write([]byte{0})
	assert.Error(t, err)
}

func TestRingsKeepDeadlines(t *testing.T) {
	r := newRings(t)
	require.NoError(t, r.toB.SetDeadline(time.Now().Add(10*time.Millisecond)))
	_, err := r.toB.Read(make([]byte, 1))
	assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, r.fromA.SetDeadline(time.Now().Add(10*time.Millisecond)))
	n, err := r.fromA.Write(make([]byte, ringBytes+1))
	assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
	assert.Equal(t, ringBytes, n)
	// Neither ring is damaged.
	require.NoError(t, r.toB.SetDeadline(time.Time{}))
	_, err = io.ReadFull(r.toB, make([]byte, ringBytes))
	assert.NoError(t, err)
}

// A process that changes its counters as it likes cannot make another one read or write
// outside of a ring.
func TestImpossibleCountersAreErrors(t *testing.T) {
	r := newRings(t)
	sent, received := halfOf(r.memory[0].mine).sent, halfOf(r.memory[1].mine).received
	for _, wrong := range []uint64{ringBytes + 1, 1 << 63, ^uint64(0)} {
		sent.Store(wrong)
		_, err := r.toB.Read(make([]byte, 10))
		assert.ErrorIs(t, err, errMessage)
	}
	sent.Store(0)
	for _, wrong := range []uint64{1, 1 << 63} { // more than was sent
		received.Store(wrong)
		_, err := r.fromA.Write(make([]byte, 10))
		assert.ErrorIs(t, err, errMessage)
	}
}

// A peer that sends no file, or another one than shared memory, is an error.
func TestOtherFilesAreNotMapped(t *testing.T) {
	a, b := socketPair(t)
	_, err := b.Write([]byte{0})
	require.NoError(t, err)
	_, err = shareMemory(a)
	assert.ErrorIs(t, err, errMessage)

	a, b = socketPair(t)
	require.NoError(t, sendFile(b.(*net.UnixConn), os.Stdin))
	_, err = shareMemory(a)
	assert.ErrorContains(t, err, "not a memory file")
}
