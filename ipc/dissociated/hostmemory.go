package dissociated

import (
	"fmt"
	"strconv"
	"strings"
)

// memfd names shared memory of a process: what /proc/PID/fd/FD is, and its name,
// by which memory of a process of the same number in another PID namespace is
// told apart.
type memfd struct {
	pid, fd int
	name    string
}

// namePrefix begins the names of this package's shared memory.
const namePrefix = "quiver-"

func (m memfd) String() string { return fmt.Sprintf("memfd:%d:%d:%s", m.pid, m.fd, m.name) }

// parseMemfd reads what String writes, of this package's names only.
func parseMemfd(handle []byte) (m memfd, err error) {
	fields := strings.Split(string(handle), ":")
	if len(fields) != 4 || fields[0] != "memfd" {
		return m, fmt.Errorf("%w: remote handle %q, expected memfd:PID:FD:NAME", ErrProtocol, handle)
	}
	pid, pidErr := strconv.ParseUint(fields[1], 10, 31)
	fd, fdErr := strconv.ParseUint(fields[2], 10, 31)
	m = memfd{int(pid), int(fd), fields[3]}
	random, ok := strings.CutPrefix(m.name, namePrefix)
	if pidErr != nil || fdErr != nil || pid == 0 || !ok || len(random) != 32 || strings.Trim(random, "0123456789abcdef") != "" {
		return m, fmt.Errorf("%w: remote handle %q, expected memfd:PID:FD:%sNAME with 32 hexadecimal digits", ErrProtocol, handle, namePrefix)
	}
	return m, nil
}
