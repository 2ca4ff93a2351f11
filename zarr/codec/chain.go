package codec

import (
	"fmt"
	"slices"

	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/internal/grid"
)

// Chunk says what a chain encodes.
type Chunk struct {
	Type  element.Type
	Shape []int64 // every extent is positive
	Fill  []byte  // one element: what pads values that are smaller than Shape
}

func (c Chunk) check() error {
	for _, d := range c.Shape {
		if d < 1 {
			return fmt.Errorf("chunk shape %v: every extent is at least 1", c.Shape)
		}
	}
	if _, err := grid.Bytes(c.Shape, max(c.Type.Size(), 1)); err != nil {
		return fmt.Errorf("chunk %w", err)
	}
	return c.Type.CheckFill(c.Fill)
}

// bytes is the size of a chunk's elements; fixed width only.
func (c Chunk) bytes() int64 { return grid.Size(c.Shape) * c.Type.Size() }

// Chain is a codec list, checked and made ready for one kind of chunk.
type Chain struct {
	chunk   Chunk // as the caller sees it
	order   []int // the permutation of all transposes together; nil for none
	array   serializer
	bytes   []compressor
	sharded *shards // array, where it is sharding_indexed
}

// Compile checks that the codecs follow each other as they must, arrays to
// arrays, arrays to bytes, bytes to bytes, and that they fit the chunk.
func (l List) Compile(chunk Chunk) (*Chain, error) {
	if err := chunk.check(); err != nil {
		return nil, err
	}
	c := &Chain{chunk: chunk}
	inner := chunk
	for i, codec := range l {
		var err error
		switch codec := codec.(type) {
		case Transpose:
			if c.array != nil {
				return nil, fmt.Errorf("codec %q comes after %q", codec.Name(), l[i-1].Name())
			}
			inner.Shape, err = c.transpose(codec, inner.Shape)
		case compressor:
			if c.array == nil {
				return nil, fmt.Errorf("codec %q comes before any codec that turns arrays into bytes", codec.Name())
			}
			if checked, ok := codec.(interface{ check() error }); ok {
				err = checked.check()
			}
			c.bytes = append(c.bytes, codec)
		case arrayBytes:
			if c.array != nil {
				return nil, fmt.Errorf("codec %q comes after %q: only one codec turns arrays into bytes", codec.Name(), l[i-1].Name())
			}
			if c.array, err = codec.compile(inner); err == nil {
				c.sharded, _ = c.array.(*shards)
			}
		default:
			err = fmt.Errorf("codec %d is %T", i, codec)
		}
		if err != nil {
			return nil, err
		}
	}
	if c.array == nil {
		return nil, fmt.Errorf("no codec turns arrays of %s into bytes", chunk.Type)
	}
	return c, nil
}

func (c *Chain) transpose(t Transpose, shape []int64) ([]int64, error) {
	if err := t.check(len(shape)); err != nil {
		return nil, err
	}
	moved, order := make([]int64, len(shape)), make([]int, len(shape))
	for i, axis := range t.Order {
		moved[i], order[i] = shape[axis], axis
		if c.order != nil {
			order[i] = c.order[axis]
		}
	}
	c.order = order
	if slices.IsSorted(order) {
		c.order = nil // back where it was
	}
	return moved, nil
}

// arrayBytes is an array-to-bytes codec that is not compiled yet.
type arrayBytes interface {
	Codec
	compile(Chunk) (serializer, error)
}

// serializer is a compiled array-to-bytes codec.
type serializer interface {
	// encode returns nil for values that all equal the fill value, unless the
	// scratch says to keep them. Values are not larger than the chunk.
	encode(s *Scratch, v element.Values) ([]byte, error)
	// decodeFixed fills dst with the elements of a whole chunk in C order.
	decodeFixed(s *Scratch, dst, src []byte) error
	decodeVLen(s *Scratch, src []byte) (*element.VLen, error)
	// size is the number of bytes that an encoded chunk has, or at most has;
	// exact says which.
	size() (n int64, exact bool)
}

// compressor is a bytes-to-bytes codec.
type compressor interface {
	Codec
	// encode appends to dst, which does not overlap src unless inPlace.
	encode(dst, src []byte) ([]byte, error)
	// decode returns src decoded: as a part of src, or in dst[:0], which grows
	// where its capacity is below the limit. More than limit bytes are an error.
	decode(dst, src []byte, limit int64) ([]byte, error)
	// bound is the largest encoding of n bytes that decode accepts.
	bound(n int64) int64
	// ratio is how many decoded bytes one encoded byte can stand for at most.
	ratio() int64
}

// Fill is the fill value: one element.
func (c *Chain) Fill() []byte { return c.chunk.Fill }

// CheckValues answers an error unless the values can be those of a chunk: of
// its type, with as many axes, and not larger.
func (c *Chain) CheckValues(v element.Values) error {
	if err := c.chunk.Type.CheckValues(v); err != nil {
		return err
	}
	shape := v.Shape()
	if len(shape) != len(c.chunk.Shape) {
		return fmt.Errorf("values of shape %v for chunks of shape %v", shape, c.chunk.Shape)
	}
	for i, d := range shape {
		if d > c.chunk.Shape[i] {
			return fmt.Errorf("values of shape %v are larger than a chunk, %v", shape, c.chunk.Shape)
		}
	}
	return nil
}

// Encode returns the encoded chunk. The values' shape may be smaller than the
// chunk's along any axis: the rest is the fill value. The result is nil where
// all elements equal the fill value bit for bit, unless s.KeepEmpty is set.
//
// The result lies in s or in the values' own memory: it is good until s is used
// again, and not to be written to.
func (c *Chain) Encode(s *Scratch, v element.Values) ([]byte, error) {
	s.Reset()
	if err := c.CheckValues(v); err != nil {
		return nil, err
	}
	return c.encode(s, v)
}

func (c *Chain) encode(s *Scratch, v element.Values) ([]byte, error) {
	if c.order != nil {
		moved, err := element.Transpose(v, c.order)
		if err != nil {
			return nil, err
		}
		defer moved.Release()
		v = moved
	}
	out, err := c.array.encode(s, v)
	if err != nil || out == nil {
		return nil, err
	}
	for _, codec := range c.bytes {
		buf := s.next()
		*buf, err = codec.encode((*buf)[:0], out)
		if err != nil {
			return nil, fmt.Errorf("codec %q: %w", codec.Name(), err)
		}
		out = *buf
	}
	return out, nil
}

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

// size is the size of an encoded chunk: exact for chains that do not compress.
func (c *Chain) size() (n int64, exact bool) {
	n, exact = c.array.size()
	for _, codec := range c.bytes {
		_, fixed := codec.(CRC32C)
		n, exact = codec.bound(n), exact && fixed
	}
	return n, exact
}

func sameMemory(a, b []byte) bool {
	return cap(a) > 0 && cap(b) > 0 && &a[:1][0] == &b[:1][0]
}

func tooLong(limit int64) error { return fmt.Errorf("more than %d bytes decoded", limit) }
