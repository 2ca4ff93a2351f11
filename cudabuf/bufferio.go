package cudabuf

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"sync/atomic"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// BufferReader reads a Buffer sequentially, as bytes.Reader reads a slice. It may
// be used from any goroutine. Read, Seek, ReadBuffer and WriteTo exclude each
// other; ReadAt runs concurrently. The reader holds a reference to the buffer until
// Close. After Close, all methods but Size return fs.ErrClosed.
type BufferReader struct {
	buffer *Buffer
	closed atomic.Bool

	mu  sync.Mutex
	pos int64
}

var (
	_ io.ReadSeekCloser = (*BufferReader)(nil)
	_ io.ReaderAt       = (*BufferReader)(nil)
	_ io.WriterTo       = (*BufferReader)(nil)
)

// NewBufferReader returns a reader at the start of the buffer. The error is
// arrowbuf.ErrReleased if the buffer has been released.
func NewBufferReader(b *Buffer) (*BufferReader, error) {
	if b == nil {
		return nil, fmt.Errorf("cudabuf.NewBufferReader: nil buffer: %w", arrowbuf.ErrDevice)
	}
	if err := b.retain(); err != nil {
		return nil, err
	}
	return &BufferReader{buffer: b}, nil
}

// Size returns the length of the buffer in bytes.
func (r *BufferReader) Size() int64 { return r.buffer.length }

// Read copies the next bytes to the host. It reads fewer than len(p) bytes only
// at the end.
func (r *BufferReader) Read(p []byte) (n int, err error) {
	err = r.withPosition(func() error {
		if len(p) == 0 {
			return nil
		}
		if n, err = r.buffer.ReadAt(p, r.pos); n > 0 && errors.Is(err, io.EOF) {
			err = nil // the next Read returns it
		}
		r.pos += int64(n)
		return err
	})
	return n, err
}

// ReadAt copies from the device. It implements io.ReaderAt and does not use the
// position.
func (r *BufferReader) ReadAt(p []byte, off int64) (int, error) {
	if err := r.retain(); err != nil {
		return 0, err
	}
	defer r.buffer.Release()
	return r.buffer.ReadAt(p, off)
}

// ReadBuffer returns the next n bytes as a slice of the same device memory and
// advances the position. It returns fewer bytes at the end, and a buffer of length 0
// and no error at the very end. The caller owns one reference to the result, which
// may outlive the reader.
func (r *BufferReader) ReadBuffer(n int64) (slice *Buffer, err error) {
	err = r.withPosition(func() (err error) {
		if slice, err = r.buffer.SliceClamped(r.pos, n); err == nil {
			r.pos += slice.length
		}
		return err
	})
	return slice, err
}

// NextBuffer is ReadBuffer for callers that do not depend on CUDA.
func (r *BufferReader) NextBuffer(n int64) (arrowbuf.Buffer, error) {
	slice, err := r.ReadBuffer(n)
	if err != nil {
		return nil, err
	}
	return slice, nil
}

// Seek sets the position, which must lie within the buffer or at its end. The
// error is arrowbuf.ErrOutOfRange otherwise, as in pyarrow.
func (r *BufferReader) Seek(offset int64, whence int) (pos int64, err error) {
	err = r.withPosition(func() (err error) {
		if pos, err = resolveSeek(offset, whence, r.pos, r.buffer.length); err == nil {
			r.pos = pos
		}
		return err
	})
	return pos, err
}

