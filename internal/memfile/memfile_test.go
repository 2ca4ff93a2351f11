//go:build linux

package memfile

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

func TestWritesAreReadThroughAnotherDescriptor(t *testing.T) {
	file, data, err := Create("a name", 5000)
	require.NoError(t, err)
	copy(data, "shared")
	link, err := os.Readlink(fdPath(file))
	require.NoError(t, err)
	assert.Equal(t, "/memfd:a name (deleted)", link)
	other, err := os.Open(fdPath(file))
	require.NoError(t, err)
	read, err := Map(other, 6)
	require.NoError(t, err)
	assert.Equal(t, "shared", string(read))
	_, err = Map(other, 5001)
	require.ErrorContains(t, err, "got 5000 bytes, want 5001")
	_, err = Map(other, 0)
	require.Error(t, err)
	require.NoError(t, other.Close())

	// The file can neither shrink nor be written.
	require.ErrorIs(t, file.Truncate(10), os.ErrPermission)
	_, err = unix.Mmap(int(file.Fd()), 0, 10, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.ErrorIs(t, err, os.ErrPermission)
	_, err = file.Write([]byte("x"))
	require.ErrorIs(t, err, os.ErrPermission)

	require.NoError(t, file.Close())
	assert.Equal(t, "shared", string(read[:6]))
	require.NoError(t, Unmap(read))
	require.NoError(t, Unmap(data))
}

func TestMapRejectsUnsealedFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, make([]byte, 10), 0o600))
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	_, err = Map(file, 10)
	require.Error(t, err)

	fd, err := unix.MemfdCreate("loose", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	require.NoError(t, err)
	loose := os.NewFile(uintptr(fd), "loose")
	defer loose.Close()
	require.NoError(t, loose.Truncate(10))
	_, err = Map(loose, 10)
	require.ErrorContains(t, err, "may shrink")
}

func TestCreateRejectsInvalidSizes(t *testing.T) {
	for _, n := range []int64{-1, 0, 1 << 62} {
		_, _, err := Create("too large", n)
		require.ErrorIs(t, err, arrowbuf.ErrOutOfMemory, "%d bytes", n)
	}
}

func fdPath(file *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", file.Fd()) }
