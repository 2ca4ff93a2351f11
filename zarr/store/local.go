package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Local is a store of files below a directory; the segments of a key are the path of
// its file. Keys cannot leave the directory, but symbolic links in it can.
//
// A value is written to a temporary file in its directory and renamed, so readers see
// all of it or nothing, and an interrupted program leaves no partial value. Files are
// synced to disk with the option [Sync]. The names of temporary files begin with [TempPrefix]; they are
// never listed, and keys cannot contain them.
type Local struct {
	root      string
	inPlace   bool
	sync      bool
	knownDirs sync.Map // directories known to exist
}

var _ Store = (*Local)(nil)

// LocalOption configures a [Local].
type LocalOption func(*Local)

// InPlace writes values directly to their final files, which needs fewer system calls.
// Use it for hierarchies that are invisible until they are moved into place as a whole.
func InPlace() LocalOption { return func(l *Local) { l.inPlace = true } }

// Sync makes a value durable before Set, Commit or SetIfNotExists returns: its file and its
// directory are synced to disk (fsync).
func Sync() LocalOption { return func(l *Local) { l.sync = true } }

// NewLocal returns the store of a directory. The directory is created with the first
// value.
func NewLocal(root string, options ...LocalOption) *Local {
	l := &Local{root: filepath.Clean(root)}
	for _, option := range options {
		if option != nil {
			option(l)
		}
	}
	return l
}

// Root returns the directory.
func (l *Local) Root() string { return l.root }

// String returns the directory as a file URL.
func (l *Local) String() string { return "file://" + l.root }

// TempPrefix begins the names of temporary files. No key segment of a [Local] begins
// with it.
const TempPrefix = ".quiver-"

// path returns the file of a key, or the directory of a prefix.
func (l *Local) path(ctx context.Context, key string) (string, error) {
	err := contextErr(ctx, CheckPrefix(key))
	if err == nil && isTemp(key) {
		err = fmt.Errorf("names that begin with %q are reserved: %w", TempPrefix, ErrInvalidKey)
	}
	return filepath.Join(l.root, filepath.FromSlash(key)), err
}

func (l *Local) keyPath(ctx context.Context, key string) (string, error) {
	if key == "" {
		return "", fmt.Errorf("%q: %w", key, ErrInvalidKey)
	}
	return l.path(ctx, key)
}

func isTemp(key string) bool {
	return strings.HasPrefix(key, TempPrefix) || strings.Contains(key, "/"+TempPrefix)
}

// Get reads a file or a range of it.
func (l *Local) Get(ctx context.Context, key string, r Range) ([]byte, error) {
	path, err := l.keyPath(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("store.Get: key %q: %w", key, err)
	}
	value, err := readRange(path, r)
	if err != nil {
		return nil, fmt.Errorf("store.Get: key %q: %w", key, wrapNotFound(err))
	}
	return value, nil
}

func readRange(path string, r Range) ([]byte, error) {
	values, err := readRanges(context.Background(), path, []Range{r})
	if err != nil {
		return nil, err
	}
	return values[0], nil
}

