package store

import (
	"context"
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
)

// Local is a store whose values are files below a directory: a key's segments
// are the path. Keys cannot lead out of the directory, though symbolic links in
// it may.
//
// A value is written to a file beside its place, whose name begins with
// ".quiver-", and renamed, so that readers see all of it or nothing, and an
// interrupted program leaves no half of one under its key. Files are not forced
// to the disk. Such names are never listed and cannot be part of keys.
type Local struct {
	root    string
	inPlace bool
	made    sync.Map // directories that were there a moment ago
}

var _ Store = (*Local)(nil)

// LocalOption changes how a Local works.
type LocalOption func(*Local)

// InPlace writes values directly under their keys, which costs fewer system
// calls. It is for hierarchies that nobody looks at before they are moved into
// their place as a whole.
func InPlace() LocalOption { return func(l *Local) { l.inPlace = true } }

// NewLocal returns the store of a directory, which is made when the first value
// is written.
func NewLocal(root string, options ...LocalOption) *Local {
	l := &Local{root: filepath.Clean(root)}
	for _, option := range options {
		option(l)
	}
	return l
}

// Root is the directory.
func (l *Local) Root() string { return l.root }

// String is the directory as a file URL.
func (l *Local) String() string { return "file://" + l.root }

// TempPrefix begins the names of files that are not values yet: no key of a [Local] does.
const TempPrefix = ".quiver-"

// path is the file of a key, or the directory of a prefix.
func (l *Local) path(ctx context.Context, key string) (string, error) {
	err := check(ctx, CheckPrefix(key))
	if err == nil && isTemp(key) {
		err = fmt.Errorf("names that begin with %q are the store's own: %w", TempPrefix, ErrKey)
	}
	return filepath.Join(l.root, filepath.FromSlash(key)), err
}

func (l *Local) keyPath(ctx context.Context, key string) (string, error) {
	if key == "" {
		return "", fmt.Errorf("%q: %w", key, ErrKey)
	}
	return l.path(ctx, key)
}

func isTemp(key string) bool {
	return strings.HasPrefix(key, TempPrefix) || strings.Contains(key, "/"+TempPrefix)
}

// Get reads a file or a part of it.
func (l *Local) Get(ctx context.Context, key string, r Range) ([]byte, error) {
	path, err := l.keyPath(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("getting %q: %w", key, err)
	}
	value, err := readRange(path, r)
	if err != nil {
		return nil, fmt.Errorf("getting %q: %w", key, notFound(err))
	}
	return value, nil
}

func readRange(path string, r Range) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := regularSize(f.Stat())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	start, end, err := r.Resolve(size)
	if err != nil {
		return nil, err
	}
	value := make([]byte, end-start)
	n, err := f.ReadAt(value, start)
	if errors.Is(err, io.EOF) { // the file shrank
		err = nil
	}
	return value[:n], err
}

// regularSize says that a directory is no value.
func regularSize(info fs.FileInfo, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	if info.IsDir() {
		return 0, ErrNotFound
	}
	if !info.Mode().IsRegular() {
		return 0, fmt.Errorf("not a regular file but %s", info.Mode().Type())
	}
	return info.Size(), nil
}

// notFound adds ErrNotFound to what the system says about missing files. A
// path that goes through a file is missing too.
func notFound(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	return err
}

// Size is the length of a file.
func (l *Local) Size(ctx context.Context, key string) (int64, error) {
	path, err := l.keyPath(ctx, key)
	if err != nil {
		return 0, fmt.Errorf("size of %q: %w", key, err)
	}
	size, err := regularSize(os.Stat(path))
	if err != nil {
		return 0, fmt.Errorf("size of %q: %w", key, notFound(err))
	}
	return size, nil
}

// Delete removes a file. Directories that become empty stay: another goroutine
// may be about to write there.
func (l *Local) Delete(ctx context.Context, key string) error {
	path, err := l.keyPath(ctx, key)
	if err == nil {
		_, err = regularSize(os.Lstat(path))
	}
	if err == nil {
		err = os.Remove(path)
	}
	if err = notFound(err); err != nil && !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("deleting %q: %w", key, err)
	}
	return nil
}

