package wire

import (
	"os"
	"syscall"
)

// rightsSpace is the size of the control messages that one read accepts.
var rightsSpace = syscall.CmsgSpace(4 * maxQueuedFiles)

// rightsMessage returns the control message that carries a descriptor.
func rightsMessage(fd int) []byte { return syscall.UnixRights(fd) }

// truncatedRights reports whether descriptors were dropped for lack of space.
func truncatedRights(flags int) bool { return flags&syscall.MSG_CTRUNC != 0 }

// parseRights returns the descriptors in control messages. ReadMsgUnix has set their
// close-on-exec flag (MSG_CMSG_CLOEXEC).
func parseRights(oob []byte) (files []*os.File, err error) {
	messages, err := syscall.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fault("control messages: %v", err)
	}
	for _, m := range messages {
		fds, err := syscall.ParseUnixRights(&m)
		if err != nil {
			return files, fault("control message: got level %d, type %d, want a descriptor", m.Header.Level, m.Header.Type)
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "shared memory"))
		}
	}
	return files, nil
}
