package arrowzarr

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// output is a directory that appears under its name only when it is whole: it
// is built beside it, in a hidden directory, and renamed.
type output struct {
	path    string
	staging string
	replace bool // what is there already goes when the new one comes
}

// newOutput checks that a hierarchy can appear at path, and makes the directory
// to build it in.
func newOutput(path string, overwrite bool) (*output, error) {
	path = filepath.Clean(path)
	o := &output{path: path}
	info, err := os.Lstat(path)
	switch {
	case err == nil && !overwrite:
		return nil, failedf(PartOutput, "%s exists already (--overwrite replaces it)", path)
	case err == nil && !info.IsDir():
		return nil, failedf(PartOutput, "%s is not a directory, so it is not overwritten", path)
	case err == nil:
		if err := checkReplaceable(path); err != nil {
			return nil, failed(PartOutput, err)
		}
		o.replace = true
	case !errors.Is(err, fs.ErrNotExist):
		return nil, failed(PartOutput, err)
	}
	// Not MkdirTemp: its directory is for the owner alone, and this one stays.
	own := fmt.Sprintf(".partial-%d-%08x", os.Getpid(), rand.Uint32())
	base := filepath.Base(path)
	base = base[:min(len(base), longestName-len(".")-len(own)-len(".old"))] // as much as there is room for
	name := "." + strings.ToValidUTF8(base, "") + own
	o.staging = filepath.Join(filepath.Dir(path), name)
	if err := os.Mkdir(o.staging, 0o777); err != nil {
		return nil, failedf(PartOutput, "making a directory to build %s in: %w", path, err)
	}
	return o, nil
}

// checkReplaceable keeps --overwrite from deleting what never was a Zarr
// hierarchy: a home directory, say.
func checkReplaceable(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch e.Name() {
		case "zarr.json", ".zgroup", ".zarray":
			return nil
		}
	}
	if len(entries) == 0 {
		return nil
	}
	return fmt.Errorf("%s holds no zarr.json, so it is not overwritten: expected a Zarr hierarchy or an empty directory", path)
}

// publish gives the finished directory its name.
func (o *output) publish() error {
	if o.replace {
		old := o.staging + ".old"
		if err := os.Rename(o.path, old); err != nil {
			return failedf(PartOutput, "moving the old %s out of the way: %w", o.path, err)
		}
		if err := os.Rename(o.staging, o.path); err != nil {
			return failedf(PartOutput, "naming the new %s: %w", o.path, errors.Join(err, os.Rename(old, o.path)))
		}
		if err := os.RemoveAll(old); err != nil {
			return failedf(PartOutput, "%s is written, but the old one is still at %s: %w", o.path, old, err)
		}
		return nil
	}
	// A directory renamed onto one that came meanwhile fails unless that is
	// empty, so nothing is lost.
	if err := os.Rename(o.staging, o.path); err != nil {
		return failedf(PartOutput, "naming %s: %w", o.path, err)
	}
	return nil
}

// discard removes what was built.
func (o *output) discard() error { return os.RemoveAll(o.staging) }
