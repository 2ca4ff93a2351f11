package dissociated

import (
	"fmt"
	"net"
	"os"

	"github.com/quiver-gpu/quiver/ipc/internal/unixsocket"
)

// serverProcess is the process that listens at the other end of a connection, as
// far as the kernel tells.
type serverProcess struct {
	pid   int32 // as this process sees it, 0 where it does not
	other error // ErrNamespace where it is known to be of another PID namespace
}

// serverOf finds who is at the other end. Of other connections than Unix domain
// sockets nothing is known.
func serverOf(c Conn) serverProcess {
	f, ok := c.(*framed)
	if !ok {
		return serverProcess{}
	}
	socket, ok := f.stream.(*net.UnixConn)
	if !ok {
		return serverProcess{}
	}
	pid, _, err := unixsocket.Credentials(socket)
	if err != nil {
		return serverProcess{}
	}
	if pid == 0 {
		return serverProcess{0, fmt.Errorf("%w, which is not seen from here", ErrNamespace)}
	}
	own, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return serverProcess{pid: pid}
	}
	its, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
	if err != nil || its == own {
		return serverProcess{pid: pid}
	}
	return serverProcess{pid, fmt.Errorf("%w, %s", ErrNamespace, its)}
}
