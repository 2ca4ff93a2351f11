package arrowzarr

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/quiver-gpu/quiver/arrowzarr/internal/source/inputs"
	"github.com/quiver-gpu/quiver/zarr/store"
)

// workPrefix has the keys that are not part of the output: the plan, what is done, and
// arrays whose path is not known yet. It exists only while an output is unfinished.
const workPrefix = ".arrow2zarr"

// Keys below workPrefix.
const (
	planKey        = workPrefix + "/plan.json"
	checkpointKey  = workPrefix + "/checkpoint.json"
	buildingPrefix = workPrefix + "/building"
)

// target is where an output is written. There are two kinds:
//
//   - A local folder or ZIP file is built in a hidden directory beside it, and renamed.
//   - An object store cannot rename. Chunks are written at their final keys, and the
//     root's metadata last, so that no reader opens an unfinished output. The plan's key
//     is the lock: only one program creates it.
type target struct {
	location string      // as the caller named it, without the query of a URL
	path     string      // of a local output; otherwise ""
	zip      bool        // the output is a ZIP file
	staging  string      // the hidden directory of a local output
	store    store.Store // in which the output is built
	lock     *fileLock   // of a local output, while this process writes it
	replaces bool        // publish replaces the local output
}

// openTarget returns the target of a path or a URL. It changes nothing.
func openTarget(ctx context.Context, location string) (*target, error) {
	t := &target{location: location}
	name, isURL := strings.CutPrefix(location, "file://")
	if location == "" {
		return nil, partErrorf(PartUsage, "the name of the output is empty")
	}
	if !isURL && strings.Contains(location, "://") {
		s, err := store.Open(ctx, location)
		if err != nil {
			return nil, markPart(PartOutput, err)
		}
		t.store = s
		t.location = inputs.WithoutSecrets(location)
		return t, nil
	}
	t.path = filepath.Clean(name)
	t.zip = strings.HasSuffix(t.path, ".zip")
	t.staging = stagingPath(t.path)
	t.store = store.NewLocal(t.staging)
	return t, nil
}

// stagingPath returns the path of the directory in which a local output is built. It
// depends on the path of the output only, so that what a killed process left is found.
func stagingPath(output string) string {
	const suffix, old = ".partial", ".old"
	base := filepath.Base(output)
	if most := maxNameBytes - len("."+suffix+old); len(base) > most {
		hash := fnv.New64a()
		_, _ = hash.Write([]byte(base)) // never fails
		unique := fmt.Sprintf("~%016x", hash.Sum64())
		base = truncate(base, most-len(unique)) + unique
	}
	return filepath.Join(filepath.Dir(output), "."+base+suffix)
}

// renames reports whether the output is built elsewhere and renamed.
func (t *target) renames() bool { return t.staging != "" }

// isRemote reports whether the output is in an object store.
func (t *target) isRemote() bool { return t.path == "" }

// close releases the lock and closes the store.
func (t *target) close() error { return errors.Join(t.lock.release(), store.Close(t.store)) }

// create begins a new output, by creating its plan. An output that exists is kept until
// publish if the target renames; otherwise it is deleted first. What a process that died
// has left is deleted if overwrite is true.
func (t *target) create(ctx context.Context, p *plan, overwrite bool) error {
	document, err := json.Marshal(p)
	if err != nil {
		return err
	}
	if t.renames() {
		err = t.createLocal(ctx, document, overwrite)
	} else {
		err = t.createObjects(ctx, document, overwrite)
	}
	return markPart(PartOutput, err)
}

func (t *target) createLocal(ctx context.Context, document []byte, overwrite bool) error {
	if err := t.checkLocalOutput(ctx, overwrite); err != nil {
		return err
	}
	err := os.Mkdir(t.staging, 0o777)
	if errors.Is(err, fs.ErrExist) {
		if err := t.removeUnfinished(ctx, overwrite); err != nil {
			return err
		}
		err = os.Mkdir(t.staging, 0o777)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the folder %s of the output does not exist", filepath.Dir(t.path))
	}
	if err != nil {
		return fmt.Errorf("making a directory to build %s in: %w", t.path, err)
	}
	if t.lock, err = lockDirectory(t.staging, true); err == nil {
		err = store.SetIfNotExists(ctx, t.store, planKey, document)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", t.staging, err), os.RemoveAll(t.staging))
	}
	return nil
}

// checkLocalOutput returns an error unless a local output can be written.
func (t *target) checkLocalOutput(ctx context.Context, overwrite bool) error {
	info, err := os.Lstat(t.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !overwrite:
		return fmt.Errorf("%s exists already (--overwrite replaces it)", t.path)
	case t.zip && !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a file, so it is not overwritten", t.path)
	case !t.zip && !info.IsDir():
		return fmt.Errorf("%s is not a directory, so it is not overwritten", t.path)
	}
	t.replaces = true
	old, err := store.Open(ctx, t.path)
	if err != nil {
		return fmt.Errorf("%s cannot be read, so it is not overwritten: %w", t.path, err)
	}
	return errors.Join(checkReplaceable(ctx, old, t.path), store.Close(old))
}

