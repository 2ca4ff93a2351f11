package arrowzarr

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"
)

// inputFile is a file that a source reads.
type inputFile struct {
	// ReaderAt reads the content; nil if it can be read only once, as that of a pipe.
	io.ReaderAt
	name    string   // as errors name it
	size    int64    // in bytes, -1 if it can be read only once
	version string   // what changes with the content, beside the size
	local   *os.File // nil if it is not in the file system
	head    []byte   // what has been read of content that can be read only once
	closing func() error
}

// openLocal opens a file of the file system.
func openLocal(path string) (*inputFile, error) {
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

func newLocalFile(name string, file *os.File) (*inputFile, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	f := &inputFile{name: name, size: -1, local: file, closing: file.Close}
	if info.Mode().IsRegular() {
		f.ReaderAt, f.size, f.version = file, info.Size(), fmt.Sprint(info.ModTime().UnixNano())
	}
	return f, nil
}

// openStandardInput opens standard input. If it is a file, it is read as any other.
func openStandardInput() (*inputFile, error) {
	file, err := newLocalFile("standard input", os.Stdin)
	if err != nil {
		return nil, err
	}
	if at, err := os.Stdin.Seek(0, io.SeekCurrent); !file.once() && (err != nil || at != 0) {
		file.ReaderAt, file.size = nil, -1
	}
	return file, nil
}

// newRemoteFile returns a file of some bytes that r reads, each time in a round trip.
// version changes with the content.
func newRemoteFile(name string, size int64, version string, r io.ReaderAt) *inputFile {
	return &inputFile{ReaderAt: r, name: name, size: size, version: version, closing: func() error { return nil }}
}

// from returns the content from a position on as a file. It is closed with f.
func (f *inputFile) from(start int64) *inputFile {
	rest := *f
	rest.ReaderAt, rest.size = io.NewSectionReader(f.ReaderAt, start, f.size-start), f.size-start
	return &rest
}

// onClose makes close call a function, too.
func (f *inputFile) onClose(then func() error) {
	before := f.closing
	f.closing = func() error { return errors.Join(before(), then()) }
}

// remoteRequests is the number of concurrent requests of one read of a remote file.
const remoteRequests = 8

// isRemote reports whether each read takes a round trip.
func (f *inputFile) isRemote() bool { return f.local == nil }

// once reports whether the content can be read only once.
func (f *inputFile) once() bool { return f.ReaderAt == nil }

// sequential reads the content, from its start. It must not be called if once is true.
func (f *inputFile) sequential() *io.SectionReader { return io.NewSectionReader(f.ReaderAt, 0, f.size) }

// stream reads the content, from its start.
func (f *inputFile) stream() io.Reader {
	if f.once() {
		return io.MultiReader(bytes.NewReader(f.head), f.local)
	}
	return f.sequential()
}

// fingerprint identifies the content.
func (f *inputFile) fingerprint() string {
	if f.once() {
		return f.name
	}
	return fmt.Sprintf("%q %d %s", f.name, f.size, f.version)
}

// interrupt reports whether a read will return soon, see source.
func (f *inputFile) interrupt() bool {
	return !f.once() || f.local.SetReadDeadline(time.Unix(1, 0)) == nil
}

func (f *inputFile) close() error { return f.closing() }

// readHead returns the first bytes of the content, at most 8.
func (f *inputFile) readHead() ([]byte, error) {
	if f.head != nil {
		return f.head, nil
	}
	head := make([]byte, 8)
	var n int
	var err error
	if f.once() {
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

// countingReader counts the bytes that are read from an input.
type countingReader struct {
	input io.Reader
	n     atomic.Int64
}

func newCountingReader(in io.Reader) *countingReader { return &countingReader{input: in} }

// count returns the number of bytes that are read.
func (r *countingReader) count() int64 { return r.n.Load() }

// Read implements io.Reader.
func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.input.Read(p)
	r.n.Add(int64(n))
	return n, err
}

// discard skips n bytes. It does not read them if the file has a size, which is not -1.
func (r *countingReader) discard(n, size int64) error {
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

// unexpectedEOF returns io.ErrUnexpectedEOF for io.EOF, and any other error itself.
func unexpectedEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
