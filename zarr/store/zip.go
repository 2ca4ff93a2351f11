package store

import (
	"archive/zip"
	"bufio"
	"bytes"
	"compress/bzip2"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/ulikunitz/xz/lzma"
)

// Zip is a store of the entries of a ZIP file. Use [OpenZip].
//
// Values are written without compression, because chunks are compressed already, and
// entries that other programs compressed (deflate, bzip2, LZMA) are read. Names are UTF-8;
// those that are not are read as code page 437. A file that is
// written appears under its name when the store is closed; until then it is a temporary
// file beside it. An entry that was written in this session stays in the file when its key is
// set again; readers use the last entry of a name. Deleting such an entry is an error
// wrapping errors.ErrUnsupported.
type Zip struct {
	path string

	mu      sync.RWMutex
	entries map[string]zipEntry
	in      *os.File // the file that was opened, or nil
	out     *os.File // the temporary file, or nil if the store is read-only
	buffer  *bufio.Writer
	offset  int64 // of the end of buffer in out
	writer  *zip.Writer
	closed  bool
}

// zipEntry is an entry of the opened file, or one that was written since.
type zipEntry struct {
	file    *zip.File // nil if it was written since
	offset  int64     // of the value in the temporary file, if it was written since
	size    int64
	written bool
}

// ZipMode says how a ZIP file is opened.
type ZipMode int

// The modes of [OpenZip].
const (
	ZipRead   ZipMode = iota // the file must exist
	ZipCreate                // the file must not exist
	ZipWrite                 // an existing file is replaced
	ZipAppend                // the entries of an existing file are kept
)

var errZipClosed = errors.New("ZIP file is closed")

// OpenZip opens the store of a ZIP file. The caller must Close it; a file that was written
// is complete only then. It returns an error wrapping ErrNotFound if the file must exist,
// and ErrExists if it must not.
func OpenZip(path string, mode ZipMode) (*Zip, error) {
	z := &Zip{path: path, entries: map[string]zipEntry{}}
	if err := z.open(mode); err != nil {
		return nil, errors.Join(fmt.Errorf("store.OpenZip: %q: %w", path, wrapNotFound(err)), z.discard())
	}
	return z, nil
}

func (z *Zip) open(mode ZipMode) error {
	if mode < ZipRead || mode > ZipAppend {
		return fmt.Errorf("mode %d: %w", mode, errors.ErrUnsupported)
	}
	if mode == ZipCreate {
		if _, err := os.Lstat(z.path); err == nil {
			return ErrExists
		}
	}
	if mode == ZipRead || mode == ZipAppend {
		err := z.openExisting()
		if err != nil && (mode == ZipRead || !errors.Is(err, fs.ErrNotExist)) {
			return err
		}
	}
	if mode == ZipRead {
		return nil
	}
	out, err := createTemp(filepath.Dir(z.path))
	if err != nil {
		return err
	}
	z.out, z.buffer = out, bufio.NewWriterSize(out, 1<<20)
	z.writer = zip.NewWriter(countingWriter{z})
	return nil
}

// countingWriter writes to the buffer of a Zip and counts the bytes.
type countingWriter struct{ z *Zip }

func (w countingWriter) Write(p []byte) (int, error) {
	n, err := w.z.buffer.Write(p)
	w.z.offset += int64(n)
	return n, err
}

// openExisting reads the directory of the file.
func (z *Zip) openExisting() error {
	in, err := os.Open(z.path)
	if err != nil {
		return err
	}
	z.in = in
	size, err := fileSize(in.Stat())
	if err != nil {
		return err
	}
	directory, err := zip.NewReader(in, size)
	if err != nil {
		return err
	}
	for _, file := range directory.File {
		// Directories and names that are no keys are not values.
		key := zipKey(file)
		if CheckKey(key) == nil && file.Mode().IsRegular() {
			if n := file.UncompressedSize64; n > math.MaxInt64 || file.Method == zip.Store && int64(n) > size {
				return fmt.Errorf("entry %q: %d bytes in a file of %d: %w", file.Name, n, size, zip.ErrFormat)
			}
			if n := file.CompressedSize64; n > uint64(size) { // also limits what decompressors allocate
				return fmt.Errorf("entry %q: %d compressed bytes in a file of %d: %w", file.Name, n, size, zip.ErrFormat)
			}
			z.entries[key] = zipEntry{file: file, size: int64(file.UncompressedSize64)}
		}
	}
	return nil
}

