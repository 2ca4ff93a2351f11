//go:build linux

package dissociated

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

func init() {
	mountProc = func() error {
		if os.Getpid() != 1 {
			return nil
		}
		if err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
			return err
		}
		return syscall.Mount("proc", "/proc", "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, "")
	}
}

// startInNamespace starts a process in a PID namespace of its own, like a
// container, and returns its first line.
func startInNamespace(t *testing.T, what ...string) (*peer, string) {
	t.Helper()
	const flags = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS
	p, err := tryPeer(t, &syscall.SysProcAttr{Cloneflags: flags}, what...)
	if errors.Is(err, syscall.EPERM) {
		p, err = tryPeer(t, &syscall.SysProcAttr{
			Cloneflags:  flags | syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}},
		}, what...)
	}
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) {
		t.Skipf("this machine does not permit PID namespaces: %v", err)
	}
	require.NoError(t, err)
	line := p.readLine(t)
	if strings.HasPrefix(line, "no /proc") {
		t.Skipf("this machine does not permit PID namespaces with a /proc of their own: %v", line)
	}
	return p, line
}

func TestClientInOtherPIDNamespace(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		metadata, data := serve(t, dev, nil, 5)
		p, line := startInNamespace(t, "client", deviceName(t), metadata, data)
		assert.Equal(t, "read 5", line, "packed bodies work across namespaces")
		p.proceed(t)
		assert.Equal(t, "released", p.readLine(t))

		w := newWindow(t, dev, 1<<20)
		metadata, data = serve(t, dev, w, 5)
		_, line = startInNamespace(t, "client", deviceName(t), metadata, data)
		assert.Contains(t, line, "peer: ")
		assert.Contains(t, line, ErrNamespace.Error(), "locations do not work, and the error says why")
	})
}

func TestServerInOtherPIDNamespace(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		p, metadata := startInNamespace(t, "server", deviceName(t), t.TempDir())
		data := p.readLine(t)
		r, err := Dial(context.Background(), metadata, data, []byte("numbered"), dev, ReceiveOptions{})
		if dev != arrowbuf.CPU() {
			require.ErrorIs(t, err, ErrNamespace, "CUDA IPC handles do not work across namespaces")
			return
		}
		require.NoError(t, err, "shared host memory is found with the process id that the kernel reports")
		count := 0
		for r.Next() {
			count++
			require.NoError(t, checkBatch(count, r.RecordBatch()))
		}
		require.NoError(t, r.Err())
		require.Equal(t, 5, count)
		r.Release()
	})
}
