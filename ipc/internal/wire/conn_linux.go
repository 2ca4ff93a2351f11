package wire

import (
	"os"
	"syscall"
)

// rightsSpace holds the descriptors that one read may bring.
var rightsSpace = syscall.CmsgSpace(4 * maxQueuedFiles)

// rights is the control message that carries a descriptor.
func rights(fd int) []byte { return syscall.UnixRights(fd) }

// truncatedRights tells whether descriptors were left out for want of space.
func truncatedRights(flags int) bool { return flags&syscall.MSG_CTRUNC != 0 }

// parseRights takes the descriptors out of control messages. They are closed on
// exec already (MSG_CMSG_CLOEXEC).
func parseRights(oob []byte) (files []*os.File, err error) {
	messages, err := syscall.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fault("control messages: %v", err)
	}
	for _, m := range messages {
		fds, err := syscall.ParseUnixRights(&m)
		if err != nil {
			return files, fault("a control message of level %d, type %d", m.Header.Level, m.Header.Type)
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "shared memory"))
		}
	}
	return files, nil
}
