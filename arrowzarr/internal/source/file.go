package source

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"
)

// File is a file that a source reads.
type File struct {
	// ReaderAt reads the content; nil if it can be read only once, as that of a pipe.
	io.ReaderAt
	Name    string   // as errors name it
	Size    int64    // in bytes, -1 if it can be read only once
	version string   // what changes with the content, beside the size
	local   *os.File // nil if it is not in the file system
	head    []byte   // what has been read of content that can be read only once
	closing func() error
}

// OpenLocal opens a file of the file system.
func OpenLocal(path string) (*File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	f, err := newLocalFile(path, file)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return f, nil
}

func newLocalFile(name string, file *os.File) (*File, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	f := &File{Name: name, Size: -1, local: file, closing: file.Close}
	if info.Mode().IsRegular() {
		f.ReaderAt, f.Size, f.version = file, info.Size(), fmt.Sprint(info.ModTime().UnixNano())
	}
	return f, nil
}

// StandardInput opens standard input. If it is a file, it is read as any other.
func StandardInput() (*File, error) {
	file, err := newLocalFile("standard input", os.Stdin)
	if err != nil {
		return nil, err
	}
	if at, err := os.Stdin.Seek(0, io.SeekCurrent); !file.Once() && (err != nil || at != 0) {
		file.ReaderAt, file.Size = nil, -1
	}
	return file, nil
}

// NewRemoteFile returns a file of some bytes that r reads, each time in a round trip.
// version changes with the content.
func NewRemoteFile(name string, size int64, version string, r io.ReaderAt) *File {
	return &File{ReaderAt: r, Name: name, Size: size, version: version, closing: func() error { return nil }}
}

// From returns the content from a position on as a file. It is closed with f.
func (f *File) From(start int64) *File {
	rest := *f
	rest.ReaderAt, rest.Size = io.NewSectionReader(f.ReaderAt, start, f.Size-start), f.Size-start
	return &rest
}

// OnClose makes Close call a function, too.
func (f *File) OnClose(then func() error) {
	before := f.closing
	f.closing = func() error { return errors.Join(before(), then()) }
}

// RemoteRequests is the number of concurrent requests of one read of a remote file, and of its
// metadata.
const RemoteRequests = 32

// IsRemote reports whether each read takes a round trip.
func (f *File) IsRemote() bool { return f.local == nil }

// Once reports whether the content can be read only once.
func (f *File) Once() bool { return f.ReaderAt == nil }

// Sequential reads the content, from its start. It must not be called if Once is true.
func (f *File) Sequential() *io.SectionReader { return io.NewSectionReader(f.ReaderAt, 0, f.Size) }

// Stream reads the content, from its start.
func (f *File) Stream() io.Reader {
	if f.Once() {
		return io.MultiReader(bytes.NewReader(f.head), f.local)
	}
	return f.Sequential()
}

// Fingerprint identifies the content.
func (f *File) Fingerprint() string {
	if f.Once() {
		return f.Name
	}
	return fmt.Sprintf("%q %d %s", f.Name, f.Size, f.version)
}

// Interrupt reports whether a read will return soon, see Source.
func (f *File) Interrupt() bool {
	return !f.Once() || f.local.SetReadDeadline(time.Unix(1, 0)) == nil
}

// Close closes the file, and calls the functions of OnClose.
func (f *File) Close() error { return f.closing() }

// ReadHead returns the first bytes of the content, at most 8.
func (f *File) ReadHead() ([]byte, error) {
	if f.head != nil {
		return f.head, nil
	}
	head := make([]byte, 8)
	var n int
	var err error
	if f.Once() {
		n, err = io.ReadFull(f.local, head)
		f.head = head[:n]
	} else {
		n, err = f.ReadAt(head, 0)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return head[:n], err
}

// CountingReader counts the bytes that are read from an input.
type CountingReader struct {
	input io.Reader
	n     atomic.Int64
}

// NewCountingReader returns a reader of an input, of which nothing is read yet.
func NewCountingReader(in io.Reader) *CountingReader { return &CountingReader{input: in} }

// Count returns the number of bytes that are read.
func (r *CountingReader) Count() int64 { return r.n.Load() }

// Read implements io.Reader.
func (r *CountingReader) Read(p []byte) (int, error) {
	n, err := r.input.Read(p)
	r.n.Add(int64(n))
	return n, err
}

// Discard skips n bytes. It does not read them if the file has a size, which is not -1.
func (r *CountingReader) Discard(n, size int64) error {
	seeker, ok := r.input.(io.Seeker)
	if size < 0 || !ok {
		_, err := io.CopyN(io.Discard, r, n)
		return err
	}
	if n > size-r.n.Load() {
		return io.ErrUnexpectedEOF
	}
	_, err := seeker.Seek(n, io.SeekCurrent)
	r.n.Add(n)
	return err
}

// UnexpectedEOF returns io.ErrUnexpectedEOF for io.EOF, and any other error itself.
func UnexpectedEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
