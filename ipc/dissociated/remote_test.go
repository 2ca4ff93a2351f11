//go:build linux

package dissociated

import (
	"context"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ipc/internal/ipctest"
)

// startInNamespace starts a process in a PID namespace of its own, like a
// container, and returns its first line.
func startInNamespace(t *testing.T, what ...string) (*peer, string) {
	t.Helper()
	var p *peer
	ipctest.StartInNamespace(t, func(attributes *syscall.SysProcAttr) (err error) {
		p, err = tryPeer(t, attributes, what...)
		return err
	})
	line := p.readLine(t)
	if strings.HasPrefix(line, "no /proc") {
		t.Skipf("this machine does not permit PID namespaces with a /proc of their own: %v", line)
	}
	return p, line
}

func TestClientInOtherPIDNamespace(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		metadata, data := serve(t, dev, nil, 5)
		p, line := startInNamespace(t, "client", ipctest.KindOf(t), metadata, data)
		assert.Equal(t, "read 5", line, "packed bodies work across namespaces")
		p.proceed(t)
		assert.Equal(t, "released", p.readLine(t))

		w := newWindow(t, dev, 1<<20)
		metadata, data = serve(t, dev, w, 5)
		_, line = startInNamespace(t, "client", ipctest.KindOf(t), metadata, data)
		assert.Contains(t, line, "peer: ")
		assert.Contains(t, line, ErrNamespace.Error(), "locations do not work, and the error says why")
	})
}

func TestServerInOtherPIDNamespace(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		p, metadata := startInNamespace(t, "server", ipctest.KindOf(t), t.TempDir())
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