func (z *Zip) takesRoundTrips() bool { return false }

// String returns the path as a ZIP URL.
func (z *Zip) String() string { return "zip://" + z.path }

func (z *Zip) entry(ctx context.Context, key string) (zipEntry, error) {
	if err := contextErr(ctx, CheckKey(key)); err != nil {
		return zipEntry{}, err
	}
	if z.closed {
		return zipEntry{}, errZipClosed
	}
	e, ok := z.entries[key]
	if !ok {
		return zipEntry{}, ErrNotFound
	}
	return e, nil
}

// Get reads an entry. A range of a compressed entry decompresses all of it.
func (z *Zip) Get(ctx context.Context, key string, r Range) ([]byte, error) {
	value, err := z.get(ctx, key, r)
	if err != nil {
		return nil, fmt.Errorf("store.Get: %v: key %q: %w", z, key, err)
	}
	return value, nil
}

func (z *Zip) get(ctx context.Context, key string, r Range) ([]byte, error) {
	z.mu.RLock()
	defer z.mu.RUnlock()
	e, err := z.entry(ctx, key)
	if err != nil {
		return nil, err
	}
	start, end, err := r.Resolve(e.size)
	if err != nil {
		return nil, err
	}
	if e.file != nil {
		if err := checkZipFile(e.file); err != nil {
			return nil, err
		}
	}
	value, err := z.read(e, start, end)
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("the file ends before the entry: %w", zip.ErrFormat)
	}
	return value, err
}

// read returns a range of an entry.
func (z *Zip) read(e zipEntry, start, end int64) ([]byte, error) {
	if e.file != nil && (e.file.Method != zip.Store || start == 0 && end == e.size) {
		value, err := readZipFile(e.file) // verifies the checksum
		if err != nil {
			return nil, err
		}
		return value[start:end:end], nil
	}
	source, offset := z.out, e.offset
	if e.file != nil {
		var err error
		source = z.in
		if offset, err = e.file.DataOffset(); err != nil {
			return nil, err
		}
	}
	value := make([]byte, end-start)
	if _, err := source.ReadAt(value, offset+start); err != nil {
		return nil, err
	}
	return value, nil
}

// Flags of entries (APPNOTE.TXT, section 4.4.4).
const (
	zipEncrypted = 1 << 0
	zipEndMarker = 1 << 1  // the LZMA stream has an end marker
	zipUTF8      = 1 << 11 // the name is UTF-8; without it, readers take it for code page 437
)

// zipUnicodePath is the extra field that has the name in UTF-8 (APPNOTE.TXT, section 4.6.9):
// a version, the checksum of the name in the directory, and the name.
const zipUnicodePath = 0x7075

// zipKey returns the name of an entry. It is the one that Python's zipfile has, but UTF-8
// is read as such without its flag too: so Info-ZIP and macOS write it.
func zipKey(file *zip.File) string {
	for extra := file.Extra; len(extra) >= 4; {
		n := int(binary.LittleEndian.Uint16(extra[2:]))
		if n > len(extra)-4 {
			break
		}
		field := extra[4 : 4+n]
		if binary.LittleEndian.Uint16(extra) == zipUnicodePath && n > 5 && field[0] == 1 && utf8.Valid(field[5:]) &&
			binary.LittleEndian.Uint32(field[1:]) == crc32.ChecksumIEEE([]byte(file.Name)) {
			return string(field[5:])
		}
		extra = extra[4+n:]
	}
	if file.Flags&zipUTF8 != 0 || utf8.ValidString(file.Name) {
		return file.Name
	}
	name := make([]rune, len(file.Name))
	for i := range name {
		name[i] = rune(file.Name[i])
		if b := file.Name[i]; b >= 0x80 {
			name[i] = codePage437[b-0x80]
		}
	}
	return string(name)
}

// codePage437 has the characters of the bytes from 0x80 on.
var codePage437 = []rune("ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒáíóúñÑªº¿⌐¬½¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u00a0")

