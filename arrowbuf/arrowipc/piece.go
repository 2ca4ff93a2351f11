package arrowipc

import (
	"fmt"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// piece is a buffer of a body that nobody has asked for yet: bytes of an arrow
// buffer, on the host or a device, that may have to be fixed on the way, or bytes
// that are computed on the host. The zero piece has none.
type piece struct {
	src          *memory.Buffer
	from, length int64
	fix          func([]byte) // rebases integers, in place; any 8 bytes of them on their own
	compute      func() ([]byte, error)
}

// computed is computed when it is first asked for, and kept as long as the message.
func computed(length int64, f func() ([]byte, error)) piece {
	return piece{length: length, compute: sync.OnceValues(f)}
}

// asIs tells whether the bytes are in the arrow buffer.
func (p *piece) asIs() bool { return p.compute == nil && p.fix == nil }

// bytes returns all on the host. Nobody may write to them.
func (p *piece) bytes() ([]byte, error) {
	switch {
	case p.compute != nil:
		return p.compute()
	case p.length == 0:
		return nil, nil
	case p.fix == nil:
		return bytesOf(p.src, p.from, p.length)
	}
	b := make([]byte, p.length)
	return b, p.read(b, 0)
}

// read copies bytes from a position on, a multiple of 8.
func (p *piece) read(b []byte, pos int64) error {
	if p.compute != nil {
		all, err := p.compute()
		if err == nil {
			copy(b, all[pos:])
		}
		return err
	}
	src, err := arrowbuf.BufferOf(p.src)
	if err != nil {
		return err
	}
	defer src.Release()
	if _, err := src.CopyToHost(b, p.from+pos); err != nil {
		return err
	}
	if p.fix != nil {
		p.fix(b)
	}
	return nil
}

// buffer returns the bytes where they are, or on the host where they must be
// made. The caller owns a reference.
func (p *piece) buffer() (arrowbuf.Buffer, error) {
	if !p.asIs() || p.length == 0 {
		b, err := p.bytes()
		if err != nil {
			return nil, err
		}
		return arrowbuf.WrapHost(memory.NewBufferBytes(b))
	}
	src, err := arrowbuf.BufferOf(p.src)
	if err != nil {
		return nil, err
	}
	defer src.Release()
	return src.Slice(p.from, p.length)
}

// bytesOf returns bytes of an arrow buffer: in place where the host reaches them,
// else copied.
func bytesOf(b *memory.Buffer, from, n int64) ([]byte, error) {
	if b == nil {
		return nil, fmt.Errorf("a buffer that is absent: %w", arrow.ErrInvalid)
	}
	src, err := arrowbuf.BufferOf(b)
	if err != nil {
		return nil, err
	}
	defer src.Release()
	if err := arrowbuf.CheckRange(from, n, src.Len()); err != nil {
		return nil, fmt.Errorf("%w: %w", arrow.ErrInvalid, err)
	}
	if host, ok := arrowbuf.HostBytes(src); ok {
		return host[from : from+n], nil
	}
	out := make([]byte, n)
	_, err = src.CopyToHost(out, from)
	return out, err
}