// removeUnfinished deletes what a process that died has left, or returns an error that says
// what is there.
func (t *target) removeUnfinished(ctx context.Context, overwrite bool) error {
	lock, err := lockDirectory(t.staging, true)
	if errors.Is(err, errLocked) {
		return fmt.Errorf("%s is being written by another process, in %s", t.location, t.staging)
	}
	if err != nil {
		return err
	}
	defer func() { _ = lock.release() }() // of a directory that is gone
	left, err := readPlan(ctx, t.store)
	switch {
	case err == nil && len(left.Partitions) > 0:
		return fmt.Errorf("%s is unfinished: %d partitions are planned in %s (arrow2zarr abort %s deletes them)", t.location, len(left.Partitions), t.staging, t.location)
	case !overwrite:
		return fmt.Errorf("an interrupted conversion to %s is in %s (--resume continues it; --overwrite or arrow2zarr abort %s deletes it)", t.location, t.staging, t.location)
	}
	return os.RemoveAll(t.staging)
}

func (t *target) createObjects(ctx context.Context, document []byte, overwrite bool) error {
	keys, prefixes, err := store.ListDir(ctx, t.store, "")
	if err != nil {
		return fmt.Errorf("%s: %w", t.location, err)
	}
	unfinished := func() error {
		return fmt.Errorf("%s is unfinished: another conversion writes it, or was interrupted (--resume continues it; arrow2zarr abort %s deletes it)", t.location, t.location)
	}
	old := len(keys)+len(prefixes) > 0
	switch {
	case slices.Contains(prefixes, workPrefix):
		return unfinished()
	case old && !overwrite:
		return fmt.Errorf("%s exists already (--overwrite replaces it)", t.location)
	case old:
		if err := checkReplaceable(ctx, t.store, t.location); err != nil {
			return err
		}
	}
	err = store.SetIfNotExists(ctx, t.store, planKey, document)
	if errors.Is(err, store.ErrExists) {
		return unfinished()
	}
	if err == nil && old {
		// Without the root's metadata, no reader opens what is deleted next.
		if err = t.store.Delete(ctx, "zarr.json"); err == nil {
			err = t.deleteExcept(ctx, planKey)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", t.location, err)
	}
	return nil
}

// deleteExcept deletes all keys of the target but one, and the file that is locked.
func (t *target) deleteExcept(ctx context.Context, kept string) error {
	keys, prefixes, err := store.ListDir(ctx, t.store, "")
	if err != nil {
		return err
	}
	for _, name := range append(keys, prefixes...) {
		if name != workPrefix {
			err = errors.Join(err, store.DeleteAll(ctx, t.store, name))
		}
	}
	working, listErr := t.store.List(ctx, workPrefix)
	err = errors.Join(err, listErr)
	for _, key := range working {
		if key != kept && path.Base(key) != lockName {
			err = errors.Join(err, t.store.Delete(ctx, key))
		}
	}
	return err
}

// publish makes a complete output appear: the working keys are deleted, and a local output
// gets its name.
func (t *target) publish(ctx context.Context) error {
	// The checkpoint goes before what it names, the plan last: without it, nothing could be
	// resumed.
	err := t.store.Delete(ctx, checkpointKey)
	if err != nil {
		return markPart(PartOutput, err)
	}
	working, err := t.store.List(ctx, workPrefix)
	if err != nil {
		return markPart(PartOutput, err)
	}
	working = slices.DeleteFunc(working, func(key string) bool { return key == planKey || path.Base(key) == lockName })
	if err := deleteKeys(ctx, t.store, working); err != nil {
		return markPart(PartOutput, err)
	}
	if err := store.DeleteAll(ctx, t.store, workPrefix); err != nil || !t.renames() {
		return markPart(PartOutput, err)
	}
	built := t.staging
	if t.zip {
		if built, err = t.pack(ctx); err != nil {
			return partErrorf(PartOutput, "packing %s: %w", t.path, err)
		}
	}
	return markPart(PartOutput, t.rename(built))
}

// pack writes the hierarchy as a ZIP file in the staging directory.
func (t *target) pack(ctx context.Context) (string, error) {
	file := filepath.Join(t.staging, store.TempPrefix+"output.zip") // not a key of the store
	zip, err := store.OpenZip(file, store.ZipWrite)
	if err != nil {
		return "", err
	}
	keys, err := t.store.List(ctx, "")
	for _, key := range keys {
		var value []byte
		if value, err = t.store.Get(ctx, key, store.Range{}); err == nil {
			err = zip.Set(ctx, key, value)
		}
		if err != nil {
			break
		}
	}
	if closing := zip.Close(); err == nil {
		err = closing
	}
	return file, err
}

// rename gives what was built the path of the output.
func (t *target) rename(built string) error {
	if !t.replaces {
		// If a directory was created at the path meanwhile, renaming fails unless it is
		// empty, so nothing is lost. A file would be replaced.
		if _, err := os.Lstat(t.path); t.zip && err == nil {
			return fmt.Errorf("naming %s: %w", t.path, fs.ErrExist)
		}
		if err := os.Rename(built, t.path); err != nil {
			return fmt.Errorf("naming %s: %w", t.path, err)
		}
		if t.zip {
			return os.RemoveAll(t.staging)
		}
		return nil
	}
	if t.zip {
		return errors.Join(os.Rename(built, t.path), os.RemoveAll(t.staging))
	}
	old := t.oldPath()
	if err := os.Rename(t.path, old); err != nil {
		return fmt.Errorf("moving the old %s out of the way: %w", t.path, err)
	}
	if err := os.Rename(built, t.path); err != nil {
		return fmt.Errorf("naming the new %s: %w", t.path, errors.Join(err, os.Rename(old, t.path)))
	}
	if err := os.RemoveAll(old); err != nil {
		return fmt.Errorf("%s is written, but the old one is still at %s: %w", t.path, old, err)
	}
	return nil
}

// oldPath is where the output that is replaced lies for a moment.
func (t *target) oldPath() string { return t.staging + ".old" }

// discard deletes all that was written.
func (t *target) discard(ctx context.Context) error {
	if t.renames() {
		return os.RemoveAll(t.staging)
	}
	if err := t.deleteExcept(ctx, planKey); err != nil {
		return err // the plan still says that the output is unfinished
	}
	return t.store.Delete(ctx, planKey)
}

func deleteKeys(ctx context.Context, s store.Store, keys []string) error {
	var failed error
	for _, key := range keys {
		failed = errors.Join(failed, s.Delete(ctx, key))
	}
	return failed
}

// metadataNames are the documents of nodes of both Zarr formats.
var metadataNames = []string{"zarr.json", ".zgroup", ".zarray", ".zattrs", ".zmetadata"}

// chunkKey matches the keys of chunks below an array, of both Zarr formats.
var chunkKey = regexp.MustCompile(`^(c([./]\d+)*|\d+([./]\d+)*)$`)

// maxForeign is how many foreign files an error names.
const maxForeign = 3

// checkReplaceable returns an error unless a store has nothing but a Zarr hierarchy, or
// nothing at all: overwriting must not delete a home directory.
func checkReplaceable(ctx context.Context, s store.Store, location string) error {
	keys, err := s.List(ctx, "")
	if err != nil {
		return err
	}
	if len(keys) == 0 {
		return nil
	}
	if slices.Contains(keys, planKey) {
		return errAppending(location)
	}
	if !slices.ContainsFunc(metadataNames[:3], func(name string) bool { return slices.Contains(keys, name) }) {
		return fmt.Errorf("%s holds no zarr.json, so it is not overwritten: expected a Zarr hierarchy or nothing", location)
	}
	arrays := map[string]bool{}
	for _, key := range keys {
		dir, name := path.Split(key)
		isArray := name == ".zarray"
		if name == "zarr.json" {
			var node struct {
				Kind string `json:"node_type"`
			}
			document, err := s.Get(ctx, key, store.Range{})
			if err != nil {
				return err
			}
			// A document that is not JSON is of a node that cannot be read.
			isArray = json.Unmarshal(document, &node) != nil || node.Kind == "array"
		}
		if isArray {
			arrays[dir] = true
		}
	}
	var foreign []string
	for _, key := range keys {
		if !slices.Contains(metadataNames, path.Base(key)) && !isChunkOf(arrays, key) {
			foreign = append(foreign, key)
		}
	}
	if len(foreign) == 0 {
		return nil
	}
	more := ""
	if n := len(foreign) - maxForeign; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
		foreign = foreign[:maxForeign]
	}
	return fmt.Errorf("%s holds files that are not part of a Zarr hierarchy, so it is not overwritten: %s%s", location, strings.Join(foreign, ", "), more)
}

// errAppending is the error of writing to a table to which rows are appended.
func errAppending(location string) error {
	return fmt.Errorf("rows are being appended to %s, or that was interrupted (arrow2zarr abort %s restores the table as it was)", location, location)
}

// isChunkOf reports whether a key is that of a chunk of one of the arrays, whose paths end
// in a slash.
func isChunkOf(arrays map[string]bool, key string) bool {
	for end := len(key); end > 0; {
		end = strings.LastIndexByte(key[:end], '/')
		if dir := key[:end+1]; arrays[dir] {
			return chunkKey.MatchString(key[end+1:])
		}
	}
	return false
}