// checkZipFile returns an error for entries whose bytes are not those of the value. Package
// zip would find that by their checksums, which ranges do not verify.
func checkZipFile(file *zip.File) error {
	switch stored, size := file.CompressedSize64, file.UncompressedSize64; {
	case file.Flags&zipEncrypted != 0:
		return fmt.Errorf("the entry is encrypted: %w", errors.ErrUnsupported)
	case file.Method == zip.Store && stored != size:
		return fmt.Errorf("an entry without compression has %d bytes, want %d: %w", stored, size, zip.ErrFormat)
	}
	return nil
}

// The compression methods of other programs beside deflate, such as Python's zipfile
// (APPNOTE.TXT, section 4.4.5).
const (
	zipBzip2 = 12
	zipLZMA  = 14
)

// readZipFile reads a whole entry. It allocates what was read, not what the directory
// claims.
func readZipFile(file *zip.File) ([]byte, error) {
	reader, err := openZipFile(file)
	if err != nil {
		return nil, err
	}
	value, err := io.ReadAll(io.LimitReader(reader, int64(file.UncompressedSize64)+1))
	if err = errors.Join(err, reader.Close()); err != nil {
		return nil, err
	}
	if uint64(len(value)) != file.UncompressedSize64 {
		return nil, fmt.Errorf("got %d bytes, want %d: %w", len(value), file.UncompressedSize64, zip.ErrFormat)
	}
	// Package zip verifies the others itself.
	if (file.Method == zipBzip2 || file.Method == zipLZMA) && crc32.ChecksumIEEE(value) != file.CRC32 {
		return nil, zip.ErrChecksum
	}
	return value, nil
}

func openZipFile(file *zip.File) (io.ReadCloser, error) {
	switch file.Method {
	case zip.Store, zip.Deflate:
		return file.Open()
	case zipBzip2, zipLZMA:
	default:
		return nil, fmt.Errorf("compression method %d: %w", file.Method, errors.ErrUnsupported)
	}
	raw, err := file.OpenRaw()
	if err != nil {
		return nil, err
	}
	if file.Method == zipBzip2 {
		return io.NopCloser(bzip2.NewReader(raw)), nil
	}
	// The version of the encoder, the size of the properties, which are those of a .lzma
	// file, and the stream.
	var header [4 + 13]byte
	if _, err := io.ReadFull(raw, header[:9]); err != nil {
		return nil, err
	}
	if n := binary.LittleEndian.Uint16(header[2:]); n != 5 {
		return nil, fmt.Errorf("LZMA with %d bytes of properties, want 5: %w", n, zip.ErrFormat)
	}
	// Matches do not reach before the result, which has at most 2^13 times the size. The
	// directory may claim more than 4 GiB.
	most := max(min(file.UncompressedSize64, file.CompressedSize64<<13, math.MaxUint32), lzma.MinDictCap)
	dictionary := min(uint64(binary.LittleEndian.Uint32(header[5:])), most)
	binary.LittleEndian.PutUint32(header[5:], uint32(dictionary))
	size := file.UncompressedSize64
	if file.Flags&zipEndMarker != 0 {
		size = math.MaxUint64 // it is not known
	}
	binary.LittleEndian.PutUint64(header[9:], size)
	reader, err := lzma.NewReader(io.MultiReader(bytes.NewReader(header[4:]), raw))
	if err != nil {
		return nil, err
	}
	return io.NopCloser(reader), nil
}

// Size returns the length of an entry.
func (z *Zip) Size(ctx context.Context, key string) (int64, error) {
	z.mu.RLock()
	defer z.mu.RUnlock()
	e, err := z.entry(ctx, key)
	if err != nil {
		return 0, fmt.Errorf("store.Size: %v: key %q: %w", z, key, err)
	}
	return e.size, nil
}

// Set appends an entry.
func (z *Zip) Set(ctx context.Context, key string, value []byte) error {
	z.mu.Lock()
	defer z.mu.Unlock()
	if err := z.set(ctx, key, value); err != nil {
		return fmt.Errorf("store.Set: %v: key %q: %w", z, key, err)
	}
	return nil
}

// SetIfNotExists appends an entry unless the key has one. Other programs cannot write the
// same file.
func (z *Zip) SetIfNotExists(ctx context.Context, key string, value []byte) error {
	z.mu.Lock()
	defer z.mu.Unlock()
	_, err := z.entry(ctx, key)
	switch {
	case err == nil:
		err = ErrExists
	case errors.Is(err, ErrNotFound):
		err = z.set(ctx, key, value)
	}
	if err != nil {
		return fmt.Errorf("store.SetIfNotExists: %v: key %q: %w", z, key, err)
	}
	return nil
}

