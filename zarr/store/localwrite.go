package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
)

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
