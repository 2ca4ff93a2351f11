package codec

import (
	"fmt"
	"slices"

	"github.com/quiver-gpu/quiver/zarr/element"
	"github.com/quiver-gpu/quiver/zarr/internal/grid"
)

// ChunkSpec describes the chunks that a chain encodes.
type ChunkSpec struct {
	Type  element.Type
	Shape []int64 // every extent is positive
	Fill  []byte  // one element; pads values that are smaller than Shape
}

func (c ChunkSpec) check() error {
	for _, d := range c.Shape {
		if d < 1 {
			return fmt.Errorf("chunk shape %v: every extent must be at least 1", c.Shape)
		}
	}
	if _, err := grid.ByteSize(c.Shape, max(c.Type.Size(), 1)); err != nil {
		return fmt.Errorf("chunk %w", err)
	}
	return c.Type.CheckFill(c.Fill)
}

// nbytes returns the size of a decoded chunk of fixed-width elements.
func (c ChunkSpec) nbytes() int64 { return grid.Size(c.Shape) * c.Type.Size() }

// Chain is a codec list that was validated and compiled for one [ChunkSpec]. It is safe
// for concurrent use.
type Chain struct {
	chunk       ChunkSpec // before any codec
	axisOrder   []int     // product of all transposes; nil for identity
	serializer  serializer
	compressors []compressor
	sharding    *shardSerializer // serializer, if that is sharding_indexed; otherwise nil
}

// Compile returns the chain for chunks of one kind. It returns an error unless exactly
// one array-to-bytes codec follows the array-to-array codecs and precedes the
// bytes-to-bytes codecs, and every codec fits the chunk.
func (l List) Compile(chunk ChunkSpec) (*Chain, error) {
	if err := chunk.check(); err != nil {
		return nil, err
	}
	c := &Chain{chunk: chunk}
	inner := chunk
	for i, codec := range l {
		var err error
		switch codec := codec.(type) {
		case Transpose:
			if c.serializer != nil {
				return nil, fmt.Errorf("codec %q comes after %q", codec.Name(), l[i-1].Name())
			}
			inner.Shape, err = c.addTranspose(codec, inner.Shape)
		case compressor:
			if c.serializer == nil {
				return nil, fmt.Errorf("codec %q comes before any array-to-bytes codec", codec.Name())
			}
			if checked, ok := codec.(interface{ check() error }); ok {
				err = checked.check()
			}
			c.compressors = append(c.compressors, codec)
		case arrayBytesCodec:
			if c.serializer != nil {
				return nil, fmt.Errorf("codec %q comes after %q: want only one array-to-bytes codec", codec.Name(), l[i-1].Name())
			}
			if c.serializer, err = codec.compile(inner); err == nil {
				c.sharding, _ = c.serializer.(*shardSerializer)
			}
		default:
			err = fmt.Errorf("codec %d is %T", i, codec)
		}
		if err != nil {
			return nil, err
		}
	}
	if c.serializer == nil {
		return nil, fmt.Errorf("no array-to-bytes codec for %s", chunk.Type)
	}
	return c, nil
}

// addTranspose composes a transpose with axisOrder and returns the permuted shape.
func (c *Chain) addTranspose(t Transpose, shape []int64) ([]int64, error) {
	if err := t.check(len(shape)); err != nil {
		return nil, err
	}
	moved, order := make([]int64, len(shape)), make([]int, len(shape))
	for i, axis := range t.Order {
		moved[i], order[i] = shape[axis], axis
		if c.axisOrder != nil {
			order[i] = c.axisOrder[axis]
		}
	}
	c.axisOrder = order
	if slices.IsSorted(order) {
		c.axisOrder = nil
	}
	return moved, nil
}

// arrayBytesCodec is an array-to-bytes codec before compilation.
type arrayBytesCodec interface {
	Codec
	compile(ChunkSpec) (serializer, error)
}

// serializer is a compiled array-to-bytes codec.
type serializer interface {
	// encode returns nil if all values equal the fill value, unless s.KeepEmpty is set.
	// The values are not larger than the chunk; fill values pad them.
	encode(s *Scratch, v element.Values) ([]byte, error)
	// decodeFixed fills dst with the elements of a whole chunk in C order.
	decodeFixed(s *Scratch, dst, src []byte) error
	// decodeVLen returns the elements of a whole chunk of variable length.
	decodeVLen(s *Scratch, src []byte) (*element.VLen, error)
	// size returns the size of an encoded chunk in bytes: exactly if exact is true,
	// otherwise an upper bound.
	size() (n int64, exact bool)
}

// compressor is a bytes-to-bytes codec.
type compressor interface {
	Codec
	// encode appends the encoding of src to dst. They must not overlap.
	encode(dst, src []byte) ([]byte, error)
	// decode returns the decoding of src, as a part of src or in dst[:0], which it
	// grows if needed. It returns an error if the result exceeds limit bytes.
	decode(dst, src []byte, limit int64) ([]byte, error)
	// bound returns the size of the largest encoding of n bytes that decode accepts.
	bound(n int64) int64
	// ratio bounds the number of decoded bytes per encoded byte.
	ratio() int64
}

// Fill returns the fill value: one element.
func (c *Chain) Fill() []byte { return c.chunk.Fill }

