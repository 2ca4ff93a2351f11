package nvrtc

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	entrySuffix     = ".kernel"
	temporaryPrefix = ".writing-"
	// abandoned is when a file that is being written belongs to a process
	// that has ended.
	abandoned = time.Hour
)

// prune removes the files that were not used for longest, until the others fit
// into the limit. Several processes may do so at the same time. Files that are
// not a Cache's are left alone.
func prune(dir string, limit int64) error {
	listed, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var entries []fs.FileInfo
	var total int64
	var failure error
	remove := func(name string) {
		if err := os.Remove(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			failure = errors.Join(failure, err)
		}
	}
	for _, file := range listed {
		info, err := file.Info()
		switch {
		case err != nil || !info.Mode().IsRegular():
		case strings.HasSuffix(file.Name(), entrySuffix):
			entries = append(entries, info)
			total += info.Size()
		case strings.HasPrefix(file.Name(), temporaryPrefix) && time.Since(info.ModTime()) > abandoned:
			remove(file.Name())
		}
	}
	slices.SortFunc(entries, func(a, b fs.FileInfo) int {
		return cmp.Or(a.ModTime().Compare(b.ModTime()), cmp.Compare(a.Name(), b.Name()))
	})
	for _, oldest := range entries {
		if total <= limit {
			break
		}
		remove(oldest.Name())
		total -= oldest.Size()
	}
	return failure
}