// DeleteAll removes a directory, or a file.
func (l *Local) DeleteAll(ctx context.Context, prefix string) error {
	path, err := l.path(ctx, prefix)
	if err == nil {
		l.made.Clear()
		err = os.RemoveAll(path)
	}
	if err != nil {
		return fmt.Errorf("deleting all of %q: %w", prefix, err)
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

// Create begins a file. With InPlace it is under its name at once.
func (l *Local) Create(ctx context.Context, key string) (Writer, error) {
	path, err := l.keyPath(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("creating %q: %w", key, err)
	}
	w := &localWriter{key: key, path: path}
	err = l.withDir(filepath.Dir(path), func() (err error) {
		if l.inPlace {
			w.file, err = os.Create(path)
		} else {
			w.file, err = createTemp(filepath.Dir(path))
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("creating %q: %w", key, err)
	}
	return w, nil
}

// withDir calls open in a directory that it makes if need be. It remembers
// directories, and looks again when one has gone.
func (l *Local) withDir(dir string, open func() error) error {
	if _, known := l.made.Load(dir); known {
		if err := open(); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	l.made.Store(dir, struct{}{})
	return open()
}

// createTemp is os.CreateTemp with the permissions that other files get.
func createTemp(dir string) (*os.File, error) {
	for {
		name := filepath.Join(dir, fmt.Sprintf("%s%016x", TempPrefix, rand.Uint64()))
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

// localWriter writes a file that has its final name, or gets it at the end.
type localWriter struct {
	key, path string
	file      *os.File // nil at the end
	written   int64
}

func (w *localWriter) Write(p []byte) (int, error) {
	if w.file == nil {
		return 0, w.wrap("writing", errEnded)
	}
	n, err := w.file.Write(p)
	w.written += int64(n)
	return n, w.wrap("writing", err)
}

func (w *localWriter) WriteAt(p []byte, off int64) (int, error) {
	if w.file == nil {
		return 0, w.wrap("writing", errEnded)
	}
	if err := checkWritten(off, len(p), w.written); err != nil {
		return 0, w.wrap("writing", err)
	}
	n, err := w.file.WriteAt(p, off)
	return n, w.wrap("writing", err)
}

func (w *localWriter) Commit() error {
	if w.file == nil {
		return w.wrap("committing", errEnded)
	}
	name := w.file.Name()
	err := w.file.Close() // a full disk may show only here
	w.file = nil
	if err == nil && name != w.path {
		err = os.Rename(name, w.path)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(name))
	}
	return w.wrap("committing", err)
}

func (w *localWriter) Abort() error {
	if w.file == nil {
		return nil
	}
	err := errors.Join(w.file.Close(), os.Remove(w.file.Name()))
	w.file = nil
	return w.wrap("aborting", err)
}

func (w *localWriter) wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %q: %w", doing, w.key, err)
}

// List walks a directory.
func (l *Local) List(ctx context.Context, prefix string) ([]string, error) {
	dir, err := l.path(ctx, prefix)
	if err != nil {
		return nil, fmt.Errorf("listing %q: %w", prefix, err)
	}
	var keys []string
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err := check(ctx, err); err != nil {
			return err
		}
		if path == dir || strings.HasPrefix(entry.Name(), TempPrefix) || isDir(path, entry) {
			return nil
		}
		key, err := filepath.Rel(l.root, path)
		keys = append(keys, filepath.ToSlash(key))
		return err
	})
	if err = notFound(err); err != nil && !errors.Is(err, ErrNotFound) {
		return nil, fmt.Errorf("listing %q: %w", prefix, err)
	}
	slices.Sort(keys) // "a-b" before "a/b", which a walk finds the other way round
	return keys, nil
}

// isDir looks through symbolic links, which Get follows too.
func isDir(path string, entry fs.DirEntry) bool {
	if entry.Type()&fs.ModeSymlink == 0 {
		return entry.IsDir()
	}
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// ListDir reads a directory. Empty directories below it are no prefixes.
func (l *Local) ListDir(ctx context.Context, prefix string) (keys, prefixes []string, err error) {
	dir, err := l.path(ctx, prefix)
	if err != nil {
		return nil, nil, fmt.Errorf("listing %q: %w", prefix, err)
	}
	entries, err := os.ReadDir(dir)
	if err = notFound(err); err != nil && !errors.Is(err, ErrNotFound) {
		return nil, nil, fmt.Errorf("listing %q: %w", prefix, err)
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

// hasFile tells whether a directory holds a value, however deep.
func hasFile(dir string) bool {
	found := false
	_ = filepath.WalkDir(dir+string(filepath.Separator), func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && !strings.HasPrefix(entry.Name(), TempPrefix) {
			found = true
			return fs.SkipAll
		}
		return nil // what cannot be read holds nothing to read
	})
	return found
}

// Move renames a directory.
func (l *Local) Move(ctx context.Context, from, to string) error {
	if err := l.move(ctx, from, to); err != nil {
		return fmt.Errorf("moving %q to %q: %w", from, to, err)
	}
	return nil
}

func (l *Local) move(ctx context.Context, from, to string) error {
	if err := check(ctx, checkMove(from, to)); err != nil {
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
	if info, err := os.Stat(source); err != nil || !info.IsDir() {
		return errors.Join(ErrNotFound, err)
	}
	if info, err := os.Lstat(target); err == nil && (!info.IsDir() || hasFile(target)) {
		return ErrExists
	} else if err == nil {
		// What is left of values that were deleted.
		if err := os.RemoveAll(target); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o777); err != nil {
		return err
	}
	l.made.Clear()
	return os.Rename(source, target)
}
