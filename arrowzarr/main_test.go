package arrowzarr_test

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMain runs the tests, or, in a process that a test started, one task.
func TestMain(m *testing.M) {
	if task := os.Getenv(childTask); task != "" {
		os.Exit(runChild(task))
	}
	useMemoryForFiles()
	os.Exit(m.Run())
}

// useMemoryForFiles puts the tests' thousands of small files in memory, where
// there is room: making them on a disk takes most of the time otherwise. TMPDIR
// puts them elsewhere.
func useMemoryForFiles() {
	const shared = "/dev/shm"
	var fs unix.Statfs_t
	if os.Getenv("TMPDIR") == "" && unix.Statfs(shared, &fs) == nil && fs.Bavail*uint64(fs.Bsize) > 1<<30 {
		if err := os.Setenv("TMPDIR", shared); err != nil {
			panic(err)
		}
	}
}
