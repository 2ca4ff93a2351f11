package handle

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/quiver-gpu/quiver/cudabuf"
)

// Process identifies a process, also among other PID namespaces and machines and
// later processes with the same number.
type Process struct {
	Machine   [16]byte // the UUID of /proc/sys/kernel/random/boot_id
	Namespace uint64   // the inode of /proc/self/ns/pid
	Start     uint64   // field 22 of /proc/self/stat
	PID       uint32   // as the process itself sees it
}

// ProcessSize is the length of a Process in the binary form.
const ProcessSize = 40

// SameMachine reports whether both processes run on one machine, in the same
// boot.
func (p Process) SameMachine(other Process) bool { return p.Machine == other.Machine }

// SameNamespace reports whether both processes are in one PID namespace.
func (p Process) SameNamespace(other Process) bool {
	return p.SameMachine(other) && p.Namespace == other.Namespace
}

// String returns a text such as "pid 7 of namespace 4026531836".
func (p Process) String() string { return fmt.Sprintf("pid %d of namespace %d", p.PID, p.Namespace) }

// Append appends the binary form.
func (p Process) Append(b []byte) []byte {
	b = append(b, p.Machine[:]...)
	b = binary.LittleEndian.AppendUint64(b, p.Namespace)
	b = binary.LittleEndian.AppendUint64(b, p.Start)
	b = binary.LittleEndian.AppendUint32(b, p.PID)
	return append(b, 0, 0, 0, 0)
}

// ParseProcess parses the binary form. The error wraps cudabuf.ErrMalformedHandle.
func ParseProcess(b []byte) (Process, error) {
	var p Process
	if len(b) != ProcessSize {
		return p, fmt.Errorf("%w: process: got %d bytes, want %d", cudabuf.ErrMalformedHandle, len(b), ProcessSize)
	}
	if binary.LittleEndian.Uint32(b[36:]) != 0 {
		return p, fmt.Errorf("%w: process: reserved bytes are not 0", cudabuf.ErrMalformedHandle)
	}
	copy(p.Machine[:], b)
	p.Namespace, p.Start = binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[24:])
	p.PID = binary.LittleEndian.Uint32(b[32:])
	return p, nil
}

// Self returns the current process. The error wraps errors.ErrUnsupported on systems
// other than Linux.
func Self() (Process, error) { return self() }

var self = sync.OnceValues(func() (Process, error) {
	p := Process{PID: uint32(os.Getpid())}
	if runtime.GOOS != "linux" {
		return p, fmt.Errorf("handle.Self: sharing memory between processes needs Linux: %w", errors.ErrUnsupported)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return p, err
	}
	if p.Machine, err = parseBootID(string(boot)); err != nil {
		return p, err
	}
	link, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return p, err
	}
	if p.Namespace, err = parseNamespace(link); err != nil {
		return p, err
	}
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return p, err
	}
	p.Start, err = parseStartTime(string(stat))
	return p, err
})

// parseBootID parses the text of /proc/sys/kernel/random/boot_id.
func parseBootID(text string) (id [16]byte, err error) {
	digits := strings.ReplaceAll(strings.TrimSpace(text), "-", "")
	if n, err := hex.Decode(id[:], []byte(digits[:min(len(digits), 2*len(id))])); err != nil || n != len(id) || len(digits) != 2*len(id) {
		return id, fmt.Errorf("boot_id: got %q, want a UUID", text)
	}
	return id, nil
}

// parseNamespace returns the inode in the link /proc/self/ns/pid: "pid:[4026531836]".
func parseNamespace(link string) (uint64, error) {
	var inode uint64
	if _, err := fmt.Sscanf(link, "pid:[%d]", &inode); err != nil {
		return 0, fmt.Errorf("/proc/self/ns/pid: got %q, want pid:[INODE]: %w", link, err)
	}
	return inode, nil
}

// parseStartTime returns field 22 of /proc/PID/stat. Field 2 is a name in
// parentheses, which may contain any characters.
func parseStartTime(stat string) (uint64, error) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return 0, fmt.Errorf("/proc/self/stat: fields after the name: got %d, want at least 20", len(fields))
	}
	return strconv.ParseUint(fields[19], 10, 64)
}