// WriteTo writes the remaining bytes in chunks of some megabytes, which pass
// through pinned memory. It implements io.WriterTo for io.Copy.
func (r *BufferReader) WriteTo(w io.Writer) (written int64, err error) {
	if w == nil {
		return 0, fmt.Errorf("cudabuf.BufferReader.WriteTo: nil writer: %w", ErrNil)
	}
	err = r.withPosition(func() error {
		rest := r.buffer.length - r.pos
		if rest == 0 {
			return nil
		}
		host, free, err := r.buffer.dev.pinned.getBytes(min(hostChunkSize, rest))
		if err != nil {
			return err
		}
		defer free()
		for r.pos < r.buffer.length {
			chunk := host[:min(int64(len(host)), r.buffer.length-r.pos)]
			if _, err := r.buffer.CopyToHost(chunk, r.pos); err != nil {
				return err
			}
			n, err := w.Write(chunk)
			if err == nil && n != len(chunk) {
				err = io.ErrShortWrite
			}
			n = min(max(n, 0), len(chunk))
			r.pos += int64(n)
			written += int64(n)
			if err != nil {
				return err
			}
		}
		return nil
	})
	return written, err
}

// Close releases the buffer. A second Close does nothing.
func (r *BufferReader) Close() error {
	if !r.closed.Swap(true) {
		r.buffer.Release()
	}
	return nil
}

// withPosition runs step while no other goroutine uses the position.
func (r *BufferReader) withPosition(step func() error) error {
	if err := r.retain(); err != nil {
		return err
	}
	defer r.buffer.Release()
	r.mu.Lock()
	defer r.mu.Unlock()
	return step()
}

// retain adds a reference to the buffer, so that a concurrent Close does not free
// it.
func (r *BufferReader) retain() error {
	if r.closed.Load() || r.buffer.retain() != nil {
		return fmt.Errorf("reader of %v: %w", r.buffer.dev, fs.ErrClosed)
	}
	return nil
}

// resolveSeek returns the position that the arguments of io.Seeker mean. It must
// lie within [0, size].
func resolveSeek(offset int64, whence int, pos, size int64) (int64, error) {
	switch whence {
	case io.SeekStart:
		pos = 0
	case io.SeekCurrent:
	case io.SeekEnd:
		pos = size
	default:
		return 0, fmt.Errorf("cudabuf.Seek: whence: got %d, want io.SeekStart, io.SeekCurrent or io.SeekEnd: %w", whence, fs.ErrInvalid)
	}
	if offset < -pos || offset > size-pos {
		return 0, fmt.Errorf("cudabuf.Seek: offset %d from %d in %d bytes: %w", offset, pos, size, arrowbuf.ErrOutOfRange)
	}
	return pos + offset, nil
}

// BufferWriter writes to a Buffer sequentially. A write that does not fit whole
// before the end of the buffer writes nothing and returns arrowbuf.ErrOutOfRange.
//
// By default each Write is a copy to the device. After SetBufferSize, small writes
// are collected in pinned memory. Flush, Close, Seek, WriteAt and a large Write
// copy them to the device.
//
// It may be used from any goroutine. It holds a reference to the buffer until
// Close. After Close, all methods return fs.ErrClosed.
type BufferWriter struct {
	buffer *Buffer

	mu       sync.Mutex
	closed   bool
	pos      int64  // of the next Write
	pinned   []byte // collects small writes
	buffered int    // collected bytes, which belong just before pos
	free     func() // frees pinned
}

var (
	_ io.WriteSeeker = (*BufferWriter)(nil)
	_ io.WriterAt    = (*BufferWriter)(nil)
	_ io.Closer      = (*BufferWriter)(nil)
)

// NewBufferWriter returns a writer at the start of the buffer. The error is
// ErrReadOnly if the buffer is read-only, or arrowbuf.ErrReleased.
func NewBufferWriter(b *Buffer) (*BufferWriter, error) {
	if b == nil {
		return nil, fmt.Errorf("cudabuf.NewBufferWriter: nil buffer: %w", arrowbuf.ErrDevice)
	}
	if err := b.retainRangeToWrite(0, 0); err != nil {
		return nil, err
	}
	return &BufferWriter{buffer: b, free: func() {}}, nil
}

