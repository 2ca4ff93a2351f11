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

// Chain is a codec list, checked and made ready for one kind of chunk.
type Chain struct {
	chunk   Chunk // as the caller sees it
	order   []int // the permutation of all transposes together; nil for none
	array   serializer
	bytes   []compressor
	sharded *shards // array, where it is sharding_indexed
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

// arrayBytes is an array-to-bytes codec that is not compiled yet.
type arrayBytes interface {
	Codec
	compile(Chunk) (serializer, error)
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

// size is the size of an encoded chunk: exact for chains that do not compress.
func (c *Chain) size() (n int64, exact bool) {
	n, exact = c.array.size()
	for _, codec := range c.bytes {
		_, fixed := codec.(CRC32C)
		n, exact = codec.bound(n), exact && fixed
	}
	return n, exact
}
