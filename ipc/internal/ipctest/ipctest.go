// Package ipctest has what tests of package ipc and of its packages share: devices and
// servers of a test, and other processes, also in PID namespaces of their own.
package ipctest

import (
	"os"
	"path"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ipc"
)

// KindOf returns the kind of device on which a subtest of package cudatest runs: "cpu",
// "simulated" or "cuda".
func KindOf(t testing.TB) string { return path.Base(t.Name()) }

// OpenDevice returns a device of a kind in another process. The caller must call closeDriver,
// which fails if device memory leaks. gpu is nil for the CPU.
func OpenDevice(kind string) (dev arrowbuf.Device, gpu *cudabuf.Device, closeDriver func() error, err error) {
	var d *cudabuf.Driver
	switch kind {
	case "cpu":
		return arrowbuf.CPU(), nil, func() error { return nil }, nil
	case "cuda":
		if d, err = cudabuf.Open(); err != nil {
			return nil, nil, nil, err
		}
	default:
		d = cudatest.New(cudatest.Config{})
	}
	if gpu, err = d.Device(0); err != nil {
		_ = d.Close()
		return nil, nil, nil, err
	}
	return gpu, gpu, d.Close, nil
}

// TempDir returns a folder with a short path: the path of a socket is limited to
// 107 bytes.
func TempDir(t testing.TB) string {
	t.Helper()
	f, err := os.MkdirTemp("", "q")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(f)) })
	return f
}

// Serve serves a new catalog until the test ends.
func Serve(t testing.TB, o ipc.ServerOptions) (*ipc.Catalog, *ipc.Server) {
	t.Helper()
	catalog := ipc.NewCatalog()
	s, err := ipc.Serve(filepath.Join(TempDir(t), "s"), catalog, o)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, s.Close())
		catalog.Close()
	})
	return catalog, s
}
