//go:build linux

package ipc

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestALeaseExpiresOnceItsTimeRuns(t *testing.T) {
	catalog := NewCatalog()
	defer catalog.Close()
	s, err := Serve(filepath.Join(t.TempDir(), "s"), catalog, ServerOptions{LeaseLimit: time.Hour})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	sent := &lease{form: &form{name: "table"}, since: time.Now().Add(-2 * time.Hour)}
	c := &conn{server: s, leases: map[uint64]*lease{7: sent}}
	s.conns[c] = struct{}{}
	defer delete(s.conns, c)

	assert.Empty(t, s.overdue(), "the rest of the table is still to come")
	c.count([]*lease{sent})
	assert.Empty(t, s.overdue(), "it came only now")
	sent.counted = time.Now().Add(-61 * time.Minute)
	require.ErrorIs(t, s.overdue()[c], ErrLeaseExpired)
	assert.Empty(t, s.overdue(), "the client is told once")
}
