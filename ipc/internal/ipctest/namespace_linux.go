package ipctest

import (
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// StartInNamespace calls start with the attributes of a process in a PID namespace of its
// own, like a container. It skips the test where the machine does not permit that.
func StartInNamespace(t testing.TB, start func(attributes *syscall.SysProcAttr) error) {
	t.Helper()
	const flags = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS
	err := start(&syscall.SysProcAttr{Cloneflags: flags})
	if errors.Is(err, syscall.EPERM) {
		err = start(&syscall.SysProcAttr{
			Cloneflags:  flags | syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}},
		})
	}
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) {
		t.Skipf("this machine does not permit PID namespaces: %v", err)
	}
	require.NoError(t, err)
}

// MountProc mounts /proc if this process is the first of a PID namespace. Without that,
// CUDA does not start there.
func MountProc() error {
	if os.Getpid() != 1 {
		return nil
	}
	if err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	return syscall.Mount("proc", "/proc", "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, "")
}
