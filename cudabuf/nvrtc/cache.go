package nvrtc

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"
)

// DefaultCacheBytes is the size limit of a Cache with MaxBytes 0.
const DefaultCacheBytes = 256 << 20

// Cache compiles sources and keeps the images in a directory, which several
// processes may share. The zero Cache is ready for use. It must not be copied
// after first use.
//
// The key of an image contains the source with headers, options and name
// expressions, the architecture, and the build of NVRTC. A source that depends
// on other files is compiled each time. Examples are option -I and an #include
// of an absolute path; see CollectHeaders. A damaged file is compiled again and
// replaced. A user who can write to the directory controls the code that the
// program runs on the GPU.
type Cache struct {
	// Dir is the directory, which is created when needed. "" means
	// quiver/kernels in os.UserCacheDir.
	Dir string
	// MaxBytes bounds the total size of the files. 0 means DefaultCacheBytes,
	// and a negative value means no bound. The least recently used images are
	// removed first.
	MaxBytes int64
	// OnError, if not nil, is called with errors of the directory and its
	// files. They do not fail a compilation. It may be called from many
	// goroutines.
	OnError func(error)

	running singleflight.Group
}

// Compile is like the function Compile, and keeps the result. If several
// goroutines compile the same source at once, one compiles it and all receive
// its Image.
func (c *Cache) Compile(s Source) (*Image, error) {
	if err := s.validate(); err != nil {
		return nil, err
	}
	if isPTX(s.Text) {
		return Compile(s)
	}
	library, err := nvrtc.Get()
	if err != nil {
		return nil, err
	}
	return c.compile(library, s)
}

func (c *Cache) compile(nvrtc compiler, s Source) (*Image, error) {
	if s.usesFiles() {
		return nvrtc.compile(s)
	}
	build, err := nvrtc.buildID()
	if err != nil {
		return nil, err
	}
	key := s.key(build)
	image, err, _ := c.running.Do(string(key), func() (any, error) { return c.loadOrCompile(nvrtc, s, key) })
	if err != nil {
		return nil, err
	}
	return image.(*Image), nil
}

// loadOrCompile returns the image of a key, or compiles and keeps it.
func (c *Cache) loadOrCompile(nvrtc compiler, s Source, key []byte) (*Image, error) {
	dir, err := c.ensureDir()
	if err != nil {
		c.report(err)
		return nvrtc.compile(s)
	}
	hash := sha256.Sum256(key)
	path := filepath.Join(dir, hex.EncodeToString(hash[:])+entrySuffix)
	image, err := readEntry(path, key)
	if err == nil {
		c.report(markUsed(path))
		return image, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		c.report(err)
	}
	if image, err = nvrtc.compile(s); err != nil {
		return nil, err
	}
	c.report(c.writeEntry(path, encodeEntry(key, image)))
	return image, nil
}

// markUsed updates the time of last use. Another process may have removed the
// file.
func markUsed(path string) error {
	if err := os.Chtimes(path, time.Time{}, time.Now()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// writeEntry creates a file atomically, also with concurrent processes and
// crashes.
func (c *Cache) writeEntry(path string, data []byte) error {
	limit := c.limit()
	if limit >= 0 && int64(len(data)) > limit {
		return fmt.Errorf("the image is not kept: got %d bytes, want at most %d", len(data), limit)
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

// ensureDir returns the directory after creating it if necessary.
func (c *Cache) ensureDir() (string, error) {
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

// entryMagic is the first line of a file of a Cache. The SHA-256 of the rest
// follows. The rest is a list of fields, each preceded by its length: the key,
// the image, the log, and pairs of a name expression and its name.
const entryMagic = "quiver kernel 1\n"

var errDamaged = errors.New("damaged")

// key returns the identity of a compilation. Each list is preceded by its
// length, so that different sources have different keys.
func (s *Source) key(build string) []byte {
	key := appendFields(nil, build, s.Arch, s.name(), s.Text)
	key = appendFields(binary.AppendUvarint(key, uint64(len(s.Options))), s.Options...)
	key = appendFields(binary.AppendUvarint(key, uint64(len(s.Names))), s.Names...)
	key = binary.AppendUvarint(key, uint64(len(s.Headers)))
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		key = appendFields(key, name, s.Headers[name])
	}
	return key
}

func appendFields(b []byte, fields ...string) []byte {
	for _, field := range fields {
		b = append(binary.AppendUvarint(b, uint64(len(field))), field...)
	}
	return b
}

func encodeEntry(key []byte, image *Image) []byte {
	fields := []string{string(key), string(image.Bytes), image.Log}
	for _, expression := range slices.Sorted(maps.Keys(image.Names)) {
		fields = append(fields, expression, image.Names[expression])
	}
	body := appendFields(nil, fields...)
	sum := sha256.Sum256(body)
	return slices.Concat([]byte(entryMagic), sum[:], body)
}

func readEntry(path string, key []byte) (*Image, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	image, err := decodeEntry(data, key)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return image, nil
}

// decodeEntry returns an error wrapping errDamaged unless encodeEntry produced
// data for the key.
func decodeEntry(data, key []byte) (*Image, error) {
	rest, ok := bytes.CutPrefix(data, []byte(entryMagic))
	if !ok || len(rest) < sha256.Size {
		return nil, fmt.Errorf("%w: the %d bytes have no valid header", errDamaged, len(data))
	}
	sum, body := rest[:sha256.Size], rest[sha256.Size:]
	if got := sha256.Sum256(body); !bytes.Equal(sum, got[:]) {
		return nil, fmt.Errorf("%w: wrong checksum of %d bytes", errDamaged, len(data))
	}
	return decodeBody(body, key)
}

func decodeBody(body, key []byte) (*Image, error) {
	var fields [][]byte
	for len(body) > 0 {
		length, n := binary.Uvarint(body)
		if n <= 0 || length > uint64(len(body)-n) {
			return nil, fmt.Errorf("%w: field %d exceeds the data", errDamaged, len(fields))
		}
		body = body[n:]
		fields, body = append(fields, body[:length:length]), body[length:]
	}
	if len(fields) < 3 || len(fields)%2 == 0 {
		return nil, fmt.Errorf("%w: got %d fields", errDamaged, len(fields))
	}
	if !bytes.Equal(fields[0], key) {
		return nil, fmt.Errorf("%w: the key belongs to another source", errDamaged)
	}
	image := &Image{Bytes: fields[1], Log: string(fields[2]), Cached: true}
	for pair := range slices.Chunk(fields[3:], 2) {
		if image.Names == nil {
			image.Names = map[string]string{}
		}
		image.Names[string(pair[0])] = string(pair[1])
	}
	return image, nil
}

const (
	entrySuffix     = ".kernel"
	temporaryPrefix = ".writing-"
	// abandonedAge is the age at which a temporary file is considered to belong
	// to a process that has ended.
	abandonedAge = time.Hour
)

// prune removes the least recently used files until the others fit into the
// limit. Several processes may call it concurrently. It removes only files of a
// Cache.
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
		case strings.HasPrefix(file.Name(), temporaryPrefix) && time.Since(info.ModTime()) > abandonedAge:
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
