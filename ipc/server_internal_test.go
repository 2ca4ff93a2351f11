//go:build linux

package ipc

import (
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ipc/handle"
)

func TestLeaseExpiresOnlyAfterItsClockStarts(t *testing.T) {
	catalog := NewCatalog()
	defer catalog.Close()
	s, err := Serve(filepath.Join(t.TempDir(), "s"), catalog, ServerOptions{MaxLeaseTime: time.Hour})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	sent := &lease{export: &export{name: "table"}, grantedAt: time.Now().Add(-2 * time.Hour)}
	c := &serverConn{server: s, leases: map[uint64]*lease{7: sent}}
	s.conns[c] = struct{}{}
	defer delete(s.conns, c)

	assert.Empty(t, s.expiredClients(), "the rest of the table is not sent yet")
	c.startLeaseClocks([]*lease{sent})
	assert.Empty(t, s.expiredClients(), "it was sent only now")
	sent.clockStart = time.Now().Add(-61 * time.Minute)
	require.ErrorIs(t, s.expiredClients()[c], ErrLeaseExpired)
	assert.Empty(t, s.expiredClients(), "each client is reported once")
}

// Clients that ask at the same time for slices of one allocation get one block,
// which lives until the last of them releases it.
func TestSlicesOfOneAllocationShareBlock(t *testing.T) {
	dev := cudatest.NewDevice(t)
	s := &blockRegistry{byID: map[uint64]*block{}, partial: map[blockKey]*block{}, pools: map[*cudabuf.SharedPool]*exportedPool{}}
	buffer, err := dev.NewFDBuffer(1 << 20)
	require.NoError(t, err)
	defer buffer.Release()
	for range 50 {
		const clients = 8
		var found [clients]*block
		var all sync.WaitGroup
		for i := range clients {
			all.Go(func() {
				part, err := buffer.Slice(int64(i)<<10, 1<<10)
				if !assert.NoError(t, err) {
					return
				}
				defer part.Release()
				found[i], err = s.shareInPlace(handle.CUDAFD, part.(*cudabuf.Buffer), false)
				assert.NoError(t, err)
			})
		}
		all.Wait()
		assert.Len(t, s.byID, 1)
		for _, b := range found {
			require.NotNil(t, b)
			assert.Same(t, found[0], b)
			s.withLock(func() { s.releaseExport(b) })
		}
		assert.Empty(t, s.byID)
	}
}
