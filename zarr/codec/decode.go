package codec

import (
	"fmt"
	"slices"

	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/internal/grid"
)

// DecodeFixed decodes a whole chunk of elements of fixed width into dst, in C
// order and the host's byte order. The length of dst is that of the chunk.
func (c *Chain) DecodeFixed(s *Scratch, dst, src []byte) error {
	s.Reset()
	if c.chunk.Type.IsVLen() || int64(len(dst)) != c.chunk.bytes() {
		return fmt.Errorf("%d bytes for a chunk of %s %v", len(dst), c.chunk.Type, c.chunk.Shape)
	}
	return c.decodeFixed(s, dst, src)
}

func (c *Chain) decodeFixed(s *Scratch, dst, src []byte) error {
	if c.order == nil {
		raw, err := c.decompress(s, dst, src)
		if err != nil {
			return err
		}
		return c.array.decodeFixed(s, dst, raw)
	}
	raw, err := c.decompress(s, nil, src)
	if err != nil {
		return err
	}
	moved := s.sized(int64(len(dst)))
	if err := c.array.decodeFixed(s, moved, raw); err != nil {
		return err
	}
	grid.Transpose(dst, moved, permuted(c.chunk.Shape, c.order), inverse(c.order), c.chunk.Type.Size())
	return nil
}

// DecodeVLen decodes a whole chunk of elements of variable length. The result
// does not share memory with src or s.
func (c *Chain) DecodeVLen(s *Scratch, src []byte) (*element.VLen, error) {
	s.Reset()
	if !c.chunk.Type.IsVLen() {
		return nil, fmt.Errorf("elements of %s have a fixed width", c.chunk.Type)
	}
	return c.decodeVLen(s, src)
}

func (c *Chain) decodeVLen(s *Scratch, src []byte) (*element.VLen, error) {
	raw, err := c.decompress(s, nil, src)
	if err != nil {
		return nil, err
	}
	v, err := c.array.decodeVLen(s, raw)
	if err != nil || c.order == nil {
		return v, err
	}
	moved, err := element.Transpose(v, inverse(c.order))
	if err != nil {
		return nil, err
	}
	return moved.(*element.VLen), nil
}

// decompress undoes the bytes-to-bytes codecs. Where the last step makes
// exactly what the array codec would copy to home, it writes there.
func (c *Chain) decompress(s *Scratch, home, src []byte) ([]byte, error) {
	want, exact := c.array.size()
	limits := c.limits()
	for i := len(c.bytes) - 1; i >= 0; i-- {
		codec, limit := c.bytes[i], limits[i]
		whole := exact && i == 0
		if most := codec.ratio() * int64(len(src)); most < limit { // a bomb, or cut short
			if whole {
				return nil, fmt.Errorf("codec %q: %d bytes cannot hold the %d of a chunk", codec.Name(), len(src), limit)
			}
			limit = most
		}
		buf := s.next()
		if whole && int64(len(home)) == limit {
			buf = &home
		} else if whole {
			*buf = slices.Grow((*buf)[:0], int(limit))
		}
		out, err := codec.decode((*buf)[:0], src, limit)
		if err != nil {
			return nil, fmt.Errorf("codec %q: %w", codec.Name(), err)
		}
		if cap(out) > cap(*buf) && !sameMemory(out, src) {
			*buf = out // it grew: keep it
		}
		src = out
	}
	if exact && int64(len(src)) != want {
		return nil, fmt.Errorf("%d bytes of a chunk, expected %d", len(src), want)
	}
	return src, nil
}

func sameMemory(a, b []byte) bool {
	return cap(a) > 0 && cap(b) > 0 && &a[:1][0] == &b[:1][0]
}

func tooLong(limit int64) error { return fmt.Errorf("more than %d bytes decoded", limit) }

// limits is the largest size of what each bytes-to-bytes codec encodes.
func (c *Chain) limits() []int64 {
	out := make([]int64, len(c.bytes))
	n, _ := c.array.size()
	for i, codec := range c.bytes {
		out[i] = n
		n = codec.bound(n)
	}
	return out
}