func readRanges(ctx context.Context, path string, ranges []Range) ([][]byte, error) {
	f, err := openFile(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := fileSize(f.Stat())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	values := make([][]byte, len(ranges))
	for i, r := range ranges {
		start, end, err := r.Resolve(size)
		if err := contextErr(ctx, err); err != nil {
			return nil, err
		}
		value := make([]byte, end-start)
		n, err := f.ReadAt(value, start)
		if err != nil && !errors.Is(err, io.EOF) { // at EOF, the file shrank meanwhile
			return nil, err
		}
		values[i] = value[:n]
	}
	return values, nil
}

// ReadRange implements [RangeReader]. The version consists of the file's number, size
// and time of modification. A file that was modified in the last two seconds has none:
// the clock of a file system may be that coarse, so a second change might not show.
func (l *Local) ReadRange(ctx context.Context, key string, r Range, dst []byte) (Part, error) {
	path, err := l.keyPath(ctx, key)
	if err != nil {
		return Part{}, fmt.Errorf("store.ReadRange: key %q: %w", key, err)
	}
	part, err := readInto(path, r, dst)
	if err != nil {
		return Part{}, fmt.Errorf("store.ReadRange: key %q: %w", key, wrapNotFound(err))
	}
	return part, nil
}

func readInto(path string, r Range, dst []byte) (Part, error) {
	f, err := openFile(path, os.O_RDONLY, 0)
	if err != nil {
		return Part{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Part{}, err
	}
	size, err := fileSize(info, nil)
	if err != nil {
		return Part{}, fmt.Errorf("%s: %w", path, err)
	}
	start, end, err := r.Resolve(size)
	if err != nil {
		return Part{}, err
	}
	if n := end - start; int64(cap(dst)) >= n {
		dst = dst[:n]
	} else {
		// Callers that read one value after the other into the same memory soon have enough.
		dst = make([]byte, n, max(n, 2*int64(cap(dst))))
	}
	n, err := f.ReadAt(dst, start)
	if err != nil && !errors.Is(err, io.EOF) { // at EOF, the file shrank meanwhile
		return Part{}, err
	}
	return Part{dst[:n], size, fileVersion(info)}, nil
}

// coarseClock is the largest step of the modification times of common file systems.
const coarseClock = 2 * time.Second

// fileVersion returns the version of an open file, or an empty string.
func fileVersion(info fs.FileInfo) string {
	number, ok := fileNumber(info)
	modified := info.ModTime()
	if !ok || time.Since(modified) < coarseClock {
		return ""
	}
	var b [24]byte
	binary.LittleEndian.PutUint64(b[:], number)
	binary.LittleEndian.PutUint64(b[8:], uint64(info.Size()))
	binary.LittleEndian.PutUint64(b[16:], uint64(modified.UnixNano()))
	return string(b[:])
}

// fileSize returns ErrNotFound for a directory, which is not a value.
func fileSize(info fs.FileInfo, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	if info.IsDir() {
		return 0, ErrNotFound
	}
	if !info.Mode().IsRegular() {
		return 0, fmt.Errorf("not a regular file: %s", info.Mode().Type())
	}
	return info.Size(), nil
}

// wrapNotFound wraps system errors for missing files in ErrNotFound. A path through a
// file counts as missing.
func wrapNotFound(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	return err
}

// Size returns the length of a file.
func (l *Local) Size(ctx context.Context, key string) (int64, error) {
	path, err := l.keyPath(ctx, key)
	if err != nil {
		return 0, fmt.Errorf("store.Size: key %q: %w", key, err)
	}
	size, err := fileSize(os.Stat(path))
	if err != nil {
		return 0, fmt.Errorf("store.Size: key %q: %w", key, wrapNotFound(err))
	}
	return size, nil
}

// Delete deletes a file. It keeps empty directories: another goroutine may be about to
// write there.
func (l *Local) Delete(ctx context.Context, key string) error {
	path, err := l.keyPath(ctx, key)
	if err == nil {
		_, err = fileSize(os.Lstat(path))
	}
	if err == nil {
		err = os.Remove(path)
	}
	if err = wrapNotFound(err); err != nil && !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("store.Delete: key %q: %w", key, err)
	}
	return nil
}

// DeleteAll deletes a directory or a file.
func (l *Local) DeleteAll(ctx context.Context, prefix string) error {
	path, err := l.path(ctx, prefix)
	if err == nil {
		l.knownDirs.Clear()
		err = os.RemoveAll(path)
	}
	if err != nil && !errors.Is(err, syscall.ENOTDIR) { // nothing is below a file
		return fmt.Errorf("store.DeleteAll: prefix %q: %w", prefix, err)
	}
	return nil
}

// Set writes a file.
func (l *Local) Set(ctx context.Context, key string, value []byte) error {
	w, err := l.Create(ctx, key)
	if err != nil {
		return err
	}
	if _, err := w.Write(value); err != nil {
		return errors.Join(err, w.Abort())
	}
	return w.Commit()
}

// SetIfNotExists writes a file unless it exists.
func (l *Local) SetIfNotExists(ctx context.Context, key string, value []byte) error {
	path, err := l.keyPath(ctx, key)
	if err != nil {
		return fmt.Errorf("store.SetIfNotExists: key %q: %w", key, err)
	}
	w := &localWriter{key: key, path: path, sync: l.sync, exclusive: true}
	err = l.createIn(filepath.Dir(path), func() (err error) {
		w.file, err = createTemp(filepath.Dir(path))
		return err
	})
	if err != nil {
		return fmt.Errorf("store.SetIfNotExists: key %q: %w", key, err)
	}
	if _, err := w.Write(value); err != nil {
		return errors.Join(err, w.Abort())
	}
	if err := w.Commit(); err != nil {
		return fmt.Errorf("store.SetIfNotExists: %w", err)
	}
	return nil
}

// GetRanges reads ranges of a file, which it opens once.
func (l *Local) GetRanges(ctx context.Context, key string, ranges []Range) ([][]byte, error) {
	path, err := l.keyPath(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("store.GetRanges: key %q: %w", key, err)
	}
	values, err := readRanges(ctx, path, ranges)
	if err != nil {
		return nil, fmt.Errorf("store.GetRanges: key %q: %w", key, wrapNotFound(err))
	}
	return values, nil
}

// Create creates a temporary file, or the final file if the store is [InPlace].
func (l *Local) Create(ctx context.Context, key string) (Writer, error) {
	path, err := l.keyPath(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("store.Create: key %q: %w", key, err)
	}
	w := &localWriter{key: key, path: path, sync: l.sync}
	err = l.createIn(filepath.Dir(path), func() (err error) {
		if l.inPlace {
			const flag = os.O_RDWR | os.O_CREATE | os.O_TRUNC
			w.file, err = openFile(path, flag, 0o666)
			if errors.Is(err, syscall.EISDIR) && removeEmptyDirs(path) {
				w.file, err = openFile(path, flag, 0o666)
			}
		} else {
			w.file, err = createTemp(filepath.Dir(path))
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("store.Create: key %q: %w", key, err)
	}
	return w, nil
}

// createIn calls open after creating dir if necessary. It caches known directories and
// creates them again if they have disappeared.
func (l *Local) createIn(dir string, open func() error) error {
	if _, known := l.knownDirs.Load(dir); known {
		if err := open(); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	l.knownDirs.Store(dir, struct{}{})
	return open()
}

// createTemp is os.CreateTemp with the default permissions of new files.
func createTemp(dir string) (*os.File, error) {
	for {
		name := filepath.Join(dir, fmt.Sprintf("%s%016x", TempPrefix, rand.Uint64()))
		f, err := openFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

// localWriter writes a temporary or final file.
type localWriter struct {
	key, path string
	file      *os.File // nil after Commit or Abort
	written   int64
	sync      bool
	exclusive bool // refuse to replace a file
}

func (w *localWriter) Write(p []byte) (int, error) {
	if w.file == nil {
		return 0, w.wrapErr("Write", errWriterClosed)
	}
	n, err := w.file.Write(p)
	w.written += int64(n)
	return n, w.wrapErr("Write", err)
}

func (w *localWriter) WriteAt(p []byte, off int64) (int, error) {
	if w.file == nil {
		return 0, w.wrapErr("Write", errWriterClosed)
	}
	if err := checkOverwrite(off, len(p), w.written); err != nil {
		return 0, w.wrapErr("Write", err)
	}
	n, err := w.file.WriteAt(p, off)
	return n, w.wrapErr("Write", err)
}

func (w *localWriter) Commit() error {
	if w.file == nil {
		return w.wrapErr("Commit", errWriterClosed)
	}
	name := w.file.Name()
	var err error
	if w.sync {
		err = w.file.Sync()
	}
	err = errors.Join(err, w.file.Close()) // a full disk may show only here
	w.file = nil
	if err == nil && name != w.path {
		err = w.rename(name)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(name))
	} else if w.sync {
		err = syncDir(filepath.Dir(w.path))
	}
	return w.wrapErr("Commit", err)
}

// rename gives the temporary file its final name, if necessary in place of the empty
// directories of deleted values.
func (w *localWriter) rename(name string) error {
	err := w.tryRename(name)
	if errors.Is(err, fs.ErrExist) && removeEmptyDirs(w.path) {
		err = w.tryRename(name)
	}
	return err
}

// removeEmptyDirs removes a directory in which there are only directories. It reports
// whether it did.
func removeEmptyDirs(dir string) bool {
	entries, err := os.ReadDir(dir) // fails for a file
	if err != nil {
		return false
	}
	for _, entry := range entries {
		if !entry.IsDir() || !removeEmptyDirs(filepath.Join(dir, entry.Name())) {
			return false
		}
	}
	return os.Remove(dir) == nil
}

func (w *localWriter) tryRename(name string) error {
	if !w.exclusive {
		return rename(name, w.path)
	}
	// Unlike a rename, a link fails if the name exists.
	if err := os.Link(name, w.path); errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %w", ErrExists, err)
	} else if err != nil {
		return err
	}
	return os.Remove(name)
}

// syncDir makes the names in a directory durable.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

func (w *localWriter) Abort() error {
	if w.file == nil {
		return nil
	}
	err := errors.Join(w.file.Close(), os.Remove(w.file.Name()))
	w.file = nil
	return w.wrapErr("Abort", err)
}

func (w *localWriter) wrapErr(method string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("store.Writer.%s: key %q: %w", method, w.key, err)
}

// List walks a directory.
func (l *Local) List(ctx context.Context, prefix string) ([]string, error) {
	dir, err := l.path(ctx, prefix)
	if err != nil {
		return nil, fmt.Errorf("store.List: prefix %q: %w", prefix, err)
	}
	var keys []string
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err := contextErr(ctx, err); err != nil {
			return err
		}
		if path == dir || strings.HasPrefix(entry.Name(), TempPrefix) || isDir(path, entry) {
			return nil
		}
		key, err := filepath.Rel(l.root, path)
		keys = append(keys, filepath.ToSlash(key))
		return err
	})
	if err = wrapNotFound(err); err != nil && !errors.Is(err, ErrNotFound) {
		return nil, fmt.Errorf("store.List: prefix %q: %w", prefix, err)
	}
	slices.Sort(keys) // a walk yields "a/b" before "a-b"
	return keys, nil
}

// isDir follows symbolic links, as Get does.
func isDir(path string, entry fs.DirEntry) bool {
	if entry.Type()&fs.ModeSymlink == 0 {
		return entry.IsDir()
	}
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// ListDir reads a directory. It omits directories without values.
func (l *Local) ListDir(ctx context.Context, prefix string) (keys, prefixes []string, err error) {
	dir, err := l.path(ctx, prefix)
	if err != nil {
		return nil, nil, fmt.Errorf("store.ListDir: prefix %q: %w", prefix, err)
	}
	entries, err := os.ReadDir(dir)
	if err = wrapNotFound(err); err != nil && !errors.Is(err, ErrNotFound) {
		return nil, nil, fmt.Errorf("store.ListDir: prefix %q: %w", prefix, err)
	}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		switch {
		case strings.HasPrefix(entry.Name(), TempPrefix):
		case !isDir(path, entry):
			keys = append(keys, entry.Name())
		case hasFile(path):
			prefixes = append(prefixes, entry.Name())
		}
	}
	return keys, prefixes, nil
}

// hasFile reports whether a directory contains a value at any depth.
func hasFile(dir string) bool {
	found := false
	_ = filepath.WalkDir(dir+string(filepath.Separator), func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && !strings.HasPrefix(entry.Name(), TempPrefix) {
			found = true
			return fs.SkipAll
		}
		return nil // an unreadable directory counts as empty
	})
	return found
}

// Move renames a directory.
func (l *Local) Move(ctx context.Context, from, to string) error {
	if err := l.move(ctx, from, to); err != nil {
		return fmt.Errorf("store.Move: %q to %q: %w", from, to, err)
	}
	return nil
}

func (l *Local) move(ctx context.Context, from, to string) error {
	if err := contextErr(ctx, checkMove(from, to)); err != nil {
		return err
	}
	source, err := l.path(ctx, from)
	if err != nil {
		return err
	}
	target, err := l.path(ctx, to)
	if err != nil {
		return err
	}
	if info, err := os.Stat(source); err != nil || !info.IsDir() || !hasFile(source) {
		return errors.Join(ErrNotFound, err)
	}
	if info, err := os.Lstat(target); err == nil && (!info.IsDir() || hasFile(target)) {
		return ErrExists
	} else if err == nil {
		// Only empty directories of deleted values remain.
		if err := os.RemoveAll(target); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o777); err != nil {
		return err
	}
	l.knownDirs.Clear()
	return os.Rename(source, target)
}
