package codec

import (
	"fmt"

	"github.com/quiver-gpu/quiver/zarr/element"
)

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
