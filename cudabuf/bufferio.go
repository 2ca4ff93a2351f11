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

// BufferReader reads a Buffer from a position that moves on, as bytes.Reader
// reads a slice. It may be used from any goroutine; Read, Seek, ReadBuffer and
// WriteTo take turns, ReadAt waits for nobody. It holds a reference to the
// buffer until Close; afterwards all but Size answer fs.ErrClosed.
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

// NewBufferReader returns a reader at the buffer's start. A buffer without
// references is arrowbuf.ErrReleased.
func NewBufferReader(b *Buffer) (*BufferReader, error) {
	if err := b.retain(); err != nil {
		return nil, err
	}
	return &BufferReader{buffer: b}, nil
}

// Size is the buffer's length in bytes.
func (r *BufferReader) Size() int64 { return r.buffer.length }

// Read copies what comes next to the host, fewer than len(p) bytes only before
// the end.
func (r *BufferReader) Read(p []byte) (n int, err error) {
	err = r.withPosition(func() error {
		if len(p) == 0 {
			return nil
		}
		if n, err = r.buffer.ReadAt(p, r.pos); n > 0 && errors.Is(err, io.EOF) {
			err = nil // the next Read's
		}
		r.pos += int64(n)
		return err
	})
	return n, err
}

// ReadAt copies from the device as io.ReaderAt says. It neither uses nor moves
// the position.
func (r *BufferReader) ReadAt(p []byte, off int64) (int, error) {
	if err := r.retain(); err != nil {
		return 0, err
	}
	defer r.buffer.Release()
	return r.buffer.ReadAt(p, off)
}

// ReadBuffer returns the next n bytes as a slice of the same device memory, and
// moves on behind them. Where there are fewer it returns those; at the end that
// is a buffer of length 0, and no error. The caller owns one reference to it,
// which outlives the reader.
func (r *BufferReader) ReadBuffer(n int64) (part *Buffer, err error) {
	err = r.withPosition(func() (err error) {
		if part, err = r.buffer.SliceClamped(r.pos, n); err == nil {
			r.pos += part.length
		}
		return err
	})
	return part, err
}

// NextBuffer is ReadBuffer for who knows no CUDA.
func (r *BufferReader) NextBuffer(n int64) (arrowbuf.Buffer, error) {
	part, err := r.ReadBuffer(n)
	if err != nil {
		return nil, err
	}
	return part, nil
}

// Seek moves to a position between the start and the very end, and no further:
// beyond it there is nothing to read, as pyarrow says too.
func (r *BufferReader) Seek(offset int64, whence int) (pos int64, err error) {
	err = r.withPosition(func() (err error) {
		if pos, err = resolveSeek(offset, whence, r.pos, r.buffer.length); err == nil {
			r.pos = pos
		}
		return err
	})
	return pos, err
}