// checkWritable returns an error unless a key can be written.
func (z *Zip) checkWritable(ctx context.Context, key string) error {
	switch err := contextErr(ctx, CheckKey(key)); {
	case err != nil:
		return err
	case z.closed:
		return errZipClosed
	case z.out == nil:
		return ErrReadOnly
	}
	return nil
}

func (z *Zip) set(ctx context.Context, key string, value []byte) error {
	if err := z.checkWritable(ctx, key); err != nil {
		return err
	}
	if !utf8.ValidString(key) { // a reader would take it for code page 437
		return fmt.Errorf("a name that is not UTF-8: %w", ErrInvalidKey)
	}
	n := uint64(len(value))
	entry, err := z.writer.CreateRaw(&zip.FileHeader{Name: key, Flags: zipUTF8, Method: zip.Store, CRC32: crc32.ChecksumIEEE(value),
		CompressedSize64: n, UncompressedSize64: n})
	if err == nil {
		err = z.writer.Flush()
	}
	if err != nil {
		return err
	}
	offset := z.offset
	if _, err := entry.Write(value); err != nil {
		return err
	}
	if err := errors.Join(z.writer.Flush(), z.buffer.Flush()); err != nil {
		return err
	}
	z.entries[key] = zipEntry{offset: offset, size: int64(n), written: true}
	return nil
}

// Delete deletes an entry that was not written in this session.
func (z *Zip) Delete(ctx context.Context, key string) error {
	z.mu.Lock()
	defer z.mu.Unlock()
	err := z.checkWritable(ctx, key)
	if e, ok := z.entries[key]; err == nil && ok {
		if e.written {
			err = fmt.Errorf("an entry cannot be deleted from the file being written: %w", errors.ErrUnsupported)
		} else {
			delete(z.entries, key) // Close does not copy it
		}
	}
	if err != nil {
		return fmt.Errorf("store.Delete: %v: key %q: %w", z, key, err)
	}
	return nil
}

// List returns the names of entries.
func (z *Zip) List(ctx context.Context, prefix string) ([]string, error) {
	z.mu.RLock()
	defer z.mu.RUnlock()
	err := contextErr(ctx, CheckPrefix(prefix))
	if err == nil && z.closed {
		err = errZipClosed
	}
	if err != nil {
		return nil, fmt.Errorf("store.List: %v: prefix %q: %w", z, prefix, err)
	}
	var keys []string
	for key := range z.entries {
		if isUnder(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys, nil
}

// Close completes a file that is written, and replaces the file of its name. A second
// Close does nothing.
func (z *Zip) Close() error {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.closed {
		return nil
	}
	err := z.finish()
	z.closed = true
	if err = errors.Join(err, z.discard()); err != nil {
		return fmt.Errorf("store.Zip.Close: %q: %w", z.path, err)
	}
	return nil
}

// finish writes what remains and renames the temporary file.
func (z *Zip) finish() error {
	if z.out == nil {
		return nil
	}
	for _, key := range z.keptKeys() {
		if err := z.writer.Copy(z.entries[key].file); err != nil {
			return fmt.Errorf("entry %q: %w", key, err)
		}
	}
	if err := errors.Join(z.writer.Close(), z.buffer.Flush()); err != nil {
		return err
	}
	out := z.out
	if err := out.Close(); err != nil {
		return err
	}
	if err := os.Rename(out.Name(), z.path); err != nil {
		return err
	}
	z.out = nil
	return nil
}

// keptKeys returns the keys of entries that are only in the opened file.
func (z *Zip) keptKeys() []string {
	var keys []string
	for key, e := range z.entries {
		if e.file != nil {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// discard closes the files and deletes the temporary one.
func (z *Zip) discard() error {
	var err error
	if z.in != nil {
		err = z.in.Close()
		z.in = nil
	}
	if z.out != nil {
		_ = z.out.Close() // finish may have closed it
		err = errors.Join(err, os.Remove(z.out.Name()))
		z.out = nil
	}
	return err
}