// Write writes at the position. If the collected bytes leave room for p and more,
// p is collected too. Otherwise both are copied to the device.
func (w *BufferWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.checkOpen(); err != nil {
		return 0, err
	}
	if err := arrowbuf.CheckRange(w.pos, int64(len(p)), w.buffer.length); err != nil {
		return 0, err
	}
	if len(p) < len(w.pinned)-w.buffered {
		w.buffered += copy(w.pinned[w.buffered:], p)
	} else {
		if err := w.flush(); err != nil {
			return 0, err
		}
		if _, err := w.buffer.CopyFromHost(p, w.pos); err != nil {
			return 0, err
		}
	}
	w.pos += int64(len(p))
	return len(p), nil
}

// WriteAt flushes and writes at an offset. It does not use the position, as
// io.WriterAt requires. (pyarrow's writeat moves the position, and loses the
// collected bytes.)
func (w *BufferWriter) WriteAt(p []byte, off int64) (int, error) {
	if err := w.flushAndRetain(); err != nil {
		return 0, err
	}
	defer w.buffer.Release()
	return w.buffer.WriteAt(p, off)
}

// flushAndRetain flushes and adds a reference to the buffer, so that a concurrent
// Close does not free it.
func (w *BufferWriter) flushAndRetain() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.checkOpen(); err != nil {
		return err
	}
	if err := w.flush(); err != nil {
		return err
	}
	return w.buffer.retain()
}

// Seek sets the position, which must lie within the buffer or at its end. It
// flushes if the position changes. io.SeekEnd counts from the end of the buffer.
// (pyarrow refuses both io.SeekEnd and the end itself.)
func (w *BufferWriter) Seek(offset int64, whence int) (int64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.checkOpen(); err != nil {
		return 0, err
	}
	pos, err := resolveSeek(offset, whence, w.pos, w.buffer.length)
	if err != nil || pos == w.pos {
		return pos, err
	}
	if err := w.flush(); err != nil {
		return 0, err
	}
	w.pos = pos
	return pos, nil
}

// Flush copies the collected bytes to the device. They stay collected if the copy
// fails.
func (w *BufferWriter) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.checkOpen(); err != nil {
		return err
	}
	return w.flush()
}

// SetBufferSize flushes, and then collects small writes in n bytes of pinned
// memory. Zero turns collecting off.
func (w *BufferWriter) SetBufferSize(n int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.checkOpen(); err != nil {
		return err
	}
	if n < 0 {
		return fmt.Errorf("cudabuf.SetBufferSize: negative size %d: %w", n, arrowbuf.ErrOutOfRange)
	}
	if err := w.flush(); err != nil {
		return err
	}
	if n == len(w.pinned) {
		return nil
	}
	var pinned []byte
	free := func() {}
	if n > 0 {
		var err error
		if pinned, free, err = w.buffer.dev.pinned.getBytes(int64(n)); err != nil {
			return err
		}
	}
	w.free()
	w.pinned, w.free = pinned, free
	return nil
}

// BufferSize returns the size of SetBufferSize in bytes, or 0 after Close.
func (w *BufferWriter) BufferSize() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.pinned)
}

// Buffered returns the number of collected bytes.
func (w *BufferWriter) Buffered() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buffered
}

// Close flushes, and releases the buffer and the pinned memory even if flushing
// fails. A second Close does nothing.
func (w *BufferWriter) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	err := w.flush()
	w.free()
	w.closed, w.pinned, w.buffered = true, nil, 0
	w.buffer.Release()
	return err
}

func (w *BufferWriter) checkOpen() error {
	if w.closed {
		return fmt.Errorf("writer to %v: %w", w.buffer.dev, fs.ErrClosed)
	}
	return nil
}

func (w *BufferWriter) flush() error {
	if w.buffered == 0 {
		return nil
	}
	if _, err := w.buffer.CopyFromHost(w.pinned[:w.buffered], w.pos-int64(w.buffered)); err != nil {
		return err
	}
	w.buffered = 0
	return nil
}
