package collective_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview/collective"
)

func TestIDsTravelAsBytesAndText(t *testing.T) {
	id, err := collective.NewID("unix")
	require.NoError(t, err)
	assert.Len(t, id[:], collective.IDBytes)
	same, err := collective.ParseID(id[:])
	require.NoError(t, err)
	assert.Equal(t, id, same)
	text, err := json.Marshal(map[string]collective.ID{"id": id})
	require.NoError(t, err)
	var back map[string]collective.ID
	require.NoError(t, json.Unmarshal(text, &back))
	assert.Equal(t, id, back["id"])

	other, err := collective.NewID("tcp:127.0.0.1:0")
	require.NoError(t, err)
	assert.NotEqual(t, id, other)
	assert.Zero(t, id.Compare(same))
	assert.Equal(t, -other.Compare(id), id.Compare(other))
	assert.Equal(t, 2, len(map[collective.ID]bool{id: true, same: true, other: true}))
}

// Each changed bit is found.
func TestDamagedIDsAreErrors(t *testing.T) {
	id, err := collective.NewID("unix")
	require.NoError(t, err)
	for bit := range 8 * len(id) {
		damaged := id
		damaged[bit/8] ^= 1 << (bit % 8)
		_, err := collective.ParseID(damaged[:])
		assert.ErrorIs(t, err, collective.ErrID)
		if bit%97 == 0 {
			_, err = collective.New(arrowbuf.CPU(), damaged, 0, 1, collective.Options{})
			assert.ErrorIs(t, err, collective.ErrID)
		}
	}
	for _, b := range [][]byte{nil, id[:127], append(id[:], 0)} {
		_, err := collective.ParseID(b)
		assert.ErrorIs(t, err, collective.ErrID)
	}
	for _, text := range []string{"", "xyz", id.String()[2:], id.String() + "00"} {
		var parsed collective.ID
		assert.ErrorIs(t, parsed.UnmarshalText([]byte(text)), collective.ErrID)
	}
	_, err = collective.New(arrowbuf.CPU(), collective.ID{}, 0, 1, collective.Options{})
	assert.ErrorIs(t, err, collective.ErrID)
	for _, address := range []string{"", "udp:127.0.0.1:0", "tcp:nowhere.invalid:0", "unix:/nowhere/" + strings.Repeat("x", 50) + "/s"} {
		_, err := collective.NewID(address)
		assert.ErrorIs(t, err, collective.ErrRendezvous, address)
	}
	long := filepath.Join(t.TempDir(), "s")
	if len(long) < 90 {
		_, err = collective.NewID("unix:" + long)
		assert.NoError(t, err)
	}
}

// The secret of an ID keeps others out, and the ranks still find each other.
func TestStrangersDoNotDisturbTheRendezvous(t *testing.T) {
	port := freePort(t)
	id, err := collective.NewID("tcp:127.0.0.1:" + port)
	require.NoError(t, err)
	for _, hello := range []string{"GET / HTTP/1.1\r\n\r\n", "\x02\x00\x00\x00{}", "\xff\xff\xff\xff", "\x08\x00\x00\x00"} {
		conn, err := dialTCP(port)
		require.NoError(t, err)
		_, err = conn.Write([]byte(hello))
		require.NoError(t, err)
		defer conn.Close()
	}
	comms := make([]*collective.Comm, 2)
	errs := make(chan error, 2)
	for rank := range comms {
		go func() {
			var err error
			comms[rank], err = collective.New(arrowbuf.CPU(), id, rank, 2, collective.Options{Timeout: limit})
			errs <- err
		}()
	}
	require.NoError(t, errors.Join(<-errs, <-errs))
	for _, c := range comms {
		require.NoError(t, c.Close())
	}
	// The ID served one communicator.
	_, err = collective.New(arrowbuf.CPU(), id, 0, 1, collective.Options{Timeout: 50 * time.Millisecond})
	assert.ErrorIs(t, err, collective.ErrRendezvous)
}

// What an earlier run has left at a place is replaced.
func TestStaleRendezvousAreReplaced(t *testing.T) {
	folder := t.TempDir()
	old, err := collective.NewID("unix")
	require.NoError(t, err)
	comm, err := collective.New(arrowbuf.CPU(), old, 0, 1, collective.Options{})
	require.NoError(t, err)
	require.NoError(t, comm.Close())
	file, socket := filepath.Join(folder, "id"), filepath.Join(folder, "socket")
	require.NoError(t, os.WriteFile(file, []byte(old.String()), 0o600))
	leaveSocket(t, socket)
	for _, at := range []string{"file:" + file, "unix:" + socket} {
		errs := make(chan error, 2)
		for rank := range 2 {
			go func() {
				if rank == 0 {
					time.Sleep(20 * time.Millisecond) // the other finds what is left
				}
				c, err := collective.Connect(arrowbuf.CPU(), collective.Rendezvous{Address: at, Rank: rank, Size: 2}, collective.Options{Timeout: limit})
				if err == nil {
					err = c.Close()
				}
				errs <- err
			}()
		}
		assert.NoError(t, errors.Join(<-errs, <-errs), at)
	}
	require.NoError(t, os.WriteFile(file, []byte("no id"), 0o600))
	_, err = collective.Connect(arrowbuf.CPU(), collective.Rendezvous{Address: "file:" + file, Rank: 1, Size: 2}, collective.Options{})
	assert.ErrorIs(t, err, collective.ErrID)
}

func TestARendezvousDoesNotRemoveAFileThatIsNoSocket(t *testing.T) {
	file := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.WriteFile(file, []byte("precious"), 0o600))
	_, err := collective.Connect(arrowbuf.CPU(), collective.Rendezvous{Address: "unix:" + file, Rank: 0, Size: 1}, collective.Options{})
	assert.ErrorIs(t, err, collective.ErrRendezvous)
	kept, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "precious", string(kept))
}

func TestEnvironmentOfTorchrunIsRead(t *testing.T) {
	set := func(rank, size, host, port, agent string) {
		t.Setenv("RANK", rank)
		t.Setenv("WORLD_SIZE", size)
		t.Setenv("MASTER_ADDR", host)
		t.Setenv("MASTER_PORT", port)
		t.Setenv("TORCHELASTIC_USE_AGENT_STORE", agent)
	}
	set("1", "4", "10.0.0.1", "29500", "")
	r, err := collective.FromEnv()
	require.NoError(t, err)
	assert.Equal(t, collective.Rendezvous{Address: "tcp:10.0.0.1:29500", Rank: 1, Size: 4}, r)
	set("1", "4", "::1", "29500", "True")
	r, err = collective.FromEnv()
	require.NoError(t, err)
	assert.Equal(t, "torch:[::1]:29500", r.Address)
	for _, bad := range [][4]string{{"", "4", "h", "1"}, {"x", "4", "h", "1"}, {"0", "", "h", "1"}, {"0", "1", "", "1"}, {"0", "1", "h", ""}} {
		set(bad[0], bad[1], bad[2], bad[3], "")
		_, err := collective.FromEnv()
		assert.ErrorIs(t, err, collective.ErrRendezvous)
	}
	set("4", "4", "h", "1", "")
	_, err = collective.FromEnv()
	assert.ErrorIs(t, err, collective.ErrRank)
}
