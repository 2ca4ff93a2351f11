package arrowzarr

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// lockName is the file in a staging directory that a process locks while it works there.
const lockName = "lock"

// errLocked reports that another process has the lock.
var errLocked = errors.New("another process works there")

// fileLock says that a process works in a staging directory. A nil fileLock is of a
// target without one.
type fileLock struct{ file *os.File }

// lockDirectory locks a staging directory: for a process alone, or for one of several that
// write a plan. The latter make no file, since one of them may be deleting the directory. It
// returns errLocked if another process has a lock that excludes it.
func lockDirectory(staging string, exclusive bool) (*fileLock, error) {
	name := filepath.Join(staging, workPrefix, lockName)
	if !exclusive {
		return lockFile(name, 0, false)
	}
	if _, err := os.Stat(staging); err != nil {
		return nil, err
	}
	if err := os.Mkdir(filepath.Dir(name), 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return lockFile(name, os.O_CREATE, true)
}

// lockPlan locks the plan of a staging directory, for the one process that finalizes it.
func lockPlan(staging string) (*fileLock, error) {
	return lockFile(filepath.Join(staging, planKey), 0, true)
}

func lockFile(name string, create int, exclusive bool) (*fileLock, error) {
	f, err := os.OpenFile(name, os.O_RDWR|create, 0o666)
	if err != nil {
		return nil, err
	}
	if err := tryLock(f, exclusive); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	// The process that had the lock before may have deleted the file.
	locked, err := f.Stat()
	if err == nil {
		var there os.FileInfo
		if there, err = os.Stat(name); err == nil && !os.SameFile(locked, there) {
			err = fs.ErrNotExist
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &fileLock{f}, nil
}

// release ends the lock.
func (l *fileLock) release() error {
	if l == nil {
		return nil
	}
	return l.file.Close()
}