// WriteTo writes all that comes next, in pieces of some megabytes that pass
// through pinned memory. io.Copy calls it.
func (r *BufferReader) WriteTo(w io.Writer) (written int64, err error) {
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
			part := host[:min(int64(len(host)), r.buffer.length-r.pos)]
			if _, err := r.buffer.CopyToHost(part, r.pos); err != nil {
				return err
			}
			n, err := w.Write(part)
			if err == nil && n != len(part) {
				err = io.ErrShortWrite
			}
			n = min(max(n, 0), len(part))
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

// Close gives the buffer back. A second Close does nothing.
func (r *BufferReader) Close() error {
	if !r.closed.Swap(true) {
		r.buffer.Release()
	}
	return nil
}

// withPosition runs what uses the position.
func (r *BufferReader) withPosition(step func() error) error {
	if err := r.retain(); err != nil {
		return err
	}
	defer r.buffer.Release()
	r.mu.Lock()
	defer r.mu.Unlock()
	return step()
}

// retain holds the buffer for an operation, so that a Close meanwhile does not
// take it away.
func (r *BufferReader) retain() error {
	if r.closed.Load() || r.buffer.retain() != nil {
		return fmt.Errorf("reader of %v: %w", r.buffer.dev, fs.ErrClosed)
	}
	return nil
}

// resolveSeek is the position that io.Seeker's arguments mean, within [0, size].
func resolveSeek(offset int64, whence int, pos, size int64) (int64, error) {
	switch whence {
	case io.SeekStart:
		pos = 0
	case io.SeekCurrent:
	case io.SeekEnd:
		pos = size
	default:
		return 0, fmt.Errorf("seek: whence %d is not one of io's: %w", whence, fs.ErrInvalid)
	}
	if offset < -pos || offset > size-pos {
		return 0, fmt.Errorf("seek by %d from %d in %d bytes: %w", offset, pos, size, arrowbuf.ErrOutOfRange)
	}
	return pos + offset, nil
}

// BufferWriter writes to a Buffer from a position that moves on. What does not
// fit whole before the buffer's end is not written at all, and is
// arrowbuf.ErrOutOfRange.
//
// At first each Write is a copy to the device. SetBufferSize has small ones
// collected in pinned memory: they are on the device after Flush, Close, or
// whatever comes before them, WriteAt and Seek among it.
//
// It may be used from any goroutine. It holds a reference to the buffer until
// Close; afterwards everything answers fs.ErrClosed.
type BufferWriter struct {
	buffer *Buffer

	mu       sync.Mutex
	closed   bool
	pos      int64  // of the next Write
	pinned   []byte // what is collected, of which
	buffered int    // so many bytes belong before pos
	free     func() // gives pinned back
}

var (
	_ io.WriteSeeker = (*BufferWriter)(nil)
	_ io.WriterAt    = (*BufferWriter)(nil)
	_ io.Closer      = (*BufferWriter)(nil)
)

// NewBufferWriter returns a writer at the buffer's start. A buffer that is
// read-only is ErrReadOnly, one without references arrowbuf.ErrReleased.
func NewBufferWriter(b *Buffer) (*BufferWriter, error) {
	if err := b.retainRangeToWrite(0, 0); err != nil {
		return nil, err
	}
	return &BufferWriter{buffer: b, free: func() {}}, nil
}

// Write writes what comes next. Where the collected bytes leave room for p and
// more, p is collected too; else they and p are copied to the device.
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

// WriteAt writes at an offset, after what is collected. It neither uses nor
// moves the position, as io.WriterAt has it; pyarrow's writeat leaves it behind
// the data, and what is collected goes astray.
func (w *BufferWriter) WriteAt(p []byte, off int64) (int, error) {
	if err := w.flushAndRetain(); err != nil {
		return 0, err
	}
	defer w.buffer.Release()
	return w.buffer.WriteAt(p, off)
}

// flushAndRetain flushes, and holds the buffer so that a Close meanwhile does not take
// it away.
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

// Seek moves to a position between the start and the very end, where a Write of
// nothing is all that fits. io.SeekEnd counts from the buffer's end. pyarrow
// refuses both, though its writes leave the position at the end as well. It
// flushes if it moves.
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

// Flush copies what is collected to the device. If that fails it stays
// collected.
func (w *BufferWriter) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.checkOpen(); err != nil {
		return err
	}
	return w.flush()
}

// SetBufferSize flushes, and has up to n bytes of pinned memory collect small
// writes from now on; 0 is none.
func (w *BufferWriter) SetBufferSize(n int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.checkOpen(); err != nil {
		return err
	}
	if n < 0 {
		return fmt.Errorf("collecting writes in %d bytes: %w", n, arrowbuf.ErrOutOfRange)
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

// BufferSize is what SetBufferSize set, in bytes, and 0 after Close.
func (w *BufferWriter) BufferSize() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.pinned)
}

// Buffered is how many bytes are collected and not yet on the device.
func (w *BufferWriter) Buffered() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buffered
}

// Close flushes, and gives the buffer and the pinned memory back, even where
// flushing fails. A second Close does nothing.
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
