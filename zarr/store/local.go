package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
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
