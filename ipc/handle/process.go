package handle

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/quiver-gpu/quiver/cudabuf"
)

// Process tells a process apart from every other one, also of other PID
// namespaces, of other machines, and from a later one of the same number.
type Process struct {
	Machine   [16]byte // the UUID of /proc/sys/kernel/random/boot_id
	Namespace uint64   // the inode of /proc/self/ns/pid
	Start     uint64   // field 22 of /proc/self/stat
	PID       uint32   // as the process itself sees it
}

// ProcessSize is the length of a Process in the binary form.
const ProcessSize = 40

// SameMachine tells whether both run on one machine, since its last boot.
func (p Process) SameMachine(other Process) bool { return p.Machine == other.Machine }

// SameNamespace tells whether both see each other by the same numbers.
func (p Process) SameNamespace(other Process) bool {
	return p.SameMachine(other) && p.Namespace == other.Namespace
}

// String names the process: "pid 7 of namespace 4026531836".
func (p Process) String() string { return fmt.Sprintf("pid %d of namespace %d", p.PID, p.Namespace) }

// Append writes the process in the binary form.
func (p Process) Append(b []byte) []byte {
	b = append(b, p.Machine[:]...)
	b = binary.LittleEndian.AppendUint64(b, p.Namespace)
	b = binary.LittleEndian.AppendUint64(b, p.Start)
	b = binary.LittleEndian.AppendUint32(b, p.PID)
	return append(b, 0, 0, 0, 0)
}

// ParseProcess reads what Append wrote. Anything else is cudabuf.ErrHandleForm.
func ParseProcess(b []byte) (Process, error) {
	var p Process
	if len(b) != ProcessSize {
		return p, fmt.Errorf("%w: a process of %d bytes, not %d", cudabuf.ErrHandleForm, len(b), ProcessSize)
	}
	if binary.LittleEndian.Uint32(b[36:]) != 0 {
		return p, fmt.Errorf("%w: reserved bytes of a process are not 0", cudabuf.ErrHandleForm)
	}
	copy(p.Machine[:], b)
	p.Namespace, p.Start = binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[24:])
	p.PID = binary.LittleEndian.Uint32(b[32:])
	return p, nil
}

// parseBootID reads the text of /proc/sys/kernel/random/boot_id.
func parseBootID(text string) (id [16]byte, err error) {
	digits := strings.ReplaceAll(strings.TrimSpace(text), "-", "")
	if n, err := hex.Decode(id[:], []byte(digits[:min(len(digits), 2*len(id))])); err != nil || n != len(id) || len(digits) != 2*len(id) {
		return id, fmt.Errorf("boot_id %q is no UUID", text)
	}
	return id, nil
}
