package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

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
