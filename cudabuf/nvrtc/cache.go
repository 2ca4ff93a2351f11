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
	if err := s.validate(); err != nil {
		return nil, err
	}
	if isPTX(s.Text) {
		return Compile(s)
	}
	nvrtc, err := sharedCompiler()
	if err != nil {
		return nil, err
	}
	return c.compile(nvrtc, s)
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

// loadOrCompile finds the image of a key, or compiles and keeps it.
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

// markUsed tells a prune that the file is wanted. Another process may have removed
// it since.
func markUsed(path string) error {
	if err := os.Chtimes(path, time.Time{}, time.Now()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// writeEntry puts a file there as a whole or not at all, whoever else does the same
// or reads it, and even if the machine stops half-way.
func (c *Cache) writeEntry(path string, data []byte) error {
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

// ensureDir makes the directory where there is none.
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

// An entry is a file of a Cache: a line that tells the format, the SHA-256 of
// all that follows, and then runs of bytes, each after its length: the key, the
// image, the log, and the name expressions with their names in turn.
const entryMagic = "quiver kernel 1\n"

var errDamaged = errors.New("damaged")

// key is all that counts for what NVRTC makes of a source. Each list comes
// after its length, so that no two sources have the same key.
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

func appendFields(b []byte, runs ...string) []byte {
	for _, run := range runs {
		b = append(binary.AppendUvarint(b, uint64(len(run))), run...)
	}
	return b
}

func encodeEntry(key []byte, image *Image) []byte {
	runs := []string{string(key), string(image.Bytes), image.Log}
	for _, expression := range slices.Sorted(maps.Keys(image.Names)) {
		runs = append(runs, expression, image.Names[expression])
	}
	body := appendFields(nil, runs...)
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

// decodeEntry answers errDamaged for anything but what encodeEntry made for the
// key.
func decodeEntry(data, key []byte) (*Image, error) {
	rest, ok := bytes.CutPrefix(data, []byte(entryMagic))
	if !ok || len(rest) < sha256.Size {
		return nil, fmt.Errorf("%w: no entry of %d bytes begins so", errDamaged, len(data))
	}
	sum, body := rest[:sha256.Size], rest[sha256.Size:]
	if got := sha256.Sum256(body); !bytes.Equal(sum, got[:]) {
		return nil, fmt.Errorf("%w: the checksum of its %d bytes is another", errDamaged, len(data))
	}
	return decodeBody(body, key)
}

func decodeBody(body, key []byte) (*Image, error) {
	var runs [][]byte
	for len(body) > 0 {
		length, n := binary.Uvarint(body)
		if n <= 0 || length > uint64(len(body)-n) {
			return nil, fmt.Errorf("%w: run %d reaches beyond the end", errDamaged, len(runs))
		}
		body = body[n:]
		runs, body = append(runs, body[:length:length]), body[length:]
	}
	if len(runs) < 3 || len(runs)%2 == 0 {
		return nil, fmt.Errorf("%w: it has %d parts", errDamaged, len(runs))
	}
	if !bytes.Equal(runs[0], key) {
		return nil, fmt.Errorf("%w: it is another source's", errDamaged)
	}
	image := &Image{Bytes: runs[1], Log: string(runs[2]), Cached: true}
	for pair := range slices.Chunk(runs[3:], 2) {
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
