package nvrtc

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/singleflight"
)

// DefaultCacheBytes bounds a Cache that says nothing else.
const DefaultCacheBytes = 256 << 20

// Cache compiles, and keeps the images in a directory, which processes may
// share. The zero Cache is ready to use; it must not be copied afterwards.
//
// An image is found again by all that counts for it: the source with its
// headers, options and name expressions, the architecture, and the build of
// NVRTC. So a source whose options read files, -I for instance, or which
// includes an absolute path, is compiled each time: see CollectHeaders. A
// damaged file is compiled again and replaced. Whoever can write to the
// directory can choose what the program runs on the GPU.
type Cache struct {
	// Dir is the directory, which is made when it is first needed. Where it
	// is empty, it is quiver/kernels in os.UserCacheDir.
	Dir string
	// MaxBytes bounds the files in the directory, DefaultCacheBytes where it
	// is 0; less than 0 is no bound. What was not used for longest goes
	// first.
	MaxBytes int64
	// OnError, where it is not nil, is told what goes wrong with the
	// directory and its files. That never fails a compilation. It may be
	// called from many goroutines.
	OnError func(error)

	running singleflight.Group
}

// Compile is the function Compile, with the result kept. When several
// goroutines ask for the same at once, one compiles and all get its Image.
func (c *Cache) Compile(s Source) (*Image, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if isPTX(s.Text) {
		return Compile(s)
	}
	nvrtc, err := shared()
	if err != nil {
		return nil, err
	}
	return c.compile(nvrtc, s)
}

func (c *Cache) compile(nvrtc compiler, s Source) (*Image, error) {
	if s.touchesFiles() {
		return nvrtc.compile(s)
	}
	build, err := nvrtc.identity()
	if err != nil {
		return nil, err
	}
	key := s.key(build)
	image, err, _ := c.running.Do(string(key), func() (any, error) { return c.load(nvrtc, s, key) })
	if err != nil {
		return nil, err
	}
	return image.(*Image), nil
}

// load finds the image of a key, or compiles and keeps it.
func (c *Cache) load(nvrtc compiler, s Source, key []byte) (*Image, error) {
	dir, err := c.dir()
	if err != nil {
		c.report(err)
		return nvrtc.compile(s)
	}
	hash := sha256.Sum256(key)
	path := filepath.Join(dir, hex.EncodeToString(hash[:])+entrySuffix)
	image, err := readEntry(path, key)
	if err == nil {
		c.report(used(path))
		return image, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		c.report(err)
	}
	if image, err = nvrtc.compile(s); err != nil {
		return nil, err
	}
	c.report(c.store(path, encodeEntry(key, image)))
	return image, nil
}

// used tells a prune that the file is wanted. Another process may have removed
// it since.
func used(path string) error {
	if err := os.Chtimes(path, time.Time{}, time.Now()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// store puts a file there as a whole or not at all, whoever else does the same
// or reads it, and even if the machine stops half-way.
func (c *Cache) store(path string, data []byte) error {
	limit := c.limit()
	if limit >= 0 && int64(len(data)) > limit {
		return fmt.Errorf("an image of %d bytes is not kept: the directory may hold %d", len(data), limit)
	}
	f, err := os.CreateTemp(filepath.Dir(path), temporaryPrefix+"*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	if limit < 0 {
		return nil
	}
	return prune(filepath.Dir(path), limit)
}

// dir makes the directory where there is none.
func (c *Cache) dir() (string, error) {
	dir := c.Dir
	if dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(base, "quiver", "kernels")
	}
	return dir, os.MkdirAll(dir, 0o700)
}

func (c *Cache) limit() int64 {
	if c.MaxBytes == 0 {
		return DefaultCacheBytes
	}
	return c.MaxBytes
}

func (c *Cache) report(err error) {
	if err != nil && c.OnError != nil {
		c.OnError(fmt.Errorf("nvrtc: cache: %w", err))
	}
}