// CheckValues returns an error unless the values fit a chunk: its type, its number of
// axes, and no larger along any axis.
func (c *Chain) CheckValues(v element.Values) error {
	if err := c.chunk.Type.CheckValues(v); err != nil {
		return err
	}
	shape := v.Shape()
	if len(shape) != len(c.chunk.Shape) {
		return fmt.Errorf("values of shape %v do not fit chunk shape %v", shape, c.chunk.Shape)
	}
	for i, d := range shape {
		if d > c.chunk.Shape[i] {
			return fmt.Errorf("values of shape %v are larger than chunk shape %v", shape, c.chunk.Shape)
		}
	}
	return nil
}

// Encode returns the encoding of a chunk. Values may be smaller than the chunk along
// any axis; fill values pad the rest. The result is nil if all elements equal the fill
// value bitwise, unless s.KeepEmpty is set.
//
// The result is in s or in the memory of the values. It is valid until s is used again,
// and the caller must not modify it.
func (c *Chain) Encode(s *Scratch, v element.Values) ([]byte, error) {
	s.Reset()
	if err := c.CheckValues(v); err != nil {
		return nil, err
	}
	return c.encode(s, v)
}

func (c *Chain) encode(s *Scratch, v element.Values) ([]byte, error) {
	if c.axisOrder != nil {
		moved, err := element.Transpose(v, c.axisOrder)
		if err != nil {
			return nil, err
		}
		defer moved.Release()
		v = moved
	}
	out, err := c.serializer.encode(s, v)
	if err != nil || out == nil {
		return nil, err
	}
	for _, codec := range c.compressors {
		buf := s.nextBuffer()
		*buf, err = codec.encode((*buf)[:0], out)
		if err != nil {
			return nil, fmt.Errorf("codec %q: %w", codec.Name(), err)
		}
		out = *buf
	}
	return out, nil
}

// DecodeFixed decodes a chunk of fixed-width elements into dst, in C order and the
// host's byte order. dst must have the size of a decoded chunk.
func (c *Chain) DecodeFixed(s *Scratch, dst, src []byte) error {
	s.Reset()
	if c.chunk.Type.IsVLen() || int64(len(dst)) != c.chunk.nbytes() {
		return fmt.Errorf("destination of %d bytes does not fit a chunk of %s %v", len(dst), c.chunk.Type, c.chunk.Shape)
	}
	return c.decodeFixed(s, dst, src)
}

func (c *Chain) decodeFixed(s *Scratch, dst, src []byte) error {
	if c.axisOrder == nil {
		raw, err := c.decompress(s, dst, src)
		if err != nil {
			return err
		}
		return c.serializer.decodeFixed(s, dst, raw)
	}
	raw, err := c.decompress(s, nil, src)
	if err != nil {
		return err
	}
	moved := s.Bytes(int64(len(dst)))
	if err := c.serializer.decodeFixed(s, moved, raw); err != nil {
		return err
	}
	grid.Transpose(dst, moved, permuteShape(c.chunk.Shape, c.axisOrder), invertPermutation(c.axisOrder), c.chunk.Type.Size())
	return nil
}

// DecodeVLen decodes a chunk of variable-length elements. The result shares no memory
// with src or s.
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
	v, err := c.serializer.decodeVLen(s, raw)
	if err != nil || c.axisOrder == nil {
		return v, err
	}
	moved, err := element.Transpose(v, invertPermutation(c.axisOrder))
	if err != nil {
		return nil, err
	}
	return moved.(*element.VLen), nil
}

// decompress applies the bytes-to-bytes codecs in reverse. If the last step yields
// exactly a decoded chunk, it writes to dst directly.
func (c *Chain) decompress(s *Scratch, dst, src []byte) ([]byte, error) {
	want, exact := c.serializer.size()
	limits := c.sizeLimits()
	for i := len(c.compressors) - 1; i >= 0; i-- {
		codec, limit := c.compressors[i], limits[i]
		whole := exact && i == 0
		if most := codec.ratio() * int64(len(src)); most < limit { // claims more than src can hold, or src is truncated
			if whole {
				return nil, fmt.Errorf("codec %q: %d bytes cannot hold the %d of a chunk", codec.Name(), len(src), limit)
			}
			limit = most
		}
		buf := s.nextBuffer()
		if whole && int64(len(dst)) == limit {
			buf = &dst
		} else if whole {
			*buf = slices.Grow((*buf)[:0], int(limit))
		}
		out, err := codec.decode((*buf)[:0], src, limit)
		if err != nil {
			return nil, fmt.Errorf("codec %q: %w", codec.Name(), err)
		}
		if cap(out) > cap(*buf) && !sameMemory(out, src) {
			*buf = out // keep the grown buffer
		}
		src = out
	}
	if exact && int64(len(src)) != want {
		return nil, fmt.Errorf("%d bytes of a chunk, expected %d", len(src), want)
	}
	return src, nil
}

// sizeLimits returns an upper bound on the input of each bytes-to-bytes codec.
func (c *Chain) sizeLimits() []int64 {
	out := make([]int64, len(c.compressors))
	n, _ := c.serializer.size()
	for i, codec := range c.compressors {
		out[i] = n
		n = codec.bound(n)
	}
	return out
}

// size returns the size of an encoded chunk. It is exact if no codec compresses.
func (c *Chain) size() (n int64, exact bool) {
	n, exact = c.serializer.size()
	for _, codec := range c.compressors {
		_, fixed := codec.(CRC32C)
		n, exact = codec.bound(n), exact && fixed
	}
	return n, exact
}

func sameMemory(a, b []byte) bool {
	return cap(a) > 0 && cap(b) > 0 && &a[:1][0] == &b[:1][0]
}

func errTooLong(limit int64) error { return fmt.Errorf("more than %d bytes decoded", limit) }
