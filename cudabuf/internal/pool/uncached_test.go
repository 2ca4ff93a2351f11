package pool_test

import (
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/internal/pool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// newOrdered returns an Ordered pool. Its driver reuses freed memory only after
// Trim, when the stream of the free is done.
func newOrdered(t *testing.T) (*pool.Ordered[int], *gpu, *int) {
	g := newGPU(t, 4096)
	up, trims := g.ordered(), new(int)
	freed := map[int]int64{}
	up.Free = func(a uintptr, s int) error {
		n := g.live[a]
		if err := g.free(a, s); err != nil {
			return err
		}
		g.used += n
		freed[s] += n
		return nil
	}
	up.Trim = func() error {
		*trims++
		for s, n := range freed {
			if g.Done(s) {
				g.used -= n
				delete(freed, s)
			}
		}
		return nil
	}
	p := pool.NewOrdered(up, 8)
	t.Cleanup(func() {
		assert.NoError(t, p.Close())
		assert.Empty(t, g.live)
		assert.Zero(t, g.used)
	})
	return p, g, trims
}

func TestOrderedMemoryWithoutStreamIsReadyAtOnce(t *testing.T) {
	p, g, _ := newOrdered(t)
	a := getBlock(t, g, p, 100, 0)
	assert.Equal(t, 1, g.waits, "for the default stream")
	b := getBlock(t, g, p, 100, 1)
	assert.Equal(t, 1, g.waits)
	putBlock(t, g, p, a)
	putBlock(t, g, p, b)
}

func TestOrderedWaitsForPendingFreesWhenOutOfMemory(t *testing.T) {
	p, g, trims := newOrdered(t)
	b := getBlock(t, g, p, 4096, 1)
	g.use(b, 1)
	putBlock(t, g, p, b)
	assert.Zero(t, g.waits)
	b = getBlock(t, g, p, 4096, 2)
	assert.Equal(t, []int{1, 1}, []int{g.waits, *trims})
	_, err := p.Get(1, 2)
	assert.ErrorIs(t, err, arrowbuf.ErrOutOfMemory)
	putBlock(t, g, p, b)
}

func TestOrderedMemoryStaysHeldIfOrderFails(t *testing.T) {
	p, g, _ := newOrdered(t)
	b := getBlock(t, g, p, 1000, 1)
	g.use(b, 1)
	require.NoError(t, g.Order(1, 2))
	g.use(b, 2)
	g.failing = func(call string) error {
		if call == "order" {
			return assert.AnError
		}
		return nil
	}
	assert.ErrorIs(t, p.Put(b, g.markFreed(b)), assert.AnError)
	s := p.Account().Stats()
	assert.EqualValues(t, []int64{0, 1024}, []int64{s.InUse, s.Held})
	g.failing = nil
	require.NoError(t, g.Wait(2))
	require.NoError(t, g.Free(b.Address))
}
